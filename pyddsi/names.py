"""
Names of resources: whether they are valid, which of them are the same, and which match.

    >>> from pyddsi import names
    >>> names.canonical("plant/robot")
    '/plant/robot'
    >>> names.matches("plant/*/pose", "zenoh://plant/robot/pose")
    True
    >>> names.Name("plant/robot#{unreliable,transient}").tags
    ('transient', 'unreliable')

A path has letters, digits, '-', '_' and '/', and three wildcards: '?' is one character but '/', '*' any run without
'/', '**' any run. It may be followed by tags, `#transient` or `#{transient,unreliable}`, and by a predicate,
`?{lum > 0}`. On the wire a path starts with '/'; people may leave that out, or write `zenoh://` before it.
"""

from __future__ import annotations

from pyddsi._native import ffi, lib, text
from pyddsi.errors import InvalidNameError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from typing import Any

__all__ = ["InvalidNameError", "Name", "canonical", "intersect", "matches"]

SIZE_MAX = 1024
SHOWN_MAX = 80
_TAGS = ((1, "persistent"), (2, "transient"), (4, "unreliable"))
_META = (None, "ls", "id")


def _around(name: str, at: int) -> str:
    """The name, or of a long one what stands around its fault."""
    if len(name) <= SHOWN_MAX:
        return name
    start = max(0, at - SHOWN_MAX // 2)
    return ("..." if start else "") + name[start : start + SHOWN_MAX] + "..."


def _fault(name: str, fault: Any, shown: bytes) -> InvalidNameError:
    # The core counts bytes; a person counts characters, and each has one byte that is not 10xxxxxx.
    at = sum(byte & 0xC0 != 0x80 for byte in shown[: fault.at + 1]) - (fault.at < len(shown))
    pointer = f"{_around(name, at)!r}, character {at + 1}"
    return InvalidNameError(
        f"{pointer}: {text(lib.pyddsi_rule_text(fault.rule))}",
        rule=text(lib.pyddsi_rule_name(fault.rule)),
        at=at,
        text=name,
    )


def _written(call: Any, name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a name is a text, not {name!r}")
    data = name.encode("utf-8", "surrogatepass")
    out, size, fault = ffi.new("char[]", SIZE_MAX), ffi.new("size_t *"), ffi.new("pyddsi_fault *")
    if call(data, len(data), out, SIZE_MAX, size, fault) != lib.PYDDSI_OK:
        raise _fault(name, fault, data)
    return bytes(ffi.buffer(out, size[0])).decode("ascii")


def canonical(name: str) -> str:
    """The one text among all texts of this name; equal names have equal ones. Raises InvalidNameError."""
    return _written(lib.pyddsi_name_canonical, name)


class Name:
    """
    A name, valid and taken apart. Raises InvalidNameError, which says at which character what is wrong.

    path: as it goes on the wire
    tags: in alphabetical order
    predicate: the text between the braces, or None
    meta: "ls" or "id" where the path asks about the one before it, or None
    wild: whether the path has a wildcard
    """

    __slots__ = ("_canonical", "meta", "path", "predicate", "tags", "wild")

    def __init__(self, name: str) -> None:
        self._canonical = canonical(name)
        self.path = _written(lib.pyddsi_name_wire, name)
        data = self._canonical.encode("ascii")
        memory = ffi.from_buffer("char[]", data)  # the views below point into it
        parsed, fault = ffi.new("pyddsi_name *"), ffi.new("pyddsi_fault *")
        if lib.pyddsi_name_parse(memory, len(data), parsed, fault) != lib.PYDDSI_OK:
            raise _fault(name, fault, data)
        self.tags = tuple(tag for bit, tag in _TAGS if parsed.tags & bit)
        predicate = bytes(ffi.buffer(parsed.predicate.data, parsed.predicate.size))
        self.predicate = predicate.decode("ascii") or None
        self.meta = _META[parsed.meta]
        self.wild = bool(parsed.wild)

    def __str__(self) -> str:
        return self._canonical

    def __repr__(self) -> str:
        return f"Name({self._canonical!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and self._canonical == other._canonical

    def __hash__(self) -> int:
        return hash(self._canonical)


def _path(name: str | Name) -> bytes:
    path = name.path if isinstance(name, Name) else _written(lib.pyddsi_name_wire, name)
    return path.encode("ascii")


def matches(pattern: str | Name, name: str | Name) -> bool:
    """Whether the pattern's path covers this name, which has no wildcards. Tags and predicates are not looked at."""
    one, two = _path(pattern), _path(name)
    if b"*" in two or b"?" in two:
        raise ValueError(f"{str(name)!r} has wildcards: ask intersect() whether two patterns meet")
    return bool(lib.pyddsi_match(one, len(one), two, len(two)))


def intersect(one: str | Name, two: str | Name) -> bool:
    """Whether some name is covered by both patterns' paths."""
    first, second = _path(one), _path(two)
    return bool(lib.pyddsi_intersect(first, len(first), second, len(second)))
