"""Records on disk: a journal that grows while a run goes on, and whole runs written in one piece.

A journal is JSON Lines: a header, one line per cell, one line at the end of each comparison group. A group
that comes again, with more rounds, replaces what it had. What follows the last whole group (a torn line,
cells of a group that never ended) is measured again on resume, so that pairs never span processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from backends.base import Problem

from .record import SCHEMA, Cell, Run
from .record_checks import check_cell, check_run

FORMAT = 1
ANEW = "start without --resume"
"""The remedy of every journal that is whole, or was never begun, and belongs to another question."""

MARK = b'{"journal":'
"""How every journal begins."""


class RecordError(ValueError):
    """A file that is no usable record, or does not fit this run; the text names file, place and remedy."""


class Loaded(msgspec.Struct, frozen=True):
    """A journal's header (a run without cells), its whole groups in order, and where they end in bytes."""

    run: Run
    groups: dict[str, tuple[Cell, ...]]
    end: int

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells of whole groups, in the order they were measured."""
        return tuple(cell for cells in self.groups.values() for cell in cells)


class Journal:
    """An open journal. `Journal.create` begins one, `Journal.resume` goes on with one."""

    def __init__(self, path: Path, file: IO[bytes], done: dict[str, tuple[Cell, ...]]) -> None:
        self.path, self._file, self.done = path, file, done

    @classmethod
    def create(
        cls,
        path: str | Path,
        run: Run,
        *,
        ignore: Collection[str] = (),
        replacing: Callable[[int], object] | None = None,
    ) -> Journal:
        """Begin a new journal for `run` (its cells are not written); an older journal is replaced.

        replacing: told, before, how many whole groups are lost that `resume` would have gone on with.
        RecordError where the file is something else, or another process writes it.
        """
        header = msgspec.structs.replace(run, cells=())
        file = _open(Path(path))
        lost = resumable_groups(path, run, ignore)
        if lost and replacing is not None:
            replacing(lost)
        file.truncate(0)
        journal = cls(Path(path), file, {})
        journal._write({"journal": FORMAT, "run": header})
        journal._sync()
        return journal

    @classmethod
    def resume(cls, path: str | Path, run: Run, *, ignore: Collection[str] = ()) -> Journal:
        """Go on with the journal at `path`, cut back to its last whole group; create it if there is none.

        RecordError names the first field in which the journal's options or machine differ from `run`'s;
        fields whose dotted name is in `ignore` may differ.
        """
        if not Path(path).exists():
            return cls.create(path, run)
        file = _open(Path(path))
        try:
            loaded = load(path)
            check_same(loaded.run, run, path, ignore)
        except RecordError:
            file.close()
            raise
        file.truncate(loaded.end)
        return cls(Path(path), file, dict(loaded.groups))

    def append(self, group: str, cells: Sequence[Cell]) -> None:
        """Write the cells of one whole comparison group and mark it complete, safe against a power cut."""
        for cell in cells:
            self._write({"cell": cell})
        self._write({"group": group, "cells": len(cells)})
        self._sync()
        self.done[group] = tuple(cells)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())


def _open(path: Path) -> IO[bytes]:
    """The file, made if there is none, for appending by this process alone until it is closed or dies."""
    file = path.open("a+b")
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            _lock(file, path)
        file.seek(0)
        start = file.read(len(MARK))
        if start != MARK[: len(start)]:
            raise RecordError(
                f"{path} is no journal of this tool and left as it is: delete it or name another file"
            )
    except RecordError:
        file.close()
        raise
    return file


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RecordError(
            f"{path} is being written by another run: wait for it, or name another file by --journal"
        ) from None


class _Line(msgspec.Struct):
    journal: int | None = None
    run: Run | None = None
    cell: Cell | None = None
    group: str | None = None
    cells: int | None = None


def load(path: str | Path) -> Loaded:
    """Read a journal; a torn last line is ignored, so are cells of a group that never ended.

    RecordError for anything else that cannot be read, with file and line.
    """
    data = Path(path).read_bytes()
    whole, _, _torn = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    if not lines:
        raise RecordError(f"{path}: no journal: its first line is missing or cut short; {ANEW}")
    run = _header(lines[0], path)
    groups: dict[str, tuple[Cell, ...]] = {}
    end = offset = len(lines[0]) + 1
    pending: list[Cell] = []
    for number, text in enumerate(lines[1:], start=2):
        offset += len(text) + 1
        try:
            line = _decode(text, path, number)
        except RecordError:
            if number == len(lines):
                break
            raise
        if line.cell is not None:
            pending.append(line.cell)
        elif line.group is not None and line.cells == len(pending):
            groups[line.group], pending, end = tuple(pending), [], offset
        else:
            raise RecordError(
                f"{path}, line {number}: a group of {line.cells} cells ends after {len(pending)}"
            )
    return Loaded(run, groups, end)


def _header(text: bytes, path: str | Path) -> Run:
    line = _decode(text, path, 1, newer_is="journal")
    if line.journal is None or line.run is None:
        raise RecordError(f"{path}, line 1: no journal of this tool: it does not begin with a header")
    return line.run


def _decode(text: bytes, path: str | Path, number: int, newer_is: str = "") -> _Line:
    where = f"{path}, line {number}"
    try:
        plain = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise RecordError(f"{where}: damaged: {error}; delete the file or restore it") from None
    if not isinstance(plain, dict):
        raise RecordError(f"{where}: no journal of this tool: expected an object, got {str(plain)[:40]!r}")
    if newer_is and isinstance(plain.get(newer_is), int):
        schema = plain.get("run", {}).get("schema", 0) if isinstance(plain.get("run"), dict) else 0
        _refuse_newer(max(plain[newer_is] - FORMAT + SCHEMA, schema), where)
    try:
        line = msgspec.convert(plain, _Line)
        if line.cell is not None:
            check_cell(line.cell)
        return line
    except (msgspec.ValidationError, ValueError) as error:
        raise RecordError(f"{where}: not a line of a journal: {error}") from None


def check_same(old: Run, new: Run, path: str | Path, ignore: Collection[str] = ()) -> None:
    """RecordError, naming the first field that differs, unless both runs ask the same on the same machine."""
    for field in ("experiment", "options", "machine"):
        before, now = (msgspec.to_builtins(getattr(run, field)) for run in (old, new))
        found = _difference(before, now, field, frozenset(ignore))
        if found:
            name, was, is_now = found
            raise RecordError(
                f"{path} cannot be resumed: {name} was {was!r} there and is {is_now!r} now; "
                f"give the same options on the same machine, or {ANEW}"
            )


def resumable_groups(path: str | Path, run: Run, ignore: Collection[str] = ()) -> int:
    """How many whole groups the journal at `path` holds for `run`; 0 where it cannot be resumed."""
    try:
        loaded = load(path)
        check_same(loaded.run, run, path, ignore)
    except RecordError:
        return 0
    return len(loaded.groups)


def _difference(a: Any, b: Any, name: str, ignore: frozenset[str]) -> tuple[str, Any, Any] | None:
    if name in ignore:
        return None
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            found = _difference(a.get(key), b.get(key), f"{name}.{key}", ignore)
            if found:
                return found
        return None
    return None if a == b else (name, a, b)


def atomic_write(path: str | Path, write: bytes | str | Callable[[IO[bytes]], object]) -> None:
    """Write a file so that readers see the old or the whole new one: a temporary name beside it, renamed."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            if callable(write):
                write(file)
            else:
                file.write(write.encode() if isinstance(write, str) else write)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def readable(content: Any) -> bytes:
    """Indented JSON that ends its last line."""
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def compact(run: Run) -> bytes:
    """A run as JSON with one line for each cell, and in it only what differs from the defaults."""
    plain = Cell(problem=run.cells[0].problem, backend="", device="") if run.cells else None
    usual = msgspec.to_builtins(plain) if plain else {}
    lines = []
    for cell in run.cells:
        fields = msgspec.to_builtins(cell)
        kept = {name: value for name, value in fields.items() if name == "problem" or value != usual[name]}
        kept["problem"] = _unusual(Problem(), cell.problem)
        lines.append(msgspec.json.encode(kept))
    head = readable(msgspec.to_builtins(msgspec.structs.replace(run, cells=())))
    cells = b'"cells": [\n  ' + b",\n  ".join(lines) + b"\n ]"
    return head.replace(b'"cells": []', cells) if lines else head


