"""Raw timings of every CUDA backend, unverified ones too: `python -m suite.verify_kernels RESULT.json`.

For verified.json and the kernel tables only: each backend alone, data resident, so no verdict comes from it.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

import backends
from backends import _cuda_compile, _cuda_driver, _cuda_source
from backends.base import Backend, Problem, Session

from . import gate, verify_compile
from .journal import atomic_write
from .record import GateResult

WARM_S = 0.05
SAMPLES = 20
FEW_SAMPLES = 5
"""As many at least; with SAMPLES of them a kernel that takes LONG_S in all would hold up the rest."""
LONG_S = 0.5
GEMM_SIZES = (256, 1024, 4096)
GEMV_SIZES = (1024, 4096, 8192)
VECTOR_SIZES = (1 << 20, 1 << 24)


def kinds() -> list[tuple[str, str]]:
    """Every (dtype, math) that a kernel offers, as far as its arrays can be made here."""
    kernels = (k for k in _cuda_source.all_kernels().values() if isinstance(k, _cuda_source.Kernel))
    found = sorted({pair for k in kernels for pair in zip(k.header.dtypes, k.header.math, strict=True)})
    return [(dtype, math) for dtype, math in found if dtype != "bfloat16" or _has_bfloat16()]


def problems() -> Iterator[Problem]:
    """Every op, dtype and arithmetic at a few sizes."""
    for dtype, math in kinds():
        for n in GEMM_SIZES:
            yield Problem(op="gemm", m=n, n=n, k=n, dtype=dtype, math=math)
        for n in GEMV_SIZES:
            for trans_a in (False, True):
                yield Problem(op="gemv", m=n, n=n, dtype=dtype, math=math, trans_a=trans_a)
        for n in VECTOR_SIZES:
            yield Problem(op="vector_add", n=n, dtype=dtype, math=math)
            yield Problem(op="copy", n=n, dtype=dtype, math=math)


def _has_bfloat16() -> bool:
    try:
        backends.allocate(Problem(n=1, dtype="bfloat16"))
    except backends.Unavailable:
        return False
    return True


def measure() -> list[dict[str, Any]]:
    """One entry for each CUDA backend and problem that it supports."""
    cuda = [b for b in backends.all_backends() if b.device == "cuda" and b.probe().ok]
    found = []
    for problem in problems():
        candidates = [b for b in cuda if b.supports(problem) is None]
        if candidates:
            found += entries(candidates, problem, backends.allocate(problem))
    return found


def entries(
    candidates: Sequence[Backend], problem: Problem, operands: backends.Operands
) -> list[dict[str, Any]]:
    """All backends on one problem: opened, checked together, and timed one after the other."""
    found: list[dict[str, Any]] = []
    opened: list[tuple[dict[str, Any], Session]] = []
    for backend in candidates:
        about: dict[str, Any] = {"backend": backend.name, "verified": backend.verified, "problem": problem}
        found.append(about)
        try:
            opened.append((about, backend.open(problem, operands)))
        except Exception as error:  # the next kernel may still work
            about["error"] = f"{type(error).__name__}: {error}"
    judged = gate.check_all([session for _, session in opened])
    backends.fill_random(operands, seed=1)
    for (about, session), result in zip(opened, judged, strict=True):
        about |= entry(session, result)
        session.close()
    return found


def entry(session: Session, judged: GateResult) -> dict[str, Any]:
    """Samples in seconds of one resident run with its synchronisation; or the error."""
    if not judged.ok:
        return {"error": f"gate: {judged.failed}: {judged.detail}"}
    try:
        session.activate()
        session.upload()
        return {"info": session.info, "max_error": judged.max_error} | timed(session)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def timed(session: Session) -> dict[str, Any]:
    """Warm up for WARM_S seconds, then single runs; the device's own split where it can be had."""
    end = time.perf_counter() + WARM_S
    while time.perf_counter() < end:
        session.enqueue("resident")
    samples: list[float] = []
    while len(samples) < (SAMPLES if sum(samples) < LONG_S else FEW_SAMPLES):
        start = time.perf_counter()
        session.enqueue("resident")
        samples.append(time.perf_counter() - start)
    return {"samples_s": samples, "parts_s": session.parts()}


def cubin_hashes() -> dict[str, dict[str, str]]:
    """Kernel -> dtype, and layout where it is compiled for each -> SHA-256 of the cubin for this device."""
    compute = _cuda_driver.device(0).compute
    found: dict[str, dict[str, str]] = {}
    for case in verify_compile.cases(compute):
        layout = "".join("nt"[value] for name, value in case.more if name.startswith("TRANS"))
        name = f"{case.dtype} {layout}".strip()
        found.setdefault(case.kernel, {})[name] = cubin_hash(case, _cuda_compile.arch(*compute))
    return found


def cubin_hash(case: verify_compile.Case, target: str) -> str:
    """SHA-256 of one cubin, or why there is none."""
    try:
        cubin = _cuda_compile.compile_kernel(case.kernel, case.dtype, target, case.more).cubin
    except backends.Unavailable as error:
        return f"none: {error}"
    return hashlib.sha256(cubin).hexdigest()


def main(path: Path) -> int:
    """Measure and write; exit status 1 when nothing could be measured."""
    timings = measure()
    compiler = "NVRTC " + ".".join(map(str, _cuda_compile.version()))
    found = {"compiler": compiler, "cubins": cubin_hashes(), "timings": timings}
    atomic_write(path, msgspec.json.encode(found))
    return 0 if timings else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
