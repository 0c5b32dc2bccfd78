"""
SQL views of captures: one for each table, with names where the tables have numbers.

    register_views(spark, "captures/*.pcapng")
    SELECT resource, sum(bytes) FROM rates GROUP BY resource

    view                      what it is
    packets, messages,        the table's rows; `resource` and `uri` name what is published,
    events, declarations      `src` and `dst` who sends and who receives
    flows, rates, endpoints   added up over the ranges that the capture was read in, one row for each thing; with names
    sessions, resources,      the table's rows
    files

Names are joined from small tables, which go to every executor (a broadcast). Each has one row for a key, and the optimizer knows
it: a query that does not use a name does not pay for it, the join and what it would read are left out.

A view has all its columns, and Spark does not tell the source which of them a query wants. Who asks `messages` again and again
names the columns: register_views(spark, path, columns={"messages": ["ts", "kind", "recording", "rid", "src_ep"]}). A number has a
name where its recording and its sender are there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from pyddsi.capture._tally import FIRSTS, LATEST, LEAST, MOST, SUMS
from pyddsi.spark._options import plain
from pyddsi.spark._session import Paths, read
from pyddsi.spark.schema import ADDED, TABLES, TIMED, columns_of

__all__ = ["added", "register_views"]

KEYS = {
    "flows": ("recording", "flow", "epoch"),
    "rates": ("recording", "window", "flow", "rid", "kind"),
    "endpoints": ("recording", "ep"),
}
TEXTS = {
    "flows",
    "sessions",
    "resources",
    "declarations",
}  # so few rows that their texts cost nothing


# ---- adding up ----


def _histogram(name: str) -> Column:
    """Counts added place by place. There are as many lists as ranges, and none of them is long."""

    def add(a: Column, b: Column) -> Column:
        return f.zip_with(a, b, lambda x, y: f.coalesce(x, f.lit(0)) + f.coalesce(y, f.lit(0)))

    lists = f.collect_list(name)
    return f.when(f.size(lists) > 0, f.aggregate(lists, f.array().cast("array<bigint>"), add))


def _first(name: str) -> Column:
    """The first frame of several ranges that shows something, or its file."""
    file, frame = (f"{name.partition('_')[0]}_{word}" for word in ("file", "pkt"))
    first = f.min(f.when(f.col(frame).isNotNull(), f.struct(file, frame)))[name]
    return f.coalesce(first, f.lit(0)) if name == file else first


def _together(name: str) -> Column:
    """What a column of several ranges is together."""
    if name in FIRSTS:
        return _first(name)
    if name in SUMS:
        return f.sum(name)
    if name in LEAST:
        return f.min(name)
    if name in MOST:
        return f.max(name)
    if name in LATEST:
        return f.coalesce(f.max_by(name, "last_ns"), f.max(name))
    if name.endswith("_hist"):
        return _histogram(name)
    return f.first(name, ignorenulls=True)  # the same in all of them


def added(table: str, rows: DataFrame) -> DataFrame:
    """The rows of flows, rates or endpoints, one for each thing: what was read in ranges is added up."""
    keys = [name for name in KEYS[table] if name in rows.columns]
    rest = [name for name in rows.columns if name not in keys]
    for name in FIRSTS:
        if name in rest and not set(FIRSTS[name]) <= set(rest):
            raise ValueError(
                f"a frame is one of a file: read {' and '.join(FIRSTS[name])} together"
            )
    together = rows.groupBy(*keys).agg(*[_together(name).alias(name) for name in rest])
    return together.select(*rows.columns)


# ---- names ----


def _of(key: str) -> Column:
    """A key of names, under a name of its own."""
    return f.col(key).alias(f"{key}_of")


class _Names:
    """The small tables that names are joined from. Each has one row for a key, made by grouping, which the optimizer sees."""

    def __init__(self, table: Callable[..., DataFrame]) -> None:
        self._table = table

    def _joined(self, rows: DataFrame, keys: Sequence[str], names: DataFrame) -> DataFrame:
        same = [f.col(key) == f.col(f"{key}_of") for key in keys]
        return rows.join(f.broadcast(names), same, "left").drop(*(f"{key}_of" for key in keys))

    def of_flow(self, rows: DataFrame) -> DataFrame:
        """Who sends a flow and to whom."""
        names = ["src_ep", "dst_ep", "conduit", "reliable", "multicast", "src", "dst"]
        wanted = [name for name in names if name not in rows.columns]
        keys = ["recording", "flow"]
        ends = self._table("flows", [*keys, *wanted]).groupBy(*map(_of, keys))
        return self._joined(rows, keys, ends.agg(*[f.first(n).alias(n) for n in wanted]))

    def of_ends(self, rows: DataFrame) -> DataFrame:
        """The endpoints as texts."""
        known = self._table("endpoints", ["ep", "address", "port"])
        host = f.when(f.col("address").contains(":"), f.format_string("[%s]", "address"))
        text = f.concat_ws(":", f.coalesce(host, "address"), "port")
        for end in ("src", "dst"):
            if f"{end}_ep" in rows.columns:
                names = known.groupBy(f.col("ep").alias(f"{end}_ep_of")).agg(
                    f.first(text).alias(end)
                )
                rows = self._joined(rows, [f"{end}_ep"], names)
        return rows

    def of_resource(self, rows: DataFrame) -> DataFrame:
        """
        What a number is called: by its sender, or else by whoever named it last, which is how the core takes it. In another recording
        it may be called otherwise.
        """
        keys = ["recording", "rid"]
        known = self._table("resources", [*keys, "declarer_ep", "uri", "valid_from_ns"])
        own = known.groupBy(*keys, "declarer_ep").agg(
            f.max_by("uri", "valid_from_ns").alias("uri"), f.max("valid_from_ns").alias("since")
        )
        names = own.groupBy(*map(_of, keys)).agg(
            f.map_from_entries(f.collect_list(f.struct("declarer_ep", "uri"))).alias("_own"),
            f.max_by("uri", "since").alias("_last"),
        )
        rows = self._joined(rows, keys, names)
        uri = f.coalesce(f.try_element_at("_own", f.col("src_ep")), "_last")
        number = f.concat(f.lit("rid "), f.col("rid").cast("string"))
        rows = rows.withColumn("uri", uri).withColumn("resource", f.coalesce("uri", number))
        return rows.drop("_own", "_last")


# ---- views ----


def _view(table: str, rows: DataFrame, names: _Names) -> DataFrame:
    """What a view shows of a table."""
    if table in ADDED:
        rows = added(table, rows)
    have = set(rows.columns)
    if table in {"rates", "events"} and {"recording", "flow"} <= have:
        rows = names.of_flow(rows)
    if table in {"packets", "messages"}:
        rows = names.of_ends(rows)
    if table in {"messages", "rates"} and {"recording", "rid", "src_ep"} <= set(rows.columns):
        rows = names.of_resource(rows)
    return rows


def register_views(
    spark: SparkSession,
    path: Paths,
    *,
    tables: Iterable[str] = TABLES,
    columns: Mapping[str, Iterable[str]] | None = None,
    prefix: str = "",
    **options: object,
) -> tuple[str, ...]:
    """
    Make SQL views of captures, and answer their names.

    tables: which; all of them
    columns: of a table, those that its view has; else all but payloads
    prefix: before each name, to have views of two captures: "before_"
    options: of the source, for all tables; from and to are for those that have times
    """

    def table(name: str, wanted: Iterable[str] | None = None) -> DataFrame:
        fitting = {
            option: value
            for option, value in options.items()
            if name in TIMED or plain(option) not in {"from", "to"}
        }
        return read(spark, path, name, wanted, **fitting)

    made: list[str] = []
    names = _Names(table)
    for name in tables:
        known = [column.name for column in columns_of(name) if not column.dear or name in TEXTS]
        wanted = (columns or {}).get(name, known)
        _view(name, table(name, wanted), names).createOrReplaceTempView(prefix + name)
        made.append(prefix + name)
    return tuple(made)
