"""Whether a result is right, before its time counts.

Three parts, because one bound of K u lets TF32 pass as fp32 and cannot see one product lost among 8192:

(exact) integer operands whose sums are exact in the stated arithmetic: C must match bit for bit. Every
    entry up to 512^3 multiplications; above, Freivalds' check covers every row, and whole rows and columns
    on both sides of the tile edges are compared entry by entry: all of them, or as many as 2^27
    multiplications pay for, but at least two of each.
(fingerprint) operands that use every bit the stated arithmetic keeps must come through one by one, in every
    tile; and small products must survive beside large ones that an accumulator of the stated width carries.
(bound) random centred data within (2 u_in + 2 (K + 3) u_acc) (|alpha| |A||B| + |beta| |C|), for fp32 and
    fp64 never more than 16 u (see `relative_bound`); every entry up to 512^3 multiplications (2^25 in long
    double), picked rows and columns above. A is large and B small, out of the range of the type below
    the stated one.

C is NaN before each run with beta = 0; where C lives on a device, a run on NaN operands comes first, so that
a tile left unwritten, or read, shows. NaN always fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from backends.base import DeviceLost, Session

from .record import GateResult
from .reference import ReferenceCache
from .trials import FULL, Checks, Integers, Poison, Setting, Trial, Views, ZeroAlpha, views
from .trials_real import Random, Selection, Vectors

__all__ = ["ReferenceCache", "check", "check_all"]

JUDGES = 4
"""Results of `check_all` that are judged at one time, each a copy, while the next session runs."""


class _SessionError(Exception):
    """The session raised; its text is one line for the record."""


def check(
    session: Session, *, seed: int = 0, cache: ReferenceCache | None = None, transfer: str | None = None
) -> GateResult:
    """Fill `session.operands` in place, run, and judge C; never raises for a wrong or raising session.

    The operands keep the last trial's data. `cache` shares references between the candidates of a problem.
    transfer: judge `enqueue(transfer)`, a mode that uploads, in place of upload, run, download, synchronize.
    """
    rows, columns = session.info.tile or (128, 128)
    setting = Setting(session.problem, seed, (rows, columns), session.info.flushes_denormals)
    known = (cache or ReferenceCache()).of(setting)
    v = views(session.problem, session.operands)
    found = GateResult(ok=True)
    for trial in trials(setting, has_device_memory(session)):
        trial.fill(v)
        if trial.name not in known:
            known[trial.name] = trial.checks(v)
        found = _tried(session, trial, known[trial.name], v, found, transfer)
        if not found.ok:
            break
    return found


def check_all(
    sessions: Sequence[Session],
    *,
    seed: int = 0,
    tile: tuple[int, int] = (64, 64),
    raised: Callable[[Session], None] = lambda session: None,
) -> list[GateResult]:
    """`check` of several sessions on a device, of one problem and on the very same host arrays.

    Each trial is filled, and its references are worked out, once. tile: whose edges are looked at; one
    that all their tiles are multiples or parts of. raised: told of a session that raised, before another one
    runs; what it raises itself ends the check.
    """
    found = [GateResult(ok=True) for _ in sessions]
    if not sessions:
        return found
    first = sessions[0]
    setting = Setting(first.problem, seed, tile, any(s.info.flushes_denormals for s in sessions))
    v = views(first.problem, first.operands)
    with ThreadPoolExecutor(JUDGES) as pool:
        for trial in trials(setting, True):
            trial.fill(v)
            checks = trial.checks(v)
            added = v.c.copy() if setting.problem.beta != 0 else None
            judged: dict[int, Future[GateResult]] = {}
            for i in [i for i, result in enumerate(found) if result.ok]:
                v.c[...] = np.nan if added is None else added
                if (error := _raised(sessions[i], trial, None)) is not None:
                    found[i] = error
                    raised(sessions[i])
                elif checks:
                    if len(judged) >= JUDGES:  # no more copies of C at one time
                        list(judged.values())[-JUDGES].result()
                    judged[i] = pool.submit(_judged, trial, checks, v.c.copy(), found[i])
            found = [judged[i].result() if i in judged else result for i, result in enumerate(found)]
    return found


def _tried(
    session: Session, trial: Trial, checks: Checks, v: Views, before: GateResult, transfer: str | None
) -> GateResult:
    """The result after one more trial, whose operands are in place."""
    return _raised(session, trial, transfer) or _judged(trial, checks, v.c, before)


def _raised(session: Session, trial: Trial, transfer: str | None) -> GateResult | None:
    """Run it; the result if the session raised."""
    try:
        _run(session, transfer)
    except _SessionError as error:
        return GateResult(ok=False, failed="error", detail=f"{trial.name}: {error}")
    return None


def _judged(trial: Trial, checks: Checks, c: np.ndarray, before: GateResult) -> GateResult:
    worst = before.max_error
    for part, expected in checks:
        complaint, error_seen = expected.judge(c)
        worst = error_seen if worst is None else max(worst, error_seen or 0.0)
        if complaint:
            return GateResult(ok=False, failed=part, detail=f"{trial.name}: {complaint}", max_error=worst)
    return GateResult(ok=True, max_error=worst)


def has_device_memory(session: Session) -> bool:
    """Does C live elsewhere than in the host array?"""
    return type(session).download is not Session.download or type(session).enqueue is not Session.enqueue


def trials(setting: Setting, device_memory: bool) -> list[Trial]:
    """What is run, in order; two or three runs for a large problem, up to six for a small one."""
    p = setting.problem
    if p.op in ("vector_add", "copy"):
        return [Vectors(setting, part) for part in ("exact", "fingerprint", "bound")]
    if p.alpha == 0:
        return [ZeroAlpha(setting)]
    m, n, k = setting.shape
    if k == 0 or not m * n:
        return [Integers(setting, "exact", accumulator=False)]
    found: list[Trial] = [Poison(setting)] if device_memory and p.beta == 0 else []
    if setting.multiplications > FULL and min(m, n) >= 64:
        return [*found, Integers(setting, "exact", accumulator=True), Random(setting, marked=True)]
    found.append(Integers(setting, "exact", accumulator=False))
    if k >= 3:
        found.append(Integers(setting, "fingerprint", accumulator=True))
    return [*found, Selection(setting, 1), Selection(setting, 2), Random(setting, marked=False)]


def _run(session: Session, transfer: Any) -> None:
    try:
        with np.errstate(all="ignore"):
            if transfer is not None:
                session.enqueue(transfer)
                return
            session.upload()
            session.run()
            session.download()
            session.synchronize()
    except DeviceLost:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise _SessionError(f"{type(error).__name__}: {text}") from error
