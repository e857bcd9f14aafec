"""Measures the groups of `peers` through worker processes, one for each dtype, within a time budget.

In passes: every group has a round before any has its second, so that a slow phase of the machine, which lasts
for seconds, is not taken twice for the same figure.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

import backends
from backends.arithmetic import ITEMSIZE
from backends.base import Backend

from . import harness_memory, peers_plan
from .exits import Exit, Stop
from .journal import Journal
from .peers_bench import OURS, Setup
from .peers_plan import Group, Rates, Turn
from .peers_rounds import APART_S, MOST_ROUNDS, Standing, again
from .peers_worker import ONE_THREAD, Reply
from .record import Cell

PINS = {
    "avx2": {
        "GEMM_ISA": "avx2",
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "BLIS_ARCH_TYPE": "3",  # haswell; BLIS 0.9 reads a name as 0, which is skx: AVX-512
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "DNNL_MAX_CPU_ISA": "AVX2",  # its name before oneDNN 3
    }
}
"""Environment that holds ours and every peer to an instruction set, on a processor that has more."""

NO_PEER = "no CBLAS to compare with was found"

MEMORY_SHARE = 0.6
"""Of the free memory, for the operands of one dtype: C is there once for each process."""

PROCESSES = 8
"""Those that may each have a C of their own, about."""

OVERTIME = 0.1
"""Of a dtype's budget: what a run may take longer before it leaves groups out."""

Tell = Callable[[str, int, int], None]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The question of one `peers` call. Empty tuples: everything there is."""

    dtypes: tuple[str, ...] = ("float32", "float64")
    threads: tuple[int, ...] = ()
    classes: tuple[str, ...] = peers_plan.CLASSES
    sizes: tuple[int, ...] = ()
    backends: tuple[str, ...] = ()
    isa: str = ""
    time_budget_s: float = 240.0
    seed: int = 0

    def options(self) -> dict[str, Any]:
        """As it stands in the record."""
        return dict(msgspec.json.decode(msgspec.json.encode(self)))

    def wanted(self, dtype: str) -> list[Group]:
        """Every group of a dtype."""
        return peers_plan.groups(dtype, self.threads, self.classes, self.sizes)

    def groups(self, dtype: str) -> list[Group]:
        """Those that fit into memory."""
        free = harness_memory.available_bytes()
        return [g for g in self.wanted(dtype) if free is None or _bytes(g) <= MEMORY_SHARE * free]

    def too_large(self) -> list[str]:
        """The groups that do not."""
        every = {group.key: group for dtype in self.dtypes for group in self.wanted(dtype)}
        fitting = {group.key for dtype in self.dtypes for group in self.groups(dtype)}
        return [key for key in every if key not in fitting]


def _bytes(group: Group) -> int:
    a, b, c = peers_plan.operand_elements(group.problem)
    return (a + b + PROCESSES * c) * ITEMSIZE[group.problem.dtype]


def check(asked: Asked) -> Asked:
    """As it was asked. Stop (usage) where it leaves nothing to measure."""
    if not any(map(asked.wanted, asked.dtypes)):
        sizes = ", ".join(map(str, asked.sizes))
        raise Stop(
            f"--sizes {sizes} make no problem of --classes {', '.join(asked.classes)}: "
            f"{'; '.join(map(peers_plan.takes, asked.classes))}",
            Exit.USAGE,
        )
    if not any(map(asked.groups, asked.dtypes)):
        least = min(_bytes(group) for dtype in asked.dtypes for group in asked.wanted(dtype))
        free = harness_memory.available_bytes() or 0
        raise Stop(
            f"nothing of this fits into memory: the smallest problem needs {least / 1e9:.1f} GB in all, "
            f"{MEMORY_SHARE * free / 1e9:.1f} GB may be used; ask for smaller --sizes",
            Exit.USAGE,
        )
    return asked


def libraries(named: Sequence[str]) -> tuple[str, ...]:
    """Ours and every CBLAS found, or those named. Of what is found each library once: see `twice`.

    NumPy's own only where no other OpenBLAS is. Stop (usage) for a name that is no CBLAS, an error for one
    that cannot be used.
    """
    _usable(OURS)
    if named and all(name == OURS for name in named):
        raise Stop("--backend native is ours: name what it is compared with, such as cblas:mkl", Exit.USAGE)
    if named:
        return (OURS, *(n for name in named if (n := _usable(name)) != OURS))
    left_out = twice(named)
    return (OURS, *(b.name for b in _found() if b.name not in left_out))


def _found() -> list[Backend]:
    """The usable CBLAS libraries, sorted by name; NumPy's only where no other OpenBLAS is."""
    found = [b for b in backends.all_backends() if b.name.startswith("cblas:") and b.probe().ok]
    others = [b for b in found if not b.stands_beside]
    if not any("openblas" in b.name for b in others):
        others += [b for b in found if b.stands_beside]
    return sorted(others, key=lambda b: b.name)


