"""`pyddsi decode`: lines that nobody but us has written, and no line that was not asked for."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from pyddsi import capture, wire
from pyddsi.cli.decode import Decoder, Lines
from tests.capture.traffic import BEGIN, GROUP, Frame, peer, traffic, write
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


def by_hand(path: Path, where: str | None) -> tuple[list[str], list[str]]:
    """The lines of each packet that can be read, by the core and from objects."""
    options = argparse.Namespace(
        reading="auto", seq_bits=None, where=where, start=None, stop=None, json=False, count=False
    )
    decoder = Decoder(options)
    made: list[str] = []
    objects: list[str] = []
    for _, packets in capture.open(path).packets_of_files(where=where):
        lines = Lines(decoder, packets)
        lines.first_ns = BEGIN
        for packet in packets:
            if packet.decode == "ok":
                made.append(packets.lines(lines.start(packet)))
                kept, _ = lines.chosen(packet)
                objects.append("".join(f"{one}\n" for one in lines.text(packet, kept, None)))
    return made, objects


@pytest.mark.parametrize("where", [None, "seq_event in (3, 4)", "kind == DECLARE or rid == 1"])
def test_the_core_writes_the_same_lines(where: str | None, tmp_path: Path) -> None:
    """Lines would say other things than the objects of --json, as the core writes them by itself."""
    frames = traffic(5, loss=0.1, repeat=0.1).frames
    large = [
        wire.encode(
            [wire.Declare(0, [wire.Resource(i, FORGED + "é" * 50) for i in range(1, 200)])]
        ),
        wire.encode([wire.Frag(1, fragments=2), wire.Conduit(3), wire.SData(1, 1, bytes(2000))]),
        wire.encode([wire.SData(7, 1, b"x", data_rid=3), wire.Pull(8, wire.SelectionId(4))]),
    ]
    frames += [Frame(BEGIN, peer(9), GROUP, data) for data in large]
    made = write(tmp_path / "run.pcap", frames)
    small = [path for path in ROOT.glob("captures/**/*.pcap") if path.stat().st_size < 200_000]
    found = 0
    for path in (made, *small):
        core, objects = by_hand(path, where)
        assert core == objects
        found += sum(map(len, core))
    assert found


def test_the_core_has_counted(capsys: Captured) -> None:
    """--count would count other messages than are printed, since the core does it."""
    small = [path for path in ROOT.glob("captures/**/*.pcap") if path.stat().st_size < 400_000]
    for path in small:
        counted = []
        for options in ((), ("--from", "0.0")):  # with a time each message is looked at
            assert run("decode", "--count", str(path), *options) == 0
            counted.append(capsys.readouterr())
        assert counted[0] == counted[1]
