"""CPU-versus-GPU comparison of matrix products: measure, analyse, render."""
