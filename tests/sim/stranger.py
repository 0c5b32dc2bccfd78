"""
A participant of the protocol that is no node: what it says is written message by message, and what the nodes say to it is
read off the wire. So a test can say what no correct node would, and sees each byte of the answer.
"""

from __future__ import annotations

from typing import TypeVar, Unpack

from pyddsi import wire
from pyddsi.capture import Endpoint
from pyddsi.testing import Node, NodeOptions, Packet, Peer, Sim

GROUP = "udp/239.255.0.1:7447"
AUTHENTICATION = wire.Property(wire.PropertyId.AUTHENTICATION, b"\x02\x03")

Kind = TypeVar("Kind", bound=wire.Message)


def number(value: int) -> bytes:
    """A variable-length number in its shortest form."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def value(number: bytes) -> int:
    """What a variable-length number says."""
    return sum((byte & 127) << 7 * i for i, byte in enumerate(number))


def mark(session: int, secret: bytes = b"") -> int:
    """What a SYNCH for one peer is led by: 16 bits of the session's number and secret, mixed."""
    mixed = (session ^ int.from_bytes(secret, "little")) * 0x9E3779B97F4A7C15
    return (mixed & (1 << 64) - 1) >> 48


def split(told: bytes) -> tuple[int, bytes]:
    """The number and the secret of a session."""
    size = next((i for i, byte in enumerate(told) if byte < 128), -1) + 1
    return value(told[:size]), told[size:]


def named(message: wire.Open | wire.Accept) -> bytes:
    """What its sender calls the session: the number, and the secret."""
    (told,) = (bytes(found.value) for found in message.properties or () if found.id == 5)
    return told


def features(
    bits: int, session: int = 1, incarnation: int = 1, secret: bytes = b""
) -> list[wire.Property]:
    """The vendor properties by which a node tells what it can do, which session this is, and in which life."""
    return [
        AUTHENTICATION,
        wire.Property(1, number(1) + number(bits)),
        wire.Property(5, number(session) + secret),
        wire.Property(3, number(incarnation)),
    ]


class Stranger:
    """One who speaks with the nodes of a world from an address of its own."""

    def __init__(
        self, sim: Sim, node: Node, peer_id: bytes = b"\xee\x01", host: str = "10.9.9.9"
    ) -> None:
        self.sim = sim
        self.node = node
        self.id = peer_id
        self.source = (host, 7447)
        self.endpoint = Endpoint(*self.source)
        self._seen = 0
        self._mark = 0

    def say(self, *messages: wire.Message | bytes) -> None:
        """One packet to the node, which has it at once."""
        data = b"".join(m if isinstance(m, bytes) else wire.encode([m]) for m in messages)
        self.sim.inject(self.node, data, source=self.source)
        self.sim.run(0.0)

    def packets(self) -> list[Packet]:
        """What the node has sent to it, or to a group, since this was last asked; each packet once."""
        log = self.sim.packets()
        new, self._seen = log[self._seen :], len(log)
        mine: dict[int, Packet] = {}
        for packet in new:
            group = packet.to.address.startswith(("239.", "ff"))
            if packet.source == self.node.name and (group or packet.to == self.endpoint):
                mine.setdefault(packet.number, packet)
        return list(mine.values())

    def heard(self) -> list[wire.Message]:
        """The messages of these packets."""
        return [message for packet in self.packets() for message in packet.messages]

    def heard_of(self, kind: type[Kind]) -> list[Kind]:
        """Those of one kind; the others are forgotten."""
        return [message for message in self.heard() if isinstance(message, kind)]

    def open(
        self,
        *,
        lease: int = 0,
        locators: tuple[str, ...] = (),
        properties: list[wire.Property] | None = None,
        version: int = 1,
    ) -> None:
        """An OPEN. What it does not say is what a peer without extensions says."""
        told = [found for found in properties or () if found.id == 5]
        self._mark = mark(*split(bytes(told[0].value))) if told else 0
        self.say(
            wire.Open(
                version,
                self.id,
                lease,
                locators,
                properties=[AUTHENTICATION] if properties is None else properties,
            )
        )

    def meet(
        self,
        *,
        lease: int = 0,
        locators: tuple[str, ...] = (),
        properties: list[wire.Property] | None = None,
    ) -> None:
        """A session, made by an OPEN that is accepted."""
        self.open(lease=lease, locators=locators, properties=properties)
        assert self.heard_of(wire.Accept)
        assert self.state == "established"

    def begin(self, sn: int = 0, conduit: int = 0) -> None:
        """Says where its numbers begin on a conduit. The PONG is what tells that this is meant for the node alone."""
        self.say(
            wire.Pong(self._mark),
            wire.Conduit(conduit),
            wire.Synch(sn, reliable=True),
        )

    @property
    def peer(self) -> Peer | None:
        """What the node knows of it; if it has been here before, now rather than then."""
        found = [peer for peer in self.node.peers(gone=True) if peer.id == self.id]
        return max(found, key=lambda peer: peer.state != "unknown", default=None)

    @property
    def state(self) -> str:
        """What the node takes it for."""
        return "unknown" if self.peer is None else self.peer.state


def alone(**options: Unpack[NodeOptions]) -> tuple[Sim, Node, Stranger]:
    """A node that looks for nobody after its start and sends at once, and a stranger that it has not met."""
    sim = Sim(1)
    settings: NodeOptions = {"scout": 1000.0, "latency": 0.0}
    settings.update(options)
    node = sim.node("a", **settings)
    sim.run(0.0)
    return sim, node, Stranger(sim, node)
