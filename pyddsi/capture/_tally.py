"""
What a capture adds up to, whoever reads it and in however many parts.

    a scan ──► counts_of ──► Tally ──┐
    another ───────────────► Tally ──┴─ add ──► Info (info.py)
    rows of flows and endpoints of each ── added ──┘

A part of a file begins with the state that the one before it ended with, so that what it counts is neither counted twice nor
left out; it remains to say what two counts are together: their sum, or the less, or the greater (together). Spark goes by the
same three lists (pyddsi/spark/views.py), which is why its answers are those of one process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyddsi._native import MESSAGES, ffi, lib, spec, text
from pyddsi.capture._datagram import endpoint_of
from pyddsi.capture._scan import NONE, Problem, Scan

__all__ = [
    "FIRSTS",
    "LATEST",
    "LEAST",
    "MOST",
    "SUMS",
    "Count",
    "Tally",
    "added",
    "counts_of",
    "event_words",
    "together",
]

Row = dict[str, Any]

LEAST = {"first_ns", "first_usn"}
MOST = {"last_ns", "last_usn", "outstanding_max"}
SUMS = {
    *("messages", "samples", "bytes", "packets", "gaps", "missing", "repeats", "pre_sync", "fills"),
    *("old", "ambiguous", "unclear", "resets", "acks", "nacks", "nacked", "synchs"),
}
FIRSTS = {
    name: pair for pair in (("gap_file", "gap_pkt"), ("repeat_file", "repeat_pkt")) for name in pair
}
"""The first frame that shows something, and its file: of two the one that comes first, if there is one."""
LATEST = {"peer_id", "extended", "seq_bits"}  # what is told at some time holds from then on

UDP_KINDS = 6  # of endpoints; what is above is by TCP

CONTAINERS = {1: "pcap", 2: "pcapng"}
DECODES = ("ok", "foreign", "truncated", "malformed", "unknown", "waits", "other", "stream")
FACTS = (
    *("bytes", "frames", "packets", "messages", "foreign_udp", "foreign_tcp", "doubles"),
    *("backwards", "over_wire", "capture_dropped", "evicted", "forgotten", "repeats", "missing", "fills"),
    *("stream_missing", "stream_unread"),
)  # fmt: skip


class Count(NamedTuple):
    """How often something is in a part of a capture, and the first frame that shows it: the number of its file, and its own."""

    name: str
    value: int
    first: tuple[int, int] | None = None


@dataclass
class Tally:
    """Counts of all parts, by name. `firsts` has the number of the file and of the frame."""

    sums: dict[str, int] = field(default_factory=dict)
    firsts: dict[str, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, count: Count) -> None:
        """One count more."""
        name = count.name
        before = self.sums.get(name)
        if before is None:
            self.sums[name] = count.value
        elif name in LEAST:
            self.sums[name] = min(before, count.value)
        elif name in MOST:
            self.sums[name] = max(before, count.value)
        else:
            self.sums[name] = before + count.value
        if count.first is not None:
            self.firsts[name] = min(self.firsts.get(name, count.first), count.first)

    def __getitem__(self, name: str) -> int:
        """How often; what nobody counted is 0."""
        return self.sums.get(name, 0)

    def under(self, group: str) -> dict[str, int]:
        """The counts of a group, by the rest of their names: those of "kind" are SDATA, ACKNACK and so on."""
        begin = group + "."
        return {
            name.removeprefix(begin): n for name, n in self.sums.items() if name.startswith(begin)
        }


def event_words() -> list[str]:
    """The types of events by their numbers."""
    words: list[str] = []
    while (word := lib.pyddsi_event_word(len(words))) != ffi.NULL:
        words.append(text(word))
    return words


def _endpoint(raw: Any) -> str:
    """As the tables have it."""
    return f"{'tcp/' if raw.kind > UDP_KINDS else ''}{endpoint_of(raw)}"


def counts_of(scan: Scan, before: Any = None) -> Iterator[Count]:
    """What a scan has counted; `before` are its facts at the start if it went on from a state, which has some counts in it."""
    facts = scan.facts()
    before = before or ffi.new("pyddsi_scan_facts *")
    kinds = {number: row.name for number, row in spec(MESSAGES).items()}
    yield from (Count(name, getattr(facts, name) - getattr(before, name)) for name in FACTS)
    yield Count("pre_sync", facts.presync)
    yield from (Count(f"kind.{kinds[i]}", n) for i, n in enumerate(facts.by_kind) if n)
    for i, n in enumerate(facts.by_decode):
        if n:
            at = facts.stream_file, facts.stream_packet
            yield Count(f"decode.{DECODES[i]}", n, at if DECODES[i] == "stream" and at[1] else None)
    strangers = scan.strangers()
    strangers["TCP after the end"] -= before.tcp_late
    yield from (Count(f"stranger.{what}", n) for what, n in strangers.items() if n)
    for one in facts.declined:
        if one.count:
            who, whose = (_endpoint(end) for end in (one.source, one.target))
            yield Count(
                f"declined.{one.status} {one.id} {who} {whose}", one.count, (one.file, one.packet)
            )
    for i, word in enumerate(event_words()):
        if facts.by_event[i]:
            first = (facts.event_file[i], facts.event_packet[i]) if facts.event_packet[i] else None
            yield Count(f"event.{word}", facts.by_event[i], first)
    if facts.first_ns != NONE:
        yield Count("first_ns", facts.first_ns)
        yield Count("last_ns", facts.last_ns)
    if facts.container:
        yield Count(f"format.{CONTAINERS[facts.container]}", 1)


def together(name: str, one: Any, other: Any) -> Any:
    """What a column of two parts is of both; of what is not added up, the one that is there."""
    if one is None or other is None:
        return one if other is None else other
    if name in SUMS:
        return one + other
    if name in LEAST:
        return min(one, other)
    if name in MOST:
        return max(one, other)
    if name.endswith("_hist"):
        return [a + b for a, b in zip(one, other, strict=True)]
    return one


def added(rows: Iterable[Row], keys: tuple[str, ...]) -> list[Row]:
    """Rows that stand for the same thing, as one row each."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        known = found.get(key)
        if known is None:
            found[key] = dict(row)
            continue
        newer = (row.get("last_ns") or NONE) > (known.get("last_ns") or NONE)
        for file, packet in FIRSTS.values():
            if row.get(packet) is not None and (
                known[packet] is None or (row[file], row[packet]) < (known[file], known[packet])
            ):
                known[file], known[packet] = row[file], row[packet]
        for name, value in row.items():
            if name in FIRSTS:
                continue
            one, other = (value, known[name]) if newer and name in LATEST else (known[name], value)
            known[name] = together(name, one, other)
    return list(found.values())
