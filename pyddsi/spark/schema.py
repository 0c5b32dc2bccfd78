"""
The tables as Spark sees them: the core's list of columns (`pyddsi.capture.columns`) in Spark's types, and the table `files`.

A schema that the user gives prunes: only its columns are filled and cross to Spark, which a `select` alone does not
bring about. So it is checked here, name by name and type by type, before anything is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyddsi._values import closest
from pyddsi.capture import TABLES as CAPTURE_TABLES
from pyddsi.capture import Column, columns

__all__ = ["ADDED", "TABLES", "TIMED", "arrow_schema", "checked", "columns_of", "schema_of"]

TABLES = (*CAPTURE_TABLES, "files")
ADDED = ("flows", "rates", "endpoints")
"""Their rows stand for one range each: whoever reads them adds them up (views.py)."""
TIMED = ("packets", "messages", "events", "declarations", "rates")
"""Their rows have a time, so that a range of time means something."""

_TYPES: dict[str, DataType] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "bool": BooleanType(),
    "timestamp": TimestampType(),
    "string": StringType(),
    "binary": BinaryType(),
    "list<int64>": ArrayType(LongType()),
}

_FILES = tuple(
    Column(name, kind.removesuffix("?"), kind.endswith("?"), dear=False, text=text)
    for name, kind, text in (
        ("file", "int32", "number of the file among those that are read"),
        ("key", "int32", "what a stream calls it in the column `file`"),
        ("path", "string", "where it lies"),
        ("recording", "int32", "number of the first file of its recording"),
        ("size", "int64?", "bytes, as it lies there"),
        ("packed", "string?", "gzip, zstd, lz4, or nothing"),
        ("format", "string?", "pcap or pcapng"),
        ("link", "int32?", "link type of its first frame"),
        ("first_ts", "timestamp?", "time of its earliest frame"),
        ("first_ns", "int64?", "the same in nanoseconds since 1970"),
        ("last_ts", "timestamp?", "time of its latest frame"),
        ("last_ns", "int64?", "the same in nanoseconds since 1970"),
        ("frames", "int64?", "frames in it, whosever they are"),
        ("packets", "int64?", "of these, packets of the protocol"),
        ("messages", "int64?", "messages in them"),
        ("malformed", "int64?", "packets that break a rule, or were cut"),
        (
            "evicted",
            "int64?",
            "endpoints, counters, sessions and names that there was no memory for (option memory)",
        ),
        ("truncated_tail", "int64?", "bytes at its end that are no whole record"),
        ("index", "string?", "built, read, extended, rebuilt; none: it needs none"),
        ("chunks", "int32?", "parts that the index cuts it into"),
        ("problem", "string?", "what is wrong with it"),
    )
)
_COUNTS = tuple(
    Column(name, kind.removesuffix("?"), kind.endswith("?"), dear=False, text=text)
    for name, kind, text in (
        (
            "file",
            "int32",
            "number of the file with that frame, or of the last file that it counts in",
        ),
        ("name", "string", "what is counted: pyddsi/capture/_tally.py"),
        ("value", "int64", "how many, in this part"),
        ("pkt", "int64?", "the first frame with it"),
        ("text", "string?", "of a problem: the file, and what is wrong with it"),
    )
)


def columns_of(table: str) -> tuple[Column, ...]:
    """The columns of a table; ValueError names the tables that there are."""
    if table == "counts":  # for reports alone: _counts.py
        return _COUNTS
    if table not in TABLES:
        raise ValueError(f"there is no table {table!r}; {closest(table, TABLES)}")
    return _FILES if table == "files" else columns(table)


def _field(column: Column) -> StructField:
    return StructField(column.name, _TYPES[column.type], column.nullable)


def schema_of(table: str, wanted: Iterable[str] | None = None) -> StructType:
    """The schema of a table: of these columns in this order, or of all but the dear ones."""
    known = {column.name: column for column in columns_of(table)}
    if wanted is None:
        return StructType([_field(column) for column in known.values() if not column.dear])
    fields = []
    for given in wanted:
        name = given.lower()  # Spark's own sources do not care for case either
        if name not in known:
            raise ValueError(f"table {table!r} has no column {given!r}; {closest(name, known)}")
        fields.append(_field(known[name]))
    if not fields:
        raise ValueError("columns is empty; name one at least, or leave it out for the usual ones")
    return StructType(fields)


def checked(table: str, schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that somebody gave, if the table has such; the schema may have their names in capitals."""
    right = schema_of(table, schema.fieldNames())
    for given, known in zip(schema.fields, right.fields, strict=True):
        if given.dataType != known.dataType:
            raise ValueError(
                f"column {given.name!r} of table {table!r} is {known.dataType.simpleString()}, and the schema that was "
                f"given says {given.dataType.simpleString()}; read it as it is, and cast it then"
            )
        if known.nullable and not given.nullable:
            raise ValueError(
                f"column {given.name!r} of table {table!r} may be null, and the schema that was given forbids it; "
                f"leave NOT NULL out"
            )
    names = tuple(right.fieldNames())
    if len(set(names)) != len(names):
        given_names = ", ".join(schema.fieldNames())
        raise ValueError(f"the schema that was given names a column twice: {given_names}")
    return names


def arrow_schema(schema: StructType) -> Any:
    """The same schema as Arrow has it, exactly as Spark will look for it in the first batch."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - it loads pyarrow

    convert: Any = to_arrow_schema
    if "timezone" in inspect.signature(convert).parameters:
        return convert(schema, timezone="UTC")
    return convert(schema)  # 4.0, where nothing else can be had
