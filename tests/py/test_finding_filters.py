"""The filters of findings: tshark takes each of them, and it selects the frames that the finding names."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyddsi import capture, wire
from pyddsi.capture.info import Finding
from pyddsi.testing import run_scenario, write_pcap
from tests.capture.bookkeeper import keep
from tests.capture.traffic import BEGIN, GROUP, Frame, peer, traffic, write
from tests.py import make_capture as make
from tests.py.golden import CAPTURES, index
from tests.py.make_pitfalls import dropped, pitfalls
from tests.py.make_traffic import WAYS, framed, sample, written
from tests.py.tshark import tshark


def connection(path: Path) -> Path:
    """A connection of which a segment is missing, and in which samples are repeated."""
    frames, at = (
        [make.ethernet(make.ipv4(make.tcp(b"", 999, make.SYN, WAYS), make.TCP, WAYS))],
        1000,
    )
    synch = wire.encode([wire.Synch(0, reliable=True, sync=True)])
    for number in [-1, *range(50), *range(40, 80)]:
        data = framed(sample(number) if number >= 0 else synch)
        if number != 20:
            frames.append(make.ethernet(make.ipv4(make.tcp(data, at, ways=WAYS), make.TCP, WAYS)))
        at += len(data)
    return written(path, frames)


def endings(path: Path) -> Path:
    """A session whose lease ran out, one that was refused, one that was not answered, and odd packets."""
    opened = wire.encode([wire.Open(1, b"aa", 10, (), properties=[])])
    accepted = wire.encode([wire.Accept(b"aa", b"bb", 10, properties=[])])
    alive = wire.encode([wire.KeepAlive(b"aa")])
    second = 10**9
    port = ("10.0.0.9", 7447)
    frames = [
        Frame(BEGIN, port, peer(1), opened),
        Frame(BEGIN + second, peer(1), port, accepted),
        Frame(BEGIN + 2 * second, port, peer(2), opened),
        Frame(BEGIN + 2 * second, peer(2), port, wire.encode([wire.Close(b"cc", 3)])),
        Frame(BEGIN + 3 * second, port, peer(3), opened),
        *(Frame(BEGIN + n * second // 2, port, peer(1), alive) for n in range(6, 18)),
        Frame(BEGIN + 9 * second, port, GROUP, b"\x1f\x00"),
        Frame(BEGIN + 9 * second, port, GROUP, b"\x27\x80"),
    ]
    return write(path, frames)


def made(name: str, folder: Path) -> Path:
    """A capture with findings of some kinds."""
    path = folder / "run.pcap"
    if name == "connection":
        return connection(path)
    if name == "endings":
        return endings(path)
    if name == "dropped":
        path = folder / "run.pcapng"
        path.write_bytes(next(iter(dropped().values()))[0])
        return path
    if name == "book":
        [path] = keep(7, {1: "/plant/a"}).write(folder, ["run.pcap"], 0).files
        return path
    if name == "losses":
        return write(path, traffic(5, peers=3, packets=400).frames)
    if name == "cut":
        frames = traffic(6, peers=1, packets=50).frames
        whole = write(path, frames).read_bytes()
        records, at = [whole[:24]], 24
        while at < len(whole):
            size = int.from_bytes(whole[at + 8 : at + 12], "little")
            kept = min(size, 60)
            records += [whole[at : at + 8], kept.to_bytes(4, "little"), whole[at + 12 : at + 16]]
            records.append(whole[at + 16 : at + 16 + kept])
            at += 16 + size
        path.write_bytes(b"".join(records))
        return path
    write_pcap(path, run_scenario(name, 2, keep_packets=True).sent)
    return path


def checked(path: Path) -> set[str]:
    """Holds the filters of all findings against tshark; answers the kinds that have one."""
    found: list[Finding] = [one for one in capture.open(path).info().findings if one.filter]
    for finding in found:
        printed = tshark("-Y", finding.filter, "-T", "fields", "-e", "frame.number", capture=path)
        frames = {int(number) for number in printed.split()}
        assert set(finding.packets) <= frames, (path.name, finding.kind, finding.filter)
        assert frames, (path.name, finding.kind, finding.filter)
    return {finding.kind for finding in found}


@pytest.mark.parametrize("name", sorted(index()))
def test_of_captures(name: str) -> None:
    """A finding in a capture of zhe would say how it is seen in tshark, and that would not be so."""
    checked(CAPTURES / name)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("connection", {"streams", "repeats", "gaps"}),
        ("endings", {"expired", "malformed", "unknown_kind"}),
        ("losses", {"repeats", "gaps"}),
        ("cut", {"truncated"}),
        ("dropped", {"capture_drop"}),
        ("book", {"declare_refused", "expired", "gaps", "repeats"}),
        ("crash", set()),
        ("hostile", {"malformed"}),
    ],
)
def test_of_made(name: str, kinds: set[str], tmp_path: Path) -> None:
    """The same of all that can be found."""
    assert kinds <= checked(made(name, tmp_path))


BAD_LENGTHS = ("check_sequence.pcap", "check_sequence.pcapng", "udp_length.pcap")
"""Wireshark hands no datagram on whose length is wrong, so the plug-in does not see what is malformed."""


def whole() -> list[str]:
    """Odd files that tshark reads to their end."""
    return sorted(
        name
        for name, (_, seen) in pitfalls().items()
        if not seen.damage and not seen.tail and name not in BAD_LENGTHS
    )


@pytest.mark.parametrize("name", whole())
def test_of_pitfalls(name: str, tmp_path: Path) -> None:
    """The same of files that are odd."""
    path = tmp_path / name
    path.write_bytes(pitfalls()[name][0])
    checked(path)


def test_what_the_capturing_lost_is_kept(tmp_path: Path) -> None:
    """A copy of a capture would no longer say that the capturing itself lost frames."""
    path = made("dropped", tmp_path)
    to, ordered = tmp_path / "copy.pcapng", tmp_path / "ordered.pcapng"
    capture.open(path).copy(to)
    capture.open(path).copy(ordered, sort=True)
    for one in (path, to, ordered):
        findings = capture.open(one).info().findings
        assert [finding.count for finding in findings if finding.kind == "capture_drop"] == [7]
