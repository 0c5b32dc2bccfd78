"""
What a capture holds, in one pass: `Info`, and the findings that a person can act on.

The core adds everything up while the file goes by; what is asked of it at the end are some tables of what it remembers
(flows, sessions, endpoints, resources, rates), whose size is bounded, however large the file is.

A finding says what looks wrong, where it shows (frame numbers as Wireshark has them), and the filter that shows it in tshark
with the dissector of docs/how-to/wireshark.md. What is concluded of losses follows docs/inside/capture.md: a capture shows what
senders sent, so

    a gap that nobody fills      was lost before the place of capture, or by the capturing itself
    a repeat without a gap       was lost behind it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyddsi._native import MESSAGES, lib, spec, text
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._scan import NONE, Problem, Scan

if TYPE_CHECKING:
    from pyddsi.capture._capture import Capture

__all__ = ["Conduit", "Finding", "Info", "Peer", "Resource", "Session", "collect"]

SECOND = 1_000_000_000
LISTED_MAX = 10_000  # of each list; what is beyond is only counted


@dataclass(frozen=True, slots=True)
class Peer:
    """An endpoint that sent packets of the protocol."""

    endpoint: str
    id: str
    """What it called itself, in hexadecimal digits; empty if it did not."""
    extensions: bool
    packets: int
    bytes: int
    first_ns: int | None
    last_ns: int | None


@dataclass(frozen=True, slots=True)
class Session:
    """What two endpoints agreed on."""

    opener: str
    acceptor: str
    seq_bits: int
    open_ns: int | None
    accept_ns: int | None
    end_ns: int | None
    end: str
    """capture_end, closed, expired, moved, again, refused or evicted"""
    reason: int
    margin_us: int | None
    """The least distance of a silence to the lease."""
    open_packet: int | None
    end_packet: int | None


@dataclass(frozen=True, slots=True)
class Conduit:
    """A flow of numbered messages: from a sender, on a conduit, to one receiver or a group."""

    source: str
    destination: str
    conduit: int
    reliable: bool
    multicast: bool
    messages: int
    samples: int
    bytes: int
    repeats: int
    pre_sync: int
    gaps: int
    missing: int
    fills: int
    nacks: int
    resets: int
    ambiguous: int
    answer_us: tuple[int, int] | None
    """Median and 99th percentile of the time to an answer; None: there was none."""
    delivery_us: tuple[int, int] | None
    """The same of the time from the first transmission to the first acknowledgement."""
    gap_packet: int | None
    repeat_packet: int | None


@dataclass(frozen=True, slots=True)
class Resource:
    """What was published under a number or a name."""

    rid: int | None
    """None: under its name alone (WDATA)."""
    uri: str
    messages: int
    bytes: int
    repeats: int
    rate: float
    """Messages a second, over the whole capture; repeats are not counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    Something that looks wrong.

    kind: a word for programs: repeats, gaps, expired, ...
    severity: "error", "warning" or "note"
    text: what it is, and what it means
    count: how often
    packets: numbers of frames that show it, the first of them
    filter: what shows it in tshark or Wireshark
    """

    kind: str
    severity: str
    text: str
    count: int
    packets: tuple[int, ...] = ()
    filter: str = ""


@dataclass(slots=True)
class Info:
    """What a capture holds. `lines()` says it to people, `to_dict()` to programs."""

    files: tuple[str, ...]
    format: str = ""
    bytes: int = 0
    frames: int = 0
    """Frames captured, whosever they are."""
    packets: int = 0
    """Packets of the protocol: datagrams, and frames of TCP streams."""
    messages: int = 0
    """Messages in them; markers are not counted."""
    kinds: dict[str, int] = field(default_factory=dict)
    """The same by kind, and the markers."""
    first_ns: int | None = None
    last_ns: int | None = None
    foreign: dict[str, int] = field(default_factory=dict)
    """Frames that hold something else, by what that is."""
    malformed: int = 0
    repeats: int = 0
    """Samples that were seen before."""
    pre_sync: int = 0
    """Of these, those that were repeated because they came before the first SYNCH."""
    gaps: int = 0
    """Samples that were passed over; some of them may have come later (fills)."""
    fills: int = 0
    missing: int = 0
    """Samples that were passed over and never came."""
    expiries: int = 0
    events: dict[str, int] = field(default_factory=dict)
    peers: list[Peer] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    conduits: list[Conduit] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the first frame to the last."""
        return (
            0.0
            if self.first_ns is None or self.last_ns is None
            else (self.last_ns - self.first_ns) / SECOND
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON takes it."""
        from dataclasses import asdict  # noqa: PLC0415 - only then

        found = asdict(self)
        found["problems"] = [problem._asdict() for problem in self.problems]
        found["seconds"] = self.seconds
        return found

    def lines(self) -> list[str]:
        """It in ten lines or so, and one for each finding."""
        from pyddsi.capture._words import lines  # noqa: PLC0415 - only for people

        return lines(self)


# ---- collecting ----


def _percentiles(counts: list[int] | None) -> tuple[int, int] | None:
    """Median and 99th percentile of a log-linear histogram, as the least value of the place they are in."""
    total = sum(counts or ())
    if not counts or not total:
        return None
    found = []
    for share in (0.5, 0.99):
        rank, seen = share * total, 0
        for place, count in enumerate(counts):
            seen += count
            if seen >= rank:
                found.append(least(place))
                break
    return found[0], found[1]


def least(place: int) -> int:
    """The least value of a histogram's place in microseconds; see csrc/base/histogram.h."""
    if place < 16:
        return place
    return (16 + place % 16) << (place // 16 - 1)


def _facts(info: Info, scan: Scan) -> None:
    facts = scan.facts()
    kinds = {number: row.name for number, row in spec(MESSAGES).items()}
    info.bytes, info.frames = facts.bytes, facts.frames
    info.packets, info.messages = facts.packets, facts.messages
    info.kinds = {kinds[i]: n for i, n in enumerate(facts.by_kind) if n}
    info.first_ns = None if facts.first_ns == NONE else facts.first_ns
    info.last_ns = None if facts.last_ns == NONE else facts.last_ns
    info.format = {0: "", 1: "pcap", 2: "pcapng"}[facts.container]
    info.foreign = dict(scan.strangers())
    if facts.foreign_udp:
        info.foreign["UDP of others"] = facts.foreign_udp
    if facts.foreign_tcp:
        info.foreign["TCP of others"] = facts.foreign_tcp
    info.malformed = (
        facts.by_decode[lib.PYDDSI_DECODE_MALFORMED] + facts.by_decode[lib.PYDDSI_DECODE_UNKNOWN]
    )
    info.repeats, info.pre_sync = facts.repeats, facts.presync
    info.missing, info.fills = max(0, facts.missing), facts.fills
    info.gaps = info.missing + info.fills
    words = [text(lib.pyddsi_event_word(i)) for i in range(18)]
    info.events = {word: facts.by_event[i] for i, word in enumerate(words) if facts.by_event[i]}
    info.expiries = info.events.get("lease_expired", 0)


def _peers(scan: Scan) -> list[Peer]:
    wanted = (
        "address",
        "port",
        "transport",
        "multicast",
        "peer_id",
        "extended",
        "packets",
        "bytes",
        "first_ns",
        "last_ns",
    )
    return [
        Peer(_endpoint(address, port, transport), peer_id, extended, packets, size, first, last)
        for address, port, transport, multicast, peer_id, extended, first, last, packets, size in scan.tell(
            "endpoints", wanted
        )
        if packets and not multicast
    ]


def _endpoint(address: str, port: int, transport: str) -> str:
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    return where if transport == "udp" else f"{transport}/{where}"


def _sessions(scan: Scan) -> list[Session]:
    wanted = (
        "seq_bits", "open_ns", "accept_ns", "end_ns", "end", "reason", "margin_us", "open_pkt", "end_pkt", "opener", "acceptor",
    )  # fmt: skip
    return [
        Session(
            opener, acceptor, bits, opened, accepted, ended, end, reason, margin, open_pkt, end_pkt
        )
        for bits, opened, accepted, ended, end, reason, margin, open_pkt, end_pkt, opener, acceptor in scan.tell(
            "sessions", wanted
        )
    ]


def _conduits(scan: Scan) -> list[Conduit]:
    wanted = (
        "multicast", "conduit", "reliable", "messages", "samples", "bytes", "gaps", "missing", "repeats", "pre_sync", "fills",
        "ambiguous", "resets", "nacks", "answer_hist", "delivery_hist", "gap_pkt", "repeat_pkt", "src", "dst",
    )  # fmt: skip
    found = []
    for row in scan.tell("flows", wanted):
        names = dict(zip(_in_order("flows", wanted), row, strict=True))
        found.append(
            Conduit(
                names["src"],
                names["dst"],
                names["conduit"],
                names["reliable"],
                names["multicast"],
                names["messages"],
                names["samples"],
                names["bytes"],
                names["repeats"],
                names["pre_sync"],
                names["gaps"],
                names["missing"],
                names["fills"],
                names["nacks"],
                names["resets"],
                names["ambiguous"],
                _percentiles(names["answer_hist"]),
                _percentiles(names["delivery_hist"]),
                names["gap_pkt"],
                names["repeat_pkt"],
            )
        )
    return found


def _in_order(table: str, wanted: tuple[str, ...]) -> list[str]:
    """Names as rows have them: in the order of the table."""
    from pyddsi.capture._table import columns  # noqa: PLC0415 - a module of the same folder

    return [column.name for column in columns(table) if column.name in wanted]


def _resources(scan: Scan, seconds: float) -> list[Resource]:
    names: dict[int, str] = {}
    for rid, uri in scan.tell("resources", ("rid", "uri")):
        names.setdefault(rid, uri)
    sums: dict[int | None, list[int]] = {}
    for rid, messages, size, repeats in scan.tell("rates", ("rid", "messages", "bytes", "repeats")):
        into = sums.setdefault(rid, [0, 0, 0])
        for i, value in enumerate((messages, size, repeats)):
            into[i] += value
    return sorted(
        (
            Resource(
                rid,
                "" if rid is None else names.get(rid, ""),
                messages,
                size,
                repeats,
                (messages - repeats) / seconds if seconds else 0.0,
            )
            for rid, (messages, size, repeats) in sums.items()
        ),
        key=lambda resource: -resource.messages,
    )


def collect(capture: Capture, progress: Callable[[int, int], None] | None = None) -> Info:
    """All of a capture. Files that do not continue each other are added up."""
    from pyddsi.capture._findings import findings  # noqa: PLC0415 - it takes Info from here

    info = Info(capture.files)
    total = done = 0
    scan = Scan(capture.settings, tally=True)
    for number, member in enumerate(capture.members):
        source = open_bytes(member.source)
        try:
            total += source.size or 0
            scan.begin(number)
            for _ in scan.rows(source):
                pass
        finally:
            source.close()
        done = int(scan.facts().bytes)
        if progress is not None:
            progress(done, total)
    for _ in scan.finish():
        pass
    _facts(info, scan)
    info.peers = _peers(scan)[:LISTED_MAX]
    info.sessions = _sessions(scan)[:LISTED_MAX]
    info.conduits = sorted(_conduits(scan), key=lambda conduit: -conduit.messages)[:LISTED_MAX]
    info.resources = _resources(scan, info.seconds)[:LISTED_MAX]
    info.problems = list(scan.problems)
    capture.note(scan.problems)
    info.findings = findings(info, scan)
    return info


def moment(time_ns: int | None) -> str:
    """A time for people."""
    if time_ns is None:
        return "-"
    seconds, rest = divmod(time_ns, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d} UTC"
