"""
The samples of a recording: what applications published, each once and whole, with its name.

    messages ─► one flow for each sender, way and conduit ─► series ─► samples
                repeats left out, order restored             pieces    a name where one was declared
                                                             joined    else the number

A conduit is a group's or one peer's, and the wire says so only by where packets go: a conduit that was heard by a group is
the group's, whoever else gets a copy. A name that anybody declares is everybody's, as numbers are; the sender's own wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyddsi import names, wire
from pyddsi.capture import Endpoint
from pyddsi.capture.replay._flow import Flow, Pieces
from pyddsi.capture.replay._source import Packet
from pyddsi.wire import Buffer

__all__ = ["SEQUENCE_LENGTHS", "Sample", "Samples", "properties"]

SEQUENCE_BITS = 14
SEQUENCE_LENGTHS = range(7, 57)

NUMBERED = (wire.SData, wire.BData, wire.WData, wire.Declare, wire.Pull)


class Sample(NamedTuple):
    """
    A sample that somebody published.

    at_ns: when it could be delivered; packet, message: that brought its last byte
    resource: its name, or its number where none is known
    """

    at_ns: int
    resource: str | int
    space: int
    reliable: bool
    payload: Buffer
    packet: Packet
    message: wire.Message


class _Said(NamedTuple):
    """A numbered message as it was said, with the marker of a piece before it."""

    packet: Packet
    message: Any
    marker: wire.Frag | None


class _Way:
    """What one sender says on one conduit, reliably or not."""

    def __init__(self, bits: int, *, reliable: bool) -> None:
        self.flow = Flow[_Said](bits, reliable=reliable)
        self.pieces = Pieces[_Said]()


def properties(message: wire.Message) -> dict[int, list[int]]:
    """The properties of an OPEN or ACCEPT by their ids, each as the numbers that its bytes are."""
    found: dict[int, list[int]] = {}
    for one in getattr(message, "properties", None) or ():
        numbers, value, shift = found.setdefault(int(one.id), []), 0, 0
        for byte in bytes(one.value):
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                numbers.append(value)
                value = shift = 0
    return found


class Samples:
    """Takes the packets of a recording with their messages, gives samples."""

    def __init__(self) -> None:
        self._ways: dict[tuple[Endpoint, Endpoint | None, int, bool], _Way] = {}
        self._groups: set[tuple[Endpoint, int]] = set()
        self._bits: dict[Endpoint, int] = {}
        self._lives: dict[Endpoint, object] = {}
        self._names: dict[tuple[Endpoint | None, int, int], str] = {}
        self._ended = [0, 0, 0]

    def _sum(self) -> list[int]:
        ways = self._ways.values()
        now = [
            sum(way.flow.repeats for way in ways),
            sum(way.flow.missing for way in ways),
            sum(way.pieces.incomplete for way in ways),
        ]
        return [one + two for one, two in zip(self._ended, now, strict=True)]

    @property
    def repeats(self) -> int:
        """Messages that had been there before."""
        return self._sum()[0]

    @property
    def missing(self) -> int:
        """Messages that the capture does not have."""
        return self._sum()[1]

    @property
    def incomplete(self) -> int:
        """Samples of which it lacks a piece."""
        return self._sum()[2]

    # ---- packets in ----

    def push(self, packet: Packet, messages: Iterable[wire.Message]) -> Iterator[Sample]:
        """A packet comes; the samples that can be delivered now."""
        marker: wire.Frag | None = None
        for message in messages:
            if isinstance(message, wire.Frag):
                marker = message
            elif not isinstance(message, wire.RSpace):  # which may stand between
                yield from self._push(_Said(packet, message, marker))
                marker = None

    def finish(self) -> Iterator[Sample]:
        """Nothing more comes: what waited for what is missing."""
        for way in list(self._ways.values()):
            yield from self._end(way, None)

    def _push(self, said: _Said) -> Iterator[Sample]:
        packet, message, _ = said
        if isinstance(message, (wire.Open, wire.Accept)):
            yield from self._opened(packet, message)
        elif isinstance(message, wire.Synch):
            way = self._way(packet, message.conduit, reliable=True)
            for count, one in way.flow.synch(message.sn, message.count or 0):
                yield from self._deliver(way, count, one, packet)
        elif isinstance(message, NUMBERED):
            if isinstance(message, wire.Declare):
                self._declared(packet.source, message)
            way = self._way(packet, message.conduit, reliable=getattr(message, "reliable", True))
            for count, one in way.flow.push(message.sn, said, packet.at_ns):
                yield from self._deliver(way, count, one, packet)

    def _way(self, packet: Packet, conduit: int, *, reliable: bool) -> _Way:
        source = packet.source
        if packet.target.multicast:
            self._groups.add((source, conduit))
        to = None if (source, conduit) in self._groups else packet.target
        key = source, to, conduit, reliable
        if key not in self._ways:
            self._ways[key] = _Way(self._bits.get(source, SEQUENCE_BITS), reliable=reliable)
        return self._ways[key]

    def _opened(self, packet: Packet, message: wire.Open | wire.Accept) -> Iterator[Sample]:
        """Who opens says how long its numbers are, and whether it is the same as before."""
        told = properties(message)
        source = packet.source
        for bits in told.get(wire.PropertyId.SEQUENCE_BITS, ())[:1]:
            for end in (source, packet.target):  # whom it opens has the same, or refuses
                if bits in SEQUENCE_LENGTHS:  # else it is refused
                    self._bits[end] = bits
        who = message.id if isinstance(message, wire.Open) else message.acceptor
        life = bytes(who), told.get(wire.PropertyId.INCARNATION)
        if self._lives.setdefault(source, life) != life:
            self._lives[source] = life
            for key in [key for key in self._ways if key[0] == source]:
                way = self._ways.pop(key)
                yield from self._end(way, packet)
                ended = way.flow.repeats, way.flow.missing, way.pieces.incomplete
                self._ended = [one + two for one, two in zip(self._ended, ended, strict=True)]

    def _end(self, way: _Way, packet: Packet | None) -> Iterator[Sample]:
        for count, said in way.flow.finish():
            yield from self._deliver(way, count, said, packet or said.packet)
        way.pieces.finish()

    # ---- names ----

    def _declared(self, source: Endpoint, message: wire.Declare) -> None:
        for one in message.declarations:
            if isinstance(one, wire.Resource) and _valid(str(one.uri)):
                for who in (source, None):
                    self._names.setdefault((who, message.space, int(one.id)), str(one.uri))

    def _name(self, source: Endpoint, space: int, number: int) -> str | int:
        found = self._names.get((source, space, number))
        return found or self._names.get((None, space, number)) or number

    # ---- samples out ----

    def _deliver(self, way: _Way, count: int, said: _Said, now: Packet) -> Iterator[Sample]:
        """A message whose turn has come."""
        message, marker = said.message, said.marker
        if marker is not None and isinstance(message, (wire.SData, wire.WData)):
            whole = way.pieces.piece(count, message.sn, marker, said, message.payload)
        else:
            whole = way.pieces.other(count)
        for first, payload in whole:
            yield from self._sample(first, payload, now)
        if marker is None:
            yield from self._sample(said, getattr(message, "payload", b""), now)

    def _sample(self, said: _Said, payload: Buffer, now: Packet) -> Iterator[Sample]:
        message, source = said.message, said.packet.source
        found: list[tuple[str | int, Buffer]] = []
        if isinstance(message, wire.WData):
            found = [(message.uri, payload)] if _valid(message.uri) else []
        elif isinstance(message, (wire.SData, wire.BData)):
            items: list[tuple[int, Buffer]] = [(message.rid, payload)]
            if isinstance(message, wire.BData):
                items = [
                    (message.rid if i.rid is None else i.rid, i.payload) for i in message.samples
                ]
            elif message.data_rid is not None:
                items = [(message.data_rid, payload)]
            found = [
                (self._name(source, message.space, int(rid)), data)
                for rid, data in items
                if rid and not isinstance(rid, wire.SelectionId)  # 0 ends an answer to a pull
            ]
        for resource, data in found:
            yield Sample(
                now.at_ns,
                resource,
                message.space,
                bool(message.reliable),
                data,
                said.packet,
                message,
            )


def _valid(name: str) -> bool:
    try:
        names.canonical(name)
    except names.InvalidNameError:
        return False
    return True
