#!/bin/sh
# run_qemu.sh TEST_DISPATCH: the dispatch on emulated processors, which must get exactly what they can run.
# Exit status 77 (skipped) without qemu's user mode emulation.
qemu=$(command -v qemu-x86_64) || {
  echo "skipped: qemu-x86_64 is not installed (Debian: apt install qemu-user)"
  exit 77
}
unset GEMM_ISA
status=0
for pair in Nehalem:portable SandyBridge:portable Haswell:avx2; do
  if "$qemu" -cpu "${pair%:*}" "$1" expect "${pair#*:}" 2>/tmp/qemu.$$; then
    echo "${pair%:*}: ${pair#*:}"
  else
    grep -v TCG /tmp/qemu.$$
    status=1
  fi
done
rm -f /tmp/qemu.$$
exit $status
