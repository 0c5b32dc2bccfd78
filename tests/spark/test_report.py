"""Reports by Spark: the same numbers as one process finds, however the captures are cut, and the same words for what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyddsi import capture
from pyddsi.capture.report import collect
from pyddsi.errors import CaptureError
from pyddsi.spark.report import _plain_errors, picture
from tests.capture.traffic import traffic, write
from tests.cli.programs import Captured, run
from tests.py.golden import CAPTURES
from tests.spark.frames import indexed

GOLDEN = sorted(CAPTURES.rglob("*.pcap"))
LARGE = ["p2p_loss5", "p2p_three_peers", "p2p_throughput", "tcp_throughput", "small_pubsub"]


def analysed(capsys: Captured, engine: str, *words: Any) -> tuple[int, Any, str]:
    """Status, JSON and messages of `pyddsi analyse`."""
    status = run("analyse", *map(str, words), "--engine", engine, "--json")
    printed = capsys.readouterr()
    return status, json.loads(printed.out) if printed.out else None, printed.err


def both(capsys: Captured, *words: Any) -> tuple[int, Any, str]:
    """What both say, which is the same."""
    local, spark = (analysed(capsys, engine, *words) for engine in ("local", "spark"))
    assert spark == local
    return local


def cut(folder: Path, files: Iterable[Path]) -> Path:
    """Copies with indexes of small chunks beside them, as if they were large."""
    folder.mkdir()
    for path in files:
        copy = Path(shutil.copyfile(path, folder / path.name))
        with pytest.MonkeyPatch.context() as patch:
            indexed(copy, 30_000, patch)
    return folder


@pytest.mark.usefixtures("spark")
def test_golden(capsys: Captured) -> None:
    """A report would depend on who adds up: on any capture of zhe, sound or odd."""
    _, found, _ = both(capsys, *GOLDEN)
    assert found["repeats"] > 9000
    assert len(found["rates"]) > 2
    assert {one["kind"] for one in found["findings"]} >= {"expired", "closed", "malformed", "gaps"}


@pytest.mark.usefixtures("spark")
def test_options(capsys: Captured) -> None:
    """An option of the command would reach one process, and not Spark."""
    loss = CAPTURES / "p2p_loss5.pcap"
    words = (loss, "--seq-bits", "28", "--dedupe", "--port", "7447", "--fail-if", "repeats>1%")
    status, found, said = both(capsys, *words)
    assert (status, found["repeats"]) == (1, 401)
    assert "repeats is 22.1% of the messages" in said


def test_cut(spark: SparkSession, tmp_path: Path) -> None:
    """A report would depend on where a capture is cut into parts."""
    files = [CAPTURES / f"{name}.pcap" for name in LARGE]
    for seed, bits in enumerate((7, 14)):
        made = traffic(seed, packets=3000, bits=bits, loss=0.1, repeat=0.1, skew=0.95)
        files.append(write(tmp_path / f"made{bits}.pcap", made.frames))
    folder = cut(tmp_path / "cut", files)
    assert picture(spark, folder, split_size="64k") == collect(capture.open(folder))


@pytest.mark.usefixtures("spark")
def test_what_is_wrong(tmp_path: Path, capsys: Captured) -> None:
    """A capture that is cut off would be a warning for one process, and nothing or a trace of Java for Spark."""
    whole = (CAPTURES / "p2p_loss5.pcap").read_bytes()
    cut_off = tmp_path / "cut_off.pcap"
    cut_off.write_bytes(whole[:-7])
    status, found, said = both(capsys, cut_off)
    assert status == 0
    assert "cut_off.pcap is cut off: 1486 packets were read" in said
    assert [one["kind"] for one in found["problems"]] == ["truncated_tail"]
    status, _, said = analysed(capsys, "spark", cut_off, "--strict")
    assert (status, said.startswith("pyddsi: ")) == (2, True)
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(whole[:50_000] + b"\xff" * 50_000)
    status, _, said = both(capsys, damaged)
    assert status == 2
    assert "is damaged at byte" in said
    assert "Traceback" not in said


def test_errors_of_many_tasks() -> None:
    """Where two tasks fail at once, the error would be Java's, with all of its trace."""
    said = "An error occurred\n: Multiple failures (2)\n pyddsi.errors.CaptureError: a.pcap is damaged\n SQLSTATE: 38000"
    with pytest.raises(CaptureError, match=r"^a\.pcap is damaged$"), _plain_errors():
        raise RuntimeError(said)
    with pytest.raises(RuntimeError, match="disk"), _plain_errors():
        raise RuntimeError("no room on the disk")


@pytest.mark.usefixtures("spark")
def test_no_stream(capsys: Captured) -> None:
    """Spark would wait for standard input for ever, or say something about a path."""
    status, _, said = analysed(capsys, "spark", "-")
    assert status == 2
    assert "standard input" in said
