"""What a Sim lets one look at: events, drops, counts, peers, windows, packets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar

from pyddsi import wire
from pyddsi._native import enumeration, ffi, lib, text
from pyddsi.capture import Endpoint
from pyddsi.errors import WireError

if TYPE_CHECKING:
    from pyddsi.testing._declared import Declared

ENDS = {1000: "lease", 1001: "bytes", 1002: "restart", 1003: "local"}
STATUSES = {status.value: status.name.lower() for status in wire.Status} | {
    0: "settled",
    128: "rejected",
    255: "pending",
}
OPENING_LAST = 200

Look = TypeVar("Look")


def endpoint(raw: Any) -> Endpoint | None:
    """An address of the core as the captures write it."""
    if raw.kind == 0:
        return None
    packed = bytes(raw.ip[0 : 4 if raw.kind == 4 else 16])
    return Endpoint(str(ip_address(packed)), raw.port)


def raw_endpoint(what: str, address: tuple[str, int]) -> dict[str, Any]:
    """An address as the core writes it."""
    wrong = (
        f"{what} is a pair of an IP address and a port, such as ('10.0.0.9', 7447), not {address!r}"
    )
    try:
        host, port = address
        packed = ip_address(host).packed
    except (TypeError, ValueError):
        raise ValueError(wrong) from None
    if not 0 < port < 65536:
        raise ValueError(wrong)
    return {"ip": packed.ljust(16, b"\0"), "port": port, "kind": 4 if len(packed) == 4 else 6}


def copied(look: type[Look], raw: Any, **rest: Any) -> Look:
    """A look with the fields of a C struct that have the same names."""
    for field in fields(look):  # type: ignore[arg-type]
        if field.name not in rest:
            rest[field.name] = getattr(raw, field.name)
    return look(**rest)


@dataclass(frozen=True, slots=True)
class Event:
    """
    Something that a node tells its application.

    kind: "connected", "disconnected", "reconnected", "gap", "declared", "matched", "unmatched", "qos_conflict",
        "rejected" or "detached"
    time_ns: when, by the node's clock
    peer: the name of the node that it is about; if no node of the world has this id, the id in hexadecimal digits
    of: the resource, publisher or subscriber that it is about
    status: declared: what became of it, such as "settled" or "conflict"
    reason: disconnected: why, such as "lease" or "ordinary"
    resource: its name, or its number where it has none
    conduit, first, last: gap: which samples will not come
    incarnation, endpoint: of the peer
    """

    kind: str
    time_ns: int
    peer: str | None = None
    of: Declared | None = None
    status: str = "settled"
    reason: str | None = None
    resource: str | int | None = None
    conduit: int = 0
    first: int = 0
    last: int = 0
    incarnation: int = 0
    endpoint: Endpoint | None = None

    def __str__(self) -> str:
        words = [f"{self.time_ns / 1e9:.6f}", self.kind]
        words += [self.peer] if self.peer else []
        words += [str(self.of)] if self.of is not None else []
        words += [self.status] if self.kind == "declared" else []
        words += [self.reason] if self.reason else []
        words += [f"{self.first}..{self.last}"] if self.kind == "gap" else []
        return " ".join(words)


def reason_name(reason: int) -> str:
    """Why a session ended."""
    known = {member.value: member.name.lower() for member in wire.Reason}
    return (ENDS | known).get(reason, str(reason))


@dataclass(frozen=True, slots=True)
class Drop:
    """
    A line of a node's ledger: so many samples, or packets, were dropped there, for this reason.

    resource: name or number; None where no resource was known, or those that found no line of their own
    """

    place: str
    reason: str
    space: int
    resource: str | int | None
    count: int
    first_ns: int
    last_ns: int

    def __str__(self) -> str:
        place = text(lib.pyddsi_place_text(_PLACES[self.place]))
        reason = text(lib.pyddsi_reason_text(_REASONS[self.reason]))
        about = f" of {self.resource}" if self.resource is not None else ""
        return f"{self.count}{about}: {place}; {reason}"


def _names(call: Any, count: int) -> dict[str, int]:
    return {text(call(number)): number for number in range(count)}


_PLACES = _names(lib.pyddsi_place_name, lib.PYDDSI_PLACE_COUNT)
_REASONS = _names(lib.pyddsi_reason_name, lib.PYDDSI_REASON_COUNT)


@dataclass(frozen=True, slots=True)
class Stats:
    """What a node has done so far; see `pyddsi_stats` in pyddsi.h for each count."""

    packets_in: int
    packets_out: int
    bytes_in: int
    bytes_out: int
    messages_in: int
    messages_out: int
    accepted: int
    unmatched: int
    filtered: int
    sent_best: int
    owed: int
    acknowledged: int
    forgiven: int
    resent: int
    delivered: int
    taken: int
    acks_in: int
    nacks_in: int
    acks_out: int
    nacks_out: int
    synchs_in: int
    synchs_out: int
    keepalives_out: int
    scouts_out: int
    pings_out: int
    allocated_slots: int
    rings_used: int
    put_waits: int
    events_lost: int

    @property
    def in_flight(self) -> int:
        """Reliable messages that members have still to acknowledge."""
        return self.owed - self.acknowledged - self.forgiven


@dataclass(frozen=True, slots=True)
class Peer:
    """
    Another node, as this one sees it now.

    name: of the node; if no node of the world has this id, the id in hexadecimal digits
    state: "unknown", "opening", "established" or "expired"
    lease, rtt: seconds
    unacknowledged: messages in the window to it alone
    """

    name: str
    id: bytes
    state: str
    busy: int
    epoch: int
    endpoint: Endpoint | None
    features: frozenset[str]
    incarnation: int
    lease: float
    rtt: float
    unacknowledged: int


FEATURES = {
    name: bit for name, bit in enumeration("pyddsi_feature", "PYDDSI_CAN_").items() if name != "all"
}


def state_name(state: int) -> str:
    """What a peer's state means."""
    if state == 0:
        return "unknown"
    if state <= OPENING_LAST:
        return "opening"
    return "established" if state == 254 else "expired"


@dataclass(frozen=True, slots=True)
class Window:
    """A transmit window as it looks now. `seq` is the next number, `seqbase` the first one not acknowledged."""

    seq: int
    seqbase: int
    pos: int
    firstpos: int
    size_bytes: int
    used_bytes: int
    samples_max: int
    used_samples: int
    members: int
    draining: int


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
