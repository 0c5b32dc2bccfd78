"""
Captures in Spark: DataFrames whose batches the core fills, streams over folders, SQL views.

    spark = pyddsi.spark.session()                          # what one forgets to set, set; and the source registered
    messages = pyddsi.spark.read(spark, "captures/*.pcapng", columns=["ts", "kind", "rid", "seq_event"])
    pyddsi.spark.register_views(spark, "captures/*.pcapng")
    spark.sql("SELECT resource, sum(bytes) FROM rates GROUP BY resource").show()

Without these, in any Spark that has pyddsi installed: `spark.read.format("pyddsi").load(path)`. docs/guide/spark.md tells the rest.
`pip install 'pyddsi[spark]'` brings pyspark and pyarrow; Java 17 has to be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyddsi.spark._session import read, register, session
    from pyddsi.spark.source import CaptureSource
    from pyddsi.spark.views import register_views

__all__ = ["CaptureSource", "read", "register", "register_views", "session"]

# Spark's processes load this package for the source alone.
_PLACES = {
    "CaptureSource": "source",
    "read": "_session",
    "register": "_session",
    "register_views": "views",
    "session": "_session",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'pyddsi.spark' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    try:
        return getattr(import_module(f"pyddsi.spark.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"pyspark", "py4j", "pyarrow"}:
            raise
        raise ModuleNotFoundError(
            f"{error.name} is needed for this: `pip install 'pyddsi[spark]'`", name=error.name
        ) from None
