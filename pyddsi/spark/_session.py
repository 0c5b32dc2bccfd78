"""
A Spark session with what people forget, and reading in one line.

    forgotten                                  what happens then
    the workers' Python is `python3` of PATH   every query dies with "Python worker exited unexpectedly"
    the driver binds to the outward address    it warns, and nothing works without a network
    the session's zone is the machine's        the same query gives other hours elsewhere
    workers talk to the JVM by TCP             a tenth of the time is gone

Whatever somebody has set (in the call, in the environment, in spark-defaults.conf) stays as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from pyddsi.errors import CaptureError
from pyddsi.spark.source import CaptureSource

__all__ = ["read", "register", "session"]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
ALWAYS = {"spark.sql.session.timeZone": "UTC"}
BEGINNING = {"spark.python.unix.domain.socket.enabled": "true"}  # can only be set as Spark begins
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_registered: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def _defaults() -> dict[str, str]:
    """The settings that somebody has made outside of the program; from the command line, their names alone."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit runs us, and knows them all
        SparkContext._ensure_initialized()  # noqa: SLF001 - there is no other way to ask it
        return dict(SparkConf(True, SparkContext._jvm).getAll())  # noqa: FBT003, SLF001
    home = os.environ.get("SPARK_HOME", "")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    lines: list[str] = []
    if folder and (file := Path(folder) / "spark-defaults.conf").is_file():
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    found: dict[str, str] = {}
    for line in lines:
        match = re.fullmatch(r"\s*([^\s=#]+)[\s=]*(.*?)\s*", line)
        if match is not None:
            found[match[1]] = match[2]
    for word in os.environ.get("PYSPARK_SUBMIT_ARGS", "").split():
        name, equals, value = word.strip("\"'").partition("=")
        if equals:
            found[name] = value
    return found


def _python(settings: Mapping[str, Any]) -> str:
    """The workers' Python, as settings name it: PySpark itself looks at the environment alone, unless spark-submit runs it."""
    return str(settings.get("spark.pyspark.python", ""))


def _is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _begun(builder: Any) -> SparkSession:
    """A session; CaptureError says what is missing where there is no Java."""
    try:
        made: SparkSession = builder.getOrCreate()
    except (PySparkRuntimeError, FileNotFoundError) as error:
        home = os.environ.get("JAVA_HOME", "")
        java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
        if java is not None:
            raise
        where = (
            f"JAVA_HOME is {home}, and has no bin/java" if home else "there is no java on the path"
        )
        raise CaptureError(f"Spark needs Java 17 or newer, and {where}; install a JRE") from error
    return made


def session(
    *,
    master: str | None = None,
    remote: str | None = None,
    app: str = "pyddsi",
    conf: Mapping[str, Any] | None = None,
) -> SparkSession:
    """
    The session that is there, or a new one; the source `pyddsi` is registered in it.

    master: as in Spark; None: as spark-defaults.conf or spark-submit say, else all of this machine, "local[*]"
    remote: a Connect server, "sc://host:15002"; or "local[*]", to begin one
    conf: settings, as Spark calls them; they win over all others
    """
    given = dict(conf or {})
    builder = SparkSession.builder
    for name, value in given.items():
        builder = builder.config(name, value)
    if remote is None and SparkSession.getActiveSession() is not None:
        return register(builder.getOrCreate())
    outside = _defaults()
    made = set(outside) | set(given)
    if remote is None and master is None and "spark.master" not in made:
        master = os.environ.get("MASTER") or "local[*]"
    settings = ALWAYS | ({} if remote is not None else BEGINNING)
    if _is_local(remote or master or ""):
        settings |= {} if remote is not None else LOCAL
        os.environ.setdefault("SPARK_LOCAL_IP", given.get("spark.driver.host", "127.0.0.1"))
        os.environ.setdefault("PYSPARK_PYTHON", _python(outside) or sys.executable)
    if python := _python(given):
        os.environ["PYSPARK_PYTHON"] = python
    for name, value in settings.items():
        if name not in made:
            builder = builder.config(name, value)
    builder = builder.appName(app) if "spark.app.name" not in made else builder
    if remote is not None:
        builder = builder.remote(remote)
    elif master is not None:
        builder = builder.master(master)
    return register(_begun(builder))


def _found(spark: SparkSession) -> bool:
    """Whether Spark has found the source by itself: to register it again would only make it warn. Connect cannot be asked."""
    try:
        java: Any = spark._jsparkSession  # noqa: SLF001 - there is no other way to ask it
        known = java.sessionState().dataSourceManager()
        return bool(known.dataSourceExists(CaptureSource.name()))
    except Exception:  # noqa: BLE001 - then it is registered, which is right in any case
        return False


def register(spark: SparkSession) -> SparkSession:
    """
    Make the source `pyddsi` known to a session, and answer that. Spark finds it by itself as well, unless another package's
    module `pyspark_...` on the path is broken: then it finds none at all.
    """
    if spark not in _registered and not _found(spark):
        try:
            spark.dataSource.register(CaptureSource)
        except AnalysisException as error:  # before 4.1: Spark has found it already
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
        _registered.add(spark)
    return spark


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ",".join(map(str, value))
    return str(value)


def _absolute(name: str) -> str:
    """A Connect server has a working directory of its own, and would look for a relative name there; and a home of its own."""
    stays = name.startswith(("file:", "~")) or "://" in name
    return name if stays else str(Path(name).absolute())


def read(
    spark: SparkSession,
    path: Paths,
    table: str = "messages",
    columns: Iterable[str] | None = None,
    **options: object,
) -> DataFrame:
    """
    A table of captures as a DataFrame.

    path: a file, a folder, a pattern, or a list of these
    columns: the names that are wanted: Spark does not tell the source what a later `select` leaves out
    options: as the source has them, with underscores if you like: split_size="64m", where="kind == SDATA", from_="1.5"
    """
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names: {columns.split(',')!r}")
    register(spark)
    reader = spark.read.format("pyddsi").option("table", table)
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    for name, value in options.items():
        reader = reader.option(name, _text(value))
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    names = [_absolute(os.fspath(one)) for one in paths]
    return reader.load(names[0]) if len(names) == 1 else reader.load(names)
