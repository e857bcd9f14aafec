"""The CUDA driver API, as far as it is needed: ctypes on libcuda, launches through CuPy where it is there.

Measured per call without the work behind it: a prepared ctypes launch 0.54 us, CuPy's compiled
`launchKernel` 0.08 us, a prepared ctypes copy 0.25 us, a synchronisation 0.13 us.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, NamedTuple

LIBRARY = "libcuda.so.1"

OUT_OF_MEMORY, NO_DEVICE, NOT_INITIALIZED = 2, 100, 3
COMPUTE_MAJOR, COMPUTE_MINOR, MULTIPROCESSORS, L2_BYTES = 75, 76, 16, 38
THREADS_PER_MULTIPROCESSOR = 39
CONCURRENT_MANAGED_ACCESS = 89
SHARED_BYTES, LOCAL_BYTES, REGISTERS = 1, 3, 4
_MAX_DYNAMIC_SHARED = 8
_STREAM_NON_BLOCKING = 1
_EVENT_WITHOUT_TIME = 2
_PINNED_FOR_ALL_CONTEXTS = 1
_MANAGED_FOR_ALL = 1
HOST = -1
"""In place of a device's number: the CPU's memory."""
READ_MOSTLY, PREFERRED_LOCATION, ACCESSED_BY = 1, 3, 5
"""Advice on managed memory; the number above each takes it back."""
_CAPTURE_RELAXED = 2

_INT, _PTR = POINTER(c_int), POINTER(c_void_p)
_SIGNATURES: dict[str, list[Any]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [_INT],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
    "cuDeviceGetCount": [_INT],
    "cuDeviceGet": [_INT, c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [_INT, c_int, c_int],
    "cuDeviceTotalMem_v2": [POINTER(c_size_t), c_int],
    "cuDevicePrimaryCtxRetain": [_PTR, c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxGetCurrent": [_PTR],
    "cuCtxSynchronize": [],
    "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemHostAlloc": [_PTR, c_size_t, c_uint],
    "cuMemFreeHost": [c_void_p],
    "cuMemAllocManaged": [POINTER(c_uint64), c_size_t, c_uint],
    "cuMemAdvise": [c_uint64, c_size_t, c_int, c_int],
    "cuStreamCreate": [_PTR, c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuEventCreate": [_PTR, c_uint],
    "cuEventDestroy_v2": [c_void_p],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventSynchronize": [c_void_p],
    "cuEventElapsedTime": [POINTER(c_float), c_void_p, c_void_p],
    "cuModuleLoadData": [_PTR, c_char_p],
    "cuModuleGetFunction": [_PTR, c_void_p, c_char_p],
    "cuFuncGetAttribute": [_INT, c_int, c_void_p],
    "cuFuncSetAttribute": [c_void_p, c_int, c_int],
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": [_INT, c_void_p, c_int, c_size_t],
    "cuStreamBeginCapture_v2": [c_void_p, c_int],
    "cuStreamEndCapture": [c_void_p, _PTR],
    "cuGraphInstantiateWithFlags": [_PTR, c_void_p, c_uint64],
    "cuGraphDestroy": [c_void_p],
    "cuGraphExecDestroy": [c_void_p],
}


class _Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D of cuda.h."""

    _fields_ = [
        (f"{end}_{name}", kind)
        for end in ("source", "target")
        for name, kind in (
            ("x", c_size_t),
            ("y", c_size_t),
            ("memory", c_int),
            ("host", c_void_p),
            ("device", c_uint64),
            ("array", c_void_p),
            ("pitch", c_size_t),
        )
    ] + [("width", c_size_t), ("height", c_size_t)]


_ON_HOST, _ON_DEVICE = 1, 2


class CudaError(RuntimeError):
    """A call of CUDA that failed; `code` is its number."""

    def __init__(self, call: str, code: int, name: str, text: str) -> None:
        super().__init__(f"{call}: {name} ({code}): {text}")
        self.code, self.name = code, name