def _unusual(usual: Problem, problem: Problem) -> dict[str, Any]:
    pairs = ((msgspec.to_builtins(p)) for p in (usual, problem))
    before, fields = pairs
    return {name: value for name, value in fields.items() if value != before[name]}


def save_run(path: str | Path, run: Run) -> None:
    """Write a run as readable JSON, atomically."""
    atomic_write(path, readable(run))


def load_run(path: str | Path) -> Run:
    """Read a run written by `save_run`.

    RecordError, with file and position, when it is empty, cut short, of another tool or of a newer schema.
    """
    data = Path(path).read_bytes()
    if not data.strip():
        raise RecordError(f"{path}: empty: no record of a run")
    try:
        plain = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise RecordError(f"{path}: cut short or damaged: {error} (of {len(data)} bytes)") from None
    if not isinstance(plain, dict) or not {"schema", "cells"} <= plain.keys():
        raise RecordError(f"{path}: no record of this tool: it has no 'schema' and 'cells' at its top")
    _refuse_newer(plain["schema"], str(path))
    try:
        run = msgspec.convert(plain, Run)
        check_run(run)
        return run
    except (msgspec.ValidationError, ValueError) as error:
        raise RecordError(f"{path}: no record of this tool: {error}") from None


def _refuse_newer(schema: Any, where: str) -> None:
    if isinstance(schema, int) and schema > SCHEMA:
        raise RecordError(
            f"{where}: schema {schema} is newer than {SCHEMA}, the newest known here: update the tool"
        )
