"""`list`: every backend and kernel, experiment and recorded profile known here."""

from __future__ import annotations

from typing import Any

import click
import msgspec

import backends

from .. import experiments, profiles
from ..render import terminal
from .doctor import backend_state


@click.command(
    help="""Every backend and kernel, experiment and recorded profile known here.

A kernel marked UNVERIFIED has not been shown to work on a real GPU as it stands: it is measured only when
named.

\b
Examples:
  gemm-crossover list
  gemm-crossover list --json
"""
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def command(as_json: bool) -> None:
    """Look everything up and print it."""
    states = [backend_state(backend) for backend in backends.all_backends()]
    shipped = [profiles.headline(profile) for profile in profiles.available()]
    if as_json:
        found = {"backends": states, "experiments": experiments.names(), "profiles": shipped}
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    out = terminal.console()
    rows = [(s["name"], s["device"], _verified(s), ", ".join(s["transfers"]), _usable(s)) for s in states]
    columns = ("name", "device", "verified", "transfers", "usable")
    terminal.show_table(out, "Backends and kernels", columns, rows, wraps=True)
    commands = [(name, _help(name)) for name in experiments.names()]
    terminal.show_table(out, "Commands", ("name", "what it does"), commands, wraps=True)
    recorded = [(p["name"], p["label"], p["cpu"], p["gpu"], str(p["cells"])) for p in shipped]
    title = "Recorded profiles" if recorded else "Recorded profiles: none"
    terminal.show_table(out, title, ("name", "label", "CPU", "GPU", "cells"), recorded)


def _usable(state: dict[str, Any]) -> str:
    if not state["ok"]:
        return f"no: {state['reason']}"
    same = state["detail"].get("same_library_as")
    return f"yes: the library of {same}, measured only when named" if same else "yes"


def _verified(state: dict[str, Any]) -> str:
    return "yes" if state["verified"] else "UNVERIFIED"


def _help(name: str) -> str:
    return experiments.load(name).get_short_help_str(200)
