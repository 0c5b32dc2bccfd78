"""
What can be looked at, in a session as in a simulation: events, the ledger of drops, counts, peers, windows.

Each look is a frozen copy of what was so at one moment.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pyddsi._native import DECLARATIONS, MESSAGES, enumeration, ffi, lib, spec, text
from pyddsi._values import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyddsi._declared import Declared
    from pyddsi._words import DropPlace, DropReason, EventKind, PeerState, Status
    from pyddsi.capture import Endpoint

__all__ = [
    "ENDS",
    "FEATURES",
    "PRESENT",
    "Drop",
    "Event",
    "Peer",
    "Stats",
    "Window",
    "copied",
    "drops_of",
    "endpoint",
    "event_of",
    "peer_of",
    "reason_name",
    "state_name",
    "status_name",
]

ENDS = dict(
    enumerate(("lease", "bytes", "restart", "local", "link", "exited", "peers_max", "length"), 1000)
)
OPENING_LAST = 200
ESTABLISHED = 254
ESTABLISHED_NAME = "established"
PRESENT = frozenset({"opening", ESTABLISHED_NAME})  # states of peers that have not left

Look = TypeVar("Look")


# ---- words ----


def _values(table: str, row: str, field: str) -> dict[int, str]:
    """The names of a field's values in the protocol's table."""
    found = next(one for one in spec(table).values() if one.name == row)
    values = next(one.values for one in found.fields if one.name == field)
    return {number: name.replace("-", "_") for number, name in values.items()}


@cache
def _statuses() -> dict[int, str]:
    wire = _values(DECLARATIONS, "RESULT", "status")
    return wire | {0: "settled", 128: "rejected", 255: "pending"}


def status_name(status: int) -> Status:
    """What a declaration's status means."""
    return cast("Status", _statuses().get(status, "other"))


@cache
def _reasons() -> dict[int, str]:
    wire = _values(MESSAGES, "CLOSE", "reason")
    return ENDS | wire


def reason_name(reason: int) -> str:
    """Why a session ended."""
    return _reasons().get(reason, str(reason))


def state_name(state: int) -> PeerState:
    """What a peer's state means."""
    if state == 0:
        return "unknown"
    if state <= OPENING_LAST:
        return "opening"
    return "established" if state == ESTABLISHED else "expired"


FEATURES = {
    name: bit for name, bit in enumeration("pyddsi_feature", "PYDDSI_CAN_").items() if name != "all"
}

EVENTS = enumeration("pyddsi_event_kind", "PYDDSI_")


# ---- addresses ----


def endpoint(raw: Any, paths: tuple[str, ...] = ()) -> Endpoint | None:
    """An address of the core as the captures write it; paths: the session's Unix sockets."""
    from pyddsi.capture import Endpoint  # noqa: PLC0415 - a session opens without it

    if raw.kind == 0:
        return None
    kind = Endpoint
    if raw.kind > 6:  # no datagrams'
        from pyddsi import _endpoints  # noqa: PLC0415 - most sessions have no connections

        if raw.kind == _endpoints.UNIX:
            return _endpoints.unix_endpoint(bytes(raw.ip), raw.port, paths)
        kind = _endpoints.TcpEndpoint
    packed = bytes(raw.ip[0 : 4 if raw.kind in {4, 14} else 16])
    from ipaddress import ip_address  # noqa: PLC0415 - a program that asks for help has no peers

    return kind(str(ip_address(packed)), raw.port)


