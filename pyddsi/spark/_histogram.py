"""
Percentiles without sorting, and whatever the skew: times are counted in the places of a log-linear histogram (csrc/base/histogram.h,
16 places for each power of two, so that a value is known to a sixteenth), and places add up. A percentile is the least value of
the place that it lies in, the same as the core and `pyddsi.capture.report` say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

__all__ = ["PERCENTILES", "least", "percentile_of", "percentiles", "place"]

PLACES = 512
PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p99": 0.99}


def place(us: str) -> Column:
    """The place of the values of a column in microseconds."""
    power = f"(length(bin({us})) - 1)"
    high = f"({power} - 3) * 16 + (shiftright({us}, {power} - 4) & 15)"
    return f.expr(
        f"CAST(CASE WHEN {us} < 16 THEN greatest({us}, 0) ELSE least({high}, {PLACES - 1}) END AS INT)"
    )


def least(at: Column) -> Column:
    """The least value of a place, in microseconds."""
    high = f.call_function(
        "shiftleft", (16 + at % 16).cast("bigint"), (f.floor(at / 16) - 1).cast("int")
    )
    return f.when(at < 16, at.cast("bigint")).otherwise(high)


def percentiles(
    rows: DataFrame, keys: Sequence[str], us: str, shares: Mapping[str, float] = PERCENTILES
) -> DataFrame:
    """
    For each of the keys: `count`, a column for each share, and `max`, of the values of the column `us` that are not null.

    Only counts are shuffled, and a window over one key has as many rows as the histogram has places.
    """
    places = (
        rows.where(f.col(us).isNotNull())
        .groupBy(*keys, place(us).alias("_at"))
        .agg(f.count("*").alias("_count"), f.max(us).alias("_most"))
    )
    among = Window.partitionBy(*keys)
    ranked = places.select(
        "*",
        f.sum("_count").over(among.orderBy("_at")).alias("_seen"),
        f.sum("_count").over(among).alias("_total"),
    )
    values = [
        least(f.min(f.when(f.col("_seen") >= f.col("_total") * f.lit(share), f.col("_at")))).alias(
            name
        )
        for name, share in shares.items()
    ]
    return ranked.groupBy(*keys).agg(
        f.sum("_count").alias("count"), *values, f.max("_most").alias("max")
    )


def percentile_of(histogram: str, share: float) -> Column:
    """A percentile of a column that holds a histogram as a list; null if that is null or counts nothing."""
    total = f"aggregate({histogram}, 0L, (a, n) -> a + n)"  # carried along, or it would be added up anew for each place
    begin = f"named_struct('total', {total}, 'seen', 0L, 'at', -1, 'i', 0)"
    step = (
        "(a, n) -> named_struct('total', a.total, 'seen', a.seen + n, "
        f"'at', IF(a.at < 0 AND a.seen + n >= {share}D * a.total, a.i, a.at), 'i', a.i + 1)"
    )
    at = f"aggregate({histogram}, {begin}, {step}, a -> IF(a.total > 0, a.at, NULL))"
    return least(f.expr(at))
