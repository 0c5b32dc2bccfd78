"""What a Sim lets one look at beyond what a session has: the packets on their way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyddsi import wire
from pyddsi._looks import endpoint
from pyddsi._native import ffi, lib, text
from pyddsi.capture import Endpoint
from pyddsi.errors import WireError

__all__ = ["Packet", "packets"]


@dataclass(frozen=True, slots=True)
class Packet:
    """
    A packet on its way to one node. What is sent to a group is here once for each node that hears it.

    number: of the packet, in the order in which they were sent
    sent_ns, arrives_ns: virtual time; of a lost one, when it would have arrived
    source, target: names of nodes; None: injected, or nobody
    from_, to: addresses; `to` is a group's if it was sent to one
    fate: "delivered", "lost", "cut", "duplicated" (the second copy), "corrupted", "nobody" or "injected"
    data: the bytes as they arrive
    """

    number: int
    sent_ns: int
    arrives_ns: int
    source: str | None
    target: str | None
    from_: Endpoint
    to: Endpoint
    fate: str
    data: bytes

    @property
    def arrived(self) -> bool:
        """Whether its target got it."""
        return self.fate in {"delivered", "duplicated", "corrupted", "injected"}

    @property
    def messages(self) -> list[wire.Message]:
        """Its messages; of one that breaks a rule those before that byte."""
        try:
            return wire.decode(self.data)
        except WireError as error:
            return error.messages

    def __str__(self) -> str:
        ends = f"{self.source or self.from_} > {self.target or self.to}"
        return f"{self.sent_ns / 1e9:.6f} {ends} {self.fate}: " + "; ".join(map(str, self.messages))


def packets(sim: Any, names: list[str]) -> list[Packet]:
    """What the log of a world holds; `names` are those of its nodes."""
    raw = ffi.new("pyddsi_sim_packet *")
    found: list[Packet] = []
    while lib.pyddsi_sim_packet_get(sim, len(found), raw) == lib.PYDDSI_OK:
        source, target = endpoint(raw.source), endpoint(raw.target)
        nowhere = Endpoint("0.0.0.0", 0)  # noqa: S104 - no address, rather than any
        found.append(
            Packet(
                raw.number,
                raw.sent_ns,
                raw.arrives_ns,
                _node_name(names, getattr(raw, "from")),
                _node_name(names, raw.to),
                source or nowhere,
                target or nowhere,
                text(lib.pyddsi_sim_fate_name(raw.fate)),
                bytes(ffi.buffer(raw.packet.data, raw.packet.size)),
            )
        )
    return found


def _node_name(names: list[str], index: int) -> str | None:
    if index < 0:
        return None
    return names[index] if index < len(names) else f"node{index}"
