"""Writes the C sources that bind the library to Python, from `gemm.h` alone: run by CMake at build time.

    python cffi_source.py OUT_DIR

`build_facts.c` carries the declarations and the hash of the sources inside the library itself;
`_gemm_cpu.c` is cffi's extension module (left out, with a note, where cffi cannot be imported).
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

CPU = Path(__file__).resolve().parents[1]


def declarations(header: str) -> str:
    """The text of `gemm.h` without preprocessor lines, C++ guards and visibility marks."""
    header = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", header, flags=re.DOTALL)
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    header = re.sub(r"^#.*\n", "", header, flags=re.MULTILINE).replace("GEMM_API ", "")
    return re.sub(r"\n\s*\n+", "\n", header).strip() + "\n"


def source_hash(cpu: Path = CPU) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of all that the library is built from."""
    kinds = {".c", ".h", ".cmake"}
    files = sorted(p for p in cpu.rglob("*") if p.suffix in kinds or p.parent.name == "tools")
    digest = hashlib.sha256()
    for path in [*filter(Path.is_file, files), cpu.parent / "CMakeLists.txt"]:
        digest.update(path.relative_to(cpu.parent).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def build_facts(cdef: str) -> str:
    """C source of the two functions that tell what was built."""
    lines = "\n".join(f'         "{line}\\n"' for line in cdef.splitlines())
    return (
        '#include "gemm.h"\n\n'
        f'const char *gemm_source_hash(void) {{ return "{source_hash()}"; }}\n\n'
        f"const char *gemm_declarations(void) {{\n  return\n{lines};\n}}\n"
    )


def extension(cdef: str, out: Path) -> None:
    """Cffi's `_gemm_cpu.c` for the limited API."""
    try:
        from cffi import FFI
    except ImportError:
        print("cffi is not installed: only the plain shared library can be built")
        return
    ffi = FFI()
    ffi.cdef(cdef)
    ffi.set_source("_gemm_cpu", '#include "gemm.h"', py_limited_api=True)
    ffi.emit_c_code(str(out / "_gemm_cpu.c"))


def main(out: Path) -> None:
    """Write everything into `out`."""
    cdef = declarations((CPU / "include" / "gemm.h").read_text())
    out.mkdir(parents=True, exist_ok=True)
    (out / "build_facts.c").write_text(build_facts(cdef))
    extension(cdef, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
