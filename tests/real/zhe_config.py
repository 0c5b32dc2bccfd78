"""
How zhe is configured, and the names it takes.

The configurations are those of the golden captures; `step_ms` is how often its application calls the housekeeping function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from tests.real.zhe_bytes import Limits

Address = tuple[str, int]
SCOUTING: Address = ("239.255.0.1", 7447)
CONNECTED: Address = ("0.0.0.0", 0)  # noqa: S104 - as it stands in its locators
"""Over TCP: all connections, in the place of a group."""
LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/?*")
LEASE_MAX = 21_474_836
ID_MAX = 16


@dataclass(frozen=True, slots=True)
class Config:
    """What zhe is built with. Times are in milliseconds but the lease, which is in its own unit of 100 ms."""

    role: Literal["peer", "client", "broker"] = "peer"
    seq_bits: int = 14
    rid_bits: int = 32
    rid_max: int = 1 << 20
    conduits_in: int = 3
    multicasts: int = 2
    unicast: int | None = 2
    peers_max: int = 16
    lease: int = 50
    scout_ms: int = 3000
    scout_count: int | None = None
    open_ms: int = 1000
    opens: int = 5
    synch_ms: int = 10
    rtt_ms: int = 1
    latency_ms: int = 10
    multicast_bytes: int = 16384
    multicast_samples: int = 1600
    unicast_bytes: int = 384
    unicast_samples: int = 63
    uris: int = 20
    uri_max: int = 100
    commit_calls: int = 255
    step_ms: int = 1
    scouting: Address = SCOUTING
    groups: tuple[Address, ...] = ()
    packet_max: int = 1472
    boast: tuple[tuple[int, bytes], ...] = ()
    """Properties that no zhe has, for tests that want to be sent what a zhe is not."""

    def __post_init__(self) -> None:
        half = 1 << self.seq_bits - 1
        multicast = self.multicast_samples if self.multicasts else 0
        if max(multicast, self.unicast_samples) >= half:
            raise ValueError(f"a window of {self.seq_bits} bits holds less than {half} messages")

    @property
    def limits(self) -> Limits:
        """What its reader needs."""
        return Limits(self.seq_bits, self.rid_bits, self.conduits_in)

    @property
    def joined(self) -> tuple[Address, ...]:
        """The groups it tells others that it is in: the scouting group if no other is configured."""
        if self.role == "client" or (self.role == "broker" and not self.multicasts):
            return ()
        return self.groups or (self.scouting,)

    @property
    def locators(self) -> list[bytes]:
        """The same as texts."""
        return [locator(group) for group in self.joined]

    def destination(self, conduit: int) -> Address:
        """Where a multicast conduit sends to."""
        return self.groups[conduit] if conduit < len(self.groups) else self.scouting

    def changed(self, **changes: object) -> Config:
        """The same but for this."""
        return replace(self, **changes)  # type: ignore[arg-type]


def locator(group: Address) -> bytes:
    """A group as it stands in HELLO and OPEN."""
    kind = "tcp" if group == CONNECTED else "udp"
    return f"{kind}/{group[0]}:{group[1]}".encode()


P2P = Config()
CONFIGS = {
    "p2p": P2P,
    "p2p-small": Config(
        seq_bits=7,
        rid_bits=8,
        rid_max=127,
        conduits_in=2,
        multicasts=1,
        unicast=None,
        peers_max=5,
        latency_ms=0,
        multicast_bytes=384,
        multicast_samples=32,
        uris=0,
    ),
    "p2p-large": Config(
        rid_bits=64,
        peers_max=100,
        rid_max=1 << 61,
        multicast_bytes=8192,
        multicast_samples=256,
        unicast_bytes=2048,
        unicast_samples=255,
        uris=500,
        uri_max=40,
        commit_calls=65535,
    ),
    "client-large": Config(
        role="client",
        seq_bits=11,
        multicasts=0,
        unicast=0,
        peers_max=1,
        unicast_bytes=512,
        unicast_samples=255,
        uris=128,
        commit_calls=128,
    ),
    "client-nbiot": Config(
        role="client",
        conduits_in=1,
        multicasts=0,
        unicast=0,
        peers_max=1,
        lease=0,
        scout_ms=10000,
        open_ms=10000,
        synch_ms=10000,
        rtt_ms=3000,
        unicast_bytes=512,
        unicast_samples=127,
        uris=0,
        commit_calls=128,
    ),
    "mindeps": P2P.changed(rid_bits=16, rid_max=553),
    # no zhe is a broker; this is how one would look to its clients
    "broker": Config(role="broker", multicasts=0, unicast=0, conduits_in=3),
}


def over_tcp(config: Config) -> Config:
    """The same over TCP: one conduit goes to all connections, where it had groups; small packets."""
    narrow = {"scouting": CONNECTED, "groups": (), "packet_max": 100}
    if not config.multicasts:
        return config.changed(**narrow)
    return config.changed(**narrow, multicasts=1, conduits_in=2, unicast=1)


def valid(uri: bytes, most: int) -> bool:
    """Whether zhe takes it for a URI."""
    return (
        0 < len(uri) <= most
        and uri.startswith((b"/", b"**"))
        and not uri.endswith(b"/")
        and LETTERS.issuperset(uri)
    )


@cache
def tokens(pattern: bytes) -> tuple[bytes, ...]:
    """Characters and wildcards of a pattern."""
    found: list[bytes] = []
    at = 0
    while at < len(pattern):
        size = 2 if pattern.startswith(b"**", at) else 1
        found.append(pattern[at : at + size])
        at += size
    return tuple(found)


def share(one: bytes, two: bytes) -> bool:
    """Whether some character satisfies both."""
    for wild, other in ((one, two), (two, one)):
        if wild == b"**" or (wild in {b"?", b"*"} and other != b"/"):
            return True
    return one == two


@cache
def intersect(one: bytes, two: bytes) -> bool:
    """Whether some string satisfies both patterns: `?` and `*` take anything but `/`, `**` takes all."""
    left, right = tokens(one), tokens(two)
    seen: set[tuple[int, int]] = set()
    todo = [(0, 0)]
    while todo:
        i, k = place = todo.pop()
        if place == (len(left), len(right)):
            return True
        if place in seen:
            continue
        seen.add(place)
        a = left[i] if i < len(left) else b""
        b = right[k] if k < len(right) else b""
        star_a, star_b = a in {b"*", b"**"}, b in {b"*", b"**"}
        if star_a:
            todo.append((i + 1, k))
        if star_b:
            todo.append((i, k + 1))
        if a and b and share(a, b):
            todo.append((i + (not star_a), k + (not star_b)))
    return False
