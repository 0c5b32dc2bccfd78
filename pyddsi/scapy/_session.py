# SPDX-License-Identifier: GPL-2.0-or-later
"""
Sessions of the protocol, followed while scapy sniffs or reads a capture.

    sniff(offline="run.pcap", session=PyddsiSession)

    frame ─► fragments put together ─► UDP: is it ours?       ─► messages ─► columns
                                       TCP: the next bytes,
                                            frames of them

Scapy dissects by port, and only the well-known one is known beforehand. Here who speaks the protocol is learnt, frames
of connections are put together, and every message is told what follows from those before it, all by the rules of
docs/inside/capture.md: `message.columns` has the columns of that page.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Padding, Raw
from scapy.sessions import IPSession

from pyddsi import wire
from pyddsi.capture import Endpoint
from pyddsi.capture.flows import Follower, Where
from pyddsi.errors import WireError
from pyddsi.scapy._packet import PORT, Frame, PyddsiPacket, PyddsiStream

EXTENSIONS_PROPERTY = 1
HELD_MAX = (
    256  # segments of one direction that wait for one before them; then that one is taken for lost
)
_LOCATORS = ("udp/", "tcp/")
_SYN, _MASK, _HALF = 0x02, 0xFFFFFFFF, 0x80000000
_SECOND = 1_000_000_000
_BASE = wire.Reading(extensions=False)


class PyddsiSession(IPSession):
    """
    What `sniff` takes as its session.

    port, groups: the well-known port, and multicast addresses whose datagrams are ours on any port
    seq_bits: the length of sequence numbers, if it is not to be as each session announces
    """

    def __init__(
        self,
        *args: Any,
        port: int = PORT,
        groups: Collection[str] = (),
        seq_bits: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._port = port
        self._groups = groups
        self._known: set[Endpoint] = set()
        self._base_only: set[Endpoint] = set()  # whose kinds beyond zhe are a fault
        self._directions: dict[tuple[Endpoint, Endpoint], _Direction] = {}
        self._followers = {UDP: Follower(seq_bits), TCP: Follower(seq_bits)}
        self._number = 0

    def process(self, packet: Packet) -> Packet | None:
        """The next packet as captured; what of it is ours is dissected, whatever scapy knows its port for."""
        self._number += 1
        whole: Packet | None = super().process(packet)
        if whole is None or not (IP in whole or IPv6 in whole):
            return whole
        if UDP in whole:
            self._datagram(whole, whole[UDP])
        elif TCP in whole:
            self._segment(whole, whole[TCP])
        return whole

    def _datagram(self, packet: Packet, udp: Packet) -> None:
        where, data = self._where(packet, udp), _payload(udp)
        ends = where.source, where.destination
        if data and (
            any(end.port == self._port or end in self._known for end in ends)
            or where.destination.address in self._groups
            or greets(data)
        ):
            self._known |= {end for end in ends if not end.multicast}
            _replace(udp, self._layer(UDP, where, data))

    def _segment(self, packet: Packet, tcp: Packet) -> None:
        where, data = self._where(packet, tcp), _payload(tcp)
        if self._port not in {tcp.sport, tcp.dport}:
            return
        key = where.source, where.destination
        if int(tcp.flags) & _SYN:
            self._directions[key] = _Direction(tcp.seq + 1)
        packets = self._directions[key].push(tcp.seq, data) if key in self._directions else []
        layers = [self._layer(TCP, where, each) for each in packets]
        if layers:
            _replace(tcp, PyddsiStream(frames=[Frame() / layer for layer in layers]))
        elif isinstance(tcp.payload, PyddsiStream):
            _replace(tcp, Raw(data))  # bytes of a frame that is not whole

    def _layer(self, transport: type[Packet], where: Where, data: bytes) -> Packet:
        """A packet with its messages, and behind it the bytes from the fault on."""
        end = len(data)
        try:
            messages = wire.decode(
                data, _BASE if where.source in self._base_only else wire.TOLERANT
            )
        except WireError as error:
            messages = error.messages
            end = messages[-1].at + messages[-1].size if messages else 0
        layer = PyddsiPacket(data[:end]) if end else PyddsiPacket(messages=[])
        for shown, message in zip(layer.messages, messages, strict=True):
            if isinstance(message, (wire.Open, wire.Accept)):
                announced = {found.id for found in message.properties or ()}
                extended = EXTENSIONS_PROPERTY in announced
                (self._base_only.discard if extended else self._base_only.add)(where.source)
            shown.columns = self._followers[transport].follow(where, message)
        if end < len(data):
            layer.add_payload(Raw(data[end:]))
        return layer

    def _where(self, packet: Packet, carrier: Packet) -> Where:
        network = packet[IPv6] if IPv6 in packet else packet[IP]
        source, target = Endpoint(network.src, carrier.sport), Endpoint(network.dst, carrier.dport)
        return Where(self._number, round(packet.time * _SECOND), source, target)


class _Direction:
    """One direction of a connection: segments go in as they were captured, packets come out in order."""

    def __init__(self, sequence: int) -> None:
        self._next = sequence
        self._stream: wire.Stream | None = wire.Stream()  # None: framing is lost
        self._held: dict[int, bytes] = {}

    def push(self, sequence: int, data: bytes) -> list[bytes]:
        """The packets that are whole with this segment."""
        if data and self._stream is not None:
            self._held[sequence] = max(data, self._held.get(sequence, b""), key=len)
        packets: list[bytes] = []
        while self._stream is not None and (found := self._take()):
            try:
                packets += map(bytes, self._stream.feed(found))
            except WireError as error:
                packets += map(bytes, error.messages)
                self._stream = None
        if len(self._held) > HELD_MAX:
            self._stream = None
        if self._stream is None:
            self._held.clear()
        return packets

    def _take(self) -> bytes:
        """The next bytes, if they are there; what has been taken before goes."""
        for sequence in list(self._held):
            behind = (self._next - sequence) & _MASK
            if behind >= _HALF:
                continue  # it lies ahead
            data = self._held.pop(sequence)[behind:]
            if data:
                self._next += len(data)
                return data
        return b""


def greets(data: bytes) -> bool:
    """Whether a datagram is a HELLO or an OPEN and nothing else, as a correct sender writes it, with a locator in it."""
    if data[0] & 0x1F not in {wire.Hello.KIND, wire.Open.KIND}:
        return False
    try:
        found = wire.decode(data, wire.STRICT)
    except WireError:
        return False
    return (
        len(found) == 1
        and isinstance(found[0], (wire.Hello, wire.Open))
        and any(locator.startswith(_LOCATORS) for locator in found[0].locators)
    )


def _replace(carrier: Packet, layer: Packet) -> None:
    """Put our layer in the place of what scapy has made of the bytes."""
    carrier.remove_payload()
    carrier.add_payload(layer)


def _payload(carrier: Packet) -> bytes:
    """The bytes behind a header, as captured, without padding."""
    payload = carrier.payload
    if isinstance(payload, Padding):
        return b""
    return bytes(payload.original) or payload.do_build()
