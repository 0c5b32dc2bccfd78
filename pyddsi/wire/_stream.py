"""Packets in a stream of bytes: the length in front of each, or none at all after a length of 0."""

from __future__ import annotations

from typing import Any

from pyddsi._native import ffi, lib, text
from pyddsi.errors import WireError
from pyddsi.wire._reading import TOLERANT, Reading
from pyddsi.wire._record import Buffer


class Stream:
    """
    One direction of a stream connection: bytes go in as they come, packets come out whole.

    packet_max: a longer packet breaks the stream; at most, and by default, 16383, which is what a frame can hold
    """

    def __init__(self, reading: Reading = TOLERANT, *, packet_max: int = 16383) -> None:
        if not 1 <= packet_max <= 16383:
            raise ValueError(f"a packet in a stream has 1 to 16383 bytes, not {packet_max}")
        self._reading = reading
        self._stream: Any = ffi.new("pyddsi_stream *")
        self._rest = b""
        self._need = 1
        self._fault: tuple[int, int] | None = None  # once it is broken: the rule, the byte
        lib.pyddsi_stream_init(self._stream, reading.native, packet_max)

    @property
    def unframed(self) -> bool:
        """Whether the sender has announced that no frames follow."""
        return bool(self._stream.unframed)

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their packet."""
        return len(self._rest)

    def feed(self, data: Buffer) -> list[memoryview]:
        """
        The packets that are whole with this data.

        Raises WireError when the stream breaks a rule, and from then on always: framing is lost. The packets before
        the fault are in its `messages`.
        """
        if self._fault is not None:
            raise _error(self._fault, [])
        joined = self._rest + data
        if len(joined) < self._need:
            self._rest = joined  # looking would tell nothing
            return []
        view = memoryview(joined)
        memory = ffi.from_buffer("uint8_t[]", joined)
        packet, used, need = ffi.new("pyddsi_bytes *"), ffi.new("size_t *"), ffi.new("size_t *")
        packets: list[memoryview] = []
        at = 0
        while True:
            left = len(joined) - at
            status = lib.pyddsi_stream_next(self._stream, memory + at, left, packet, used, need)
            if status == lib.PYDDSI_BAD_INPUT:
                fault = self._stream.fault
                self._fault, self._rest = (fault.rule, at + fault.at), b""
                raise _error(self._fault, packets)
            end = at + used[0]
            if status == lib.PYDDSI_SHORT:
                self._rest = joined[end:]
                self._need = need[0]
                return packets
            packets.append(view[end - packet.size : end])
            at = end


def _error(fault: tuple[int, int], packets: list[memoryview]) -> WireError:
    rule, at = fault
    return WireError(
        f"byte {at} of the data at hand: {text(lib.pyddsi_rule_text(rule))}",
        rule=text(lib.pyddsi_rule_name(rule)),
        at=at,
        zhe="drops",
        zhe_stream="drops",
        messages=packets,
    )


def frame(packet: Buffer) -> bytes:
    """The packet with its length in front. An empty packet announces that no frames follow."""
    data = memoryview(packet).cast("B")
    out, at = ffi.new("uint8_t[2]"), ffi.new("size_t *")
    if lib.pyddsi_stream_frame(len(data), out, 2, at) != lib.PYDDSI_OK:
        raise ValueError(f"a frame holds at most 16383 bytes, not {len(data)}")
    return bytes(ffi.buffer(out, at[0])) + data
