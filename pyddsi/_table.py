"""The protocol's table, as the core has it: a row for each message, declaration and item of a list."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from pyddsi._native import ffi, lib, members, text

__all__ = ["Field", "Flag", "Spec", "spec"]


class Field(NamedTuple):
    """A field of a row: see `pyddsi_field` in pyddsi.h."""

    name: str
    text: str
    type: str  # "SN", "BYTES", ... as in enum pyddsi_type
    presence: str  # "ALWAYS", "IF_FLAG", "IF_PERIODIC", "IF_FAILED"
    flag: int
    bits: bool
    values: dict[int, str]

    @property
    def optional(self) -> bool:
        """Whether the field can be absent."""
        return self.presence != "ALWAYS"


class Flag(NamedTuple):
    """A flag of a row; `name` is None if it only says that a field is there."""

    bit: int
    letter: str
    name: str | None
    text: str


class Spec(NamedTuple):
    """A row of the protocol's table."""

    name: str
    text: str
    number: int
    part: str  # "A" as zhe speaks it, "B" beyond zhe, "R" reserved
    marker: bool
    flags: tuple[Flag, ...]
    fields: tuple[Field, ...]


def _field(row: Any, types: dict[int, str], presences: dict[int, str]) -> Field:
    values = {row.values[i].value: text(row.values[i].name) for i in range(row.value_count)}
    return Field(
        text(row.name),
        text(row.text),
        types[row.type],
        presences[row.presence],
        row.flag,
        bool(row.bits),
        values,
    )


def _flag(row: Any, bit: int) -> Flag:
    name = None if row.name == ffi.NULL else text(row.name)
    return Flag(bit, row.letter.decode("ascii"), name, text(row.text))


def _spec(row: Any) -> Spec:
    types = members("pyddsi_type", "PYDDSI_TYPE_")
    presences = members("pyddsi_presence", "PYDDSI_")
    flags = [_flag(row.flag[i], 0x20 << i) for i in range(3) if row.flag[i].text != ffi.NULL]
    fields = [_field(row.field[i], types, presences) for i in range(row.field_count)]
    part = row.part.decode("ascii")
    return Spec(
        text(row.name),
        text(row.text),
        row.number,
        part,
        bool(row.marker),
        tuple(flags),
        tuple(fields),
    )


@cache
def spec(table: str) -> dict[int, Spec]:
    """The rows of one table by number: messages and declarations by kind, list items by type."""
    find = getattr(lib, f"pyddsi_spec_{table}")
    return {n: _spec(row) for n in range(32) if (row := find(n)) != ffi.NULL}
