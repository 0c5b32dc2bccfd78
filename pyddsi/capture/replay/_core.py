"""
Replay into a node: the recorded packets, and their times, go straight into the protocol machine, without a socket.

    packets of the others, at their times ──► a node in the place of one side ──► what it delivers, a digest
    packets of the one replaced           ──► who it is, what it can do, what it had declared

The node is the one that sessions have, in the simulator's virtual time. So a problem of the field can be had again, as
often as one likes, in a debugger, and without the network: the same recording has the same deliveries and the same digest.

What came by shared memory (a recording of a session has it) is no packet, and is not fed to the node.

What the original application did not say is not in a capture. It is taken to have declared everything before it began, and
to have read each sample at once. One thing is changed on the way: an ACCEPT of a peer of ours names the number of the
OPEN that it answers, and the node, which has not lived as long as the original, gives its OPENs others. So that name is
left out, which means that any OPEN is answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

from pyddsi import wire
from pyddsi._looks import Drop
from pyddsi._values import SECOND
from pyddsi.capture import Endpoint
from pyddsi.capture.replay._facts import CONDUITS_MAX, Facts
from pyddsi.capture.replay._pace import Pace, Schedule
from pyddsi.capture.replay._source import Packet, Recording
from pyddsi.errors import DeclarationError, ReplayError
from pyddsi.testing import Node, NodeOptions, Sim, Subscriber
from pyddsi.testing import Packet as Logged

__all__ = ["CoreReplay", "Delivery", "Fate"]

DEPTH = 4096
LEAD_NS = SECOND
"""Virtual time before the first packet."""
LAST_SECONDS = 0.1
"""Virtual time after the last one."""
PAUSE_NS, PAUSE_MAX_NS = 60 * SECOND, 3600 * SECOND
LEASES = 4
"""A pause lasts a minute of the node's time, or four leases: by then everything has happened that a silence leads to. An hour at most."""
SAID_BYTES = 4 << 20
ANSWERED = 9
"""The property of an ACCEPT that names the OPEN."""

Fate = Callable[[int, Packet], int]
"""How often packet number i comes: 0, it is lost; 2, it is doubled."""


@dataclass(frozen=True)
class Delivery:
    """
    A sample that came out of the node.

    at_ns: when, from the start of the recording
    reader: the number of the subscription that it came by
    resource: its name, or its number
    source: who sent it, as 32 hexadecimal digits at most
    conduit, number: where in its counter it was
    """

    at_ns: int
    reader: int
    resource: str | int
    source: str
    conduit: int
    number: int
    reliable: bool
    data: bytes


