"""DataFrames held against what one reader says, and captures for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from pyddsi import capture
from pyddsi.capture import _index
from pyddsi.spark.schema import ADDED
from tests.capture.rows import everything, key
from tests.capture.traffic import traffic, write

__all__ = ["CONF", "Row", "indexed", "long_capture", "one_reader", "rows_of", "same"]

Row = dict[str, Any]
ORDERED = ("packets", "messages", "declarations")

CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark looks at the schema of every batch then, and not of the first alone
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
}


def rows_of(frame: DataFrame | pa.Table) -> list[Row]:
    """The rows, as Arrow has them: times with their zone."""
    table = frame if isinstance(frame, pa.Table) else frame.toArrow()
    return list(table.to_pylist())


def one_reader(path: Any, table: str, columns: Any = None, **options: Any) -> list[Row]:
    """The rows of `pyddsi.capture`, with all columns unless some are named."""
    return rows_of(capture.open(path).table(table, columns or everything(table), **options))


def same(table: str, found: list[Row], wanted: list[Row]) -> None:
    """They are the same rows; in order, where the table has one."""
    if table in ORDERED:
        assert found == wanted
    else:
        assert sorted(map(key, found)) == sorted(map(key, wanted))
    assert found or not wanted


def long_capture(path: Path, packets: int = 12_000, **options: Any) -> Path:
    """A capture of about a hundred bytes for each packet."""
    return write(path, traffic(5, packets=packets, **options).frames)


def indexed(path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A capture with an index of small chunks beside it, as if it were large."""
    with monkeypatch.context() as patch:
        patch.setattr(_index, "CHUNK_BYTES", chunk)
        [made] = capture.open(path).indexes()
    assert len(made.chunks) >= path.stat().st_size // chunk
    return path


assert set(ADDED) == {"flows", "rates", "endpoints"}
