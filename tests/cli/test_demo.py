"""`pyddsi demo`: that what it tells comes true."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from tests.cli.programs import ROOT, Captured, run, started


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the story's recording goes, of this process and of others."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_story(capsys: Captured, folder: Path) -> None:
    """The demonstration would show something else than it says."""
    assert run("demo", "--json", "--output", str(folder / "kept")) == 0
    steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [step["started"][-1] for step in steps if "started" in step] == ["--json", "--no-shared"]
    reports = [
        (step["process"], step["received"], step["whole"]) for step in steps if "process" in step
    ]
    assert reports == [("A", 1000, True), ("A", 1000, True), ("B", 1000, True)]
    assert [step["by_memory"] for step in steps if "by_memory" in step] == [1000]
    memory, sockets = (step["packets"] for step in steps if "packets" in step)
    assert memory < sockets
    events = [
        (step["event"], step["peer"], step.get("reason")) for step in steps if "event" in step
    ]
    first, second = (peer for event, peer, _ in events if event == "connected")
    assert events[2:] == [("disconnected", second, "exited"), ("disconnected", first, "ordinary")]
    (drop,) = (step for step in steps if "place" in step)
    assert (drop["place"], drop["reason"], drop["count"]) == ("window", "peer_lost", 10)
    (books,) = (step for step in steps if "owed" in step)
    assert books["owed"] == books["acknowledged"] + books["forgiven"] + books["in_flight"]
    assert books["forgiven"] == 10
    assert Path(steps[-1]["report"]).parent == folder / "kept"
    assert "<svg" in Path(steps[-1]["report"]).read_text()
    assert Path(steps[-1]["capture"]).stat().st_size > 100_000, "all samples are in it"


def test_for_people(capsys: Captured, folder: Path) -> None:
    """The explanations would be missing, or hidden behind JSON; each run would leave a folder behind."""
    assert run("demo") == 0
    out = capsys.readouterr().out
    told = " ".join(out.split())
    for word in (
        "1. Two processes",
        "5. The books balance",
        "6. It was recorded",
        "There is no broker",
        "pyddsi demo --output FOLDER",
        "pyddsi doctor",
    ):
        assert word in told
    assert not list(folder.iterdir())
    assert max(map(len, out.splitlines())) < 130


def test_captures(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden captures would be shown no more."""
    monkeypatch.chdir(ROOT)
    assert run("demo", "--captures") == 0
    out = capsys.readouterr().out
    assert "Two peers find each other" in out
    assert "decoded to the last byte and written again" in out


def test_interrupt(folder: Path) -> None:
    """Ctrl-C would leave processes or files behind, or end in a trace."""
    with started("", "demo") as demo:
        while "connected" not in demo.line():
            pass
        assert demo.interrupt()[0] == 130
        with pytest.raises(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGCONT)
    assert not list(folder.glob("pyddsi-demo-*"))
