"""The captures of zhe as tests use them: read once, each packet with how it was read and what came out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyddsi import capture, wire
from pyddsi.capture import Endpoint, Segment, read_datagrams

CAPTURES = Path(__file__).resolve().parents[2] / "captures"

# How the list of the captures calls declarations.
SHORT_NAMES = {
    "RES": "RESOURCE",
    "PUB": "PUBLICATION",
    "SUB": "SUBSCRIPTION",
    "SEL": "SELECTION",
    "BIND": "BINDING",
    "COMMIT": "COMMIT",
    "RESULT": "RESULT",
}


@dataclass(frozen=True)
class Entry:
    """What captures/INDEX.md says about a file."""

    name: str
    packets: int
    errors: int
    largest: int | None
    messages: dict[str, int]
    declarations: dict[str, int]
    flags: dict[str, int]


@dataclass(frozen=True)
class Packet:
    """A packet, whose it is, how it is read, what it holds, and where it stops if it is bad."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint
    data: bytes
    reading: wire.Reading
    extensions: bool
    messages: list[wire.Message]
    error: wire.WireError | None


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def _counts(line: str, text: str) -> dict[str, int]:
    found = re.search(rf"^- {line}: (.*)$", text, re.MULTILINE)
    pairs = [pair.rsplit(" ", 1) for pair in found[1].split(", ")] if found else []
    return {name: int(count) for name, count in pairs}


@cache
def index() -> dict[str, Entry]:
    """The list of the captures."""
    text = (CAPTURES / "INDEX.md").read_text(encoding="utf-8")
    found = {}
    for name, body in re.findall(
        r"^### (\S+\.pcap)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL
    ):
        packets = _number(r"(\d+) (?:zhe )?packets/frames", body)
        errors = _number(r"decode errors (\d+)", body)
        assert packets is not None, f"{name}: how many packets?"
        assert errors is not None, f"{name}: how many errors?"
        declared = _counts("declarations", body)
        found[name] = Entry(
            name,
            packets,
            errors,
            _number(r"largest (\d+) bytes", body),
            _counts("messages", body),
            {SHORT_NAMES[key.removeprefix("D.")]: count for key, count in declared.items()},
            _counts("flags and conduit markers", body),
        )
    return found


@cache
def load(name: str) -> list[Packet]:
    """All packets of a file, read as `pyddsi decode` reads them."""
    found = []
    for packet in capture.open(CAPTURES / name).packets():
        assert packet.decode != "stream", packet
        messages, error = packet.messages()
        place = packet.number, packet.time_ns, packet.source, packet.destination
        found.append(
            Packet(*place, packet.data, packet.reading, packet.extensions, messages, error)
        )
    return found


@cache
def distinct() -> list[bytes]:
    """Every packet of every file that is whole in the tolerant reading, once."""
    seen = {p.data: None for name in index() for p in load(name) if p.error is None}
    return list(seen)


@cache
def shapes(each: int = 1) -> list[bytes]:
    """Packets of every shape: the same kinds and flags in the same order, repetitions counted once."""
    found: Counter[tuple[tuple[int, int], ...]] = Counter()
    chosen = []
    for data in sorted(distinct(), key=len):
        rows = wire.columns([data])
        heads = list(zip(rows.kind, rows.flags, strict=True))
        shape = tuple(h for i, h in enumerate(heads) if i == 0 or h != heads[i - 1])
        found[shape] += 1
        if found[shape] <= each:
            chosen.append(data)
    return chosen


@cache
def streams(name: str) -> list[bytes]:
    """The bytes of each direction of each connection of a TCP capture, from its start."""
    found: dict[object, bytes] = {}
    with read_datagrams(CAPTURES / name) as items:
        for item in items:
            if isinstance(item, Segment):
                key = (item.source, item.destination)
                found[key] = found.get(key, b"") + bytes(item.data)
    return [data for data in found.values() if data]