# ---- looks ----


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
        "rejected", "detached", "refused", "unreached" or "too_large"
    time_ns: when, by the node's clock; of a session in nanoseconds since 1970
    peer: the name of the peer that it is about
    of: the resource, publisher or subscriber that it is about
    status: declared: what became of it, such as "settled" or "conflict"
    reason: disconnected: why, such as "lease" or "ordinary"; refused: "peers_max" where this side refused, else what
        the peer said, such as "out_of_resources"
    resource: its name, or its number where it has none
    space: the resource space that it is in
    conduit, first, last: gap: which samples will not come
    size, size_max: too_large: the bytes of a sample that is not sent to this peer, and how many that takes at most
    incarnation, endpoint: of the peer
    """

    kind: EventKind
    time_ns: int
    peer: str | None = None
    of: Declared | None = None
    status: Status = "settled"
    reason: str | None = None
    resource: str | int | None = None
    space: int = 0
    conduit: int = 0
    first: int = 0
    last: int = 0
    incarnation: int = 0
    endpoint: Endpoint | None = None
    size: int = 0
    size_max: int = 0

    def __str__(self) -> str:
        words = [f"{self.time_ns / 1e9:.6f}", self.kind]
        words += [self.peer] if self.peer else []
        words += [str(self.of)] if self.of is not None else []
        words += [f"in space {self.space}"] if self.space else []
        words += [self.status] if self.kind == "declared" else []
        words += [self.reason] if self.reason else []
        words += [f"{self.first}..{self.last}"] if self.kind == "gap" else []
        words += [str(self.endpoint)] if self.kind == "refused" else []
        words += [f"{self.size} bytes, takes {self.size_max}"] if self.size_max else []
        return " ".join(words)


def event_of(
    raw: Any,
    *,
    peer: str | None,
    of: Declared | None,
    resource: str | int | None,
    since_ns: int = 0,
    paths: tuple[str, ...] = (),
) -> Event:
    """An event of the core; the times of its clock are counted from `since_ns`."""
    kind = cast("EventKind", text(lib.pyddsi_event_name(raw.kind)))
    return Event(
        kind,
        since_ns + raw.time_ns,
        peer=peer,
        of=of,
        status=status_name(raw.status),
        reason=reason_name(raw.reason) if kind in {"disconnected", "refused"} else None,
        resource=resource,
        space=raw.space,
        conduit=raw.conduit,
        first=raw.first if kind != "too_large" else 0,
        last=raw.last if kind != "too_large" else 0,
        incarnation=raw.incarnation,
        endpoint=endpoint(raw.endpoint, paths),
        size=raw.first if kind == "too_large" else 0,
        size_max=raw.last if kind == "too_large" else 0,
    )


@dataclass(frozen=True, slots=True)
class Drop:
    """
    A line of a node's ledger: so many samples, or packets, were dropped there, for this reason.

    resource: name or number; None where no resource was known, or those that found no line of their own
    peer, size, size_max: of the last one that was too large for a peer: which peer, the sample's bytes, and how many
        that peer takes at most
    """

    place: DropPlace
    reason: DropReason
    space: int
    resource: str | int | None
    count: int
    first_ns: int
    last_ns: int
    peer: str | None = None
    size: int = 0
    size_max: int = 0

    def __str__(self) -> str:
        place = text(lib.pyddsi_place_text(_PLACES[self.place]))
        reason = text(lib.pyddsi_reason_text(_REASONS[self.reason]))
        about = f" of {self.resource}" if self.resource is not None else ""
        last = f" (the last: {self.size} bytes for {self.peer}, which takes {self.size_max})"
        return f"{self.count}{about}: {place}; {reason}{last if self.peer is not None else ''}"


def _names(call: Any, count: int) -> dict[str, int]:
    return {text(call(number)): number for number in range(count)}


_PLACES = _names(lib.pyddsi_place_name, lib.PYDDSI_PLACE_COUNT)
_REASONS = _names(lib.pyddsi_reason_name, lib.PYDDSI_REASON_COUNT)


def drops_of(
    get: Callable[[int, Any], int],
    name_of: Callable[[int, int], str | int | None],
    since_ns: int = 0,
    peer_of: Callable[[bytes], str | None] = bytes.hex,
) -> Iterator[Drop]:
    """The lines of a ledger. `get` is the core's call for one of them; peer_of: what the peer with an id is called."""
    raw = ffi.new("pyddsi_drop *")
    index = 0
    while get(index, raw) == lib.PYDDSI_OK:
        index += 1
        yield Drop(
            cast("DropPlace", text(lib.pyddsi_place_name(raw.place))),
            cast("DropReason", text(lib.pyddsi_reason_name(raw.reason))),
            raw.space,
            name_of(raw.space, raw.resource),
            raw.count,
            since_ns + raw.first_ns,
            since_ns + raw.last_ns,
            peer=peer_of(bytes(raw.id[0 : raw.id_size])) if raw.id_size else None,
            size=raw.size,
            size_max=raw.size_max,
        )


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
    kept_bytes: int
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

    name: what it is called; of a session its id in hexadecimal digits
    state: "unknown", "opening", "established" or "expired"
    group: where a zhe sends to, if that is not a group of ours: its samples do not come
    lease, rtt: seconds
    unacknowledged: messages in the window to it alone
    unreached: what we send to the group does not reach it, so it gets copies of its own
    """

    name: str
    id: bytes
    state: PeerState
    busy: int
    epoch: int
    endpoint: Endpoint | None
    group: Endpoint | None
    features: frozenset[str]
    incarnation: int
    lease: float
    rtt: float
    unacknowledged: int
    unreached: bool = False


def peer_of(raw: Any, name: str, paths: tuple[str, ...] = ()) -> Peer:
    """A peer of the core."""
    return copied(
        Peer,
        raw,
        name=name,
        id=bytes(raw.id[0 : raw.id_size]),
        state=state_name(raw.state),
        endpoint=endpoint(raw.endpoint, paths),
        group=endpoint(raw.group, paths),
        features=frozenset(n for n, bit in FEATURES.items() if raw.features & bit),
        lease=raw.lease_ms / 1000,
        rtt=raw.rtt_ns / SECOND,
        unreached=bool(raw.unreached),
    )


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