def twice(named: Sequence[str]) -> dict[str, str]:
    """Library found -> why it is not measured: another file is the same build.

    The first by name stays: the usual file of its family, with 32-bit integers, which most programs call.
    Nothing where peers were named.
    """
    first: dict[tuple[str, ...], str] = {}
    found: dict[str, str] = {}
    for backend in [] if named else _found():
        detail = backend.probe().detail
        family = backend.name.partition("-")[0].removesuffix("64")
        build = (family, *(str(detail.get(name, "")) for name in ("version", "kernels", "threading")))
        other = first.setdefault(build, backend.name) if detail.get("version") else backend.name
        if other != backend.name:
            found[backend.name] = (
                f"the same build as {other} ({' '.join(filter(None, build[1:]))}, integers of "
                f"{detail.get('integer_bits', '?')} bits): name both by --backend to measure both"
            )
    return found


def absent(named: Sequence[str]) -> dict[str, str]:
    """Why a known CBLAS is no peer here, and how to get it; nothing where peers were named."""
    known = [] if named else [b for b in backends.all_backends() if b.name.startswith("cblas:")]
    states = {b.name: state for b in known if not (state := b.probe()).ok}
    return {name: f"{state.reason}; {state.cure}".rstrip("; ") for name, state in states.items()}


def _usable(name: str) -> str:
    try:
        backend = backends.get(name)
    except KeyError:
        known = ", ".join(b.name for b in backends.all_backends() if b.name.startswith("cblas:"))
        raise Stop(
            f"backend {name!r} is unknown: use one of {known}, or cblas:/path/lib.so with the whole path",
            Exit.USAGE,
        ) from None
    except ValueError as error:
        raise Stop(str(error), Exit.USAGE) from None
    if name != OURS and not backend.name.startswith("cblas:"):
        raise Stop(
            f"backend {name!r} is no CBLAS: peers compares native with cblas:... (see list)", Exit.USAGE
        )
    state = backend.probe()
    if not state.ok:
        raise Stop(f"backend {name!r} cannot run here: {state.reason}; {state.cure}".rstrip("; "))
    return name


class Worker:
    """One worker process; a context manager."""

    def __init__(self, setup: Setup, isa: str = "") -> None:
        environment = os.environ | PINS.get(isa, {}) | {ONE_THREAD: "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "suite.peers_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the command, which ends this one and its children
        )
        try:
            self.first = self._exchange(setup)
        except BaseException:
            self._kill()
            raise

    def measure(self, turn: Turn) -> Reply:
        """The cells of this round of a group."""
        return self._exchange(turn)

    def _exchange(self, message: Setup | Turn) -> Reply:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(msgspec.json.encode(message) + b"\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise Stop(f"the measuring process ended with status {self._process.wait()}: see above")
        return msgspec.json.decode(line, type=Reply)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # nobody wants to wait for the group that is being measured
            self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)


class Outcome(msgspec.Struct):
    """All cells, the groups left out for want of time or memory, and what went wrong."""

    cells: list[Cell]
    unmeasured: list[str]
    errors: list[str]


def measure(
    asked: Asked,
    names: tuple[str, ...],
    *,
    journal: Journal | None = None,
    tell: Tell | None = None,
    start: Callable[[Setup, str], Any] = Worker,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], object] = time.sleep,
) -> Outcome:
    """Measure every group that the budget pays for; start: makes the worker, see `Worker`."""
    measuring = _Measuring(asked, names, journal, tell, start, clock, sleep)
    began = clock()
    for number, dtype in enumerate(asked.dtypes):
        left = asked.time_budget_s - (clock() - began)
        measuring.of_dtype(dtype, left / (len(asked.dtypes) - number))
    return measuring.outcome


