"""
The protocol's packets of a capture.

Only multicast goes to the well-known port; answers, handshakes and acknowledgements run between ephemeral ports. So who
speaks the protocol is learnt: an endpoint that uses the well-known port, or that exchanges datagrams with one that does.

Which messages a sender may use is learnt, too: one that opens or accepts a session without announcing extensions has
none, and where its packets hold such a message they are damaged, not extended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pyddsi import wire
from pyddsi.capture import Capture, Datagram, Endpoint, Segment
from pyddsi.errors import WireError

EXTENSIONS_PROPERTY = 1


@dataclass(slots=True)
class Packet:
    """One packet of the protocol; `broken` tells instead of data why a stream cannot be read on."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint
    data: bytes | memoryview
    broken: str | None = None


class Traffic:
    """The protocol's packets of a capture, in order."""

    def __init__(self, capture: Capture, port: int) -> None:
        self.capture = capture
        self.port = port
        self.foreign: Counter[str] = Counter()  # what was passed over, by transport
        self._known: set[Endpoint] = set()
        self._streams: dict[tuple[Endpoint, Endpoint], wire.Stream | None] = {}
        self._base_only: set[Endpoint] = set()
        self._base_reading = wire.Reading(extensions=False)

    def __iter__(self) -> Iterator[Packet]:
        for item in self.capture:
            if isinstance(item, Datagram):
                if self._ours(item):
                    yield Packet(
                        item.number, item.time_ns, item.source, item.destination, item.data
                    )
                else:
                    self.foreign["UDP"] += 1
            elif self.port in {item.source.port, item.destination.port}:
                yield from self._segment(item)
            else:
                self.foreign["TCP"] += 1

    def reading(self, source: Endpoint) -> wire.Reading:
        """How to read what this sender sends."""
        return self._base_reading if source in self._base_only else wire.TOLERANT

    def note(self, source: Endpoint, message: wire.Message) -> None:
        """Learn from a message what its sender can do."""
        if isinstance(message, (wire.Open, wire.Accept)):
            announced = {p.id for p in message.properties or ()}
            if EXTENSIONS_PROPERTY in announced:
                self._base_only.discard(source)
            else:
                self._base_only.add(source)

    def _ours(self, item: Datagram) -> bool:
        ends = (item.source, item.destination)
        if not any(end.port == self.port or end in self._known for end in ends):
            return False
        self._known.update(end for end in ends if end.port != self.port and not end.multicast)
        return True

    def _segment(self, item: Segment) -> Iterator[Packet]:
        key = (item.source, item.destination)
        if item.start:
            self._streams[key] = wire.Stream()
        broken = None
        packets: list[memoryview] = []
        if key not in self._streams:
            broken = (
                "the capture begins inside this connection; it can be read from its next start on"
            )
        elif item.lost:
            broken = "the capture lacks a part of this connection; framing is lost"
        elif (stream := self._streams[key]) is None:
            return  # said once
        else:
            try:
                packets = stream.feed(item.data)
            except WireError as error:
                packets, broken = error.messages, str(error)
        for data in packets:
            yield Packet(item.number, item.time_ns, item.source, item.destination, data)
        if broken is not None:
            self._streams[key] = None
            yield Packet(item.number, item.time_ns, item.source, item.destination, b"", broken)
        if item.end:
            self._streams.pop(key, None)
