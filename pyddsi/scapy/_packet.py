# SPDX-License-Identifier: GPL-2.0-or-later
"""What carries the messages: a packet, and a stream of frames with a packet in each; and the ports they are at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from scapy.layers.inet import TCP, UDP
from scapy.packet import Packet, bind_bottom_up, bind_top_down

from pyddsi.capture.flows import EVENTS, FIRST, NEXT
from pyddsi.scapy._fields import FaultError, Items, Size, take_size, write_number
from pyddsi.scapy._layers import Layer, choose_message

PORT = 7447
_FRAME_BITS = 14

# Which message answers which, and the field that is then the same in both. An ACKNACK answers whatever asks for one on
# its conduit, so there it is the conduit.
_ANSWERS = {"Accept": "Open", "Pong": "Ping", "AckNack": "solicit"}
_KEYS = {"Open": "id", "Accept": "opener", "Ping": "hash", "Pong": "hash"}
_S, _R = 1, 2  # flags, as scapy counts those of a header
_ASKING = {"Declare": _S, "Pull": _S, "Synch": _S} | dict.fromkeys(
    ("SData", "BData", "WData"), _S | _R
)


class PyddsiPacket(Layer):
    """A packet: messages and markers; from the first byte that begins none all is Raw."""

    name = "pyddsi"
    fields_desc: ClassVar[list[Any]] = [Items("messages", choose_message, counted=False)]

    def hashret(self) -> bytes:
        """What a question has in common with its answer."""
        return next((str(key).encode() for _, key in _keys(self)), b"")

    def answers(self, other: Packet) -> int:
        """Whether this holds the ACCEPT for an OPEN, the PONG for a PING, or an ACKNACK that is asked for, in the other."""
        asked = list(_keys(other)) if isinstance(other, PyddsiPacket) else []
        return int(any((_ANSWERS.get(kind), key) in asked for kind, key in _keys(self)))

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """What is left is the next layer: Raw."""
        return s, None

    def mysummary(self) -> Any:
        """The kinds of the messages, what is out of the order of their numbers, and from scapy who sends them to whom."""
        return f"pyddsi {' '.join(map(_title, self.messages))}", [UDP]


def _title(message: Layer) -> str:
    event = message.columns.get("seq_event", NEXT)
    return f"{message.name}" if event in {FIRST, NEXT} else f"{message.name}({EVENTS[event]})"


def _keys(packet: PyddsiPacket) -> Iterator[tuple[str, Any]]:
    """The questions and answers in a packet: kind and key."""
    conduit = 0
    for one in packet.messages:
        kind = type(one).__name__
        if kind == "Conduit":
            conduit = one.conduit
        elif kind in _KEYS:
            yield kind, one.getfieldval(_KEYS[kind])
        elif kind == "AckNack":
            yield kind, f"conduit {conduit}"
        elif kind in _ASKING and int(one.flags) & _ASKING[kind] == _ASKING[kind]:
            yield "solicit", f"conduit {conduit}"


class Frame(Layer):
    """A packet in a stream, behind its size. A size of 0 says that from here on messages follow without frames."""

    fields_desc: ClassVar[list[Any]] = [Size("size", _FRAME_BITS, lambda frame: len(frame.payload))]

    def do_dissect(self, s: bytes) -> bytes:
        """Read the packet off s, too."""
        s = super().do_dissect(s)
        size = take_size(self, "size")
        if size == 0:
            self.fields["size"] = size  # not the packet's size, so it cannot be computed
            size = len(s)
        if size > len(s):
            raise FaultError("the frame is not whole")
        if size:
            self.add_payload(PyddsiPacket(s[:size]))
        return s[size:]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Compute the size from what was built, since a random packet is another one each time it is."""
        return (write_number(len(pay)) if self.getfieldval("size") is None else pkt) + pay


class PyddsiStream(Layer):
    """The frames in a segment of a connection; from the first that is not whole all is Raw."""

    name = "pyddsi stream"
    fields_desc: ClassVar[list[Any]] = [Items("frames", lambda _data: Frame, counted=False)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """What is left is the next layer: Raw."""
        return s, None


def bind(port: int) -> None:
    """Dissect what comes from this port or goes to it. Answers run between ports that nobody knows beforehand."""
    for lower, upper in ((UDP, PyddsiPacket), (TCP, PyddsiStream)):
        bind_bottom_up(lower, upper, sport=port)
        bind_bottom_up(lower, upper, dport=port)


bind(PORT)
bind_top_down(UDP, PyddsiPacket, dport=PORT)
bind_top_down(TCP, PyddsiStream, dport=PORT)
