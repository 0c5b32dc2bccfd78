"""
How an `Info` is made: of counts, and of some tables of what the core remembers at the end of each recording.

    one process     collect     scans ──► Found ──┐
    Spark           pyddsi/spark/report.py ► Found ──┴─ made ──► Info

The core adds everything up while a file goes by, in one pass; the tables (flows, sessions, endpoints, resources, rates) are bounded,
however large the file is, and the lists of an Info have LISTED_MAX entries. Both ways have one order and one way of adding up,
so that they say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyddsi._native import MESSAGES, spec
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._rotate import is_unended
from pyddsi.capture._scan import NONE, Problem, Request, Scan, Settings
from pyddsi.capture._table import columns
from pyddsi.capture._tally import Tally, added, counts_of, event_words
from pyddsi.capture.info import Conduit, Info, Peer, Resource, Session, least

if TYPE_CHECKING:
    from pyddsi.capture._capture import Capture

__all__ = ["BAD_ENDS", "COLUMNS", "LISTED_MAX", "Found", "collect", "made", "names_of"]

Row = dict[str, Any]

LISTED_MAX = 10_000  # of each list; what is beyond is only counted
BAD_ENDS = ("expired", "refused")
NO_NAME = (0, "")
BLOCK = "pcapng block "


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


def _counted(info: Info, tally: Tally) -> None:
    info.bytes, info.frames = tally["bytes"], tally["frames"]
    info.packets, info.messages = tally["packets"], tally["messages"]
    counts = tally.under("kind")
    info.kinds = {
        row.name: counts[row.name] for row in spec(MESSAGES).values() if row.name in counts
    }
    info.first_ns, info.last_ns = tally.sums.get("first_ns"), tally.sums.get("last_ns")
    info.format = " and ".join(sorted(tally.under("format")))
    info.foreign = dict(sorted(tally.under("stranger").items()))
    for name, what in (("foreign_udp", "UDP of others"), ("foreign_tcp", "TCP of others")):
        if tally[name]:
            info.foreign[what] = tally[name]
    # Wireshark numbers some blocks of pcapng as if they were frames, and so do we; capinfos does not count them, nor does this.
    info.frames -= sum(count for what, count in info.foreign.items() if what.startswith(BLOCK))
    info.malformed = tally["decode.malformed"] + tally["decode.unknown"]
    info.repeats, info.pre_sync = tally["repeats"], tally["pre_sync"]
    info.missing, info.fills = max(0, tally["missing"]), tally["fills"]
    info.gaps = info.missing + info.fills
    counts = tally.under("event")
    info.events = {word: counts[word] for word in event_words() if word in counts}
    info.expiries = info.events.get("lease_expired", 0)
    info.problems = tally.problems


def _peers(rows: Iterable[Row]) -> list[Peer]:
    found = sorted(
        (row for row in rows if row["packets"] and not row["multicast"]),
        key=lambda row: (*_nulls_first(row["first_ns"]), row["address"], row["port"]),
    )
    return [
        Peer(
            _endpoint(row["address"], row["port"], row["transport"]),
            *(
                row[name]
                for name in ("peer_id", "extended", "packets", "bytes", "first_ns", "last_ns")
            ),
        )
        for row in found[:LISTED_MAX]
    ]


def _nulls_first(value: int | None) -> tuple[bool, int]:
    return value is not None, value or 0


def _endpoint(address: str, port: int, transport: str) -> str:
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    return where if transport == "udp" else f"{transport}/{where}"


def _agreed(rows: Iterable[Row]) -> list[Row]:
    """Two who open to each other at once agree on one session; the OPEN that came to nothing is none."""
    rows = list(rows)

    def place(row: Row, after: int = 0) -> tuple[Any, ...]:
        pair = frozenset((row["opener"], row["acceptor"]))
        return row["recording"], pair, row["number"] + after

    agreed = {place(row) for row in rows if row["accept_ns"] is not None}
    return [
        row
        for row in rows
        if row["accept_ns"] is not None
        or row["end"] != "capture_end"
        or place(row, after=1) not in agreed
    ]


def _sessions(rows: Iterable[Row]) -> list[Session]:
    """In the order of time; if they are too many, those that ended badly are not left out."""

    def when(row: Row) -> tuple[Any, ...]:
        began = row["open_ns"] if row["accept_ns"] is None else row["accept_ns"]
        return (
            *_nulls_first(began),
            row["open_file"],
            row["open_pkt"] or 0,
            row["session"],
            row["number"],
        )

    kept = sorted(_agreed(rows), key=lambda row: (row["end"] not in BAD_ENDS, *when(row)))[
        :LISTED_MAX
    ]
    names = [one.name for one in fields(Session)]
    told = {"open_packet": "open_pkt", "end_packet": "end_pkt"}
    return [
        Session(*(row[told.get(name, name)] for name in names)) for row in sorted(kept, key=when)
    ]


def _conduits(rows: Iterable[Row]) -> list[Conduit]:
    names = ("src", "dst", "conduit", "reliable")
    found = sorted(rows, key=lambda row: (-row["messages"], *(row[name] for name in names)))[
        :LISTED_MAX
    ]
    told = {
        "source": "src",
        "destination": "dst",
        "gap_packet": "gap_pkt",
        "repeat_packet": "repeat_pkt",
    }
    wanted = [one.name for one in fields(Conduit)]
    return [Conduit(*(row[told.get(name, name)] for name in wanted)) for row in found]


def _resources(rows: Iterable[Row], seconds: float) -> list[Resource]:
    def order(row: Row) -> tuple[Any, ...]:
        return -row["messages"], *_nulls_first(row["rid"]), row["uri"]

    return [
        Resource(
            row["rid"],
            row["uri"],
            row["messages"],
            row["bytes"],
            row["repeats"],
            (row["messages"] - row["repeats"]) / seconds if seconds else 0.0,
        )
        for row in sorted(rows, key=order)[:LISTED_MAX]
    ]


@dataclass(slots=True)
class Found:
    """What an Info is made of. Rows are as the tables of these names have them, with the columns in COLUMNS."""

    tally: Tally = field(default_factory=Tally)
    endpoints: list[Row] = field(default_factory=list)
    sessions: list[Row] = field(default_factory=list)
    flows: list[Row] = field(default_factory=list)
    """With answer_us and delivery_us (median, 99th percentile) in the place of histograms."""
    rates: list[Row] = field(default_factory=list)
    """By resource: one name, whatever its number is in which recording; or one number, where it has no name. `rid` is the least."""
    unnamed: list[Row] = field(default_factory=list)
    """The same of each recording, of numbers that had no name at its end."""

    def add_rates(self, rows: Iterable[Row], names: Mapping[int, tuple[int, str]]) -> None:
        """Those of one recording, and what it calls its numbers."""
        named = [row | {"uri": names.get(row["rid"], NO_NAME)[1]} for row in rows]
        found = [*self.rates, *named]
        for row in found:
            row["number"] = None if row["uri"] else row["rid"]
        self.rates = added(found, ("uri", "number"))


def names_of(rows: Iterable[Row]) -> dict[int, tuple[int, str]]:
    """What numbers of one recording are called, and since when; of several names the earliest."""
    names: dict[int, tuple[int, str]] = {}
    for row in rows:
        since = NONE if row["valid_from_ns"] is None else row["valid_from_ns"]
        name = since, row["uri"]
        names[row["rid"]] = min(name, names.get(row["rid"], name))
    return names


COLUMNS = {
    "endpoints": (
        "ep", "address", "port", "transport", "multicast", "peer_id", "extended", "first_ns", "last_ns", "packets", "bytes",
    ),
    "sessions": (
        "file", "recording", "session", "number", "seq_bits", "open_ns", "accept_ns", "end_ns", "until_ns", "end", "reason", "margin_us",
        "open_file", "open_pkt", "end_pkt", "opener", "acceptor", "opener_lease_ms", "acceptor_lease_ms", "opener_silence_us", "acceptor_silence_us",
    ),
    "flows": (
        "flow", "multicast", "conduit", "reliable", "messages", "samples", "bytes", "gaps", "missing", "repeats",
        "pre_sync", "fills", "ambiguous", "unclear", "resets", "nacks", "answer_hist", "delivery_hist", "gap_file", "gap_pkt", "repeat_file",
        "repeat_pkt", "src", "dst",
    ),
    "rates": ("rid", "messages", "bytes", "repeats"),
    "resources": ("rid", "uri", "valid_from_ns"),
}  # fmt: skip


def made(files: tuple[str, ...], found: Found) -> Info:
    """An Info, from what one process or many have found."""
    from pyddsi.capture._findings import findings  # noqa: PLC0415 - it takes Info from here

    info = Info(files)
    _counted(info, found.tally)
    info.peers = _peers(found.endpoints)
    info.sessions = _sessions(found.sessions)
    info.conduits = _conduits(found.flows)
    info.resources = _resources(found.rates, info.seconds)
    info.findings = findings(info, found.tally)
    return info


def _named(table: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    """Tuples as rows; the core has them in the order of the table."""
    names = [column.name for column in columns(table) if column.name in COLUMNS[table]]
    return (dict(zip(names, row, strict=True)) for row in rows)


def _told(scan: Scan, table: str) -> Iterator[Row]:
    return _named(table, scan.tell(table, COLUMNS[table]))


def _begun(settings: Settings) -> Scan:
    """A scan that counts, and keeps the sessions that end on the way; all else is remembered to the end."""
    return Scan(settings, Request("sessions", COLUMNS["sessions"]), tally=True, plain=[])


def _take(found: Found, scan: Scan, file: int) -> None:
    """What a recording has, which is over."""
    for _ in scan.finish():
        pass
    for count in counts_of(scan):
        found.tally.add(count)
    found.tally.problems += scan.problems
    found.sessions += _named("sessions", scan.plain or ())
    found.endpoints = added((*found.endpoints, *_told(scan, "endpoints")), ("ep",))
    found.flows = added((*found.flows, *_told(scan, "flows")), ("flow",))
    names = names_of(_told(scan, "resources"))
    rates = added(_told(scan, "rates"), ("rid",))
    if not scan.facts().names_gone:
        found.add_rates(rates, names)
        return
    found.add_rates((row for row in rates if row["rid"] is None or row["rid"] in names), names)
    found.unnamed += [
        row | {"recording": file}
        for row in rates
        if row["rid"] is not None and row["rid"] not in names
    ]


def _recordings(
    capture: Capture,
    begin: Callable[[Settings], Scan],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Scan, int]]:
    """A scan of each recording, which is over, with the number of its first file."""
    total = done = 0
    scan: Scan | None = None
    number = 0
    for member in capture.members:
        if scan is not None and not member.continues:
            yield scan, number
            done, scan = done + int(scan.facts().bytes), None
        if scan is None:
            scan = begin(capture.settings)
            number = member.number
        source = open_bytes(member.source)
        try:
            total += source.size or 0
            scan.begin(member.number, member.recording)
            for _ in scan.rows(source):
                pass
        finally:
            source.close()
        if progress is not None:
            progress(done + int(scan.facts().bytes), total)
    if scan is not None:
        yield scan, number


def _taken_back(capture: Capture, found: Found) -> None:
    """Names that were taken back before the end: the core remembers only those that hold then, so the files are read again."""
    unnamed: dict[int, list[Row]] = {}
    for row in found.unnamed:
        unnamed.setdefault(row.pop("recording"), []).append(row)
    again = unnamed and all(
        isinstance(member.source, str) and Path(member.source).is_file()
        for member in capture.members
    )

    def begin(settings: Settings) -> Scan:
        return Scan(settings, Request("resources", COLUMNS["resources"]), plain=[])

    for scan, number in _recordings(capture, begin) if again else ():
        for _ in scan.finish():
            pass
        names = names_of(_named("resources", scan.plain or ()))
        found.add_rates(unnamed.pop(number, ()), names)
    for rows in unnamed.values():
        found.add_rates(rows, {})


def _unended(capture: Capture) -> Iterator[Problem]:
    """Recordings of ours that have no end."""
    for member in capture.members:
        name = member.source
        if isinstance(name, str) and Path(name).is_file() and is_unended(name):
            yield Problem(
                name,
                "unended",
                f"{name} has no end: it is still being recorded, or its recorder was killed, or had to give up (no room on the "
                "disk); what came after is not in it",
            )


def collect(capture: Capture, progress: Callable[[int, int], None] | None = None) -> Info:
    """All of a capture. Files that do not go on from each other know nothing of each other, and are added up."""
    found = Found()
    for scan, number in _recordings(capture, _begun, progress):
        _take(found, scan, number)
    _taken_back(capture, found)
    for row in found.flows:
        for name in ("answer", "delivery"):
            row[f"{name}_us"] = _percentiles(row[f"{name}_hist"])
    found.tally.problems += _unended(capture)
    info = made(capture.files, found)
    capture.note(info.problems)
    return info
