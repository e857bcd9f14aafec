"""How many CPUs this process may really use: affinity and cgroup quota, not the number in the machine."""

from __future__ import annotations

import math
import operator
import os
import time
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")


def allowed_cpus() -> int:
    """CPUs the affinity mask and the cgroup quota leave to this process; at least 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        count = os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def cgroup_quota(root: Path = CGROUP_ROOT, membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """The tightest CPU quota, in CPUs, from this process's cgroup up to the root; None without one.

    Reads `cpu.max` (version 2) and `cpu.cfs_quota_us` / `cpu.cfs_period_us` (version 1):
    https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files
    """
    found: list[float] = []
    for base, path in _cgroups(root, membership):
        for folder in (path, *path.parents):
            quota = _quota_of(folder)
            if quota is not None:
                found.append(quota)
            if folder == base:
                break
    return min(found, default=None)


def _cgroups(root: Path, membership: Path) -> list[tuple[Path, Path]]:
    """(mount, own folder) of every hierarchy that may hold a CPU quota."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    pairs = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            pairs.append((root, root / path.lstrip("/")))
        elif "cpu" in controllers.split(","):
            pairs.append((root / controllers, root / controllers / path.lstrip("/")))
    return pairs


def _quota_of(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if quota == "max" or int(quota) <= 0 else int(quota) / int(period)


def check_threads(threads: int | None) -> int | None:
    """`threads` as given, an int >= 1 or None. ValueError for 0, a negative or a fractional count."""
    if threads is None:
        return None
    try:
        count = operator.index(threads)
    except TypeError:
        raise ValueError(f"threads must be a whole number >= 1 or None, got {threads!r}") from None
    if count < 1 or isinstance(threads, bool):
        raise ValueError(f"threads must be a whole number >= 1 or None, got {threads!r}")
    return count


def worth_trying(most: int | None = None) -> tuple[int, ...]:
    """Thread counts to try: one, half, and all of the CPUs allowed (or of `most`)."""
    count = most or allowed_cpus()
    return tuple(sorted({1, max(1, count // 2), count}))


QUIET_SHARE = 0.2
"""Of one CPU: what this process may use while it is called quiet."""


def wait_until_quiet(limit_s: float = 0.4, look_s: float = 0.01) -> bool:
    """Sleep until no thread of this process computes or spins; False when some still do after `limit_s`.

    look_s: no shorter than a tick of the kernel (4 to 10 ms), which alone adds the time of a thread that is
    running elsewhere: looks of 1 ms took a spinning thread for a sleeping one 10 times of 12.

    The threads of OpenBLAS and of OpenMP runtimes spin for 0.1 to 0.2 s after a call and cannot be told to
    stop: on 16 cores a product beside 15 such threads took 40 times as long.
    """
    end = time.perf_counter() + limit_s
    while (start := time.perf_counter()) < end:
        used = time.process_time()
        time.sleep(look_s)
        if time.process_time() - used < QUIET_SHARE * (time.perf_counter() - start):
            return True
    return False
