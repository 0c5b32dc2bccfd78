"""Tables written as Parquet or Arrow files: one, or a folder with one for each hour."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["write_rows"]

HOUR_NS = 3_600 * 10**9
OPEN_MAX = 32
TIMES = ("ts_ns", "ts", "window", "first_ns", "open_ns", "valid_from_ns")


def _parquet(path: Path, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq  # noqa: PLC0415 - only then

    return pq.ParquetWriter(path, schema, compression="zstd")


def _arrow(path: Path, schema: pa.Schema) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - only then

    return pa.ipc.new_file(path, schema)


def _by_hour(batch: pa.RecordBatch, column: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each hour, as date=2026-11-18/12; rows without a time go with the beginning of all time."""
    import pyarrow as pa  # noqa: PLC0415 - only then
    import pyarrow.compute as pc  # noqa: PLC0415

    times = batch[column]
    unit = HOUR_NS // 1000 if pa.types.is_timestamp(times.type) else HOUR_NS
    hours = pc.fill_null(pc.call_function("divide", [times.cast(pa.int64()), unit]), 0)
    for hour in sorted(hours.unique().to_pylist()):
        moment = datetime.fromtimestamp(hour * 3600, UTC)
        here = pc.call_function("equal", [hours, hour])
        yield f"date={moment:%Y-%m-%d}/{moment:%H}", batch.filter(here)


class _Folder:
    """A Parquet file for each hour; those that were written to longest ago are closed when many are open, and go on in another."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._open: dict[str, Any] = {}
        self._parts: dict[str, int] = {}
        self._column = next((name for name in TIMES if name in schema.names), None)
        if self._column is None:
            raise CaptureError(
                f"a folder by hours needs a column of time; name one of {', '.join(TIMES)}, or a .parquet file"
            )

    def _writer(self, hour: str) -> Any:
        if hour not in self._open:
            if len(self._open) == OPEN_MAX:
                self._open.pop(next(iter(self._open))).close()
            part = self._parts.get(hour, 0)
            self._parts[hour] = part + 1
            file = self._path / (f"{hour}.parquet" if part == 0 else f"{hour}-{part}.parquet")
            file.parent.mkdir(parents=True, exist_ok=True)
            self._open[hour] = _parquet(file, self._schema)
        return self._open[hour]

    def write_batch(self, batch: pa.RecordBatch) -> None:
        assert self._column is not None  # noqa: S101 - see above
        for hour, rows in _by_hour(batch, self._column):
            self._writer(hour).write_batch(rows)

    def close(self) -> None:
        for writer in self._open.values():
            writer.close()


def write_rows(path: str | os.PathLike[str], reader: pa.RecordBatchReader) -> int:
    """Write all rows, each batch in order of time; answers how many."""
    place = Path(path)
    kinds = {".parquet": _parquet, ".arrow": _arrow, ".feather": _arrow, "": _Folder}
    kind = (
        _Folder
        if place.is_dir() or os.fspath(path).endswith("/")
        else kinds.get(place.suffix.lower())
    )
    if kind is None:
        raise CaptureError(
            f"{path}: a table's name ends in .parquet or .arrow, or is a folder; a capture's in .pcapng or .pcap"
        )
    order = next((name for name in ("ts_ns", "ts") if name in reader.schema.names), None)
    rows = 0
    try:
        writer = kind(place, reader.schema)
        try:
            for batch in reader:
                writer.write_batch(batch.sort_by(order) if order else batch)
                rows += batch.num_rows
        finally:
            writer.close()
    except OSError as error:
        raise CaptureError(f"{path} cannot be written: {error}") from error
    return rows
