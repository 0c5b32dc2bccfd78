# SPDX-License-Identifier: GPL-2.0-or-later
"""
A layer for each row of the protocol's table: messages, markers, declarations and items of lists.

    row ─► [flags, kind] + its fields, those that can be absent under a condition ─► a class, named as in pyddsi.wire
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self

from scapy.fields import ConditionalField, FlagsField
from scapy.packet import Packet

from pyddsi import wire
from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, Spec, lib, spec
from pyddsi._native import Field as Row
from pyddsi.scapy._fields import (
    SIZE_BITS,
    Byte,
    Id,
    Items,
    Kind,
    Marker,
    MarkerFlags,
    Number,
    Size,
    Text,
    Vector,
)

LAYERS: dict[str, type[Layer]] = {}
"""Every layer that the table makes, by its name."""

_Choice = Callable[[bytes], "type[Layer] | None"]

# How many of a header's bits are the kind; the others are flags.
_MESSAGE_BITS, _DECLARATION_BITS = 5, 4
_NUMBER_BITS = {"NUMBER32": 32, "NUMBER16": 16, "HASH": 16, "MARKER": SIZE_BITS, "BYTE": 8}
# By name or type, where 0 or nothing is not what a correct sender writes.
_DEFAULTS: dict[str, Any] = {
    "version": 1,
    "mode": 1,
    "PEER_ID": b"\x01",
    "RID": 1,
    "SID": 1,
    "ID": 1,
}
_LISTS: dict[str, _Choice] = {}


class Layer(Packet):
    """What the layers have in common."""

    columns: Mapping[str, Any] = MappingProxyType({})
    """Of a message that `PyddsiSession` has followed: what docs/inside/capture.md says of it."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        if "payload" in fields:
            fields["data"] = fields.pop("payload")
        super().__init__(*args, **fields)

    def copy(self) -> Self:
        """A packet like this one; scapy makes one whenever two are put together."""
        clone = super().copy()
        if self.columns:
            clone.columns = self.columns
        return clone

    def do_dissect(self, s: bytes) -> bytes:
        """Read the fields off s. Of the bytes nothing is kept besides, so what is built is what the fields say."""
        for field in self.fields_desc:
            if not isinstance(field, ConditionalField) or field.cond(self):
                s, self.fields[field.name] = field.getfield(self, s)
        self.explicit = 1  # scapy: nothing in here is still to be chosen
        return s

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Nothing behind it belongs to it, so that a list can go on there."""
        return b"", s


def _condition(row: Row, kind_bits: int) -> Callable[[Packet], bool]:
    """When a field is there. Items have no flags of their own and go by the message's; alone, they have all fields."""
    if row.presence == "IF_PERIODIC":
        return lambda pkt: pkt.mode in (3, 4)
    if row.presence == "IF_FAILED":
        return lambda pkt: bool(pkt.status != 0)
    if kind_bits:
        return lambda pkt: bool(int(pkt.getfieldval("flags")) & row.flag >> kind_bits)
    bit = row.flag >> _MESSAGE_BITS
    return lambda pkt: bool(int(getattr(pkt.parent, "flags", bit)) & bit)


def _fields(row: Row) -> list[Any]:
    """What a field of the table is here: one field, or two."""
    name = "data" if row.name == "payload" else row.name
    default = _DEFAULTS.get(row.name, _DEFAULTS.get(row.type))
    if row.type in _LISTS:
        count = Size(f"{name}_count", SIZE_BITS, lambda pkt: len(pkt.getfieldval(name)))
        return [count, Items(name, _LISTS[row.type], counted=True)]
    if row.type in {"BYTES", "PEER_ID", "TEXT"}:
        size = Size(f"{name}_size", SIZE_BITS, lambda pkt: len(pkt.getfieldval(name)))
        return [size, (Text if row.type == "TEXT" else Vector)(name, default or b"", row)]
    classes = {"RID": Id, "SID": Id, "ID": Id, "ID_NONE": Id, "MARKER": Marker, "BYTE": Byte}
    number = classes.get(row.type, Number)
    return [number(name, default or 0, _NUMBER_BITS.get(row.type, 64), row)]


def _header(row: Spec, kind_bits: int) -> list[Any]:
    letters = {flag.bit: flag.letter for flag in row.flags}
    names = "".join(letters.get(1 << bit, "1248"[bit - 4]) for bit in range(kind_bits, 8))
    if any(field.type == "MARKER" for field in row.fields):
        flags: FlagsField = MarkerFlags("flags", None, 8 - kind_bits, names)
    else:
        flags = FlagsField("flags", 0, 8 - kind_bits, names)
    table = MESSAGES if kind_bits == _MESSAGE_BITS else DECLARATIONS
    kinds = {number: known.name for number, known in spec(table).items()}
    return [flags, Kind("kind", row.number, kind_bits, kinds)]


def _layer(name: str, row: Spec, kind_bits: int = 0) -> type[Layer]:
    """Make the class of a row; one without a kind has no header."""
    fields = _header(row, kind_bits) if kind_bits else []
    for field in row.fields:
        made = _fields(field)
        if field.optional:
            made = [ConditionalField(one, _condition(field, kind_bits)) for one in made]
        fields += made
    text = "\n".join(f"{field.name}: {field.text}" for field in row.fields)
    LAYERS[name] = type(
        name,
        (Layer,),
        {
            "__doc__": f"{row.name}: {row.text}.\n\n{text}",
            "__module__": __package__,
            "name": row.name,
            "fields_desc": fields,
        },
    )
    return LAYERS[name]


def _item(kind: str) -> _Choice:
    """The choice among the layers of a list whose items are all alike."""
    row = spec(ITEMS)[getattr(lib, f"PYDDSI_TYPE_{kind}")]
    layer = _layer(row.name.capitalize(), row)
    return lambda _data: layer


def _kinds(table: str, classes: dict[int, Any], kind_bits: int) -> _Choice:
    """The choice by the kind, in the low bits of the next byte, among the layers of a table."""
    layers = {
        number: _layer(cls.__name__, spec(table)[number], kind_bits)
        for number, cls in classes.items()
    }
    return lambda data: layers.get(data[0] & (1 << kind_bits) - 1)


for _list in ("LOCATORS", "PROPERTIES", "SAMPLES"):
    _LISTS[_list] = _item(_list)
_LISTS["DECLARATIONS"] = _kinds(DECLARATIONS, wire.DECLARATIONS, _DECLARATION_BITS)
choose_message = _kinds(MESSAGES, wire.MESSAGES, _MESSAGE_BITS)
