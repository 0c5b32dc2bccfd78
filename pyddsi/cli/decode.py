"""`pyddsi decode`: the messages of captures, a line each, as JSON, or counted."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyddsi import wire
from pyddsi._native import MESSAGES, spec
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._packet import DECODES
from pyddsi.capture._scan import NONE, Scan
from pyddsi.cli._arguments import Parser, UsageError
from pyddsi.cli._captures import add_part, add_reading, moment, opened, warned
from pyddsi.cli._show import printable
from pyddsi.errors import CaptureError, WireError

DESCRIPTION = """\
Print the messages in captures (pcap, pcapng, plain or packed), one line each:

  packet, time since the first packet (with --from, since the first frame), who -> whom, conduit, kind, flags, fields [what it means to those before it]

In brackets stand the name of the resource, the number counted on without wrapping, and whether a message is a repeat, follows
a gap, fills one, or begins anew; and how long an answer took. A packet that breaks a rule of the protocol is printed up to that
byte, then MALFORMED with the byte, the rule, and what the reference peer zhe does about it.
"""

EXAMPLES = """\
examples:
  pyddsi decode run.pcap
  pyddsi decode --count --json run.pcap
  pyddsi decode --where 'kind == SDATA and rid == 7' --from 1.5 --to 2 run.pcap
  pyddsi decode --where 'seq_event in (3, 8)' run.pcap            repeats
  pyddsi decode --where "uri in '/plant/**'" run.pcap
  tcpdump -i any -w - udp | pyddsi decode -
  pyddsi decode --json run.pcap | jq 'select(.kind == "SDATA" and .rid == 7)'
  pyddsi decode --hex '67 00 02 02 31 32'

--where takes columns of the table of messages (docs/reference/captures.md), kinds, numbers, and texts in quotes.
"""


def add(parser: Parser) -> None:
    """Its options."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "files", metavar="FILE", nargs="*", default=[], help="a capture; - is standard input"
    )
    source.add_argument(
        "--hex", metavar="BYTES", help="decode these bytes as one packet instead of a file"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a message, or of all counts"
    )
    parser.add_argument("--count", action="store_true", help="only count the messages of each kind")
    parser.add_argument("--where", metavar="CONDITION", help="only the messages for which it holds")
    add_part(parser)
    parser.add_argument(
        "--reading",
        choices=["auto", "tolerant", "strict", "zhe"],
        default="auto",
        help="what to take: all that can be understood (tolerant), only what is correct (strict), what zhe takes (zhe); "
        "auto is tolerant, but takes a sender's extensions only if it announced some or was not seen opening",
    )
    add_reading(parser)


class Decoder:
    """Applies the options to packets and keeps the books."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.counts: Counter[str] = Counter()
        self.packets = 0
        self.malformed = 0
        self.fixed = None
        if options.reading != "auto":
            self.fixed = wire.Reading(options.reading, seq_bits=options.seq_bits)

    @property
    def counted(self) -> bool:
        """Whether the counts that are wanted are those that the core has."""
        options = self.options
        limits = options.where, options.start, options.stop, options.seq_bits, self.fixed
        return all(one is None for one in limits)

    def messages(
        self, data: bytes, reading: wire.Reading
    ) -> tuple[list[wire.Message], WireError | None]:
        """The packet's messages and the fault that ends it early, both counted."""
        fault = None
        try:
            found = wire.decode(data, self.fixed or reading)
        except WireError as error:
            found, fault = error.messages, error
        return found, fault

    def count(self, found: list[wire.Message], fault: object) -> None:
        """In the books."""
        self.packets += 1
        self.malformed += fault is not None
        self.counts.update(message.NAME for message in found)


UNREAD = ("truncated", "malformed", "unknown", "stream")
MARKERS = (wire.Conduit, wire.Frag, wire.RSpace)
WORDS = {
    "repeat": "repeat",
    "pre-sync": "repeat of what came before the first SYNCH",
    "fill": "fills a gap",
    "old": "overtaken",
    "reset": "counts anew",
    "ambiguous": "ambiguous",
}


def _span(us: int) -> str:
    return (
        f"{us} µs"
        if us < 1000
        else f"{us / 1000:.1f} ms"
        if us < 1_000_000
        else f"{us / 1e6:.2f} s"
    )


def _meaning(message: wire.Message, note: Any, name: str) -> str:
    """What stands in brackets."""
    parts = [name] if name else []
    if note.usn is not None and note.usn != getattr(message, "sn", None):
        parts.append(f"number {note.usn}")
    if note.event == "gap":
        parts.append(f"{note.gap} missing before it")
    elif note.event in WORDS:
        after = f" after {_span(note.since_first_us)}" if note.since_first_us is not None else ""
        parts.append(WORDS[note.event] + after)
    if note.answer_us is not None:
        parts.append(f"answer after {_span(note.answer_us)}")
    return f"  [{', '.join(parts)}]" if parts else ""


