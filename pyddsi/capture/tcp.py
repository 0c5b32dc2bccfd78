"""TCP packets go in, each direction's bytes come out in order and once.

    packets as captured        1 2 4 4 5 3 6       (4 sent twice, 3 late)
    in order, each byte once   1 2 · · · 3 4 5 6
                                   └ held ┘

Every packet is laid on a line of positions that never wraps: `next`, the first byte not yet delivered, is an ordinary
growing number, and the 32-bit sequence number only says how far from it a packet begins. Below `next` everything has
been delivered, so a repeated byte is dropped, also half of a packet. Above it a packet is held until the hole closes,
or until the capture turns out never to have seen those bytes: when more is held than a limit allows, or at the
end of the file, the hole is given up and the next Segment says lost=True. We cannot know earlier: that the other side
acknowledged a byte says it was sent, not that it will not be found in the next packet of a capture out of order.

A held Segment keeps number and time of the frame that carried it, so these may step back within one direction.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections import Counter

    from pyddsi.capture.dissect import Endpoint, TcpPacket

DIRECTIONS_MAX = 2048
"""Directions followed at one time; the one idle longest is ended for a new one."""
HELD_BYTES_MAX = 1024 * 1024
"""What waits behind a hole, in one direction: more than a usual receive window."""
HELD_TOTAL_BYTES_MAX = 64 * 1024 * 1024
"""The same over all directions."""
HELD_OVERHEAD_BYTES = 256
"""What is counted for each held packet beside its bytes, so that a million of one byte have a limit too."""
JUMP_BYTES_MAX = 64 * 1024 * 1024
"""A sequence number farther away than this, either way, belongs to another connection whose SYN was not captured."""

_FIN, _SYN, _RST = 1, 2, 4
_MASK, _HALF = 0xFFFFFFFF, 0x80000000
_new = tuple.__new__  # as in dissect: for every packet, a call of Python less


class Segment(NamedTuple):
    """The next bytes of one direction of one connection. Beginning and end come on their own, without bytes."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint
    data: bytes
    start: bool = False
    """The connection begins here; if one with these endpoints was open, it ended without a word."""
    end: bool = False
    """Nothing more comes in this direction."""
    lost: bool = False
    """Bytes before these are missing from the capture."""


_Piece = tuple[int, int, int | None, bytes, int, bool]
"""Position, number, time, data, size on the line, and whether it is the end."""


class _Direction:
    """One direction: where delivery stands, and what waits behind a hole."""

    __slots__ = ("bytes", "destination", "ended", "first", "held", "lost", "next", "source")

    def __init__(
        self, source: Endpoint, destination: Endpoint, first: int | None, sequence: int
    ) -> None:
        self.source = source
        self.destination = destination
        self.first = first  # the SYN's sequence number, if we saw it
        self.next = sequence
        self.ended = False
        self.lost = False  # the next bytes come after a gap
        self.held: list[_Piece] = []  # a heap, the nearest first
        self.bytes = 0

    def hold(self, position: int, packet: TcpPacket, data: bytes, size: int, *, end: bool) -> None:
        """Lay a piece on the line; the end is a piece of size 1, as it is in TCP."""
        heappush(self.held, (position, packet.number, packet.time_ns, data, size, end))
        self.bytes += len(data) + HELD_OVERHEAD_BYTES

    def deliver(self, out: list[Segment]) -> None:
        """Give out what is in order."""
        held = self.held
        while held and held[0][0] <= self.next:
            position, number, time_ns, data, size, end = heappop(held)
            self.bytes -= len(data) + HELD_OVERHEAD_BYTES
            known = self.next - position
            if known >= size:
                continue
            self.next = position + size
            if known:
                data = data[known:]
            if data or end:
                out.append(self.segment(number, time_ns, data, end=end))
            if end:
                self.ended = True
                return
            if known + len(data) < size:
                self.lost = True  # the snap length took the rest; a repetition would be cut as well

    def give_up(self) -> None:
        """The nearest hole will not close."""
        self.next = self.held[0][0]
        self.lost = True

    def segment(self, number: int, time_ns: int | None, data: bytes, *, end: bool) -> Segment:
        """A Segment of this direction."""
        lost, self.lost = self.lost, False
        return _new(
            Segment, (number, time_ns, self.source, self.destination, data, False, end, lost)
        )


