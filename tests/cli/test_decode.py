"""`pyddsi decode`: lines that nobody but us has written, and no line that was not asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pyddsi import wire
from tests.capture.traffic import BEGIN, GROUP, Frame, peer, write
from tests.cli.programs import ROOT, Captured, run
from tests.py.make_traffic import connection, framed, written

FORGED = "/x\x1b]0;owned\x07\x1b[2J\n    9     0.000001 10.9.9.9:1 → 10.9.9.8:2  c0 CLOSE"
PLUGIN = ROOT / "pyddsi" / "share" / "wireshark" / "pyddsi.lua"


def printed(capsys: Captured, *arguments: str) -> str:
    """What the command says on standard output."""
    assert run("decode", *arguments) == 0
    return capsys.readouterr().out


def test_a_name_steers_no_terminal(tmp_path: Path, capsys: Captured) -> None:
    """A peer could draw on the terminal of somebody who looks at a capture, or put a line into it, here as in tshark."""
    declared = wire.encode([wire.Declare(0, [wire.Resource(1, FORGED)], committed=True)])
    sample = wire.encode([wire.SData(1, 1, b"x", reliable=True), wire.WData(2, FORGED, b"x")])
    frames = [Frame(BEGIN + i, peer(1), GROUP, data) for i, data in enumerate([declared, sample])]
    path = write(tmp_path / "run.pcap", frames)
    lines = printed(capsys, str(path)).split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    assert r"[/x\x1b]0;owned\x07\x1b[2J\n    9 " in lines[1]
    command = ["tshark", "-X", f"lua_script:{PLUGIN}", "-r", str(path)]
    said = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()
    assert said.count("\n") == 2
    assert r"/x\x1b]0;owned\x07\x1b[2J\x0a" in said
    assert said.replace("\n", "").isprintable()


def test_only_what_was_asked_for(tmp_path: Path, capsys: Captured) -> None:
    """With --where, lines would come for which it does not hold: of connections, and of messages that no filter has seen."""
    path = tmp_path / "run.pcap"
    frames = connection([framed(wire.encode([wire.SData(1, 1, b"x" * 900)]))[:-2]] * 2)
    written(path, [frames[0], frames[2]])
    assert "MALFORMED" in printed(capsys, str(path))
    assert printed(capsys, str(path), "--where", "kind == SDATA") == ""
    batch = wire.encode([wire.SData(1, 1, b"x"), wire.BData(2, 1, [wire.Sample(b"x")])])
    opened = wire.encode([wire.Open(1, b"me", 50, [], properties=[])])
    path = write(
        tmp_path / "2.pcap", [Frame(BEGIN, peer(1), GROUP, one) for one in (opened, batch)]
    )
    everything = printed(capsys, str(path), "--reading", "tolerant")
    assert everything.count("BDATA") == 1
    assert (
        printed(capsys, str(path), "--reading", "tolerant", "--where", "kind == OPEN").count("\n")
        == 1
    )
