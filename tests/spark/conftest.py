"""One Spark session for all tests of this folder: it takes seconds to make, and its first query some more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import pyddsi.spark
from tests.spark.frames import CONF

# What an older Spark cannot be asked for, with `./run spark VERSION`.
FROM = {"test_limits.py": (4, 2)}
HERE = tuple(map(int, pyspark.__version__.split(".")[:2]))
collect_ignore = [name for name, version in FROM.items() if version > HERE]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two threads, little code generation, no pages."""
    made = pyddsi.spark.session(master="local[2]", conf=CONF)
    made.sparkContext.setLogLevel("FATAL")
    yield made
    made.stop()


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> Path:
    """Where captures come, with no index of an earlier run."""
    assert not cache.exists()
    (tmp_path / "in").mkdir()
    return tmp_path / "in"
