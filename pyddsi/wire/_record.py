"""
What all classes of messages have in common: fields that can be compared, shown, and turned into plain data.

The classes themselves are in messages.py, which is made from the protocol's table.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

# Bytes to be sent may be any of these; bytes that were received are a memoryview into the packet.
Buffer: TypeAlias = bytes | bytearray | memoryview


class SelectionId(int):
    """
    The id of a selection, where a plain int is the id of a resource.

    The two are counted apart: selection 3 is not resource 3.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SelectionId) and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((SelectionId, int(self)))

    def __repr__(self) -> str:
        return f"SelectionId({int(self)})"

    def __str__(self) -> str:
        return f"s{int(self)}"


def _shown(value: Any) -> Any:
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes in hex, a selection's id as text, messages as dictionaries."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, SelectionId):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


class Record:
    """Named fields in wire order. Two records are equal if class and fields are."""

    __slots__ = ()
    KIND: ClassVar[int]
    NAME: ClassVar[str]
    FIELDS: ClassVar[tuple[str, ...]]

    def _values(self) -> tuple[Any, ...]:
        return tuple(_shown(getattr(self, name)) for name in self.FIELDS)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(other) is not type(self):
            return NotImplemented
        # SelectionId(1) and 1 are equal to neither; ints and bools, bytes and views are what they hold.
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]  # the fields can be changed

    def __repr__(self) -> str:
        values = zip(self.FIELDS, self._values(), strict=True)
        shown = [
            f"{name}={value!r}"
            for name, value in values
            if value is not None and value is not False
        ]
        return f"{type(self).__name__}({', '.join(v for v in shown if v != 'undefined=0')})"

    def to_dict(self) -> dict[str, Any]:
        """The fields that are there, as JSON can hold them."""
        values = ((name, getattr(self, name)) for name in self.FIELDS)
        plain = {name: _plain(value) for name, value in values if value is not None}
        if not plain.get("undefined", 1):
            del plain["undefined"]
        return plain


class Item(Record):
    """An item of a list: a property, or a sample of a batch."""

    __slots__ = ()


class Declaration(Record):
    """One declaration of a DECLARE."""

    __slots__ = ("undefined",)
    undefined: int

    def to_dict(self) -> dict[str, Any]:
        """The fields that are there, as JSON can hold them, and the kind."""
        return {"kind": self.NAME} | super().to_dict()


class Message(Record):
    """
    One message, or a marker.

    A message that came out of a packet also says where it stood and what was in force there; a message that you make
    has no such place (`at` is -1), and only markers, which are messages too, put it on a conduit or into a space.
    """

    __slots__ = ("at", "conduit", "size", "space", "undefined")
    undefined: int

    def __init__(self) -> None:
        self.at = -1  # its first byte in the packet
        self.size = 0  # and how many bytes it has
        self.conduit = 0  # the CONDUIT marker in force
        self.space = 0  # the RSPACE marker before it

    def to_dict(self) -> dict[str, Any]:
        """The fields that are there, as JSON can hold them, and the kind."""
        return {"kind": self.NAME} | super().to_dict()

    def __str__(self) -> str:
        from pyddsi.wire._codec import line  # noqa: PLC0415 - the codec needs the classes

        return line(self)
