"""
Tells cffi what the compiled half of pyddsi is made of. setup.py names this script; nothing imports it.

The boundary is written once, in csrc/include/pyddsi.h: what stands there between `cffi: begin` and `cffi: end` is plain
C and goes to cffi as it is. Every C file of the core is compiled into the one extension `pyddsi._core`, with every
symbol hidden except the functions that the header declares.

cffi writes a C file of its own, which ends in the module's entry point `PyInit__core`. We need that name: the module
also holds functions that are too hot for cffi's calls, and csrc/api/module.c adds them when the module is loaded. So
cffi's entry is renamed before it is compiled, and module.c calls it:

    import pyddsi._core ──► PyInit__core (module.c) ──► pdi_cffi_init (cffi's) ──► lib, ffi
                                       └──► PyModule_AddFunctions             ──► the hot functions
"""

import re
from pathlib import Path

from cffi import FFI

# setuptools wants paths relative to the project's folder, which is the working directory of every build.
ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "csrc" / "include" / "pyddsi.h"

# cffi writes PyMODINIT_FUNC before its entry, and makes everything around it visible; the renamed entry stays hidden.
PREAMBLE = """
#include "pyddsi.h"
#undef PyMODINIT_FUNC
#define PyMODINIT_FUNC __attribute__((visibility("hidden"))) PyObject *
#define PyInit__core pdi_cffi_init
"""


def boundary(header: str) -> str:
    """The marked parts of the public header, in order."""
    parts = re.findall(
        r"^/\* cffi: begin \*/$(.*?)^/\* cffi: end \*/$", header, re.DOTALL | re.MULTILINE
    )
    if not parts or len(parts) != header.count("cffi: begin"):
        raise ValueError(
            f"{HEADER}: the marks '/* cffi: begin */' and '/* cffi: end */' do not pair up"
        )
    return "\n".join(parts)


def files(pattern: str) -> list[str]:
    """The files of csrc/ that fit, in one order on every machine, so that builds can be compared."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc").rglob(pattern))


ffi = FFI()
ffi.cdef(boundary(HEADER.read_text(encoding="utf-8")))
ffi.set_source(
    "pyddsi._core",
    PREAMBLE,
    sources=files("*.c"),
    depends=files("*.h"),
    include_dirs=["csrc", "csrc/include"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden"],
    py_limited_api=True,
)
