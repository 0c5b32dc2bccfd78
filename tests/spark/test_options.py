"""Options and schemas: how they are read, and what is said of those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from pyddsi import capture
from pyddsi.spark._options import KNOWN, read
from pyddsi.spark.schema import checked, columns_of, schema_of
from pyddsi.spark.source import CaptureSource
from tests.py.golden import CAPTURES

LOSS = str(CAPTURES / "p2p_loss5.pcap")


def test_names_in_any_way() -> None:
    """An option would be taken for another one, or for none, because of how its name is written."""
    for name in ("splitSize", "splitsize", "SPLITSIZE", "split_size"):
        assert read({"path": "x", name: "64m"}).split_bytes == 64 << 20
    asked = read({"path": "x", "from_": "1.5", "to": "2026-11-18T12:00:00", "ports": "7447, 7448"})
    assert (asked.start, asked.stop) == ("1.5", "2026-11-18T12:00:00")
    assert asked.settings == {"ports": (7447, 7448)}


WRONG = [
    ({"x": "1"}, "has no option 'x'; there are"),
    ({"spliSize": "1m"}, "did you mean 'splitSize'?"),
    ({"splitSize": "1"}, "a number of bytes from 65536 on"),
    ({"splitSize": "many"}, "such as 64k or 128m, not 'many'"),
    ({"split": "resync"}, "option split cannot be 'resync'; there are 'file', 'index'"),
    ({"seqBits": "99"}, "seq_bits is from 7 to 56, not 99"),
    ({"seqBits": "many"}, "option seqBits is a whole number"),
    ({"ports": ""}, "option ports is a list with commas"),
    ({"payload": "some"}, "is none, full, or prefix:N"),
    ({"payload": "prefix:99999"}, "up to 65535"),
    ({"payload": "none", "columns": "payload"}, "option payload is none"),
    ({"mode": "strict"}, "there are 'failfast', 'permissive'"),
    ({"window": "0"}, "from 0.000001 seconds on"),
    ({"settle": "soon"}, "a number of seconds"),
    ({"columns": "ts,kinds"}, "did you mean 'kind'?"),
    ({"columns": " , "}, "it is empty"),
    ({"table": "sessions", "from": "1"}, "means nothing to table 'sessions'"),
    ({"table": "files", "where": "kind == 7"}, "means nothing to table 'files'"),
    ({"where": "kind = 7"}, "cannot be read"),
    ({"extensions": "all"}, "extensions cannot be 'all'"),
    ({"chain": "maybe"}, "chain cannot be 'maybe'"),
    ({"indexDir": " "}, "option indexDir is empty"),
    ({"tail": "yes"}, "there are 'false', 'off', 'on', 'true'"),
    ({"path": "s3://bucket/run.pcap"}, "s3:// is none; mount the store"),
    ({"pushdown": "on"}, "has no option 'pushdown'"),
    ({"memory": "1m"}, "a number of bytes from 16777216 on"),
]


@pytest.mark.parametrize(("options", "why"), WRONG, ids=[str(options) for options, _ in WRONG])
def test_wrong_options(options: dict[str, str], why: str) -> None:
    """An option with a slip would be ignored, or nobody would be told what is right."""
    with pytest.raises(ValueError, match=r".") as caught:
        read({"path": "x", **options})
    assert why in str(caught.value)


def test_paths() -> None:
    """A relative path would be looked for where executors happen to run; or one with a scheme would not be understood."""
    here = str(Path.cwd())
    assert read({"path": "a/b.pcap"}).paths == (f"{here}/a/b.pcap",)
    assert read({"path": "file:/data/b%20c.pcap"}).paths == ("/data/b c.pcap",)
    assert read({"path": "file:///data/*.pcap"}).paths == ("/data/*.pcap",)
    assert read({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")
    with pytest.raises(ValueError, match="path is missing"):
        read({"table": "packets"})


def test_tables_of_catalogs() -> None:
    """CREATE TABLE ... USING pyddsi would fail at a property that nobody wrote, and not say what would work."""
    with pytest.raises(ValueError, match="write CREATE TEMPORARY VIEW"):
        read({"path": "x", "owner": "root"})


def test_case_of_columns() -> None:
    """TS would be no column, where Spark's own sources take it for ts."""
    assert schema_of("messages", ["TS", "Kind"]).fieldNames() == ["ts", "kind"]
    asked = read({"path": "x", "columns": "TS,Kind"})
    assert asked.named == ("ts", "kind")


def test_two_lists_of_columns() -> None:
    """A schema would win over the option columns, or the other way round, and nobody be told."""
    source = CaptureSource({"path": LOSS, "columns": "kind"})
    assert source.reader(schema_of("messages", ["KIND"])) is not None
    with pytest.raises(ValueError, match=r"option columns names kind, and the schema .* ts, kind"):
        source.reader(schema_of("messages", ["ts", "kind"]))
    usual = CaptureSource({"path": LOSS, "addresses": "string"})
    assert usual.reader(schema_of("messages", ["kind"])) is not None


def test_guide_names_every_option() -> None:
    """An option would be there that nobody reads of."""
    guide = (CAPTURES.parent / "docs/guide/spark.md").read_text(encoding="utf-8")
    assert [name for name in KNOWN if f"`{name}`" not in guide and f"`{name}=" not in guide] == []


# ---- schemas ----


def test_schema_is_the_core_s() -> None:
    """There would be a second list of columns, which says something else."""
    for table in (*capture.TABLES, "files"):
        schema = schema_of(table, [column.name for column in columns_of(table)])
        assert [(f.name, f.nullable) for f in schema] == [
            (c.name, c.nullable) for c in columns_of(table)
        ]
        assert checked(table, schema) == tuple(schema.fieldNames())


WRONG_SCHEMAS = [
    ("kind int", "is tinyint, and the schema that was given says int"),
    ("usn bigint not null", "may be null, and the schema that was given forbids it"),
    ("usn bigint, usn bigint", "names a column twice: usn, usn"),
    ("no bigint", "has no column 'no'; "),
]


@pytest.mark.parametrize(("text", "why"), WRONG_SCHEMAS)
def test_wrong_schemas(text: str, why: str) -> None:
    """A schema that does not fit would end in an error of the JVM."""
    fields = []
    for field in text.split(", "):
        name, kind, *rest = field.split()
        types = {"int": "integer", "bigint": "long"}
        fields.append({"name": name, "type": types[kind], "nullable": not rest, "metadata": {}})
    with pytest.raises(ValueError, match=r".") as caught:
        checked("messages", StructType.fromJson({"type": "struct", "fields": fields}))
    assert why in str(caught.value)
