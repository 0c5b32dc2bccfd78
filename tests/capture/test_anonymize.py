"""Captures that can be given away: nothing that somebody wrote is left in them, and the traffic is what it was."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyddsi import capture, wire
from pyddsi._native import Field, Spec
from pyddsi.wire import messages
from tests.capture.traffic import BEGIN, GROUP, peer
from tests.py import make_capture as make
from tests.py.strategies import DECLARED, ROWS_PLAIN, Maker

WORDS = ("SECRETWORD", "ΜΥΣΤΙΚΌΝ", "\x02\x07SECRETWORD")
"""As letters; as bytes that end no number; behind bytes that are numbers."""
FORMS = (
    "tcp/{}:7447",
    "{}",
    "udp/10.0.0.1:7447/{}",
    "{}/10.0.0.1:7447",
    "{}@udp/10.0.0.1:7447",
    "534543524554@udp/10.0.0.1:7447",
)
HEADERS = 14 + 20 + 8


class Secrets(Maker):
    """Makes messages all of whose fields say a word."""

    def __init__(self, word: str) -> None:
        super().__init__(bytes([3] * 4096))
        self.word = word

    def value(self, field: Field, flags: int, row: Spec) -> Any:
        """The word, wherever a field can say one."""
        word = self.word.encode()
        match field.type:
            case "BYTES" | "PEER_ID":
                return word
            case "TEXT":
                return f"/{self.word}/**"
            case "LOCATORS":
                return tuple(form.format(self.word) for form in FORMS)
            case "PROPERTIES":
                return tuple(wire.Property(number, word) for number in range(20))
            case "SAMPLES":
                return (wire.Sample(word),) if not flags & 0x80 else (wire.Sample(word, rid=3),)
            case "DECLARATIONS":
                return tuple(self.full(one, messages.DECLARATIONS) for one in DECLARED)
        return super().value(field, flags, row)

    def full(self, row: Spec, classes: dict[int, type[Any]]) -> Any:
        """A message or declaration with everything that its row has."""
        flags = sum(flag.bit for flag in row.flags)
        values = self.values(row, flags)
        return classes[row.number](**values, **{flag.name: True for flag in row.flags if flag.name})

    def packets(self) -> Iterator[bytes]:
        """One of each kind."""
        for row in ROWS_PLAIN:
            yield wire.encode([self.full(row, messages.MESSAGES)])


def written(path: Path, packets: list[bytes], snap: int = 262144) -> Path:
    """A capture of packets to the group, cut after so many bytes each."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, snap, 1))
        for number, data in enumerate(packets):
            at_ns = BEGIN + number * 1_000_000
            frame = make.ethernet(
                make.ipv4(make.udp(data, (peer(1), GROUP)), ways=(peer(1), GROUP))
            )
            head = at_ns // 10**9, at_ns % 10**9, min(snap, len(frame)), len(frame)
            file.write(struct.pack("<IIII", *head) + frame[:snap])
    return path


def said(path: Path) -> tuple[object, ...]:
    """What a capture says of its traffic."""
    info = capture.open(path).info()
    rows = capture.open(path).table("messages", ["kind", "sn", "usn", "seq_event", "rid"])
    events = capture.open(path).table("events", ["type", "ts_ns"]).to_pylist()
    return info.kinds, info.malformed, info.events, rows.to_pylist(), events


@pytest.mark.parametrize("word", WORDS)
def test_every_field_of_every_kind(word: str, tmp_path: Path) -> None:
    """A field of some message, declaration or list would be readable in what somebody gives away."""
    path, out = written(tmp_path / "a.pcap", list(Secrets(word).packets())), tmp_path / "b.pcap"
    assert word.encode() in path.read_bytes()
    assert capture.open(path).anonymize(out, names=True).frames == len(ROWS_PLAIN)
    content = out.read_bytes()
    for secret in (word[2:], "SECRET", "534543524554"):
        assert secret.encode() not in content
    assert said(out) == said(path)
    sizes = [[len(packet.data) for packet in capture.open(one).packets()] for one in (path, out)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("word", WORDS[:2])
def test_cut_by_a_snap_length(word: str, tmp_path: Path) -> None:
    """Of a packet whose end the capture lacks a word would be left, or it would become traffic that never was."""
    packets = [
        wire.encode([wire.SData(i, 1, b"x")]) + one for i, one in enumerate(Secrets(word).packets())
    ]
    out = tmp_path / "b.pcap"
    for more in range(1, 40, 2):
        path = written(tmp_path / "a.pcap", packets, HEADERS + more)
        capture.open(path).anonymize(out, names=True)
        assert word.encode()[:6] not in out.read_bytes()
        assert said(out) == said(path)


def test_what_breaks_a_rule(tmp_path: Path) -> None:
    """Of a packet that breaks a rule a word would be left, or it would break none, and be another message."""
    out = tmp_path / "b.pcap"
    packets = [
        one[:at] + bytes([0xFF] * 11) + one[at:]
        for one in Secrets("SECRETWORD").packets()
        for at in (1, 2, 3)
    ]
    packets += [one[:at] for one in Secrets("SECRETWORD").packets() for at in range(1, len(one))]
    path = written(tmp_path / "a.pcap", packets)
    capture.open(path).anonymize(out, names=True)
    assert b"SECRET" not in out.read_bytes()
    assert said(out) == said(path)