class Lines:
    """What is printed of one file; `packets` can be asked for names, where messages come with notes."""

    def __init__(self, decoder: Decoder, packets: Any = None) -> None:
        self.decoder = decoder
        self.packets = packets
        self.first_ns: int | None = None

    def relative(self, time_ns: int | None) -> float | None:
        """Seconds since the first packet."""
        if time_ns is None or self.first_ns is None:
            return None
        return (time_ns - self.first_ns) / 1e9

    def name(self, message: wire.Message) -> str:
        """The name of its resource."""
        rid = getattr(message, "data_rid", None) or getattr(message, "rid", None)
        if not isinstance(message, (wire.SData, wire.BData, wire.Pull)) or rid is None:
            return ""
        doubled = rid * 2 + isinstance(rid, wire.SelectionId)
        return str(self.packets.name(int(doubled), getattr(message, "space", 0) or 0))

    def chosen(self, packet: Any) -> tuple[list[tuple[wire.Message, Any]], WireError | None]:
        """The messages of a packet that pass, each with its note; markers go with the message behind them."""
        found, fault = self.decoder.messages(packet.data, packet.reading)
        kept: list[tuple[wire.Message, Any]] = []
        waiting: list[tuple[wire.Message, Any]] = []
        at = 0
        for message in found:
            if isinstance(message, MARKERS):
                waiting.append((message, None))
                continue
            note = packet.notes[at] if at < len(packet.notes) else None
            at += 1
            if self.decoder.options.where is None if note is None else note.passes:
                kept += [*waiting, (message, note)]
            waiting = []
        if self.decoder.options.where is None:
            kept += waiting
        elif fault is not None and not packet.fault_passes:
            fault = None
        return kept, fault

    def start(self, packet: Any) -> str:
        """What each line of a packet begins with."""
        time = self.relative(packet.time_ns)
        shown = f"{time:12.6f}" if time is not None else f"{'-':>12}"
        return f"{packet.number:5d} {shown} {packet.source} → {packet.destination}"

    def text(
        self, packet: Any, kept: list[tuple[wire.Message, Any]], fault: str | None
    ) -> Iterator[str]:
        """As lines."""
        start = self.start(packet)
        for message, note in kept:
            meaning = "" if note is None else _meaning(message, note, printable(self.name(message)))
            yield f"{start}  c{message.conduit} {message}{meaning}"
        if fault is not None:
            yield f"{start}  MALFORMED {fault}"

    def objects(
        self, packet: Any, kept: list[tuple[wire.Message, Any]], fault: dict[str, Any] | None
    ) -> Iterator[str]:
        """As JSON."""
        start: dict[str, Any] = {
            "packet": packet.number,
            "time_ns": packet.time_ns,
            "time": self.relative(packet.time_ns),
            "source": str(packet.source),
            "destination": str(packet.destination),
        }
        for message, note in kept:
            place = {"conduit": message.conduit, "at": message.at, "size": message.size}
            found = start | place | message.to_dict()
            if note is not None:
                name = self.name(message)
                found |= {"name": name} if name else {}
                meaning = note._asdict()
                del meaning["passes"], meaning["outstanding"]
                found |= {
                    key: value for key, value in meaning.items() if value is not None and value != 0
                }
                if note.usn is not None:
                    found |= {"usn": note.usn, "epoch": note.epoch}
            yield json.dumps(found)
        if fault is not None:
            yield json.dumps(start | {"malformed": fault})


def fault_object(fault: WireError) -> dict[str, Any]:
    """A fault as JSON has it."""
    return {
        "rule": fault.rule,
        "at": fault.at,
        "kind": fault.kind,
        "zhe": fault.zhe,
        "text": str(fault),
    }


STREAM = "the capture lacks the start or a part of this connection; it can be read from its next start on"


def _packet(decoder: Decoder, lines: Lines, packet: Any) -> None:
    options = decoder.options
    if lines.first_ns is None:
        begin = int(lines.packets.scan.facts().first_ns) if options.start is not None else NONE
        lines.first_ns = packet.time_ns if begin == NONE else begin
    if packet.decode == "stream" and not packet.fault_passes:
        return
    if packet.decode == "ok" and lines.packets.lean:
        sys.stdout.write(lines.packets.lines(lines.start(packet)))
        decoder.packets += 1
        return
    if packet.decode == "stream":
        decoder.malformed += 1
        kept: list[tuple[wire.Message, Any]] = []
        text: str | None = STREAM
        plain: dict[str, Any] | None = {"text": STREAM}
    else:
        kept, fault = lines.chosen(packet)
        decoder.count([message for message, _ in kept], fault)
        text = str(fault) if fault else None
        plain = fault_object(fault) if fault else None
    if options.count:
        return
    write = lines.objects(packet, kept, plain) if options.json else lines.text(packet, kept, text)
    for line in write:
        print(line)


