"""A progress bar with the time left, on standard error; silent where that is no terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, TextColumn

from ..sweep import Step
from . import terminal

Tell = Callable[[Step], None]


@contextlib.contextmanager
def bar(hidden: bool = False) -> Iterator[Tell | None]:
    """Gives the function to call with every step, or None where nothing is to be shown."""
    out = terminal.console(stderr=True)
    if hidden or not out.is_terminal:
        yield None
        return
    columns = (BarColumn(30), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}"))
    with Progress(*columns, console=out, transient=True) as shown:
        task = shown.add_task("starting", total=1)

        def tell(step: Step) -> None:
            shown.update(task, completed=step.done, total=step.expected, description=words(step))

        yield tell


@contextlib.contextmanager
def steps(hidden: bool = False) -> Iterator[Callable[[str, int, int], None] | None]:
    """As `bar`, for what is told as (what is being done, how many are done, of how many)."""
    out = terminal.console(stderr=True)
    if hidden or not out.is_terminal:
        yield None
        return
    columns = (BarColumn(30), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}"))
    with Progress(*columns, console=out, transient=True) as shown:
        task = shown.add_task("starting", total=1)

        def tell(doing: str, done: int, expected: int) -> None:
            shown.update(task, completed=done, total=expected, description=doing)

        yield tell


def words(step: Step) -> str:
    """What is being done now, and about how long all of it will still take."""
    doing = f"{step.event.kind} {step.event.text}".strip() if step.event else ""
    return f"{step.sweep.dtype} {step.sweep.host_memory} {step.size}: {doing}, about {step.left_s:.0f} s left"
