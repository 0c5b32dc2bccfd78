"""`pyddsi decode`: the messages of a capture, a line each, as JSON, or counted."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyddsi import wire
from pyddsi._native import MESSAGES, spec
from pyddsi.capture import open_capture
from pyddsi.cli._arguments import Parser
from pyddsi.cli._traffic import Packet, Traffic
from pyddsi.errors import CaptureError, WireError

DESCRIPTION = """\
Print the messages in captures (pcap, pcapng, gzipped or not), one line each:

  packet, time since the first packet, who -> whom, conduit, kind, flags, fields

A packet that breaks a rule of the protocol is printed up to that byte, then MALFORMED with the byte, the rule, and what
the reference peer zhe does about it.
"""

EXAMPLES = """\
examples:
  pyddsi decode run.pcap
  pyddsi decode --count --json run.pcap
  tcpdump -i any -w - udp | pyddsi decode -
  pyddsi decode --json run.pcap | jq 'select(.kind == "SDATA" and .rid == 7)'
  pyddsi decode --hex '67 00 02 02 31 32'
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
    parser.add_argument(
        "--reading",
        choices=["auto", "tolerant", "strict", "zhe"],
        default="auto",
        help="what to take: all that can be understood (tolerant), only what is correct (strict), what zhe takes (zhe); "
        "auto is tolerant, but takes a sender's extensions only if it announced some or was not seen opening",
    )
    parser.add_argument(
        "--seq-bits",
        type=int,
        metavar="L",
        help="length of sequence numbers, 7 to 56 (default: take any; zhe: 14)",
    )
    parser.add_argument(
        "--port", type=int, default=7447, help="the well-known port (default: 7447)"
    )


class _Decoder:
    """Applies the options to packets and keeps the books."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.counts: Counter[str] = Counter()
        self.packets = 0
        self.malformed = 0
        self._fixed = None
        if options.reading != "auto" or options.seq_bits is not None:
            strictness: Any = "tolerant" if options.reading == "auto" else options.reading
            self._fixed = wire.Reading(strictness, seq_bits=options.seq_bits)

    def messages(
        self, packet: Packet, traffic: Traffic | None
    ) -> tuple[list[wire.Message], WireError | None]:
        """The packet's messages and the fault that ends it early, both counted."""
        reading = self._fixed or (traffic.reading(packet.source) if traffic else wire.TOLERANT)
        fault = None
        try:
            found = wire.decode(packet.data, reading)
        except WireError as error:
            found, fault = error.messages, error
        self.packets += 1
        self.malformed += fault is not None
        self.counts.update(message.NAME for message in found)
        if traffic is not None:
            for message in found:
                traffic.note(packet.source, message)
        return found, fault


def _relative(packet: Packet, first_ns: int | None) -> float | None:
    if packet.time_ns is None or first_ns is None:
        return None
    return (packet.time_ns - first_ns) / 1e9


def _text(
    packet: Packet, first_ns: int | None, found: list[wire.Message], fault: str | None
) -> Iterator[str]:
    time = _relative(packet, first_ns)
    shown = f"{time:12.6f}" if time is not None else f"{'-':>12}"
    start = f"{packet.number:5d} {shown} {packet.source} → {packet.destination}"
    for message in found:
        yield f"{start}  c{message.conduit} {message}"
    if fault is not None:
        yield f"{start}  MALFORMED {fault}"


def _objects(
    packet: Packet, first_ns: int | None, found: list[wire.Message], fault: dict[str, Any] | None
) -> Iterator[str]:
    start: dict[str, Any] = {
        "packet": packet.number,
        "time_ns": packet.time_ns,
        "time": _relative(packet, first_ns),
        "source": str(packet.source),
        "destination": str(packet.destination),
    }
    for message in found:
        place = {"conduit": message.conduit, "at": message.at, "size": message.size}
        yield json.dumps(start | place | message.to_dict())
    if fault is not None:
        yield json.dumps(start | {"malformed": fault})


def _fault_object(fault: WireError) -> dict[str, Any]:
    return {
        "rule": fault.rule,
        "at": fault.at,
        "kind": fault.kind,
        "zhe": fault.zhe,
        "text": str(fault),
    }


def _decode_file(decoder: _Decoder, name: str) -> None:
    """One capture: everything is printed as it is read, so that a pipe shows it at once."""
    options = decoder.options
    first_ns: int | None = None
    before = decoder.packets + decoder.malformed
    with open_capture(name) as capture:
        traffic = Traffic(capture, options.port)
        for packet in traffic:
            if first_ns is None:
                first_ns = packet.time_ns
            found: list[wire.Message] = []
            text: str | None = packet.broken
            plain: dict[str, Any] | None = {"text": packet.broken}
            if packet.broken is not None:
                decoder.malformed += 1
            else:
                found, fault = decoder.messages(packet, traffic)
                text = str(fault) if fault else None
                plain = _fault_object(fault) if fault else None
            if options.count:
                continue
            write = (
                _objects(packet, first_ns, found, plain)
                if options.json
                else _text(packet, first_ns, found, text)
            )
            for line in write:
                print(line)
        if decoder.packets + decoder.malformed == before:
            _explain_nothing(name, traffic)


def _explain_nothing(name: str, traffic: Traffic) -> None:
    passed = ", ".join(f"{n} {transport} packets" for transport, n in traffic.foreign.items())
    print(
        f"pyddsi: {name}: no packet of the protocol among {traffic.capture.records} captured"
        + (f" ({passed} do not use port {traffic.port}; --port names another)" if passed else ""),
        file=sys.stderr,
    )


def _decode_hex(decoder: _Decoder, digits: str) -> int:
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        print(f"pyddsi: --hex takes pairs of hexadecimal digits, not {digits!r}", file=sys.stderr)
        return 2
    found, fault = decoder.messages(Packet(1, None, None, None, data), None)  # type: ignore[arg-type]
    for message in found if not decoder.options.count else ():
        print(
            json.dumps(message.to_dict())
            if decoder.options.json
            else f"c{message.conduit} {message}"
        )
    if fault is not None:
        print(f"pyddsi: {fault}", file=sys.stderr)
    return 1 if fault else 0


def _print_counts(decoder: _Decoder) -> None:
    order = [row.name for row in spec(MESSAGES).values()]
    counts = {name: decoder.counts[name] for name in order if decoder.counts[name]}
    if decoder.options.json:
        print(json.dumps(counts))
        return
    for name, count in counts.items():
        print(f"{name:13} {count:9d}")
    total = sum(counts.values())
    print(
        f"{total} messages in {decoder.packets} packets, {decoder.malformed} malformed",
        file=sys.stderr,
    )


def run(options: argparse.Namespace) -> int:
    """Decode the files, or the bytes given."""
    try:
        decoder = _Decoder(options)
    except ValueError as error:
        print(f"pyddsi: --seq-bits: {error}", file=sys.stderr)
        return 2
    if options.hex is not None:
        status = _decode_hex(decoder, options.hex)
        if options.count:
            _print_counts(decoder)
        return status
    broken: CaptureError | None = None
    for name in options.files:
        try:
            _decode_file(decoder, name)
        except CaptureError as error:  # what was whole has been printed
            broken = error
            break
    if options.count:
        _print_counts(decoder)
    if broken is not None:
        raise broken
    return 0
