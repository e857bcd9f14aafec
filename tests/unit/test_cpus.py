"""The CPUs a process may use, on invented cgroup trees, and the counts worth trying."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from backends import cpus


def tree(root: Path, membership: str, **files: str) -> dict[str, Path]:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_at_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "membership").write_text(membership)
    return {"root": root, "membership": root / "membership"}


def test_version_2_takes_the_tightest_up_the_tree(tmp_path):
    where = tree(
        tmp_path,
        "0::/a/b\n",
        cpu_at_max="max 100000",
        a__cpu_at_max="150000 100000\n",
        a__b__cpu_at_max="400000 100000\n",
    )
    assert cpus.cgroup_quota(**where) == 1.5


def test_version_2_without_a_quota(tmp_path):
    assert cpus.cgroup_quota(**tree(tmp_path, "0::/\n", cpu_at_max="max 100000")) is None


def test_version_1(tmp_path):
    folder = tmp_path / "cpu,cpuacct" / "box"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("250000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    where = tree(tmp_path, "7:memory:/other\n4:cpu,cpuacct:/box\n")
    assert cpus.cgroup_quota(**where) == 2.5
    (folder / "cpu.cfs_quota_us").write_text("-1\n")
    assert cpus.cgroup_quota(**where) is None


def test_no_cgroups_at_all(tmp_path):
    assert cpus.cgroup_quota(tmp_path, tmp_path / "nothing") is None


@pytest.mark.parametrize(("quota", "count"), [(None, 8), (2.5, 3), (0.1, 1), (64.0, 8)])
def test_a_quota_lowers_the_count(monkeypatch, quota, count):
    monkeypatch.setattr(cpus.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(cpus, "cgroup_quota", lambda: quota)
    assert cpus.allowed_cpus() == count


@pytest.mark.parametrize(("most", "counts"), [(1, (1,)), (2, (1, 2)), (3, (1, 3)), (16, (1, 8, 16))])
def test_counts_worth_trying(most, counts):
    assert cpus.worth_trying(most) == counts


@pytest.mark.parametrize("wrong", [0, -3, 1.0, 2.5, "4", True, [1]])
def test_senseless_counts(wrong):
    with pytest.raises(ValueError, match="whole number >= 1 or None"):
        cpus.check_threads(wrong)


def test_sensible_counts():
    import numpy as np

    assert cpus.check_threads(None) is None
    assert cpus.check_threads(np.int64(7)) == 7


def spin_for(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(200))


def test_quiet_is_waited_for():
    spinner = threading.Thread(target=spin_for, args=(0.15,))
    spinner.start()
    assert cpus.wait_until_quiet(limit_s=5.0)
    assert not spinner.is_alive() or not spinner.join(0.05)
    spinner.join()


def test_waiting_for_quiet_ends():
    spinner = threading.Thread(target=spin_for, args=(1.0,))
    spinner.start()
    start = time.perf_counter()
    assert not cpus.wait_until_quiet(limit_s=0.1)
    assert time.perf_counter() - start < 0.5
    spinner.join()
