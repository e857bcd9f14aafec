"""The CPU stand-in is there to catch missing barriers, bounds and waits: every rung it runs has some planted.

Each fault is [file, what stands there, what is put in its place]; see tests/cuda_on_cpu/faults.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import cuda_cases as cases
from tests.cuda_on_cpu import device as stand_in

pytestmark = pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here")

ROOT = Path(__file__).resolve().parents[2]

NAIVE = "01_naive.cu"
SHARED = "02_shared_tile.cu"
BANKS = "03_bank_conflict.cu"
THREAD = "04_thread_tile.cu"
REGISTER = "05_register_tile.cu"
WARP = "07_warp_tile.cu"
COPIES = "async_tile.cuh"
STAGED_COPIES = "pipeline.cuh"
TILE = "register_tile.cuh"
VECTOR = "vector.cuh"
EPILOGUE = "epilogue.cuh"

WMMA = "08_wmma.cu"
STAGED = "09_wmma_staged.cu"
GEMM = "mma_gemm.cuh"
PIECES = "tile_copy.cuh"
SLAB = "slab_epilogue.cuh"

TURN = "      __syncthreads();\n      next_tile"  # from one tile of K to the next
WRITE = "      write_slab(slab, i);\n"

WAIT = "cp_async_wait<STAGES - 2>();"
LATE = "cp_async_wait<STAGES - 1>();"  # one stage may be missing
AHEAD = "cp_async_wait<COUNT - 2>();"
TOO_LATE = "cp_async_wait<COUNT - 1>();"
FIRST = "__syncthreads(); // the first stage is there"
NEXT = "__syncthreads(); // the next stage is there, and nobody reads this one any more"
STORES = {
    "no bound on rows stored": [TILE, "if (at >= p.m) return;", ""],
    "no bound on columns stored": [EPILOGUE, "if (vectors && left >= VECTOR) {", "if (vectors) {"],
    "no bound on the last columns": [EPILOGUE, "if (e < left) store_result", "store_result"],
    "vectors at any address": [VECTOR, "(unsigned long long)data % 16 == 0 &&", ""],
}
COPYING = {
    "no bound on copies along i": [COPIES, "(e < inside,", "(true,"],
    "no bound on the first copies": [COPIES, "      if (e < inside)\n", ""],
    "no zeros behind K": [COPIES, "k < depth ? int(sizeof(T)) : 0", "int(sizeof(T))"],
}

PIECEWISE = {
    "no bound on rows copied": [PIECES, "i * STEP < rows ? bytes : 0", "bytes"],
    "no bound on columns copied": [PIECES, "max(0, min(columns * SIZE, WIDTH))", "WIDTH"],
    "no bound on rows held": [
        PIECES,
        "i * STEP < rows ? max(0, min(columns, VECTOR)) : 0",
        "max(0, min(columns, VECTOR))",
    ],
}
SLABS = {
    "no bound on rows stored": [SLAB, "int(at) < rows && ", ""],
    "no bound on columns stored": [SLAB, " && col + s < columns;", ";"],
    "no look at the last columns": [SLAB, "p.n % VECTOR == 0 && ", ""],
}
FRAGMENT_SLABS = {
    "no bound on rows stored": ["fragment_slab.cuh", "row < p.m ? p.n - col : 0", "p.n - col"],
    "no bound on columns stored": ["fragment_slab.cuh", "row < p.m ? p.n - col", "row < p.m ? 1 << 20"],
}

FAULTS = {
    "cuda:01_naive": {
        "no bound": [NAIVE, "if (row >= p.m || col >= p.n) return;", ""],
        "beta = 0 reads C": ["problem.cuh", "if (beta != Acc(0)) result", "result"],
    },
    "cuda:02_shared_tile": {
        "no first barrier": [SHARED, "__syncthreads(); // both tiles", "// both tiles"],
        "no second barrier": [SHARED, "__syncthreads(); // everyone", "// everyone"],
        "no bound on loads": [SHARED, "row + i < rows && col + j < cols;", "true;"],
        "no bound on stores": [SHARED, "if (row >= p.m || col >= p.n) return; // the last", "// the last"],
        "early return": [SHARED, "  Acc sum = 0;\n", "  if (tile.row + y >= p.m) return;\n  Acc sum = 0;\n"],
    },
    "cuda:03_bank_conflict": {
        "no first barrier": [BANKS, "__syncthreads(); // both tiles", "// both tiles"],
        "no second barrier": [BANKS, "__syncthreads(); // everyone", "// everyone"],
        "no bound on loads": [BANKS, "first_i + i < extent_i && first_k + k < extent_k;", "true;"],
        "no bound on stores": [BANKS, "if (row >= p.m || col >= p.n) return; // the last", "// the last"],
        "early return": [BANKS, "  Acc sum = 0;\n", "  if (tile.col + x >= p.n) return;\n  Acc sum = 0;\n"],
    },
    "cuda:04_thread_tile": {
        "no first barrier": [THREAD, "__syncthreads(); // both tiles", "// both tiles"],
        "no second barrier": [THREAD, "__syncthreads(); // everyone", "// everyone"],
        "no bound on loads": [THREAD, "row + i < rows && col + j < cols;", "true;"],
        "no bound on rows stored": [THREAD, "if (row < p.m && col < p.n)", "if (col < p.n)"],
        "no bound on columns stored": [THREAD, "if (row < p.m && col < p.n)", "if (row < p.m)"],
    },
    "cuda:05_register_tile": {
        "no first barrier": [REGISTER, "__syncthreads(); // both tiles", "// both tiles"],
        "no second barrier": [REGISTER, "__syncthreads(); // everyone", "// everyone"],
        "no bound on rows loaded": [REGISTER, "i + e < rows && k < depth;", "k < depth;"],
        "no bound on k loaded": [REGISTER, "i + e < rows && k < depth;", "i + e < rows;"],
        "edges copied as whole": [REGISTER, "rows >= TILE_M && depth >= TILE_K;", "true;"],
        **STORES,
    },
    "cuda:06_cp_async": {
        "no wait": [STAGED_COPIES, AHEAD, ""],
        "a wait for one stage too few": [STAGED_COPIES, AHEAD, TOO_LATE],
        "no barrier": [STAGED_COPIES, "__syncthreads(); // this stage", "// this stage"],
        **COPYING,
        **STORES,
    },
    "cuda:06_cp_async/multistage": {
        "a wait for one stage too few": [STAGED_COPIES, AHEAD, TOO_LATE],
        "no group for an empty stage": [STAGED_COPIES, "OF_A);\n    cp", "OF_A);\n    if (step < steps) cp"],
    },
    "cuda:07_warp_tile": {
        "no first wait": [WARP, f"{AHEAD}\n    {FIRST}", FIRST],
        "no first barrier": [WARP, FIRST, ""],
        "no wait": [WARP, f"      {AHEAD}\n", ""],
        "no barrier": [WARP, NEXT, ""],
        "no barrier before rows are read": [WARP, "meet(); // the slabs are there", ""],
        "no barrier behind it": [WARP, "meet(); // they have been read", ";"],
        "no bound on copies along i": COPYING["no bound on copies along i"],
        "edges taken for whole": [WARP, "row + BM <= p.m && col + BN <= p.n)", "true)"],
        **SLABS,
    },
    "cuda:07_warp_tile/sliced": {
        "no barrier between slices": [WARP, "if (SLICES > 1) __syncthreads();", ""],
        "no barrier between passes": [WARP, "if (pass > 0) __syncthreads();", ""],
        "one slice's sums": [SLAB, "part < PARTS", "part < 1"],
    },
    "cuda:08_wmma": {
        "edges read whole": [WMMA, "row + H <= from.rows && col + W <= from.columns", "true"],
        "no look at alignment": [WMMA, "if (from.aligned && ", "if ("],
        "no bound on staged rows": [WMMA, "if (r < from.rows && c", "if (c"],
        "staged too early": [WMMA, "__syncwarp(); // the fragment", "// the fragment"],
        "read too early": [WMMA, "    to[i] = entry;\n  }\n  __syncwarp();", "    to[i] = entry;\n  }\n"],
        **FRAGMENT_SLABS,
    },
    "cuda:09_wmma_staged/128x128": {
        "a wait for one stage too few": [STAGED, WAIT, LATE],
        "no barrier": [STAGED, "__syncthreads(); // the next tile", "// the next tile"],
        "no last barrier": [STAGED, "__syncthreads(); // nobody", "// nobody"],
        "no bound on rows copied": PIECEWISE["no bound on rows copied"],
    },
    "cuda:10_mma_sync/64x64": {
        "no wait": [GEMM, f"      {WAIT}\n{TURN}", TURN],
        "a wait for one stage too few": [GEMM, f"{WAIT}\n{TURN}", f"{LATE}\n{TURN}"],
        "no barrier": [GEMM, TURN, "      next_tile"],
        "no first barrier": [GEMM, "    __syncthreads();\n    read_a", "    read_a"],
        "no last barrier": [GEMM, "__syncthreads(); // nobody", "// nobody"],
        "a slab read too early": [GEMM, f"{WRITE}      __syncwarp();", WRITE],
        "no swizzle": ["swizzle.cuh", "row / 2 % 4 : row % 8", "0 : 0"],
        **PIECEWISE,
        **FRAGMENT_SLABS,
    },
}  # fmt: skip

SPLIT = "split.cuh"
MEETING = {
    "every block writes C": [SPLIT, "group, members)) return false;", "group, members)) {}"],
    "a ticket too few": [SPLIT, "(tickets + group, members)", "(tickets + group, members - 1)"],
    "tickets not reset": [SPLIT, "atomicInc(ticket, count - 1)", "atomicInc(ticket, ~0u)"],
    "parts overlap": [SPLIT, "steps * (number + 1) / splits", "(steps * (number + 1) / splits + 1)"],
    "the first part only": [SPLIT, "first + j * stride", "first"],
    "one tile's tickets for all": [SPLIT, "p.tickets + index_t(part.tile) * splits", "p.tickets"],
}  # fmt: skip
COPY = "copy_tile.cuh"
TILES = {
    "no bound along K": [COPY, "right - i * RIGHT : 0", "BREADTH : 0"],
    "no bound on rows": [COPY, "i * DOWN < down", "true"],
}
SKINNY, MMA, BATCHED = "21_skinny.cu", "21_skinny_mma.cu", "14_batched.cu"
COLUMNS = "columns.cuh"
ROW = "warp_dot.cuh"
GEMV_SPLIT, THREAD_ROW, WARP_ROW = "20_gemv_split.cu", "20_gemv_thread_row.cu", "20_gemv_warp_row.cu"
FAULTS |= {
    "cuda:13_split_k": MEETING,
    "cuda:14_batched": {
        "no first barrier": [BATCHED, "__syncthreads(); // the slices", "// the slices"],
        "no second barrier": [BATCHED, "__syncthreads(); // and read", "// and read"],
        "no wait": [BATCHED, "cp_async_wait<STAGES - 1>();", ""],
        "no bound on rows stored": [BATCHED, "if (at >= height) break;", ""],
        "no bound on columns stored": [BATCHED, "else if (column(j) < width)", "else"],
        "no bound on entries": [BATCHED, "row < rows && column < columns", "true"],
    },
    "cuda:20_gemv_columns": {
        **{name: MEETING[name] for name in ("tickets not reset", "the first part only")},
        "no barrier before the groups add": [COLUMNS, "__syncthreads(); // partial", "// partial"],
        "no odd entries": [COLUMNS, "mine[s.single(e)] = sums.single[e];", "mine[s.single(e)] = 0;"],
    },
    "cuda:20_gemv_vector": {
        "no head": [ROW, "i < head;", "i < 0;"],
        "no tail": [ROW, "i < count;", "i < 0;"],
        "no bound on the last pieces": [ROW, "if (!CHECKED || j * STRIDE < left)\n      sums", "sums"],
    },
    "cuda:20_gemv_split": {
        "no barrier": [GEMV_SPLIT, "[warp] = mine;\n  __syncthreads();", "[warp] = mine;"],
        "every thread stores": [GEMV_SPLIT, "(p, part, sums) && threadIdx.x == 0)", "(p, part, sums))"],
        "parts overlap": MEETING["parts overlap"],
    },
    "cuda:20_gemv_thread_row": {
        "no bound": [THREAD_ROW, "if (row >= p.m) return;", ""],
        "an entry too many": [THREAD_ROW, "k < p.k;", "k <= p.k;"],
    },
    "cuda:20_gemv_warp_row": {
        "no bound": [WARP_ROW, "if (row >= p.m) return;", ""],
        "no bound on the last entries": [WARP_ROW, "k + (LOADS - 1) * WARP < p.k;", "k < p.k;"],
        "no last entries": [WARP_ROW, "for (; k < p.k; k += WARP)", "for (; k < 0;)"],
    },
    "cuda:21_skinny": {
        "no wait": [SKINNY, WAIT, ""],
        "no barrier": [SKINNY, "__syncthreads(); // this stage", "// this stage"],
        "no barrier between teams": [SKINNY, "__syncthreads(); // the last stage", "// the last stage"],
        **TILES,
    },
    "cuda:21_skinny_mma": {
        "no wait": [GEMM, f"      {WAIT}\n{TURN}", TURN],
        "every part from the beginning": [MMA, "o.data += begin * k_stride;", ""],
        **{name: MEETING[name] for name in ("every block writes C", "the first part only")},
    },
}


ADD, COPIED = "30_vector_add.cu", "31_copy.cu"
FAULTS |= {
    "cuda:30_vector_add": {
        "no bound on packs read": [ADD, "if (at < packs) left[i]", "left[i]"],
        "no bound on packs written": [ADD, "if (at >= packs) break;", ""],
        "packs at any address": [ADD, "to_boundary(a) != phase || to_boundary(b) != phase", "false"],
        "no bound on entries": [ADD, "if (at < n) from_acc", "from_acc"],
        "no bound on single entries": [ADD, "blockIdx.x == 0 && single < p.n", "blockIdx.x == 0"],
    },
    "cuda:31_copy": {
        "no bound on packs written": [COPIED, "if (at < packs) write_once", "write_once"],
        "packs at any address": [COPIED, "if (to_boundary(a) != phase)", "if (false)"],
        "no bound on entries": [COPIED, "if (at < n) c[at]", "c[at]"],
        "no single entries": [COPIED, "blockIdx.x == 0 && single", "false && single"],
    },
    "cuda:10_mma_sync_fp64/64x64": {
        "a wait for one stage too few": [GEMM, f"{WAIT}\n{TURN}", f"{LATE}\n{TURN}"],
        "no barrier": [GEMM, TURN, "      next_tile"],
        "a slab read too early": [GEMM, f"{WRITE}      __syncwarp();", WRITE],
        "no bound on rows copied": PIECEWISE["no bound on rows copied"],
    },
    "cuda:10_mma_sync_tf32": {
        "no wait": [GEMM, f"      {WAIT}\n{TURN}", TURN],
        "no bound on columns copied": PIECEWISE["no bound on columns copied"],
        "no bound on columns stored": FRAGMENT_SLABS["no bound on columns stored"],
        "rows in the order of other types": ["mma_fragments.cuh", "sizeof(T) != 4 || K_INNER", "true"],
    },
}  # fmt: skip
SMALLER = {
    "cuda:10_mma_sync_tf32": {
        "threads": (128, 1),
        "tile": (64, 64, 32),
        "shared_bytes": 49152,
        "defines": {"WARPS_M": 2, "WARPS_N": 2, "STAGES": 3, "TILE_GROUP": 8},
    }
}
"""What is different in a variant, where its own tile takes fibers long."""


def dtype_of(name):
    if "fp64" in name or "sliced" in name:  # sliced: in two passes
        return "float64"
    return "float16" if "mma" in name and "tf32" not in name else "float32"


def test_every_kernel_that_runs_here_has_faults_planted():
    can = {kernel.path.stem for kernel in cases.KERNELS.values() if not cases.has_assembly(kernel)}
    assert can - {name.removeprefix("cuda:").split("/")[0] for name in FAULTS} == set()


@pytest.mark.parametrize("name", FAULTS)
def test_the_stand_in_notices_every_planted_fault(name):
    faults = {"none": [], **FAULTS[name]}
    asked = {"kernel": name, "dtype": dtype_of(name), "faults": faults, "variant": SMALLER.get(name, {})}
    done = subprocess.run(
        [sys.executable, "-m", "tests.cuda_on_cpu.faults"],
        cwd=ROOT, input=json.dumps(asked), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes.pop("none") == "right", done.stderr
    noticed = {"wrong", "SIGSEGV", "SIGILL", "SIGABRT"}
    assert {fault: how for fault, how in outcomes.items() if how not in noticed} == {}, done.stderr