class Driver:
    """One loaded libcuda. Methods raise CudaError; addresses and handles are plain integers."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._lib = ctypes.CDLL(library)
        for name, argtypes in _SIGNATURES.items():
            getattr(self._lib, name).argtypes = argtypes

    def check(self, call: str, code: int) -> None:
        """Raise the error that `code` stands for, unless it is 0."""
        if code:
            raise CudaError(call, code, *self.error_text(code))

    def error_text(self, code: int) -> tuple[str, str]:
        """CUDA's name and description of an error."""
        return self._text("cuGetErrorName", code), self._text("cuGetErrorString", code)

    def _text(self, call: str, code: int) -> str:
        text = c_char_p()
        getattr(self._lib, call)(code, byref(text))
        return (text.value or b"unknown error").decode()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the table above."""
        self.check(name, getattr(self._lib, name)(*arguments))

    def get(self, name: str, kind: Any, *arguments: Any) -> Any:
        """Call a function that returns one value through its first argument."""
        value = kind()
        self.call(name, byref(value), *arguments)
        return value.value or 0

    def prepared(self, name: str, *arguments: Any) -> Callable[[], int]:
        """A call with its arguments converted once; it returns the error code, 0 for success."""
        return functools.partial(self._lib[name], *arguments)

    # -- devices

    def init(self) -> None:
        """Start CUDA in this process; it must not be forked afterwards."""
        self.call("cuInit", 0)

    def version(self) -> int:
        """The newest CUDA version this driver supports, 13000 for 13.0."""
        return int(self.get("cuDriverGetVersion", c_int))

    def device_count(self) -> int:
        return int(self.get("cuDeviceGetCount", c_int))

    def device_name(self, ordinal: int) -> str:
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, self.get("cuDeviceGet", c_int, ordinal))
        return name.value.decode()

    def attribute(self, attribute: int, ordinal: int) -> int:
        """A device attribute by its number in cuda.h."""
        handle = self.get("cuDeviceGet", c_int, ordinal)
        return int(self.get("cuDeviceGetAttribute", c_int, attribute, handle))

    def total_memory(self, ordinal: int) -> int:
        """Bytes on the card."""
        return int(self.get("cuDeviceTotalMem_v2", c_size_t, self.get("cuDeviceGet", c_int, ordinal)))

    def primary_context(self, ordinal: int) -> int:
        """The context that CuPy and the CUDA runtime use too; kept until the process ends."""
        return int(self.get("cuDevicePrimaryCtxRetain", c_void_p, self.get("cuDeviceGet", c_int, ordinal)))

    def set_context(self, context: int) -> None:
        """Make `context` the calling thread's."""
        self.call("cuCtxSetCurrent", context)

    def current_context(self) -> int:
        """The calling thread's, 0 without one."""
        return int(self.get("cuCtxGetCurrent", c_void_p))

    # -- memory

    def free_memory(self) -> int:
        """Bytes free on the current device."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def alloc(self, size: int) -> int:
        """Address of `size` > 0 bytes of device memory."""
        return int(self.get("cuMemAlloc_v2", c_uint64, size))

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", address)

    def copy_in(self, device: int, host: int, size: int, stream: int) -> Callable[[], int]:
        """Prepared copy of `size` bytes from host to device."""
        arguments = c_uint64(device), c_void_p(host), c_size_t(size), c_void_p(stream)
        return self.prepared("cuMemcpyHtoDAsync_v2", *arguments)

    def copy_out(self, host: int, device: int, size: int, stream: int) -> Callable[[], int]:
        """Prepared copy of `size` bytes from device to host."""
        arguments = c_void_p(host), c_uint64(device), c_size_t(size), c_void_p(stream)
        return self.prepared("cuMemcpyDtoHAsync_v2", *arguments)

    def copy_2d_in(
        self, device: int, device_pitch: int, host: int, host_pitch: int, width: int, rows: int, stream: int
    ) -> Callable[[], int]:
        """Prepared copy to the device of `rows` pieces of `width` bytes, which lie a pitch of bytes apart."""
        copy = _Copy2D(source_memory=_ON_HOST, source_host=host, source_pitch=host_pitch)
        copy.target_memory, copy.target_device, copy.target_pitch = _ON_DEVICE, device, device_pitch
        copy.width, copy.height = width, rows
        return self.prepared("cuMemcpy2DAsync_v2", byref(copy), c_void_p(stream))

    def copy_2d_out(
        self, host: int, host_pitch: int, device: int, device_pitch: int, width: int, rows: int, stream: int
    ) -> Callable[[], int]:
        """The same from the device to the host."""
        copy = _Copy2D(source_memory=_ON_DEVICE, source_device=device, source_pitch=device_pitch)
        copy.target_memory, copy.target_host, copy.target_pitch = _ON_HOST, host, host_pitch
        copy.width, copy.height = width, rows
        return self.prepared("cuMemcpy2DAsync_v2", byref(copy), c_void_p(stream))

    def zero(self, device: int, size: int, stream: int) -> Callable[[], int]:
        """Prepared filling of `size` bytes with zeros."""
        arguments = c_uint64(device), ctypes.c_ubyte(0), c_size_t(size), c_void_p(stream)
        return self.prepared("cuMemsetD8Async", *arguments)

    # -- host memory that the device reaches

    def alloc_pinned(self, size: int) -> int:
        """Address of `size` > 0 bytes of host memory that copies need not stage; for every context."""
        return int(self.get("cuMemHostAlloc", c_void_p, size, _PINNED_FOR_ALL_CONTEXTS))

    def free_pinned(self, address: int) -> None:
        self.call("cuMemFreeHost", address)

    def alloc_managed(self, size: int) -> int:
        """Address, on host and device, of `size` > 0 bytes that move to who touches them; `free` frees."""
        return int(self.get("cuMemAllocManaged", c_uint64, size, _MANAGED_FOR_ALL))

    def prefetch(self, address: int, size: int, to: int, stream: int) -> Callable[[], int]:
        """Prepared move of managed memory to device number `to`, or to the HOST.

        The plain name keeps its four arguments in libcuda; CUDA 13's header calls another one by it.
        """
        arguments = c_uint64(address), c_size_t(size), c_int(to), c_void_p(stream)
        return self.prepared("cuMemPrefetchAsync", *arguments)

    def advise(self, address: int, size: int, advice: int, device: int) -> None:
        """Say how managed memory is used by device number `device`, or by the HOST; a plain name as well."""
        self.call("cuMemAdvise", address, size, advice, device)

    # -- streams and events

    def stream(self) -> int:
        """A new stream that waits for no other one."""
        return int(self.get("cuStreamCreate", c_void_p, _STREAM_NON_BLOCKING))

    def synchronize(self, stream: int) -> Callable[[], int]:
        """Prepared wait for all that was put into `stream`."""
        return self.prepared("cuStreamSynchronize", c_void_p(stream))

    def event(self, timing: bool = True) -> int:
        """An event; one without timing is only waited for, and costs less."""
        return int(self.get("cuEventCreate", c_void_p, 0 if timing else _EVENT_WITHOUT_TIME))

    def record(self, event: int, stream: int) -> Callable[[], int]:
        """Prepared: `event` is what `stream` has been given so far."""
        return self.prepared("cuEventRecord", c_void_p(event), c_void_p(stream))

    def wait_event(self, stream: int, event: int) -> Callable[[], int]:
        """Prepared: what `stream` is given from now on waits for `event` as last recorded, the host not."""
        return self.prepared("cuStreamWaitEvent", c_void_p(stream), c_void_p(event), c_uint(0))

    def elapsed_s(self, start: int, end: int) -> float:
        """Seconds between two recorded events, after waiting for the second."""
        self.call("cuEventSynchronize", end)
        return float(self.get("cuEventElapsedTime", c_float, start, end)) * 1e-3

    # -- graphs

    def begin_capture(self, stream: int) -> None:
        """From now on launches into `stream` are recorded, not made."""
        self.call("cuStreamBeginCapture_v2", stream, _CAPTURE_RELAXED)

    def end_capture(self, stream: int) -> int:
        """The graph of what was recorded; CudaError where the stream was given what no graph takes."""
        graph = c_void_p()
        self.call("cuStreamEndCapture", stream, byref(graph))
        return graph.value or 0

    def executable(self, graph: int) -> int:
        """The graph made ready for launches; `graph` itself is freed."""
        try:
            return int(self.get("cuGraphInstantiateWithFlags", c_void_p, graph, 0))
        finally:
            self.call("cuGraphDestroy", graph)

    def graph_launch(self, executable: int, stream: int) -> Callable[[], int]:
        """Prepared launch of a whole graph."""
        return self.prepared("cuGraphLaunch", c_void_p(executable), c_void_p(stream))

    # -- kernels

    def blocks_per_multiprocessor(self, function: int, threads: int, shared_bytes: int) -> int:
        """How many blocks of that size one multiprocessor runs at once; 0 where none fits."""
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return int(self.get(name, c_int, function, threads, shared_bytes))

    def function(self, cubin: bytes, entry: str, shared_bytes: int = 0) -> int:
        """Load a cubin into the current context, where it stays, and find a kernel in it."""
        module = self.get("cuModuleLoadData", c_void_p, cubin)
        function = int(self.get("cuModuleGetFunction", c_void_p, module, entry.encode()))
        if shared_bytes > 48 * 1024:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)
        return function

    def function_attribute(self, attribute: int, function: int) -> int:
        return int(self.get("cuFuncGetAttribute", c_int, attribute, function))

    def launch(
        self, function: int, grid: int, block: tuple[int, int], shared_bytes: int, stream: int, arguments: int
    ) -> Callable[[], Any]:
        """Prepared launch of a one-dimensional grid; `arguments` is the address of void*[]."""
        sizes = (grid, 1, 1, *block, 1, shared_bytes)
        compiled = _compiled_launch()
        if compiled is not None:
            return functools.partial(compiled, function, *sizes, stream, arguments, 0)
        tail = c_void_p(stream), c_void_p(arguments), c_void_p(0)
        return self.prepared("cuLaunchKernel", c_void_p(function), *map(c_uint, sizes), *tail)


def _compiled_launch() -> Callable[..., None] | None:
    """CuPy's cuLaunchKernel, which returns None or raises; None where CuPy or the call is missing."""
    try:
        import cupy  # noqa: F401
        from cupy_backends.cuda.api import driver
    except Exception:  # an unusable CuPy is reported by the probe; ctypes launches as well
        return None
    return getattr(driver, "launchKernel", None)


