"""What the harness reads of the machine, free memory and clock rates: here from files made up."""

import pytest

from backends.base import Problem
from suite import clocks
from suite.clocks import merged, read_clocks, throttled
from suite.harness_memory import available_bytes, operand_bytes, too_large
from suite.record import Clocks

MEMINFO = "MemTotal:       4000 kB\nMemFree:  10 kB\nMemAvailable:   2000 kB\n"


def machine(root, **files):
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_kernel_says_how_much_memory_is_free(tmp_path):
    assert available_bytes(machine(tmp_path)) == 2000 * 1024


def test_a_control_group_may_allow_less(tmp_path):
    root = machine(
        tmp_path,
        **{"sys/fs/cgroup/memory.max": "1000000\n", "sys/fs/cgroup/memory.current": "400000\n"},
    )
    assert available_bytes(root) == 600_000


def test_an_older_control_group_may_allow_less(tmp_path):
    folder = "sys/fs/cgroup/memory/memory."
    root = machine(tmp_path, **{folder + "limit_in_bytes": "900000", folder + "usage_in_bytes": "1000000"})
    assert available_bytes(root) == 0


def test_a_control_group_without_a_limit_allows_all(tmp_path):
    root = machine(tmp_path, **{"sys/fs/cgroup/memory.max": "max", "sys/fs/cgroup/memory.current": "1"})
    assert available_bytes(root) == 2000 * 1024


def test_where_nothing_is_readable_nothing_is_refused(tmp_path):
    assert available_bytes(tmp_path) is None
    assert too_large(Problem(m=1 << 20, n=1 << 20, k=1), True, None) == ""


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Problem(m=10, n=20, k=30), 4 * (10 * 30 + 30 * 20 + 10 * 20)),
        (Problem(m=10, n=20, k=30, batch=3, dtype="float64"), 3 * 8 * (10 * 30 + 30 * 20 + 10 * 20)),
        (Problem(op="gemv", m=10, n=20), 4 * (200 + 20 + 10)),
        (Problem(op="vector_add", n=20), 4 * 60),
        (Problem(op="copy", n=20), 4 * 40),
    ],
)
def test_bytes_of_the_host_arrays(problem, expected):
    assert operand_bytes(problem) == expected


def test_the_gate_needs_room_too():
    problem = Problem(m=1000, n=1000, k=1000)
    assert too_large(problem, False, 12_000_000) == ""
    assert too_large(problem, True, 12_000_000) == "host memory: needs 0.03 GB, 0.01 GB are free"


def test_two_readings_make_one_record():
    before = Clocks(before_mhz=1980, nominal_mhz=1980, throttle=("sw_power_cap",))
    after = Clocks(before_mhz=1700, nominal_mhz=1980, throttle=("sw_thermal",))
    assert merged(before, after) == Clocks(
        before_mhz=1980, after_mhz=1700, nominal_mhz=1980, throttle=("sw_power_cap", "sw_thermal")
    )
    assert merged(None, None) is None and merged() is None
    warm, hot = Clocks(temperature_c=50), Clocks(temperature_c=70, power_w=500.0, throttle=("hw_thermal",))
    both = merged(before, warm, hot, None)
    assert (both.temperature_c, both.power_w, both.after_mhz) == (70, 500.0, None)
    assert both.throttle == ("hw_thermal", "sw_power_cap")
    assert merged(None, after).after_mhz == 1700


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (None, False),
        (Clocks(before_mhz=1980, after_mhz=1900, nominal_mhz=1980), False),
        (Clocks(before_mhz=1980, after_mhz=1168, nominal_mhz=1980), True),
        (Clocks(before_mhz=1980, nominal_mhz=1980, throttle=("hw_thermal",)), True),
        (Clocks(before_mhz=800), False),
    ],
)
def test_throttled(reading, expected):
    assert throttled(reading) is expected


class Nvml:
    """Answers as NVML does: 1980 MHz nominal, 1200 now, held back by power and idling; 61 °C, 689.5 W."""

    @staticmethod
    def _give(target, value):
        target._obj.value = value
        return 0

    def nvmlDeviceGetClockInfo(self, handle, kind, target):
        return self._give(target, 1200)

    def nvmlDeviceGetMaxClockInfo(self, handle, kind, target):
        return self._give(target, 1980)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle, target):
        return self._give(target, 0x04 | 0x01)

    def nvmlDeviceGetTemperature(self, handle, sensor, target):
        return self._give(target, 61)

    def nvmlDeviceGetPowerUsage(self, handle, target):
        return self._give(target, 689_500)


class Denied(Nvml):
    """Answers everything with an error code."""

    @staticmethod
    def _give(target, value):
        return 3


def test_a_gpu_is_read_through_nvml(monkeypatch):
    monkeypatch.setattr(clocks, "_nvml", lambda: (Nvml(), None))
    assert read_clocks("cuda") == Clocks(
        before_mhz=1200, nominal_mhz=1980, throttle=("sw_power_cap",), temperature_c=61, power_w=689.5
    )
    monkeypatch.setattr(clocks, "_nvml", lambda: (Denied(), None))
    assert read_clocks("cuda") == Clocks()
    monkeypatch.setattr(clocks, "_nvml", lambda: None)
    assert read_clocks("cuda") is None


def test_a_cpu_is_read_through_cpufreq(tmp_path):
    (tmp_path / "scaling_cur_freq").write_text("2400123\n")
    assert clocks._cpu(tmp_path) == Clocks(before_mhz=2400)
    assert clocks._cpu(tmp_path / "absent") is None