class _Measuring:
    """One run; `outcome` grows with every dtype."""

    def __init__(
        self,
        asked: Asked,
        names: tuple[str, ...],
        journal: Journal | None,
        tell: Tell | None,
        start: Callable[[Setup, str], Any],
        clock: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        self.asked, self.names, self.journal, self.tell = asked, names, journal, tell
        self.start, self.clock, self.sleep = start, clock, sleep
        self.outcome = Outcome([], [], [])

    def of_dtype(self, dtype: str, budget_s: float) -> None:
        """Go on with what the journal lacks of this dtype, for `budget_s` from now."""
        end = self.clock() + budget_s
        late = end + OVERTIME * budget_s
        wanted = {group.key: group for group in self.asked.groups(dtype)}
        kept = self.journal.done if self.journal is not None else {}
        begun = {key: cells for key, cells in kept.items() if key in wanted}
        todo = [group for key, group in wanted.items() if key not in begun or again(begun[key])]
        self.outcome.cells += [cell for key, cells in begun.items() if not again(cells) for cell in cells]
        if todo:
            with self.start(setup_of(todo, self.names, self.asked.seed), self.asked.isa) as worker:
                standings = self._planned(todo, begun, worker.first.rates, end)
                for round_ in range(MOST_ROUNDS):
                    self._pass(worker, standings, round_, end if round_ else late)
            measured = {standing.group.key for standing in standings if standing.round_}
            self.outcome.unmeasured += [group.key for group in todo if group.key not in measured]
            self.outcome.cells += [cell for standing in standings for cell in standing.cells]

    def _planned(
        self, todo: list[Group], begun: dict[str, tuple[Cell, ...]], rates: Rates, end: float
    ) -> list[Standing]:
        """What is begun, and of the others as many as the budget pays a round of, in the order of a pass."""
        count = len(self.names)
        fresh = [group for group in todo if group.key not in begun]
        chosen = peers_plan.affordable(fresh, end - self.clock(), count, rates)
        return [
            Standing(
                msgspec.structs.replace(group, expected_s=peers_plan.call_s(group, rates)),
                count if group.calls_from == "c" else 2,
                peers_plan.cost_s(group, count, rates),
                begun.get(group.key, ()),
            )
            for group in [group for group in todo if group.key in begun] + chosen
        ]

    def _pass(self, worker: Any, standings: Sequence[Standing], round_: int, end: float) -> None:
        """A round of every group that has had `round_` of them, as far as it needs one and time goes."""
        due = [standing for standing in standings if standing.round_ == round_ and standing.open]
        for index, standing in enumerate(due):
            if not self._in_time(standing, end):
                continue
            if self.tell:
                self.tell(f"pass {round_ + 1}: {standing.group.key}", index, len(due))
            self._visit(worker, standing)

    def _in_time(self, standing: Standing, end: float) -> bool:
        """Is there time for a round of this group, a while after its last? Waits for that.

        A first round need only begin in time.
        """
        now = self.clock()
        begin = max(now, standing.ended_s + APART_S)
        if begin + (standing.next_s if standing.round_ else 0) > end:
            return False
        if begin > now:
            self.sleep(begin - now)
        return True

    def _visit(self, worker: Any, standing: Standing) -> None:
        """One round of a group; what it has so far is kept."""
        group, began = standing.group, self.clock()
        reply = worker.measure(Turn(group, standing.round_, standing.names))
        if reply.error:
            self.outcome.errors.append(f"{group.key}: {reply.error}")
        standing.add(reply.cells, bool(reply.error), began, self.clock())
        if self.journal is not None and standing.cells:
            self.journal.append(group.key, standing.cells)


def setup_of(groups: Sequence[Group], names: tuple[str, ...], seed: int) -> Setup:
    """What a worker must know to measure these groups of one dtype."""
    a, b, c = zip(*(peers_plan.operand_elements(group.problem) for group in groups), strict=True)
    return Setup(groups[0].problem.dtype, names, (max(a), max(b), max(c)), seed)
