"""The machine description: never crashes, says unknown, tells machines apart, names nobody."""

import getpass
import json
import platform
import re
import socket

import pytest

from suite import gpu_info, machine

ABSOLUTE = re.compile(r"(?<![\w.:/])/(?:[\w.+-]+/)+")


def fake_root(tmp_path, model="Test CPU @ 3 GHz"):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        f"processor : 0\nmodel name : {model}\nflags : sse4_2 avx2 fma rtm\n"
    )
    cache = tmp_path / "sys/devices/system/cpu/cpu0/cache/index0"
    cache.mkdir(parents=True)
    for name, text in {"size": "48K", "level": "1", "type": "Data", "shared_cpu_list": "0,4-6"}.items():
        (cache / name).write_text(text + "\n")
    (tmp_path / "sys/devices/system/node/node0").mkdir(parents=True)
    return tmp_path


def test_reads_cpu_and_caches(tmp_path):
    found = machine.cpu(fake_root(tmp_path))
    assert found["model"] == "Test CPU @ 3 GHz"
    assert found["isa"] == ["sse4_2", "avx2", "fma"]
    assert found["caches"] == [{"level": 1, "kind": "data", "bytes": 49152, "shared_by": 4}]
    assert found["numa_nodes"] == 1


def test_unreadable_is_unknown_and_nothing_raises(tmp_path, monkeypatch):
    import archspec.cpu
    import psutil

    def refuse(*_, **__):
        raise RuntimeError("unreadable")

    monkeypatch.setattr(archspec.cpu, "host", refuse)
    monkeypatch.setattr(psutil, "cpu_freq", lambda: None)
    monkeypatch.setattr(psutil, "cpu_count", refuse)
    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    found = machine.describe(tmp_path)
    for key in ("model", "microarchitecture", "vendor", "physical_cores", "clock_mhz", "memory_bytes"):
        assert found["cpu"][key] == "unknown", key
    assert found["cpu"]["caches"] == []
    json.dumps(found)


def test_fingerprint_follows_the_hardware_only(tmp_path):
    one = {"cpu": {"model": "a", "clock_mhz": 1}, "gpus": []}
    warm = {"cpu": {"model": "a", "clock_mhz": 2}, "gpus": [], "software": {"python": "4"}}
    gpu = {"cpu": {"model": "a"}, "gpus": [{"name": "g", "memory_bytes": 1}]}
    assert machine.fingerprint(one) == machine.fingerprint(warm)
    assert machine.fingerprint(one) != machine.fingerprint(gpu)
    assert machine.fingerprint(one) != machine.fingerprint({"cpu": {"model": "b"}, "gpus": []})


def test_description_is_json_and_names_nobody():
    text = json.dumps(machine.describe())
    assert not ABSOLUTE.search(text)
    for private in (socket.gethostname(), getpass.getuser()):
        assert not re.search(rf"(?<![\w-]){re.escape(private)}(?![\w-])", text)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("cannot open /usr/lib/x/libfoo.so.1: gone", "cannot open libfoo.so.1: gone"),
        ("--export-json=/home/joe/out.json", "--export-json=out.json"),
        ("'/tmp/a b/c'", "'a b/c'"),
        ("~/work/run.json", "run.json"),
        ("GFLOP/s, GB/s, 64x64/1/f", "GFLOP/s, GB/s, 64x64/1/f"),
        ("see https://docs.nvidia.com/cuda/index.html", "see https://docs.nvidia.com/cuda/index.html"),
        ("./here/there.json", "./here/there.json"),
    ],
)
def test_scrub_cuts_absolute_paths(text, clean):
    assert machine.scrub(text) == clean


def test_scrub_goes_into_containers_and_knows_names(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "fermi-lab7")
    monkeypatch.setattr(getpass, "getuser", lambda: "enrico")
    machine._private.cache_clear()
    try:
        dirty = {"a": ["on fermi-lab7 by enrico", 3, None], "b": ("enricos",)}
        assert machine.scrub(dirty) == {"a": ["on <host> by <user>", 3, None], "b": ("enricos",)}
    finally:
        machine._private.cache_clear()


def test_two_cuda_versions_are_both_named():
    found = gpu_info.conflicts(
        {"runtime": "13.2", "driver_supports": "12.4", "nvrtc": "13.5", "nvcc": "12.9"}
    )
    assert len(found) == 2
    assert "13.2" in found[0] and "12.4" in found[0]
    assert "13.5" in found[1] and "12.9" in found[1]
    assert (
        gpu_info.conflicts({"runtime": "13.2", "driver_supports": "13.0", "nvrtc": "13.5", "nvcc": "13.0"})
        == []
    )


def test_two_cupy_packages_are_a_conflict():
    found = gpu_info.conflicts({"cupy_packages": ["cupy-cuda12x 13.4", "cupy-cuda13x 14.2"]})
    assert "cupy-cuda12x 13.4" in found[0] and "cupy-cuda13x 14.2" in found[0]


def test_a_second_cupy_distribution_on_the_path_is_seen(tmp_path, monkeypatch):
    for name in ("cupy_cuda11x", "cupy_cuda12x"):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"cupy-cuda11x 1.0", "cupy-cuda12x 1.0"} <= set(gpu_info.cupy_packages())


def test_pcie_link_from_sysfs(tmp_path):
    (tmp_path / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    assert gpu_info.pcie(tmp_path) == {"current_link_speed": "32.0 GT/s PCIe"}


def test_cuda_numbers():
    assert gpu_info.dotted(13020) == "13.2"
    assert gpu_info.dotted(12090) == "12.9"
    assert gpu_info.dotted(0) is None


@pytest.mark.parametrize(
    ("release", "kept"), [("6.18.44-my-build.3", "6.18.44"), ("5.10", "5.10"), ("x", "unknown")]
)
def test_a_kernel_build_is_not_named(monkeypatch, release, kept):
    monkeypatch.setattr(platform, "release", lambda: release)
    assert machine.software()["os"].split() == [platform.system(), kept]