class Streams:
    """Every direction, the one idle longest first."""

    def __init__(self, skipped: Counter[str]) -> None:
        self._skipped = skipped
        self._directions: dict[tuple[Endpoint, Endpoint], _Direction] = {}
        self._bytes = 0

    def push(self, packet: TcpPacket) -> list[Segment]:
        """A packet came; what can be given out because of it."""
        out: list[Segment] = []
        flags, size, sequence = packet.flags, packet.size, packet.sequence
        if not size and not flags & (_SYN | _FIN | _RST):
            return out  # an acknowledgement
        key = (packet.source, packet.destination)
        if flags & _RST:
            for side in (key, (packet.destination, packet.source)):
                if side in self._directions:
                    self._close(self._directions[side], packet, out, lost=False)
            return out
        direction = self._directions.pop(key, None)
        if (
            direction is not None
            and not (sequence - direction.next) & _MASK
            and not direction.held
            and not flags & (_SYN | _FIN)
            and not direction.ended
            and size == len(packet.data)
        ):  # the next bytes, whole: nearly every packet, so it takes no part in what follows
            self._directions[key] = direction
            direction.next += size
            out.append(direction.segment(packet.number, packet.time_ns, packet.data, end=False))
            return out
        if flags & _SYN:
            if direction is None or direction.first != sequence:
                if direction is not None:
                    self._flush(direction, out)
                direction = _Direction(*key, sequence, sequence + 1)
                out.append(Segment(packet.number, packet.time_ns, *key, b"", start=True))
            sequence += 1
        elif direction is None:
            if not size:
                return out  # the end of what we never saw
            direction = _Direction(*key, None, sequence)
        ahead = (sequence - direction.next) & _MASK
        if ahead >= _HALF:
            ahead -= _MASK + 1
        if abs(ahead) > JUMP_BYTES_MAX:
            self._flush(direction, out)
            lost = not direction.ended
            direction, ahead = _Direction(*key, None, sequence), 0
            direction.lost = lost
        if len(self._directions) >= DIRECTIONS_MAX:
            oldest = next(iter(self._directions))
            self._close(self._directions.pop(oldest), packet, out, lost=True)
        self._directions[key] = direction
        self._place(direction, direction.next + ahead, packet, out)
        return out

    def finish(self) -> list[Segment]:
        """The capture ended: what was held comes out, with holes."""
        out: list[Segment] = []
        for direction in self._directions.values():
            self._flush(direction, out)
        return out

    def _place(
        self, direction: _Direction, position: int, packet: TcpPacket, out: list[Segment]
    ) -> None:
        after = position + packet.size
        if direction.ended:
            self._late(direction, after)
            return
        before = direction.bytes
        if packet.size:
            direction.hold(position, packet, packet.data, packet.size, end=False)
        if packet.flags & _FIN:
            direction.hold(after, packet, b"", 1, end=True)
        self._deliver(direction, out)
        self._bytes += direction.bytes - before
        while direction.held and (
            direction.bytes > HELD_BYTES_MAX or self._bytes > HELD_TOTAL_BYTES_MAX
        ):
            self._bytes -= direction.bytes
            direction.give_up()
            self._deliver(direction, out)
            self._bytes += direction.bytes

    def _deliver(self, direction: _Direction, out: list[Segment]) -> None:
        """Give out what is in order; what is held behind the end will never be."""
        direction.deliver(out)
        if direction.ended:
            for position, _, _, _, size, _ in direction.held:
                self._late(direction, position + size)
            direction.held, direction.bytes = [], 0

    def _late(self, direction: _Direction, after: int) -> None:
        """A packet reached `after` though the direction has ended; a repetition reaches less far."""
        if after > direction.next:
            self._skipped["TCP after the end"] += 1

    def _flush(self, direction: _Direction, out: list[Segment]) -> None:
        self._bytes -= direction.bytes
        while direction.held:
            direction.give_up()
            self._deliver(direction, out)

    def _close(
        self, direction: _Direction, packet: TcpPacket, out: list[Segment], *, lost: bool
    ) -> None:
        self._flush(direction, out)
        if not direction.ended:
            direction.lost |= lost
            out.append(direction.segment(packet.number, packet.time_ns, b"", end=True))
            direction.ended = True
