"""How the C library stands against NumPy's BLAS: both timed in turn, in short rounds, in one process.

    python cpu/bench_ratio.py --sizes 256,512,1024 --dtype float32 --threads 1
    GEMM_ISA=avx2 OPENBLAS_CORETYPE=Haswell python cpu/bench_ratio.py       (AVX2 against AVX2)

Each turn begins with an untimed stretch, in which the other side's spinning threads go to sleep and one's own
wake up. A turn's figure is its least disturbed call. A row gives GFLOP/s of either side, and the median and
the quartiles over the rounds of time(NumPy) / time(ours): above 1 ours is faster.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable

import numpy as np
import threadpoolctl

import backends
from backends.cpus import wait_until_quiet

WAKE_S, TURN_S = 0.04, 0.04


def turn(call: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of the least disturbed call in a turn of `TURN_S`, after an untimed stretch of `WAKE_S`.

    That begins once the other side's threads sleep: OpenBLAS's spin on for longer than a turn lasts.
    """
    wait_until_quiet()
    end = time.perf_counter() + WAKE_S
    while time.perf_counter() < end:
        call()
    samples, end = [], time.perf_counter() + TURN_S
    while not samples or time.perf_counter() < end:
        start = clock()
        call()
        samples.append(clock() - start)
    return min(samples)


def compare(
    m: int, n: int, k: int, dtype: str, rounds: int, clock: Callable[[], float]
) -> tuple[float, float, list[float]]:
    """(seconds of ours, of NumPy, their ratios by round) for one shape."""
    rng = np.random.default_rng(0)
    A, B = (rng.random(shape).astype(dtype) - np.dtype(dtype).type(0.5) for shape in ((m, k), (k, n)))
    C = np.empty((m, n), dtype)
    with backends.get("native").plan(A, B, C) as plan:
        peer_call = functools.partial(np.matmul, A, B, out=C)
        pairs = [(turn(plan, clock), turn(peer_call, clock)) for _ in range(rounds)]
    ours, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
    return ours, peer, sorted(peer / ours for ours, peer in pairs)


def shape(text: str) -> tuple[int, int, int]:
    """`256` or `64x64x4096` as M, N, K."""
    sizes = [int(part) for part in text.split("x")]
    return (sizes[0],) * 3 if len(sizes) == 1 else (sizes[0], sizes[1], sizes[2])


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="64,128,256,384,512,768,1024,2048", help="M=N=K, or MxNxK")
    parser.add_argument("--dtype", default="float32,float64")
    parser.add_argument("--threads", default="1,all")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--cpu-time", action="store_true", help="of the calling thread (1 thread, busy machine)"
    )
    options = parser.parse_args()
    clock = time.thread_time if options.cpu_time else time.perf_counter
    detail = backends.get("native").probe().detail
    most = detail["threads_max"]
    print(f"ours {detail['isa']}; NumPy {backends.get('numpy').probe().detail.get('architecture')}")
    for threads in [most if t == "all" else int(t) for t in options.threads.split(",")]:
        for dtype in options.dtype.split(","):
            for m, n, k in map(shape, options.sizes.split(",")):
                with threadpoolctl.threadpool_limits(threads):
                    ours, peer, ratios = compare(m, n, k, dtype, options.rounds, clock)
                work, middle = 2e-9 * m * n * k, statistics.median(ratios)
                low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
                print(
                    f"{threads} thr {dtype} {m}x{n}x{k}: {work / ours:7.1f} {work / peer:7.1f} GFLOP/s, "
                    f"ratio {middle:.2f} ({low:.2f} to {high:.2f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
