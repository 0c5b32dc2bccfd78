"""What holds for every command that ends by itself: JSON where it is asked for, and colours for terminals alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyddsi import cli
from tests.cli.programs import ROOT, Captured, group, run

CAPTURE = str(ROOT / "captures" / "p2p_pubsub.pcap")
SHORT: dict[str, list[str]] = {
    "pub": ["x", "data", "--no-wait"],
    "sub": ["x", "--timeout", "0.1"],
    "ping": ["--timeout", "0.1"],
    "perf": ["--timeout", "0.1"],
    "scout": ["--duration", "0.1"],
    "ls": ["--duration", "0.1"],
    "ps": ["--duration", "0.1"],
    "hz": ["x", "--duration", "0.1"],
    "bw": ["x", "--duration", "0.1"],
    "doctor": [],
    "record": ["-o", "{tmp}/run.pcapng", "--duration", "0.1"],
    "info": [CAPTURE],
    "analyse": [CAPTURE],
    "decode": [CAPTURE],
    "convert": [CAPTURE, "-o", "{tmp}/out.parquet"],
    "anonymize": [CAPTURE, "-o", "{tmp}/out.pcapng"],
    "replay": [CAPTURE, "--max", "--no-wait"],
    "sim": ["--scenario", "loss", "--seed", "5"],
    "spark": ["submit-help"],
}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("command", SHORT)
def test_output(
    command: str,
    plain: bool,  # noqa: FBT001
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A program that reads the output would find colours in it, or a line that is no JSON."""
    monkeypatch.setenv("PYDDSI_GROUP", group())
    monkeypatch.chdir(ROOT)
    # test_demo.py looks at every line of the demonstration; a shell's script has no other form
    assert set(SHORT) | {"demo", "completion"} == set(cli.COMMANDS)
    words = [word.format(tmp=tmp_path) for word in SHORT[command]]
    status = run(command, *words, *(["--json"] if plain else []))
    printed = capsys.readouterr()
    assert status in {0, 1}
    assert "\x1b" not in printed.out + printed.err
    assert "Traceback" not in printed.err
    for line in printed.out.splitlines() if plain else []:
        json.loads(line)