class CoreReplay:
    """
    One side of a recording replaced by a node.

    side: which one, an endpoint or only its address; None: the first that has opened or accepted a session
    options: of the node, where what the recording tells is not enough

    When it has been played, `digest` is that of the deliveries and of all that the node said, `drops` is what its ledger says,
    and `said` are the packets that it sent, of a long recording the first ones.
    """

    def __init__(
        self,
        recording: Recording,
        side: Endpoint | str | None = None,
        pace: Pace | None = None,
        *,
        options: NodeOptions | None = None,
        facts: Facts | None = None,
    ) -> None:
        if recording.once:
            raise ReplayError(
                f"{recording.name} can be read once, and a node is told before who it is: save it in a file"
            )
        self.recording = recording
        self.pace = pace or Pace()
        if self.pace.flat_out:
            raise ReplayError(
                "a node's time is virtual and costs nothing: it cannot be fed flat out"
            )
        if facts is None:
            recording.check()
        self.facts = facts or Facts(recording.heard())
        self.side = self._found(side)
        self.options = self.facts.options(self.side, options or {})
        self.digest = ""
        self.drops: list[Drop] = []
        self.said: list[Logged] = []
        self._seen: dict[tuple[str, int, bool, int], tuple[Packet, wire.Message]] = {}

    def _found(self, side: Endpoint | str | None) -> Endpoint:
        sides = list(self.facts.ids)
        listed = ", ".join(map(str, sides)) or "none"
        fitting = [one for one in sides if side is None or side in {one, one.address, str(one)}]
        if not fitting:
            who = "nobody" if side is None else f"{side} has not"
            raise ReplayError(
                f"{self.recording.name}: {who} opened or accepted a session, so no node can stand in its place; those that "
                f"did: {listed}"
            )
        if len(fitting) > 1 and side is not None:
            raise ReplayError(
                f"{self.recording.name}: {side} can be several ({listed}); say with a port which"
            )
        return fitting[0]

    # ---- the node ----

    def deliveries(self, fate: Fate | None = None) -> Iterator[Delivery]:
        """
        Play it; what the node delivers, as it does so.

        fate: what becomes of each packet on its way to the node; None: all come once
        """
        sum_ = hashlib.blake2b(digest_size=16)
        with Sim(1, log_bytes=SAID_BYTES) as sim:
            node = self._node(sim)
            sim.cut(
                node, node
            )  # or it would hear itself, if its address is that of a recorded peer
            readers = self._declare(node)
            schedule = Schedule(self.pace)
            longest = min(max(PAUSE_NS, LEASES * self.facts.lease_ns), PAUSE_MAX_NS)
            left_out = 0
            last: Packet | None = None
            for i, (packet, messages) in enumerate(self.recording.heard()):
                last = packet
                due = schedule.due(packet.at_ns, len(packet.data)) + LEAD_NS
                wait = due - left_out - sim.now_ns
                if wait > longest:
                    left_out += wait - longest
                    wait = longest
                if wait > 0:
                    sim.run(wait / SECOND)
                meant = packet.target.multicast or packet.target == self.side
                meant = meant and all(one.conduit < CONDUITS_MAX for one in messages)
                if packet.source != self.side and meant:
                    self._note(packet, messages)
                    data = _adapted(packet, messages)
                    for _ in range(1 if fate is None else fate(i, packet)):
                        sim.inject(node, data, source=(packet.source.address, packet.source.port))
                        # what it leads to comes before the next packet, though that may have the same time
                        sim.run(0.0)
                yield from self._read(readers, packet, sum_)
            sim.run(LAST_SECONDS)
            if last is not None:
                yield from self._read(readers, last, sum_)
            self.said = [one for one in sim.packets() if one.source == "ours"]
            self.drops = node.drops()
            sum_.update(sim.digest.to_bytes(8, "little"))
        self.digest = sum_.hexdigest()

    def _node(self, sim: Sim) -> Node:
        try:
            return sim.node("ours", **self.options)
        except ValueError as error:
            raise ReplayError(
                f"{self.recording.name}: no node can be as {self.side} was: {error}"
            ) from error

    def _declare(self, node: Node) -> dict[int, Subscriber]:
        """What the original declared, before anything else happens."""
        readers = {}
        queries = {one.id: one.query for one in self.facts.declared(self.side, wire.Selection)}
        try:
            for resource in self.facts.declared(self.side, wire.Resource):
                node.resource(str(resource.uri), number=int(resource.id))
            for one in self.facts.declared(self.side, wire.Subscription):
                what: str | int = int(one.id)
                if isinstance(one.id, wire.SelectionId):
                    what = str(queries[one.id])
                times: dict[str, Any] = {
                    name: value / 1000
                    for name in ("origin", "period", "duration")
                    if (value := getattr(one, name))
                }
                mode: Any = wire.Mode(one.mode).name.lower()
                readers[one.id] = node.subscriber(what, mode=mode, depth=DEPTH, **times)
        except (DeclarationError, ValueError, KeyError) as error:
            raise ReplayError(
                f"{self.recording.name}: what {self.side} declared cannot be declared again: {error}"
            ) from error
        return readers

    def _read(
        self, readers: dict[int, Subscriber], packet: Packet, sum_: Any
    ) -> Iterator[Delivery]:
        """Take what has come."""
        for number, reader in readers.items():
            for sample in reader:
                with sample:
                    made = Delivery(
                        packet.at_ns,
                        number,
                        sample.resource,
                        str(sample.source),
                        sample.conduit,
                        sample.number,
                        sample.reliable,
                        bytes(sample.data),
                    )
                if self._wanted(made, packet):
                    sum_.update(repr(made).encode())
                    yield made

    # ---- what is wanted ----

    def _note(self, packet: Packet, messages: list[wire.Message]) -> None:
        """Remember which message a delivery may come from, for the filter."""
        if self.recording.where is None:
            return
        who = self.facts.ids.get(packet.source, b"").hex()
        for message in messages:
            if isinstance(message, (wire.SData, wire.BData, wire.WData)):
                key = who, message.conduit, message.reliable, message.sn
                self._seen[key] = packet, message

    def _wanted(self, made: Delivery, packet: Packet) -> bool:
        if not self.recording.within(packet):
            return False
        if self.recording.where is None:
            return True
        number = made.number % (1 << self.facts.bits(self.side))
        found = self._seen.get((made.source, made.conduit, made.reliable, number))
        return found is not None and self.recording.fits(*found)


def _adapted(packet: Packet, messages: list[wire.Message]) -> bytes:
    """The bytes of a packet, where an ACCEPT answers whatever the node has sent."""
    if not any(isinstance(message, wire.Accept) for message in messages):
        return packet.data
    found: list[wire.Message] = []
    for message in messages:
        if isinstance(message, wire.Accept) and message.properties is not None:
            one = copy(message)
            one.properties = tuple(p for p in message.properties if p.id != ANSWERED)
            found.append(one)
        else:
            found.append(message)
    return wire.encode(found)
