#!/bin/sh
# run_qemu.sh TEST_DISPATCH: the dispatch on emulated processors, which must get exactly what they can run.
# Only the dispatch: other tests let operands end at an unmapped page, and qemu 7.2 reads 16 bytes where
# `vfmadd231ss xmm, xmm, m32` has 4 (so do its other scalar FMAs). test_ladder under `-cpu Haswell` faults there; no
# processor does. GEMM_ISA=avx2 and the preset `emulated` run those tests.
# Exit status 77 (skipped) without qemu's user mode emulation. It has no AVX-512: see tests/bare_metal for that.
qemu=$(command -v qemu-x86_64) || {
  echo "skipped: qemu-x86_64 is not installed (Debian: apt install qemu-user)"
  exit 77
}
test=$1 status=0
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# model, value of GEMM_ISA, the instruction set that must be in force, whether there must be a warning
expect() {
  if GEMM_ISA=$2 "$qemu" -cpu "$1" "$test" expect "$3" "$4" 2>"$errors"; then
    echo "$1, GEMM_ISA='$2': $3, $4"
  else
    echo "$1, GEMM_ISA='$2': not $3, $4"
    grep -v TCG "$errors"
    status=1
  fi
}

expect Nehalem '' portable silent
expect SandyBridge '' portable silent
expect Haswell '' avx2 silent
expect Skylake-Server '' avx2 silent
expect EPYC '' avx2 silent
expect Haswell,-fma '' portable silent
expect Haswell,-avx2 '' portable silent
expect Haswell,-xsave '' portable silent # no OSXSAVE: the operating system does not save the registers

expect Haswell portable portable silent
expect EPYC avx2 avx2 silent
expect Nehalem avx2 portable warned
expect Haswell avx512 avx2 warned
expect Haswell mmx avx2 warned
exit $status
