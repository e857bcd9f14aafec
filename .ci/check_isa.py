"""Fails when vector registers wider than SSE's appear outside the dispatched kernels.

Use: `check_isa.py BUILD_DIR`.

Such an object would make the library die on an older CPU before any dispatch.
"""

import re
import subprocess
import sys
from pathlib import Path

KERNEL = re.compile(r"_(avx2|avx512|amx)_")
WIDE = re.compile(r"%[yz]mm\d|%tmm\d|\tv[a-z0-9]+ ")


def wide_functions(path: Path) -> set[str]:
    """Names of the functions in an object file that use VEX or EVEX instructions."""
    listing = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    found, function = set(), ""
    for line in listing.splitlines():
        if line.endswith(">:"):
            function = line.split("<")[1][:-2]
        elif WIDE.search(line):
            found.add(function)
    return found


def main(build: Path) -> int:
    """Exit status: 0 when only kernel objects are wide, and some are."""
    objects = sorted(build.rglob("*.o"))
    kernels = [path for path in objects if KERNEL.search(path.name)]
    wide = {path: wide_functions(path) for path in objects}
    stray = {path: names for path, names in wide.items() if names and path not in kernels}
    for path, names in stray.items():
        print(f"{path.name}: AVX outside the dispatched kernels, in {', '.join(sorted(names))}")
    seen = sum(bool(wide[path]) for path in kernels)
    print(f"{len(objects)} objects, {seen} kernel objects with AVX, {len(stray)} others with AVX")
    return 1 if stray or not seen else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
