"""
The report of `pyddsi.capture.report`, added up by Spark: for captures that one process would read for too long, or that only a
cluster sees.

    counts, endpoints, sessions, flows, rates, resources ─► Info ─┐
    rates, messages, by windows of time ──────────────────────────┴─► Picture, the same as one process finds

What comes to the driver is bounded, however large the captures are: each list has LISTED_MAX entries, each series WINDOWS_MAX points
for each of a few lines. Cutting and adding up are Spark's, in the order that _found.py has as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from pyddsi import capture
from pyddsi.capture import Capture
from pyddsi.capture._found import BAD_ENDS, COLUMNS, LISTED_MAX, Found, made
from pyddsi.capture._scan import NONE, Problem
from pyddsi.capture._tally import LEAST, MOST, Count, Tally
from pyddsi.capture.info import Info
from pyddsi.capture.report import Picture, window_of
from pyddsi.capture.report._local import (
    JITTER,
    jitters_of,
    losses_of,
    rank_of,
    rates_of,
    times_of,
)
from pyddsi.errors import CaptureError
from pyddsi.spark._histogram import percentile_of, percentiles
from pyddsi.spark._session import Paths, read, session
from pyddsi.spark.views import added

__all__ = ["collect", "picture"]

Row = dict[str, Any]

SECOND = 1_000_000_000
WINDOW_LONGEST = 1_000_000_000.0  # seconds: so that rates come by resource alone
EVENTS = {2: "gap", 3: "repeat", 4: "fill", 8: "pre_sync"}


class _Captures:
    """Captures whose tables are read as often as they are wanted."""

    def __init__(self, spark: SparkSession, path: Paths, options: dict[str, object]) -> None:
        self._spark, self._path, self._options = spark, path, options

    def __call__(self, table: str, columns: Any, **options: object) -> DataFrame:
        return read(self._spark, self._path, table, columns, **self._options, **options)


def _rows(frame: DataFrame) -> list[Row]:
    """The rows of a frame that is small."""
    return [row.asDict() for row in frame.collect()]


# ---- what a capture holds ----


def _tally(tables: _Captures) -> Tally:
    rows = tables("counts", ["file", "name", "value", "pkt", "text"])
    counts = f.when(
        ~f.col("name").isin(*LEAST, *MOST), f.col("value")
    )  # times would be too large a sum
    together = f.coalesce(
        f.sum(counts),
        f.when(f.first("name").isin(*LEAST), f.min("value")),
        f.max("value"),
    )
    first = f.min(f.when(f.col("pkt").isNotNull(), f.struct("file", "pkt")))
    file = f.min("file").alias("file")
    rows = rows.groupBy("name", "text").agg(together.alias("value"), first.alias("first"), file)
    tally = Tally()
    for row in _rows(rows.orderBy("file", "name", "text").limit(LISTED_MAX)):
        name = row["name"]
        if name.startswith("problem."):
            path, _, text = row["text"].partition("\n")
            tally.problems.append(Problem(path, name.removeprefix("problem."), text))
            continue
        tally.add(Count(name, row["value"], row["first"] and tuple(row["first"])))
    return tally


def _largest(frame: DataFrame, *order: Column) -> list[Row]:
    return _rows(frame.orderBy(*order).limit(LISTED_MAX))


def _sessions(tables: _Captures) -> list[Row]:
    bad = f.col("end").isin(*BAD_ENDS)
    began = f.coalesce("accept_ns", "open_ns")
    names = ("open_file", "open_pkt", "session", "number")
    order = (began.asc_nulls_first(), *map(f.col, names))
    return _largest(tables("sessions", COLUMNS["sessions"]), bad.desc(), *order)


def _endpoints(tables: _Captures) -> list[Row]:
    rows = added("endpoints", tables("endpoints", COLUMNS["endpoints"]))
    rows = rows.where("packets > 0 AND NOT multicast")
    return _largest(rows, f.col("first_ns").asc_nulls_first(), f.col("address"), f.col("port"))


def _flows(tables: _Captures) -> list[Row]:
    rows = added("flows", tables("flows", COLUMNS["flows"]))
    order = [f.col("messages").desc(), *map(f.col, ("src", "dst", "conduit", "reliable"))]
    for name in ("answer", "delivery"):
        pair = f.array(percentile_of(f"{name}_hist", 0.5), percentile_of(f"{name}_hist", 0.99))
        rows = rows.withColumn(f"{name}_us", f.when(pair[0].isNotNull(), pair)).drop(f"{name}_hist")
    found = _largest(rows, *order)
    for row in found:
        for name in ("answer_us", "delivery_us"):
            row[name] = None if row[name] is None else tuple(row[name])
    return found


def _named(tables: _Captures, rows: DataFrame) -> DataFrame:
    """Rows with a `recording` and a `rid`: `uri` is what that recording calls it, and where it has no name, `number` is the number."""
    known = tables("resources", ["recording", *COLUMNS["resources"]])
    earliest = f.struct(f.coalesce("valid_from_ns", f.lit(NONE)), "uri")
    names = known.groupBy("recording", "rid").agg(f.min(earliest)["uri"].alias("uri"))
    found = rows.join(f.broadcast(names), ["recording", "rid"], "left").fillna("", "uri")
    return found.withColumn("number", f.when(f.col("uri") == "", f.col("rid")))


def _rates(tables: _Captures) -> list[Row]:
    """The largest resources."""
    rows = tables("rates", ["recording", *COLUMNS["rates"]], window=WINDOW_LONGEST)
    sums = [f.sum(name).alias(name) for name in ("messages", "bytes", "repeats")]
    each = _named(tables, rows.groupBy("recording", "rid").agg(*sums))
    order = [f.col("messages").desc(), f.col("rid").asc_nulls_first(), f.col("uri")]
    one = each.groupBy("uri", "number").agg(f.min("rid").alias("rid"), *sums)
    return _largest(one, *order)


def _info(tables: _Captures, files: tuple[str, ...]) -> Info:
    found = Found(_tally(tables), _endpoints(tables), _sessions(tables), _flows(tables))
    found.rates = _rates(tables)
    return made(files, found)


# ---- series over time ----


def _window(times: str, window_ns: int) -> Column:
    return f.expr(f"{times} - pmod({times}, {window_ns}L)").alias("window_ns")


def _by_resource(tables: _Captures, shown: Picture) -> Iterator[tuple[int, int, int]]:
    ranks = rank_of(shown)
    at = f.lit(len(ranks))
    for (uri, rid), rank in ranks.items():
        same = f.col("number").eqNullSafe(f.lit(rid).cast("bigint")) & (f.col("uri") == uri)
        at = f.when(same, f.lit(rank)).otherwise(at)
    names = ["recording", "window", "rid", "messages"]
    rows = _named(tables, tables("rates", names, window=shown.window_ns / SECOND))
    sums = rows.where("window IS NOT NULL").groupBy(
        f.unix_micros("window").alias("us"), at.alias("at")
    )
    for row in sums.agg(f.sum("messages").alias("messages")).collect():
        yield row["us"] * 1000, row["at"], row["messages"]


def _jitters(tables: _Captures) -> Iterator[tuple[str, int | None, int, int]]:
    keys = ["recording", "flow", "rid"]
    rows = tables("messages", [*keys, "file", "pkt", "msg", "ts_ns"], where=JITTER)
    rows = rows.where("ts_ns IS NOT NULL AND rid IS NOT NULL")
    before = Window.partitionBy(*keys).orderBy("file", "pkt", "msg")
    one, two = (f.lag("ts_ns", back).over(before) for back in (1, 2))
    apart = f.abs((f.col("ts_ns") - one) - (one - two)).alias("apart")
    each = rows.select("recording", "rid", apart).where("apart IS NOT NULL")
    sums = each.groupBy("recording", "rid").agg(
        f.sum("apart").alias("apart"), f.count("*").alias("n")
    )
    named = _named(tables, sums).groupBy("uri", "number")
    found = named.agg(f.sum("apart").alias("apart"), f.sum("n").alias("n"))
    for row in found.orderBy(f.col("n").desc()).limit(LISTED_MAX).collect():
        yield row["uri"], row["number"], row["apart"], row["n"]


def _losses(tables: _Captures, window_ns: int) -> Iterator[tuple[int, str, int]]:
    where = "seq_event in (2, 3, 4, 8) and kind in (SDATA, BDATA, WDATA)"
    rows = tables("messages", ["ts_ns", "seq_event", "gap"], where=where).where("ts_ns IS NOT NULL")
    count = f.sum(f.when(f.col("seq_event") == 2, f.col("gap")).otherwise(1))
    for row in (
        rows.groupBy(_window("ts_ns", window_ns), "seq_event").agg(count.alias("n")).collect()
    ):
        yield row["window_ns"], EVENTS[row["seq_event"]], row["n"]


def _times(tables: _Captures, window_ns: int) -> Iterator[tuple[int, str, int, int]]:
    rows = tables("messages", ["ts_ns", "answer_us", "delivery_us"], where="kind == ACKNACK")
    both = f.explode(
        f.array(
            *(
                f.struct(f.lit(what).alias("what"), f.col(f"{what}_us").alias("us"))
                for what in ("answer", "delivery")
            )
        )
    )
    each = rows.where("ts_ns IS NOT NULL").select(_window("ts_ns", window_ns), both.alias("of"))
    for row in percentiles(each.select("window_ns", "of.*"), ["window_ns", "what"], "us").collect():
        yield row["window_ns"], row["what"], row["p50"], row["p99"]


# ---- all of it ----


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What our own code says is wrong comes through two languages, with the traces of both around it, as this class or that."""
    try:
        yield
    except Exception as error:
        said = re.search(r"pyddsi\.errors\.\w+: (.*)", str(error))
        if said is None:
            raise
        raise CaptureError(said[1]) from error


