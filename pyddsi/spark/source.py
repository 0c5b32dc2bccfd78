"""
The source `pyddsi`: captures as DataFrames.

    spark.read.format("pyddsi").option("table", "messages").load("captures/*.pcapng")

    name, options ─► schema ─► partitions ─────────────► tasks
    _options.py      schema.py _parts.py, from an index  _read.py: batches that the core fills
                                                         _files.py: the table `files`

Spark finds it by the module `pyspark_pyddsi`, or is told by `pyddsi.spark.register(spark)`; it makes and pickles these objects in
processes of its own, so that they hold nothing but what was asked. What Spark does not do: tell which columns of a `select` are
wanted (name them by a schema, or the option `columns`). It would hand filters over, and they are not taken: Spark keeps what it has
planned with a filter, and gives it to the next query of the same DataFrame, or of the same view, that has none. `where` filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from pyddsi.spark._options import Asked, read
from pyddsi.spark._parts import Part, batch_parts
from pyddsi.spark.schema import arrow_schema, checked, schema_of

__all__ = ["CaptureReader", "CaptureSource"]


class CaptureSource(DataSource):
    """Captures of the protocol; docs/guide/spark.md has the tables and the options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.asked = read(options)

    @classmethod
    def name(cls) -> str:
        """What comes after format."""
        return "pyddsi"

    def schema(self) -> StructType:
        """The columns, if nobody gives others."""
        return schema_of(self.asked.table, self.asked.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a query."""
        self._agreed(schema)
        return CaptureReader(self.asked, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For a stream."""
        from pyddsi.spark.stream import stream_reader  # noqa: PLC0415 - queries do not need it

        self._agreed(schema)
        return stream_reader(self.asked, schema)

    def _agreed(self, schema: StructType) -> None:
        """Two lists of columns that differ: one of them would win, and nobody be told."""
        named, given = self.asked.named, tuple(name.lower() for name in schema.fieldNames())
        if named is not None and named != given:
            raise ValueError(
                f"option columns names {', '.join(named)}, and the schema that was given {', '.join(given)}; leave one of them out"
            )


class CaptureReader(DataSourceReader):
    """Plans in the driver, reads in the executors; pickled in between."""

    def __init__(self, asked: Asked, schema: StructType) -> None:
        self.asked = asked
        self.wanted = schema
        self.names = checked(asked.table, schema)

    def partitions(self) -> list[Part]:
        """What there is to read, cut up."""
        return batch_parts(self.asked, self.names)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The batches of one part."""
        from pyddsi.spark._counts import read_counts  # noqa: PLC0415 - for those who read
        from pyddsi.spark._files import read_files  # noqa: PLC0415 - for those who read
        from pyddsi.spark._read import read_part  # noqa: PLC0415 - it loads pyarrow

        assert isinstance(partition, Part)  # noqa: S101 - `partitions` made it
        schema = arrow_schema(self.wanted)
        settings = self.asked.open(()).settings
        if self.asked.table == "counts":
            return read_counts(partition, schema, settings)
        if self.asked.table == "files":
            return read_files(partition, schema, self.asked, settings)
        return read_part(partition, schema, settings, failfast=self.asked.failfast)
