"""
What is wrong with a Spark, seen from where tasks run: versions that differ, a wheel that is not there, a path that only the
driver sees.

    looks(spark, path) ─► the driver, asked here ─┐
                          tasks, asked by Spark ──┴─► held against each other ─► name, level, text, what mends it

What the tasks run is a source of its own, made inside a function: Spark sends such a class as a whole, and not by the name of a
module, so it runs where pyddsi is not installed and can say so. It goes the way that captures go, through Connect as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

__all__ = ["Look", "looks"]

Look = tuple[str, str, str, tuple[str, ...]]
"""What was looked at; ok, warn or fail; what is so; commands or settings that mend it."""
TASKS = 16
COMPARED = ("python", "machine", "pyddsi", "layout", "pyspark", "pyarrow")
MENDS = {
    "python": "one minor version of Python everywhere; `pyddsi spark submit-help` packs one",
    "machine": "one kind of processor everywhere, or an environment for each",
    "pyddsi": "install the same pyddsi everywhere; `pyddsi spark submit-help` shows how",
    "layout": "install the same pyddsi everywhere",
    "pyspark": "the driver's pyspark in the version of the cluster",
    "pyarrow": "pyarrow 18 or newer everywhere",
}


def _asker(path: str) -> Callable[[], dict[str, Any]]:
    """What is asked, here and there. It leans on nothing of this module, so that it can be sent."""

    def ask() -> dict[str, Any]:
        import os  # noqa: PLC0415 - it runs elsewhere
        import platform  # noqa: PLC0415
        import sys  # noqa: PLC0415
        import zlib  # noqa: PLC0415
        from importlib import metadata  # noqa: PLC0415

        found: dict[str, Any] = {
            "host": platform.node(),
            "executable": sys.executable,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "machine": platform.machine(),
        }
        for name in ("pyddsi", "pyspark", "pyarrow"):
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                found[name] = None
        try:
            from pyddsi._native import lib  # noqa: PLC0415

            found["layout"] = int(lib.PYDDSI_SNAPSHOT_LAYOUT)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is said
            found["layout"], found["broken"] = None, str(error)
        if path:
            try:
                if os.path.isdir(path):  # noqa: PTH112
                    found["path"] = f"a folder of {len(os.listdir(path))} entries"  # noqa: PTH208
                else:
                    with open(path, "rb") as file:  # noqa: PTH123
                        found["path"] = (
                            f"{os.path.getsize(path)} bytes, {zlib.crc32(file.read(4096)):08x}"  # noqa: PTH202
                        )
            except OSError as error:
                found["path"] = error.strerror
        return found

    return ask


def _source(ask: Callable[[], dict[str, Any]]) -> type[DataSource]:
    """A source of one row for each task. Being local, it is sent as a whole."""

    class Reader(DataSourceReader):
        def __init__(self, tasks: int) -> None:
            self.tasks = tasks

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(i) for i in range(self.tasks)]

        def read(self, partition: InputPartition) -> Iterator[tuple[str]]:  # noqa: ARG002
            import json as text  # noqa: PLC0415 - it runs elsewhere

            yield (text.dumps(ask()),)

    class Doctor(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pyddsi_doctor"

        def schema(self) -> str:
            return "found string"

        def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark calls it by name
            return Reader(int(self.options["tasks"]))

    return Doctor


def _there(spark: SparkSession, path: str, tasks: int) -> list[dict[str, Any]]:
    """What each place says where tasks ran, once for each."""
    spark.dataSource.register(_source(_asker(path)))
    frame = spark.read.format("pyddsi_doctor").option("tasks", tasks).load()
    return [json.loads(row.found) for row in frame.distinct().collect()]


def _compared(here: dict[str, Any], there: dict[str, Any]) -> Iterator[Look]:
    where = f"executor on {there['host']}"
    for name in COMPARED:
        if there[name] == here[name] and there[name] is not None:
            continue
        level = "warn" if name in {"pyarrow", "machine"} and there[name] is not None else "fail"
        text = (
            f"{where} ({there['executable']}) has {name} {there[name]}, and the driver {here[name]}"
        )
        if name == "layout" and there["layout"] is None:
            text = f"{where} cannot load pyddsi: {there['broken']}"
        yield name, level, text, (MENDS[name],)
    if "path" in there and there["path"] != here["path"]:
        yield (
            "path",
            "fail",
            f"{where} finds: {there['path']}; the driver: {here['path']}",
            (
                "put captures where everybody sees them under one name: a shared folder, a mounted store",
            ),
        )


def looks(spark: SparkSession, path: str = "", tasks: int = TASKS) -> Iterator[Look]:
    """Look at the driver and at every executor that some tasks reach."""
    here = _asker(path)()
    text = ", ".join(f"{name} {here[name]}" for name in COMPARED if name != "layout")
    yield "driver", "ok", f"{here['host']}: {text}; Spark {spark.version}", ()
    if path:
        seen = "bytes" in here["path"] or "folder" in here["path"]
        yield (
            "path",
            "ok" if seen else "fail",
            f"{path}: {here['path']}",
            () if seen else ("check the name",),
        )
    try:
        places = _there(spark, path, tasks)
    except Exception as error:  # noqa: BLE001 - of whatever kind, it is what is wrong
        said = str(error).strip().splitlines()
        words = next(
            (line for line in reversed(said) if "Error" in line or "Exception" in line), said[0]
        )
        yield (
            "tasks",
            "fail",
            f"a task that does nothing does not run: {words}",
            ("PYSPARK_PYTHON has to name a Python with pyspark and pyarrow on every executor",),
        )
        return
    for there in sorted(places, key=lambda one: str(one["host"])):
        found = list(_compared(here, there))
        yield from found or [
            ("executor", "ok", f"{there['host']} ({there['executable']}): as the driver", ())
        ]