class Device(NamedTuple):
    """A device ready for work."""

    driver: Driver
    ordinal: int
    context: int
    name: str
    compute: tuple[int, int]
    multiprocessors: int

    def activate(self) -> None:
        """Make this device the calling thread's."""
        self.driver.set_context(self.context)

    def lost(self) -> str:
        """Why no call works any more in this process: what a kernel did to the context; "" while all is well.

        A wrong address or instruction is no error of one launch: every later call returns the same code.
        """
        try:
            self.activate()
            self.driver.call("cuCtxSynchronize")
        except CudaError as error:
            return str(error).partition(": ")[2]
        return ""


@functools.cache
def driver() -> Driver:
    """The driver, loaded and started once. OSError without one, CudaError when it does not start."""
    found = Driver(LIBRARY)
    found.init()
    _started.add(os.getpid())
    return found


@functools.cache
def device(ordinal: int = 0) -> Device:
    """A device by number, its primary context kept for the rest of the process."""
    d = driver()
    compute = d.attribute(COMPUTE_MAJOR, ordinal), d.attribute(COMPUTE_MINOR, ordinal)
    context = d.primary_context(ordinal)
    return Device(d, ordinal, context, d.device_name(ordinal), compute, d.attribute(MULTIPROCESSORS, ordinal))


_started: set[int] = set()


def forked() -> bool:
    """True in a child of a process that had already used CUDA here."""
    return bool(_started) and os.getpid() not in _started
