"""
Filters that Spark hands over, in the language of the option `where`.

A filter that is kept is not checked by Spark again, so only those are kept that the core checks exactly as SQL means them: a
comparison with null is not true, and neither is its negation. The rest goes back.

    kind = 7, kind IN (7, 9)    kind == 7, kind in (7, 9)         rid IS NULL      rid is None
    NOT (rid = 7)               rid != 7                          ts >= '...'      and chunks before that are passed over
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyddsi.capture import Column, WhereError
from pyddsi.capture._where import compile_where
from pyddsi.spark._options import Asked
from pyddsi.spark.schema import columns_of

__all__ = ["pushed"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LEAST, MOST = -(2**63), 2**63 - 1
COMPARE = {
    "EqualTo": "==",
    "EqualNullSafe": "==",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
NEGATED = {"==": "!=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def _literal(column: Column, value: Any) -> str | None:
    """A value as the language writes it, if it has the column's type."""
    if column.type == "bool":
        return str(value) if isinstance(value, bool) else None
    if column.type == "string":
        return repr(value) if isinstance(value, str) else None
    if column.type == "timestamp":
        if not isinstance(value, datetime) or value.tzinfo is None:
            return None
        return str((value - EPOCH) // MICROSECOND)
    if column.type.startswith("int") and isinstance(value, int) and not isinstance(value, bool):
        return str(value) if LEAST <= value <= MOST else None
    return None


def _compared(column: Column, name: str, value: Any, *, negated: bool) -> str | None:
    literal = _literal(column, value)
    if literal is None or (column.type in {"bool", "string"} and COMPARE[name] != "=="):
        return None  # the core orders numbers as SQL does; texts it only tells apart
    if literal == "''":
        return None  # the core does not tell it from none
    if not negated:
        return f"{column.name} {COMPARE[name]} {literal}"
    if name == "EqualNullSafe":
        return f"({column.name} is None or {column.name} != {literal})"
    return f"{column.name} {NEGATED[COMPARE[name]]} {literal}"


def _among(column: Column, values: Sequence[Any], *, negated: bool) -> str | None:
    there = [value for value in values if value is not None]
    literals = [_literal(column, value) for value in there]
    if (
        not literals
        or None in literals
        or "''" in literals
        or (negated and len(there) < len(values))
    ):
        return None
    listed = f"({', '.join(str(literal) for literal in literals)},)"
    if negated:
        return f"({column.name} is not None and {column.name} not in {listed})"
    return f"{column.name} in {listed}"


def _condition(kind: str, column: Column, value: Any, *, negated: bool) -> str | None:
    """A filter as the language writes it; None: it cannot."""
    if kind in {"IsNull", "IsNotNull"}:
        absent = (kind == "IsNull") != negated
        return f"{column.name} is None" if absent else f"{column.name} is not None"
    if kind == "In":
        return _among(column, value, negated=negated)
    if kind not in COMPARE:
        return None
    if value is None:
        return _condition("IsNull", column, None, negated=negated) if "Null" in kind else None
    return _compared(column, kind, value, negated=negated)


def _times(condition: str) -> tuple[int, int]:
    """Outside of which times, in nanoseconds, nothing can fulfil it."""
    name, operator, value = condition.split(" ", 2)
    unit = {"ts": 1000, "ts_ns": 1}.get(name)
    if unit is None or operator not in NEGATED:
        return LEAST, MOST
    at = int(value)
    start = {"==": at, ">=": at, ">": at + 1}.get(operator)
    stop = {"==": at + 1, "<=": at + 1, "<": at}.get(operator)
    return LEAST if start is None else start * unit, MOST if stop is None else stop * unit


def _fits(table: str, where: str) -> bool:
    try:
        compile_where(table, where)
    except (WhereError, UnicodeError):  # too long, most likely
        return False
    return True


def pushed(asked: Asked, filters: Sequence[Any]) -> tuple[Asked, list[Any]]:
    """What is asked with the filters that can be kept, and the others."""
    known = {column.name: column for column in columns_of(asked.table)}
    left: list[Any] = []
    for one in filters:
        negated = type(one).__name__ == "Not"
        inner = one.child if negated else one
        column = (
            known.get(inner.attribute[0]) if len(getattr(inner, "attribute", ())) == 1 else None
        )
        condition = None
        if column is not None and not column.type.startswith("list") and asked.table != "files":
            condition = _condition(
                type(inner).__name__, column, getattr(inner, "value", None), negated=negated
            )
        where = condition if asked.where is None else f"({asked.where}) and {condition}"
        if condition is None or where is None or not _fits(asked.table, where):
            left.append(one)
            continue
        start, stop = _times(condition)
        times = (max(asked.times[0], start), min(asked.times[1], stop))
        asked = replace(asked, where=where, times=times)
    return asked, left