def picture(spark: SparkSession, path: Paths, **options: object) -> Picture:
    """What a report on captures shows; options are those of the source. `pyddsi.capture.report.render` makes the page."""
    files = capture.open(path).files
    tables = _Captures(spark, path, options)
    with _plain_errors():
        info = _info(tables, files)
        shown = Picture(info, window_of(info))
        shown.rates = rates_of(shown, _by_resource(tables, shown))
        shown.jitters = jitters_of(shown, _jitters(tables))
        shown.losses = losses_of(shown, _losses(tables, shown.window_ns))
        shown.times = times_of(shown, _times(tables, shown.window_ns))
    return shown


def collect(run: Capture, master: str | None = None) -> Picture:
    """
    The same as `pyddsi.capture.report.collect`, by Spark: by the session that there is, or one that is made for it.

    master: of Spark, if one has to be made
    """
    if any(not isinstance(member.source, str) or member.source == "-" for member in run.members):
        raise CaptureError(
            "Spark cannot read standard input; save it as a file, or let one process read it"
        )
    mine = SparkSession.getActiveSession() is None
    spark = session(master=master, conf={"spark.ui.showConsoleProgress": "false"})
    if mine:
        spark.sparkContext.setLogLevel("FATAL")
    asked = run.settings
    settings: dict[str, object] = {
        "ports": asked.ports,
        "seq_bits": asked.seq_bits or "auto",
        "learn": asked.learn,
        "extensions": asked.extensions,
        "dedupe": asked.dedupe,
        "memory": asked.memory,
    }
    try:
        shown = picture(spark, run.files, **settings)
    finally:
        if mine:
            spark.stop()
    run.note(shown.info.problems)
    return shown
