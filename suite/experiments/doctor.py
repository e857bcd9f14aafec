"""`doctor`: what this machine offers and what limits it; for what is absent, the reason and the cure."""

from __future__ import annotations

from typing import Any

import click
import msgspec

import backends

from .. import gpu_info, machine
from ..render import terminal
from ..render.figures import size_bytes

SCHEMA = 1


def examine() -> dict[str, Any]:
    """Everything `doctor` knows, JSON-able: schema, machine, backends, conflicts."""
    described = machine.describe()
    return {
        "schema": SCHEMA,
        "machine": described,
        "backends": [backend_state(backend) for backend in backends.all_backends()],
        "conflicts": gpu_info.conflicts(described["cuda"]),
    }


def backend_state(backend: backends.Backend) -> dict[str, Any]:
    """Name, device, whether it can run here, else the reason and the cure."""
    available = backend.probe()
    state = {
        "name": backend.name,
        "device": backend.device,
        "ok": available.ok,
        "verified": backend.verified,
        "transfers": sorted(backend.transfers),
        "reason": available.reason,
        "cure": available.cure,
        "detail": msgspec.to_builtins(available.detail),
    }
    return machine.scrub(state)


def rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """(what, finding) lines about the machine."""
    m = found["machine"]
    cpu, threads = m["cpu"], m["threads"]
    isa = ", ".join(cpu["isa"]) or machine.UNKNOWN
    cores = f"{cpu['physical_cores']} physical, {cpu['logical_cores']} logical"
    return [
        ("CPU", f"{cpu['model']} ({cpu['microarchitecture']})"),
        ("cores", f"{cores}, NUMA nodes {cpu['numa_nodes']}"),
        ("clock", f"{cpu['clock_mhz']} MHz" if cpu["clock_mhz"] != machine.UNKNOWN else machine.UNKNOWN),
        ("instruction sets", isa),
        ("caches", "; ".join(map(_cache, cpu["caches"])) or machine.UNKNOWN),
        ("memory", _bytes(cpu["memory_bytes"])),
        ("threads usable", _threads(threads)),
        *((f"BLAS {i}" if i > 1 else "BLAS", _blas(b)) for i, b in enumerate(m["blas"], 1)),
        *((f"GPU {i}", _gpu(gpu)) for i, gpu in enumerate(m["gpus"])),
        *([] if m["gpus"] else [("GPU", f"none usable: {m['gpu_reason']}")]),
        ("CUDA", _cuda(m["cuda"])),
        ("C compiler", m["compiler"]["c"] or "none found: install gcc or clang to build the C library"),
        ("nvcc", m["compiler"]["nvcc"] or "none found (not needed: kernels are compiled by NVRTC)"),
        ("software", f"{m['software']['os']}, {m['software']['python']}"),
    ]


def _bytes(count: Any) -> str:
    return size_bytes(count) if isinstance(count, int) else str(count)


def _cache(cache: dict[str, Any]) -> str:
    kind = {"data": "d", "instruction": "i"}.get(cache["kind"], "")
    return f"L{cache['level']}{kind} {size_bytes(cache['bytes'])} (shared by {cache['shared_by']})"


def _threads(threads: dict[str, Any]) -> str:
    limit = threads["cgroup_cpus"]
    quota = f"{limit:g} CPUs" if limit else "no limit"
    settings = ", ".join(f"{k}={v}" for k, v in threads["environment"].items()) or "none set"
    return f"{threads['usable']} (affinity {threads['affinity_cpus']}, cgroup {quota}, variables: {settings})"


def _blas(blas: dict[str, Any]) -> str:
    extra = [f"{key} {blas[key]}" for key in ("threading", "kernels", "threads") if blas.get(key)]
    return f"{blas.get('library')} {blas.get('version', '')} ({', '.join(extra)})"


def _gpu(gpu: dict[str, Any]) -> str:
    clock = gpu.get("max_sm_clock_mhz") or gpu.get("clock_mhz")
    parts = [
        f"{gpu['sms']} SMs",
        size_bytes(gpu["memory_bytes"]),
        f"sm_{gpu['compute_capability'].replace('.', '')}",
    ]
    parts += [f"{clock} MHz"] if clock else []
    if gpu.get("pcie_generation"):
        parts.append(f"PCIe {gpu['pcie_generation']} x{gpu['pcie_width']}")
    return f"{gpu['name']} ({', '.join(parts)})"


def _cuda(versions: dict[str, Any]) -> str:
    names = {
        "driver": "driver", "driver_supports": "supports CUDA", "runtime": "runtime", "nvrtc": "NVRTC",
        "cublas": "cuBLAS", "cupy": "CuPy",
    }  # fmt: skip
    return ", ".join(f"{label} {versions.get(key) or 'none'}" for key, label in names.items())


def render(found: dict[str, Any]) -> None:
    """Three tables on standard output: machine, backends, what does not go together."""
    out = terminal.console()
    terminal.show_table(out, "This machine", ("what", "found"), rows(found), wraps=True)
    table = grouped([(b["name"], b["device"], _state(b), _why(b)) for b in found["backends"]])
    terminal.show_table(
        out, "Backends", ("backend", "device", "state", "why, and the cure"), table, wraps=True
    )
    for conflict in found["conflicts"]:
        out.print(f"conflict: {conflict}", style="bold", markup=False)


def grouped(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows of one family (`cuda:...`) that say the same, as one row; three are named, more are counted."""
    families: dict[tuple[str, ...], list[str]] = {}
    for name, *rest in rows:
        families.setdefault((name.split(":")[0], *rest), []).append(name)
    return [
        (", ".join(names) if len(names) <= 3 else f"{family}: {len(names)} kernels", *rest)
        for (family, *rest), names in families.items()
    ]


def _why(backend: dict[str, Any]) -> str:
    detail = backend["detail"]
    same = detail.get("same_library_as")
    notes = [backend["reason"], backend["cure"], same and f"the library of {same}, measured only when named"]
    if "integer_bits" in detail:
        notes.insert(0, f"{detail['library']} {detail['version']}, {detail['integer_bits']}-bit integers")
    return "; ".join(part for part in notes if part)


def _state(backend: dict[str, Any]) -> str:
    return ("ok" if backend["ok"] else "absent") + ("" if backend["verified"] else ", UNVERIFIED")


@click.command(
    help=f"""{__doc__.split(":", 1)[1].strip().capitalize()}

\b
Examples:
  gemm-crossover doctor
  gemm-crossover doctor --json > machine.json
"""
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON, for scripts and bug reports.")
def command(as_json: bool) -> None:
    """Examine and print; exits 0 whatever is absent."""
    found = examine()
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        render(found)