def _count_files(decoder: Decoder, capture: Any) -> None:
    """All messages of all files: the core has counted them when it has read them."""
    names = {number: row.name for number, row in spec(MESSAGES).items()}
    for member, name in zip(capture.members, capture.files, strict=True):
        source, scan = open_bytes(member.source), Scan(capture.settings)
        try:
            for _ in scan.rows(source):
                pass
            for _ in scan.finish():
                pass
        finally:
            source.close()
            facts = scan.facts()
            decoder.packets += facts.packets
            decoder.malformed += sum(facts.by_decode[DECODES.index(word)] for word in UNREAD)
            for number, kind in names.items():
                decoder.counts[kind] += facts.by_kind[number]
            capture.note(scan.problems)
        if not facts.packets and not any(facts.by_decode[DECODES.index(word)] for word in UNREAD):
            _explain_nothing(name, scan, decoder.options.port or [7447])


def _decode_files(decoder: Decoder) -> None:
    """Everything is printed as it is read, so that a pipe shows it at once."""
    options = decoder.options
    capture = opened(options)
    if options.count and decoder.counted:
        _count_files(decoder, capture)
        return
    for name, packets in capture.packets_of_files(
        where=options.where, start=moment(options.start), stop=moment(options.stop)
    ):
        before = decoder.packets + decoder.malformed
        lines = Lines(decoder, packets)
        packets.lean = not options.json and not options.count and decoder.fixed is None
        for packet in packets:
            _packet(decoder, lines, packet)
        if (
            decoder.packets + decoder.malformed == before
            and options.where is None
            and options.start is None
        ):
            _explain_nothing(name, packets.scan, options.port or [7447])


def _explain_nothing(name: str, scan: Scan, ports: list[int]) -> None:
    facts = scan.facts()
    foreign = {"UDP": facts.foreign_udp, "TCP": facts.foreign_tcp}
    passed = ", ".join(f"{n} {transport} packets" for transport, n in foreign.items() if n)
    print(
        f"pyddsi: {name}: no packet of the protocol among {facts.frames} captured"
        + (f" ({passed} do not use port {ports[0]}; --port names another)" if passed else ""),
        file=sys.stderr,
    )


def _decode_hex(decoder: Decoder, digits: str) -> int:
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        print(f"pyddsi: --hex takes pairs of hexadecimal digits, not {digits!r}", file=sys.stderr)
        return 2
    reading = wire.Reading("tolerant", seq_bits=decoder.options.seq_bits)
    found, fault = decoder.messages(data, reading)
    decoder.count(found, fault)
    for message in found if not decoder.options.count else ():
        print(
            json.dumps(message.to_dict())
            if decoder.options.json
            else f"c{message.conduit} {message}"
        )
    if fault is not None:
        print(f"pyddsi: {fault}", file=sys.stderr)
    return 1 if fault else 0


def _print_counts(decoder: Decoder) -> None:
    order = [row.name for row in spec(MESSAGES).values()]
    counts = {name: decoder.counts[name] for name in order if decoder.counts[name]}
    if decoder.options.json:
        print(json.dumps(counts))
        return
    for name, count in counts.items():
        print(f"{name:13} {count:9d}")
    sys.stdout.flush()  # a full disk is told in place of the sum, not after it
    total = sum(counts.values())
    print(
        f"{total} messages in {decoder.packets} packets, {decoder.malformed} malformed",
        file=sys.stderr,
    )


def run(options: argparse.Namespace) -> int:
    """Decode the files, or the bytes given."""
    try:
        decoder = Decoder(options)
    except ValueError as error:
        print(f"pyddsi: --seq-bits: {error}", file=sys.stderr)
        return 2
    if options.hex is not None:
        status = _decode_hex(decoder, options.hex)
        if options.count:
            _print_counts(decoder)
        return status
    broken: CaptureError | None = None
    try:
        with warned():
            _decode_files(decoder)
    except CaptureError as error:  # what was whole has been printed
        broken = error
    except ValueError as error:
        raise UsageError(str(error)) from None
    if options.count:
        _print_counts(decoder)
    if broken is not None:
        raise broken
    return 0
