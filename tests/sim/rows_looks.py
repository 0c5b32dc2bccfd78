"""What the tests of requirement rows look at: messages on the wire, each packet once however many heard it, and answers to a stranger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from pyddsi import wire
from pyddsi.testing import Node, Packet, Sim, Subscriber
from tests.sim.stranger import Stranger, features

Kind = TypeVar("Kind", bound=wire.Message)
Item = TypeVar("Item", bound=wire.Declaration)


def sent(sim: Sim, source: Node | None = None, *, since: int = 0) -> list[Packet]:
    """The packets that a node, or any, has sent since then."""
    once = {
        p.number: p
        for p in reversed(sim.packets())
        if p.sent_ns >= since and p.source is not None and source in {None, sim_node(sim, p)}
    }
    return [once[number] for number in sorted(once)]


def sim_node(sim: Sim, packet: Packet) -> Node | None:
    """The node that sent it."""
    return next((node for node in sim.nodes if node.name == packet.source), None)


def spoken(
    sim: Sim, kind: type[Kind], source: Node | None = None, *, since: int = 0
) -> list[tuple[Packet, Kind]]:
    """The messages of this kind among these packets."""
    return [
        (packet, message)
        for packet in sent(sim, source, since=since)
        for message in packet.messages
        if isinstance(message, kind)
    ]


def declared(
    sim: Sim, kind: type[Item], source: Node | None = None, *, since: int = 0
) -> list[tuple[Packet, Item]]:
    """The declarations of this kind among these packets."""
    return [
        (packet, item)
        for packet, message in spoken(sim, wire.Declare, source, since=since)
        for item in message.declarations
        if isinstance(item, kind)
    ]


def data(
    sim: Sim, source: Node | None = None, *, since: int = 0
) -> list[tuple[Packet, wire.SData]]:
    """Single samples among these packets."""
    return spoken(sim, wire.SData, source, since=since)


def numbers(sub: Subscriber) -> list[int]:
    """What is there now, of samples that hold a number each."""
    return [int(bytes(sample.data)) for sample in sub]


def all_numbers(sim: Sim, sub: Subscriber, seconds: float, step: float = 0.01) -> Iterator[int]:
    """What comes within this time."""
    for _ in range(round(seconds / step)):
        sim.run(step)
        yield from numbers(sub)


def committed(stranger: Stranger, sn: int, *items: wire.Declaration) -> list[wire.Result]:
    """The answers to a transaction of these, on the stranger's unicast conduit."""
    stranger.heard()
    stranger.say(wire.Conduit(1), wire.Declare(sn, [*items, wire.Commit(sn)], sync=True))
    stranger.sim.run(0.01)
    return [
        item
        for message in stranger.heard_of(wire.Declare)
        for item in message.declarations
        if isinstance(item, wire.Result)
    ]


def synched(sim: Sim, node: Node, peer_id: bytes = b"\xee\x01", lease: int = 0) -> Stranger:
    """A stranger with a session whose unicast conduit has begun at 0."""
    stranger = Stranger(sim, node, peer_id)
    stranger.meet(lease=lease, properties=features(127))
    stranger.begin(conduit=1)
    return stranger
