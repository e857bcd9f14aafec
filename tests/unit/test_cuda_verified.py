"""cuda/verified.json: every kernel is in it, and a record counts only for the source it was made from."""

from __future__ import annotations

import json

import pytest

from backends import _cuda_source as source
from backends import _cuda_verified as verified
from backends.cuda_kernels import CudaKernel

KERNELS = [k for k in source.all_kernels().values() if isinstance(k, source.Kernel)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_kernel_is_verified_as_it_stands_or_listed_as_unverified(kernel):
    entry = verified.load().kernels.get(kernel.name)
    assert entry is not None, f"{kernel.name} is not in {verified.path().name}: list it as unverified"
    if entry.status == "verified":
        assert entry.source_hash == source.source_hash(kernel), (
            f"{kernel.name} was verified in another form: run `python -m suite verify` on a GPU, "
            f"or list it as unverified"
        )


def test_no_record_of_a_kernel_that_is_gone():
    assert set(verified.load().kernels) <= {kernel.name for kernel in KERNELS}


@pytest.fixture
def record(tmp_path, monkeypatch):
    def write(content):
        (tmp_path / "verified.json").write_text(json.dumps(content))
        verified.load.cache_clear()

    monkeypatch.setattr(verified, "path", lambda: tmp_path / "verified.json")
    verified.load.cache_clear()
    yield write
    verified.load.cache_clear()


@pytest.mark.parametrize(
    ("status", "changed", "result"),
    [("verified", False, True), ("verified", True, False), ("unverified", False, False)],
)
def test_only_a_record_of_this_very_source_verifies(record, status, changed, result):
    kernel = KERNELS[0]
    digest = "0" * 16 if changed else source.source_hash(kernel)
    entry = {"source_hash": digest, "status": status, "gpu": "NVIDIA H200", "tests": {}, "cubins": {}}
    record({"schema": 1, "kernels": {kernel.name: entry}})
    assert verified.is_verified(kernel) is result
    assert CudaKernel(kernel).verified is result


def test_without_a_record_nothing_is_verified(record):
    assert not verified.is_verified(KERNELS[0])


def test_another_schema_is_refused(record):
    record({"schema": 99, "kernels": {}})
    with pytest.raises(ValueError, match="schema 99"):
        verified.load()
