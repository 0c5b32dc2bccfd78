"""
The one door to the compiled core: every other module takes `ffi`, `lib` and the hot calls from here.

It also gives the protocol's table, which the core owns, so that nothing in Python has a second copy of it. Who opens a
session does not need the table, and so does not wait for it to be loaded: it lies in pyddsi/_table.py.
"""

from __future__ import annotations

try:
    from pyddsi._core import (
        Keeper,
        Loan,
        Reader,
        Sample,
        Writer,
        columns,
        ffi,
        lib,
        scan_batch,
        scan_lines,
        scan_rows,
        scan_schema,
    )
except ModuleNotFoundError as error:
    import sysconfig

    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError(
            "pyddsi does not run on a free-threaded Python such as 3.13t: take the usual one, such as python3.13"
        ) from error
    raise ImportError(
        "the compiled half of pyddsi is not there: `pip install .` in its tree builds it, or `pip install pyddsi`"
    ) from error

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from typing import Any

    from pyddsi._table import Field, Flag, Spec, spec

__all__ = [
    "DECLARATIONS",
    "ITEMS",
    "MESSAGES",
    "Field",
    "Flag",
    "Keeper",
    "Loan",
    "Reader",
    "Sample",
    "Spec",
    "Writer",
    "columns",
    "enumeration",
    "ffi",
    "lib",
    "scan_batch",
    "scan_lines",
    "scan_rows",
    "scan_schema",
    "spec",
    "text",
]

MESSAGES = "message"
DECLARATIONS = "declaration"
ITEMS = "item"


def __getattr__(name: str) -> Any:
    if name in {"Field", "Flag", "Spec", "spec"}:
        from pyddsi import _table  # noqa: PLC0415 - see the top

        return getattr(_table, name)
    raise AttributeError(f"module 'pyddsi._native' has no attribute {name!r}")


def text(pointer: Any) -> str:
    """A C string as a Python one."""
    return str(ffi.string(pointer).decode("ascii"))


def enumeration(name: str, prefix: str) -> dict[str, int]:
    """The members of a C enumeration as Python writes them: without the prefix, in small letters."""
    return {label.lower(): number for number, label in members(name, prefix).items()}


def members(name: str, prefix: str) -> dict[int, str]:
    """The members of a C enumeration without the prefix, by number."""
    elements: dict[int, str] = ffi.typeof(f"enum {name}").elements
    return {number: label.removeprefix(prefix) for number, label in elements.items()}
