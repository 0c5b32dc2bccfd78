"""Filters that Spark hands over: what the core takes must mean what SQL means, and the rest goes back."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import datasource as ds

from pyddsi import capture
from pyddsi.spark import read as frame_of
from pyddsi.spark._filters import pushed
from pyddsi.spark._options import read
from tests.py.golden import CAPTURES
from tests.spark.frames import Row, one_reader, rows_of

LOSS = str(CAPTURES / "p2p_loss5.pcap")


def value_of(column: capture.Column, rand: random.Random, seen: list[Row]) -> Any:
    """Some value that a column has, or nearly."""
    value = rand.choice(seen)[column.name]
    if isinstance(value, int) and not isinstance(value, bool):
        return value + rand.randrange(-1, 2)
    return value


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}


def fulfils(one: Any, row: Row) -> bool:
    """What SQL makes of a filter: null is not true, negated or not."""
    inner: Any = one.child if isinstance(one, ds.Not) else one
    value = row[inner.attribute[0]]
    name = type(inner).__name__
    unknown = False
    if name in {"IsNull", "IsNotNull"}:
        found = (value is None) == (name == "IsNull")
    elif name == "In":
        found = value in inner.value
        unknown = value is None or (not found and None in inner.value)
    else:
        unknown = name != "EqualNullSafe" and (value is None or inner.value is None)
        found = not unknown and bool(COMPARE[name](value, inner.value))
    return not unknown and found != isinstance(one, ds.Not)


def some_filter(columns: list[capture.Column], rand: random.Random, seen: list[Row]) -> Any:
    """A filter as Spark hands it over."""
    column = rand.choice(columns)
    name = (column.name,)
    kinds = [
        ds.EqualTo,
        ds.EqualNullSafe,
        ds.GreaterThan,
        ds.GreaterThanOrEqual,
        ds.LessThan,
        ds.LessThanOrEqual,
    ]
    kind = rand.choice([*kinds, ds.In, ds.IsNull, ds.IsNotNull])
    made: Any
    if kind in {ds.IsNull, ds.IsNotNull}:
        return kind(name)
    if kind is ds.In:
        made = ds.In(name, tuple(value_of(column, rand, seen) for _ in range(rand.randrange(1, 4))))
    else:
        made = kind(name, value_of(column, rand, seen))
    return ds.Not(made) if rand.random() < 0.4 else made


@pytest.mark.parametrize(
    "name", ["p2p_loss5.pcap", "p2p_uri.pcap", "p2p_three_peers.pcap", "p2p_wildcard_pub.pcap"]
)
@pytest.mark.parametrize("table", ["messages", "events", "packets", "declarations"])
def test_filters_mean_what_sql_means(name: str, table: str) -> None:
    """A filter that the core takes over from Spark would let other rows through, mostly where something is null."""
    rand = random.Random(f"{name}{table}")
    path = CAPTURES / name
    columns = [c for c in capture.columns(table) if c.type not in {"binary", "list<int64>"}]
    names = [column.name for column in columns]
    every = one_reader(path, table, names)
    asked = read({"path": str(path), "table": table})
    taken = 0
    for _ in range(60):
        filters = [some_filter(columns, rand, every) for _ in range(rand.randrange(1, 3))]
        now, left = pushed(asked, filters)
        kept = [one for one in filters if one not in left]
        taken += len(kept)
        wanted = [row for row in every if all(fulfils(one, row) for one in kept)]
        found = one_reader(path, table, names, where=now.where) if now.where else every
        assert found == wanted, (kept, now.where)
        assert all(
            row.get("ts_ns") is None or now.times[0] <= row["ts_ns"] < now.times[1] for row in found
        )
    assert taken > 40


def test_filters_that_go_back() -> None:
    """A filter that the core cannot check would be dropped."""
    asked = read({"path": LOSS, "where": "kind == SDATA"})
    for one in (
        ds.StringStartsWith(("src",), "10."),
        ds.EqualTo(("payload",), b"x"),
        ds.EqualTo(("usn",), None),
        ds.GreaterThan(("src",), "10."),
        ds.EqualTo(("a", "b"), 1),
        ds.Not(ds.In(("usn",), (1, None))),
        ds.In(("usn",), tuple(range(200))),
        ds.EqualTo(("usn",), 2**70),
        ds.EqualTo(("usn",), 1.5),
    ):
        assert pushed(asked, [one]) == (asked, [one])
    now, left = pushed(asked, [ds.EqualTo(("usn",), 7)])
    assert (now.where, left) == ("(kind == SDATA) and usn == 7", [])


def test_filters_go_to_the_core(spark: SparkSession) -> None:
    """All rows would cross to Spark to be thrown away there; or filters of SQL would mean something else in the core."""
    conditions = [
        "kind = 7 AND usn >= 20",
        "rid IS NULL",
        "NOT (rid = 1)",
        "seq_event NOT IN (0, 8)",
        "rid <=> 1 OR kind = 15",
        "ts > TIMESTAMP '2026-11-18T10:11:20.5' AND reliable",
        "NOT reliable",
    ]
    columns = ["ts", "kind", "rid", "usn", "seq_event", "reliable"]
    for condition in conditions:
        without = frame_of(spark, LOSS, columns=columns, pushdown="off").where(condition)
        pushed = frame_of(spark, LOSS, columns=columns, pushdown="on").where(condition)
        assert rows_of(pushed) == rows_of(without), condition
        plan = pushed._jdf.queryExecution().executedPlan().toString()
        assert ("Filter (" in plan) == (" OR " in condition), plan
    assert rows_of(frame_of(spark, LOSS, columns=columns, pushdown=True).where("kind = 7"))


def test_filters_need_no_setting(spark: SparkSession) -> None:
    """Where the session's setting forbids filters, nothing could be read."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert frame_of(spark, LOSS, columns=["kind"]).where("kind = 7").count() == 1601
        with pytest.raises(AnalysisException, match=r"filterPushdown\.enabled"):
            frame_of(spark, LOSS, pushdown=True).where("kind = 7").count()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
