"""Every kernel in cuda/kernels as a backend of its own, compiled for the device that is there.

A kernel is one .cu file with a TOML block at its top; each [[variant]] is a backend: `cuda:02_shared_tile`,
`cuda:01_naive/uncoalesced`. To add one, add a file.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

from . import _cuda_compile as compiling
from . import _cuda_driver as cuda
from . import _cuda_launch as launching
from . import _cuda_probe as probing
from . import _cuda_tma as tma
from . import _cuda_verified as verified
from ._cuda_session import FORKED, Bound, CudaSession
from ._cuda_source import HeaderError, Kernel, all_kernels
from .base import Availability, Backend, HostMemory, Problem, SessionInfo, Unavailable, require
from .operands import Operands


class CudaKernel(Backend):
    """One variant of one kernel file."""

    device: Literal["cpu", "cuda"] = "cuda"
    strided = False

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.name = kernel, kernel.name
        self.verified = verified.is_verified(kernel)

    def probe(self) -> Availability:
        found = probing.probe()
        if not found.ok:
            return found
        refused = self.kernel.refuses(*cuda.device(0).compute)
        if refused:
            cure = "use a newer GPU" if "needs" in refused else "use a kernel of a lower rung"
            return Availability(ok=False, reason=refused, cure=cure, detail=found.detail)
        missing = self._missing_header
        if missing is not None:
            reason, _, cure = missing.partition(": ")
            return Availability(ok=False, reason=reason, cure=cure, detail=found.detail)
        return found

    @functools.cached_property
    def _missing_header(self) -> str | None:
        return compiling.missing_header(self.kernel)

    def supports(self, problem: Problem) -> str | None:
        h, p = self.kernel.header, problem
        if p.op != h.op:
            return f"{self.name} computes {h.op}, not {p.op}"
        if (p.dtype, p.math) not in zip(h.dtypes, h.math, strict=True):
            offered = ", ".join(f"{d} in {m}" for d, m in zip(h.dtypes, h.math, strict=True))
            return f"{self.name} computes {offered}, not {p.dtype} in {p.math}"
        stored = "nt"[p.trans_a] + ("nt"[p.trans_b] if p.op == "gemm" else "")
        if h.transposes and stored not in h.transposes:
            return f"{self.name} takes transposes {' or '.join(h.transposes)}, not {stored}"
        if h.launcher == "tma" and max(p.m, p.n, p.k, p.batch) > tma.MOST:
            return f"{self.name} takes extents up to {tma.MOST}"
        count = launching.tiles(self.kernel, p)
        if count > launching.MAX_BLOCKS:
            return f"{self.name} would need {count} blocks, a grid has at most {launching.MAX_BLOCKS}"
        return None

    def open(
        self,
        problem: Problem,
        operands: Operands,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
        threads: int | None = None,
    ) -> CudaSession:
        require(self, problem)
        device = open_device(devices)
        found = launching.load(self.kernel, problem, device)
        info = self._info(problem, found, device, host_memory)
        info.config.update(launching.occupancy(self.kernel, found, device))
        return CudaSession(problem, operands, info, device, self._bind)

    def _info(
        self, problem: Problem, found: launching.Function, device: cuda.Device, host_memory: HostMemory
    ) -> SessionInfo:
        v, splits = self.kernel.variant, launching.split(self.kernel, problem, found, device).splits
        config: dict[str, Any] = {
            "threads": list(v.threads),
            "tile": list(v.tile),
            "blocks": launching.blocks(self.kernel, problem, device.multiprocessors) * splits,
            **({"splits": splits} if self.kernel.header.launcher == "split_k" else {}),
            "dynamic_shared_bytes": v.shared_bytes,
            "host_memory": host_memory,
            **v.defines,
            **found.resources,
        }
        return SessionInfo(
            kernel=self.kernel.header.entry,
            kernel_hash=found.compiled.kernel_hash,
            config=config,
            compile_s=found.compiled.compile_s,
            tile=self._tile(problem),
        )

    def _tile(self, problem: Problem) -> tuple[int, int] | None:
        """Rows and columns of C that a block computes."""
        rows, columns, _ = self.kernel.variant.tile
        if self.kernel.header.op != "gemm":
            return None
        return (columns, rows) if tma.swapped(self.kernel, problem) else (rows, columns)

    def _bind(self, session: CudaSession) -> Bound:
        places = launching.places(session.problem, session.addresses)
        launch = launching.prepare(self.kernel, session.problem, session.device, places, session.stream)
        session.info.config.update(launch.config)
        return Bound(launch.run, launch.empty, self._explain, launch.release, launch.keep)

    def _explain(self, code: int) -> Exception:
        return cuda.CudaError(f"launch of {self.name}", code, *cuda.driver().error_text(code))


def open_device(devices: tuple[int, ...]) -> cuda.Device:
    """The one device of a session. Unavailable if it is not there or CUDA was forked."""
    if cuda.forked():
        raise Unavailable(FORKED)
    count = cuda.driver().device_count()
    if len(devices) != 1 or not 0 <= devices[0] < count:
        raise Unavailable(f"devices {devices} asked for: give one of 0 to {count - 1}")
    return cuda.device(devices[0])


class BrokenKernel(Backend):
    """Stands in for a kernel file whose header is wrong, so that the reason is shown."""

    device: Literal["cpu", "cuda"] = "cuda"
    verified = False

    def __init__(self, name: str, error: HeaderError) -> None:
        self.name, self.error = name, error

    def probe(self) -> Availability:
        return Availability(ok=False, reason=str(self.error), cure="correct the TOML block of that file")

    def supports(self, problem: Problem) -> str | None:
        return str(self.error)

    def open(self, problem: Problem, operands: Operands, **_: Any) -> CudaSession:
        raise Unavailable(str(self.error))


def load() -> list[Backend]:
    """A backend for every variant of every kernel file; reads headers only."""
    return [
        CudaKernel(kernel) if isinstance(kernel, Kernel) else BrokenKernel(name, kernel)
        for name, kernel in all_kernels().items()
    ]
