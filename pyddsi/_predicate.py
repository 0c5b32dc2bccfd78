"""Whether a predicate (`where=`) can be read, and where reading it stops."""

from __future__ import annotations

from pyddsi._native import ffi, lib
from pyddsi.errors import DeclarationError

__all__ = ["check_predicate"]


def check_predicate(text: str) -> None:
    """DeclarationError that names the character at which this is no predicate."""
    data, fault = text.encode(), ffi.new("pyddsi_fault *")
    status = lib.pyddsi_predicate_check(data, len(data), fault)
    if status == lib.PYDDSI_OK:
        return
    at = len(data[: fault.at].decode("utf-8", "ignore"))
    if status == lib.PYDDSI_NO_SPACE:
        what = "it is too long, or has too many parts, from here on"
    elif at >= len(text):
        what = "something is missing at its end"
    else:
        what = f"{text[at]!r} cannot stand here"
    raise DeclarationError(
        f"where={text!r}, character {at + 1}: {what}; a predicate is such as lum > 0 and $size < 100",
        status="invalid",
    )
