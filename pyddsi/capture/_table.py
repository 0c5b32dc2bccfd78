"""
The tables of a capture and their columns, as the core has them: names, types, what they mean.

Everything that needs a list of columns takes it from here: the options of `Capture`, filters, Spark's schema, the page of the
reference. There is no second copy.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from pyddsi._native import ffi, lib, text
from pyddsi._values import closest

__all__ = ["TABLES", "Column", "column_bits", "columns", "table_number"]

TYPES = ("int8", "int16", "int32", "int64", "bool", "timestamp", "string", "binary", "list<int64>")


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: str
    """int8, int16, int32, int64, bool, timestamp (microseconds, UTC), string, binary or list<int64>"""
    nullable: bool
    dear: bool
    """It is left out unless it is asked for by name."""
    text: str
    """What it is."""


def _tables() -> tuple[str, ...]:
    found: list[str] = []
    while (name := lib.pyddsi_table_name(len(found))) != ffi.NULL:
        found.append(text(name))
    return tuple(found)


TABLES = _tables()


def table_number(table: str) -> int:
    """The number of a table; ValueError names the ones that there are."""
    if table not in TABLES:
        raise ValueError(f"there is no table {table!r}; {closest(table, TABLES)}")
    return TABLES.index(table)


@cache
def columns(table: str) -> tuple[Column, ...]:
    """The columns of a table, in their order."""
    number = table_number(table)
    found: list[Column] = []
    while (raw := lib.pyddsi_table_column(number, len(found))) != ffi.NULL:
        found.append(
            Column(
                text(raw.name),
                TYPES[raw.type],
                bool(raw.nullable),
                bool(raw.dear),
                text(raw.text),
            )
        )
    return tuple(found)


def column_bits(table: str, wanted: tuple[str, ...] | None) -> int:
    """The wanted columns as bits; None: the usual ones. ValueError names the columns that there are."""
    known = columns(table)
    if wanted is None:
        return sum(1 << i for i, column in enumerate(known) if not column.dear)
    names = [column.name for column in known]
    bits = 0
    for name in wanted:
        if name not in names:
            raise ValueError(f"table {table!r} has no column {name!r}; {closest(name, names)}")
        bits |= 1 << names.index(name)
    if not bits:
        raise ValueError("columns is empty; name one at least, or None for the usual ones")
    return bits
