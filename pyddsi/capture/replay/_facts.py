"""What a recording tells about those who speak in it: enough to put a node in the place of one of them."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, TypeVar

from pyddsi import wire
from pyddsi._looks import FEATURES
from pyddsi._values import SECOND
from pyddsi.capture import Endpoint
from pyddsi.capture.replay._samples import NUMBERED, SEQUENCE_BITS, SEQUENCE_LENGTHS, properties
from pyddsi.capture.replay._source import Packet
from pyddsi.testing import NodeOptions

__all__ = ["CONDUITS_MAX", "Facts"]

D = TypeVar("D", bound=wire.Declaration)
ROLES = {wire.Role.BROKER: "broker", wire.Role.CLIENT: "client"}
MULTICASTS = 2
"""Of one who says too little to tell: as zhe has it."""
MULTICASTS_MAX = 8
CONDUITS_MAX = 64
"""Conduits from here on are a recording's own: what was on no wire stands on them."""
ORDER_MAX = 2048
ID_MAX = 16
LEASE_MAX = 21_474_836
SLOTS_MAX = 4096


def _group(locator: str) -> tuple[str, int] | None:
    """The group that a locator means, or None: it is another, or no locator."""
    kind, _, place = locator.partition("/")
    address, _, port = place.rpartition(":")
    try:
        group = ip_address(address.strip("[]"))
        number = int(port) if port.isascii() and port.isdecimal() else 0
    except ValueError:
        return None
    if kind != "udp" or not group.is_multicast or not 0 < number < 65536:
        return None
    return str(group), number


class Facts:
    """Learns from packets. ids: who has which id."""

    def __init__(self, packets: Iterable[tuple[Packet, list[wire.Message]]] = ()) -> None:
        self.ids: dict[Endpoint, bytes] = {}
        self._declared: dict[tuple[Endpoint, type], dict[int, Any]] = {}
        self._locators: dict[Endpoint, tuple[str, ...]] = {}
        self._properties: dict[Endpoint, dict[int, list[int]]] = {}
        self._leases: dict[Endpoint, int] = {}
        self._roles: dict[Endpoint, str] = {}
        self._bits: dict[Endpoint, int] = {}
        self._multicasts: dict[Endpoint, int] = {}
        self._conduits = 0
        for packet, messages in packets:
            self.push(packet, messages)

    def push(self, packet: Packet, messages: Iterable[wire.Message]) -> None:
        """Learn from a packet."""
        source = packet.source
        for message in messages:
            if isinstance(message, (wire.Open, wire.Accept)):
                self._opened(packet, message)
            if isinstance(message, (wire.Hello, wire.Open)):
                self._locators.setdefault(source, tuple(message.locators or ()))
            if isinstance(message, wire.Hello):
                self._roles[source] = ROLES.get(wire.Role(message.mask), "peer")
            elif isinstance(message, wire.Scout) and message.mask == wire.Role.BROKER:
                self._roles.setdefault(source, "client")  # nobody else looks for a broker alone
            elif isinstance(message, wire.Declare):
                for one in message.declarations:
                    mine = self._declared.setdefault((source, type(one)), {})
                    mine.setdefault(getattr(one, "id", len(mine)), one)
            if isinstance(message, (*NUMBERED, wire.Synch)) and message.conduit < CONDUITS_MAX:
                self._conduits = max(self._conduits, message.conduit)
                # a unicast conduit is numbered behind the multicast ones
                own = message.conduit + packet.target.multicast
                self._multicasts[source] = max(self._multicasts.get(source, 0), own)

    def _opened(self, packet: Packet, message: wire.Open | wire.Accept) -> None:
        who = message.id if isinstance(message, wire.Open) else message.acceptor
        told = properties(message)
        if not 1 <= len(who) <= ID_MAX or message.lease > LEASE_MAX:
            return  # it is refused, and no node can be like that
        self.ids[packet.source] = bytes(who)
        self._properties.setdefault(packet.source, told)
        self._leases.setdefault(packet.source, message.lease)
        for bits in told.get(wire.PropertyId.SEQUENCE_BITS, ())[:1]:
            for end in (packet.source, packet.target):  # whom it opens has the same, or refuses
                if bits in SEQUENCE_LENGTHS:  # else it is refused
                    self._bits.setdefault(end, bits)

    def declared(self, by: Endpoint, kind: type[D]) -> list[D]:
        """The declarations of one kind that somebody made, each once, in their order."""
        return list(self._declared.get((by, kind), {}).values())

    def bits(self, side: Endpoint) -> int:
        """How long its numbers are."""
        return self._bits.get(side, SEQUENCE_BITS)

    def _groups(self, side: Endpoint, count: int) -> list[tuple[str, int]]:
        """Where its multicast conduits go, as it tells in its HELLO or OPEN; one group may serve several."""
        found = []
        for locator in self._locators.get(side, ()):
            place = _group(locator)
            if place is not None:
                found.append(place)
        return [found[min(i, len(found) - 1)] for i in range(count)] if found else []

    @property
    def lease_ns(self) -> int:
        """The longest that anybody told."""
        return max(self._leases.values(), default=0) * SECOND // 10

    def options(self, side: Endpoint, given: NodeOptions) -> NodeOptions:
        """
        The options of a node that is to stand in its place, with room for whatever the capture may bring.

        given: those that are known better
        """
        told = self._properties[side]
        version, features = (*told.get(wire.PropertyId.EXTENSIONS, ()), 0, 0)[:2]
        role = self._roles.get(side, "peer")
        found: NodeOptions = {
            "id": self.ids[side],
            "role": "client" if role == "client" else "broker" if role == "broker" else "peer",
            "features": {name for name, bit in FEATURES.items() if version == 1 and features & bit},
            "seq_bits": self.bits(side),
            "lease": self._leases[side] / 10,
            "multicasts": min(self._multicasts.get(side, MULTICASTS), MULTICASTS_MAX),
            "conduits_in": min(max(self._conduits, MULTICASTS) + 1, CONDUITS_MAX),
            "order_max": ORDER_MAX,
            "slots_max": SLOTS_MAX,
        }
        for incarnation in told.get(wire.PropertyId.INCARNATION, ())[:1]:
            found["incarnation"] = incarnation
        found |= given
        found["multicast_to"] = self._groups(side, found.get("multicasts", MULTICASTS))
        return found
