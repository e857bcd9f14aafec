"""CPU-versus-GPU comparison of matrix products: measure, analyse, render.

OpenBLAS's threads spin for 2^28 clock ticks (about 0.1 s) after a call, in which they take the cores from
whatever is measured next: another library, or the host's part of a GPU copy. Within a timed loop its calls
follow each other at once, so that a shorter spin, 2^20 ticks, costs it nothing. It reads the variable when it
is loaded; a value that the user has set stands. Intel's OpenMP runtime, under MKL, spins 0.2 s in that way.
"""

import os

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
os.environ.setdefault("KMP_BLOCKTIME", "1")  # milliseconds
