"""
The words that the core answers with, for type checkers: a test holds them against the core.

Nothing imports this when a program runs, as `typing` takes longer to import than all the rest.
"""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = [
    "DropPlace",
    "DropReason",
    "EndReason",
    "EventKind",
    "KnownKind",
    "Mode",
    "PeerState",
    "Role",
    "Settings",
    "Status",
]

EventKind = Literal[
    "connected",
    "disconnected",
    "reconnected",
    "gap",
    "declared",
    "matched",
    "unmatched",
    "qos_conflict",
    "rejected",
    "detached",
    "refused",
    "unreached",
    "too_large",
]
PeerState = Literal["unknown", "opening", "established", "expired"]
EndReason = Literal[
    "authentication",
    "bytes",
    "declarations",
    "exited",
    "lease",
    "length",
    "link",
    "local",
    "ordinary",
    "other",
    "out_of_resources",
    "parameter",
    "peers_max",
    "protocol_version",
    "restart",
    "sequence_length",
]
Status = Literal[
    "settled",
    "pending",
    "conflict",
    "rejected",
    "no_space",
    "too_large",
    "invalid",
    "try_again",
    "unsupported",
    "other",
]
DropPlace = Literal[
    "put", "window", "packet", "shelf", "input", "order", "assembly", "ring", "declare"
]
DropReason = Literal[
    "full",
    "peer_lost",
    "close",
    "gap",
    "loss",
    "size",
    "bad_bytes",
    "unknown_peer",
    "expired_peer",
    "not_synched",
    "repeat",
    "old",
    "overwritten",
    "incomplete",
    "limit",
    "unsupported",
    "no_subscriber",
    "peers_max",
    "refused",
]
KnownKind = Literal["resource", "selection", "subscription"]
Mode = Literal["push", "pull", "push_pull", "periodic_push", "periodic_pull"]
Role = Literal["peer", "client", "broker"]


class Settings(TypedDict, total=False):
    """The settings of a session, as `pyddsi.open` and `Config.load` take them; `Config` says what each is."""

    group: str
    peers: list[str] | tuple[str, ...]
    listen: list[str] | tuple[str, ...]
    interface: str
    ttl: int
    loopback: bool
    shared_memory: bool
    role: Role
    id: bytes | str
    features: set[str] | frozenset[str] | list[str] | tuple[str, ...]
    lease: float
    scout: float
    latency: float
    slow: float
    packet_max: int
    sequence_bits: int
    window_bytes: int
    window_samples: int
    shared_bytes: int
    shared_samples: int
    sample_max: int
    packets_max: int
    peers_max: int
    resources_max: int
    receive_buffer: int
    receive_threads: int
