"""
One way of one sender: its messages in order, each once and whole, as a receiver with all the memory it wants would
have them.

    numbers on the wire   5 6 8 5 6 7 ...      numbers wrap, repeats come in between, some are late
    in whole counts       5 6 8 5 6 7          the count nearest to what is expected that has this number
    out                   5 6     7 8          7 was missing: 8 waited for it

A capture may lack for ever what the network did not; so nobody waits long. When too many wait, or for too long by the
capture's clock, what is missing is given up and counted. A SYNCH that says that the sender itself has given something up
has the same effect. One from behind is late, unless the sender repeats itself: then it began anew (csrc/proto/order.h).

Pieces of a large sample are messages in a row that name the number of the first of them. If they do not tell how many
there are, the next message that is none of them says that they are all there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from pyddsi import wire
from pyddsi._values import SECOND
from pyddsi.wire import Buffer

__all__ = ["Flow", "Line", "Pieces"]

HELD_MAX = 4096
HELD_NS = SECOND
BEHIND_MAX = 8
"""As many SYNCHs from behind in a row are believed."""

T = TypeVar("T")


class Line:
    """Numbers of so many bits, unwrapped."""

    def __init__(self, bits: int) -> None:
        self._circle = 1 << bits

    def near(self, number: int, count: int) -> int:
        """The count nearest to another that has this number."""
        away = (number - count) % self._circle
        return count + (away if away < self._circle // 2 else away - self._circle)


class Flow(Generic[T]):
    """What one sender says reliably, or not, on one conduit. T is what its messages are taken as."""

    def __init__(self, bits: int, *, reliable: bool) -> None:
        self._line = Line(bits)
        self._reliable = reliable
        self._expected: int | None = None
        self._held: dict[int, T] = {}
        self._since = 0
        self._behind = 0
        self.repeats = 0
        """Messages that had been there before, or were overtaken where nothing is repeated."""
        self.missing = 0
        """Numbers that the capture does not have."""

    def push(self, number: int, message: T, at_ns: int) -> Iterator[tuple[int, T]]:
        """A message comes; those whose turn it is, with their counts."""
        if self._expected is None:
            self._expected = number
        count = self._line.near(number, self._expected)
        if count < self._expected or count in self._held:
            self.repeats += 1
            return
        self._behind = 0
        if not self._reliable:
            self.missing += count - self._expected
            self._expected = count + 1
            yield count, message
            return
        if not self._held:
            self._since = at_ns
        self._held[count] = message
        yield from self._ready()
        while self._held and (len(self._held) > HELD_MAX or at_ns - self._since > HELD_NS):
            yield from self._pass(min(self._held))
            self._since = at_ns

    def synch(self, next_number: int, outstanding: int) -> Iterator[tuple[int, T]]:
        """Its sender says which number is next, and how many before that it still has."""
        if self._expected is None:
            self._expected = next_number - outstanding
            return
        after = self._line.near(next_number, self._expected)
        if after < self._expected:
            self._behind += 1
            if self._behind == BEHIND_MAX:
                yield from self.finish()
                self._expected, self._behind = after - outstanding, 0
            return
        self._behind = 0
        if after - outstanding > self._expected:
            yield from self._pass(after - outstanding)

    def finish(self) -> Iterator[tuple[int, T]]:
        """Nothing more comes: what waits comes out, with holes."""
        while self._held:
            yield from self._pass(min(self._held))

    def _ready(self) -> Iterator[tuple[int, T]]:
        assert self._expected is not None  # noqa: S101 - something came
        while self._expected in self._held:
            yield self._expected, self._held.pop(self._expected)
            self._expected += 1

    def _pass(self, count: int) -> Iterator[tuple[int, T]]:
        """What is missing before this count will not come."""
        assert self._expected is not None  # noqa: S101 - something came
        for held in sorted(one for one in self._held if one < count):
            self.missing += held - self._expected
            self._expected = held + 1
            yield held, self._held.pop(held)
        self.missing += count - self._expected
        self._expected = count
        yield from self._ready()


class Pieces(Generic[T]):
    """Puts the samples of one flow together. T is what a piece is taken as; its bytes are told with it."""

    def __init__(self) -> None:
        self._held: list[tuple[T, Buffer]] = []
        self._first = 0
        self._next = 0
        self._wanted: int | None = None
        self.incomplete = 0
        """Samples of which a piece is missing for ever."""

    def piece(
        self, count: int, number: int, marker: wire.Frag, one: T, data: Buffer
    ) -> Iterator[tuple[T, bytes]]:
        """A piece comes, in its turn; what is whole with it, each with its first piece."""
        if self._held and (count != self._next or marker.first != self._first):
            yield from self.other(count)
        if not self._held:
            if number != marker.first:
                self.incomplete += count != self._next  # of one that has no beginning, once
                self._next = count + 1
                return
            self._first, self._wanted = marker.first, marker.fragments
        self._held.append((one, data))
        self._next = count + 1
        if self._wanted is not None and len(self._held) >= self._wanted:
            yield self._join()

    def other(self, count: int) -> Iterator[tuple[T, bytes]]:
        """A message that is no piece of it comes; what is whole because of it."""
        if not self._held:
            return
        if self._wanted is None and count == self._next:
            yield self._join()
        else:
            self.finish()

    def finish(self) -> None:
        """Nothing more comes of what is held."""
        self.incomplete += bool(self._held)
        self._held = []

    def _join(self) -> tuple[T, bytes]:
        held, self._held = self._held, []
        return held[0][0], b"".join(data for _, data in held)
