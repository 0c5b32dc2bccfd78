"""IP fragments wait here until the packet they were cut from is whole.

One lost fragment leaves the rest waiting for ever, and the sender will use the same identity again for another packet.
So three things end a wait: too many others began, too long ago, or a different fragment came for a place already
taken. What is given up is counted, each fragment once, under "fragment".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter

WAITING_MAX = 256
"""Packets in pieces at one time; the oldest is given up."""
PACKET_BYTES_MAX = 65535
"""What an IP packet can hold."""
WAIT_NS_MAX = 30_000_000_000
"""How long receivers wait, too."""

Key = tuple[bytes, int, int]
"""addresses, protocol, identity."""


class _Pieces:
    def __init__(self, time_ns: int) -> None:
        self.time_ns = time_ns
        self.parts: dict[int, bytes] = {}
        self.held = 0
        self.size = -1  # of the whole; not known before the last piece is here


class Fragments:
    """All packets in pieces, oldest first."""

    def __init__(self, skipped: Counter[str]) -> None:
        self._skipped = skipped
        self._waiting: dict[Key, _Pieces] = {}

    def push(self, key: Key, time_ns: int, offset: int, data: bytes, *, more: bool) -> bytes | None:
        """A piece came; the whole packet's payload if it was the last one missing."""
        pieces = self._waiting.get(key)
        if pieces is not None:
            if pieces.parts.get(offset) == data:
                return None  # captured twice
            if offset in pieces.parts or abs(time_ns - pieces.time_ns) > WAIT_NS_MAX:
                self._drop(key)
                pieces = None
        if pieces is None:
            if len(self._waiting) == WAITING_MAX:
                self._drop(next(iter(self._waiting)))
            pieces = self._waiting[key] = _Pieces(time_ns)
        pieces.parts[offset] = data
        pieces.held += len(data)
        if not more:
            pieces.size = offset + len(data)
        if pieces.held > PACKET_BYTES_MAX:
            self._drop(key)
            return None
        if not 0 <= pieces.size <= pieces.held:
            return None
        whole = bytearray()
        for place, part in sorted(pieces.parts.items()):
            if place > len(whole):
                return None  # pieces overlap, so the sum is no proof
            whole += part[len(whole) - place :]
        del self._waiting[key]
        return bytes(whole)

    def finish(self) -> None:
        """Nothing more comes."""
        for key in list(self._waiting):
            self._drop(key)

    def _drop(self, key: Key) -> None:
        self._skipped["fragment"] += len(self._waiting.pop(key).parts)
