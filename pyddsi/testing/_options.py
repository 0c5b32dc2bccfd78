"""What a node can be told at its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from pyddsi._endpoints import raw_endpoint
from pyddsi._looks import FEATURES
from pyddsi._native import ffi, lib
from pyddsi._values import choose, closest, nanoseconds, whole

Role = Literal["peer", "client", "broker"]
Address = tuple[str, int]

ROLES = {"peer": lib.PYDDSI_PEER, "client": lib.PYDDSI_CLIENT, "broker": lib.PYDDSI_BROKER}


class NodeOptions(TypedDict, total=False):
    """
    What a node can be told at its start. Times are in seconds; what is not said has a good value.

    `pyddsi_config` in pyddsi.h says more about each; the numbers of milliseconds and microseconds there have the
    names without their unit here.
    """

    id: bytes
    """What it is called on the wire, 1 to 16 bytes; otherwise made up."""
    role: Role
    features: set[str] | frozenset[str] | None
    """What it can do beyond zhe: of "batch", "fragment", "pull", "migrate", "space", "forget", "incarnation"."""
    incarnation: int
    seed: int
    seq_bits: int
    rid_bits: int
    commit_mode: int
    # times
    lease: float
    """How long others may hear nothing of it; 0: for ever."""
    scout: float
    open: float
    synch: float
    slow: float
    rtt: float
    latency: float
    opens_max: int
    # where to
    packet_max: int
    scout_to: Address
    multicasts: int
    multicast_to: Sequence[Address]
    # sizes
    multicast_bytes: int | Sequence[int]
    multicast_samples: int | Sequence[int]
    unicast_bytes: int
    unicast_samples: int
    peers_max: int
    conduits_in: int
    order_max: int
    slots_max: int
    assembly_bytes: int
    assembly_max: int
    sample_max: int
    resources_max: int
    names_bytes: int
    publishers_max: int
    subscribers_max: int
    remotes_max: int
    remotes_peer_max: int
    transaction_bytes: int
    ring_samples: int
    keep_bytes: int
    shelf_bytes: int
    shelf_samples: int
    events_max: int
    ledger_max: int


_TIMES = {
    "lease": ("lease_ms", 1_000_000),
    "scout": ("scout_ms", 1_000_000),
    "open": ("open_ms", 1_000_000),
    "synch": ("synch_ms", 1_000_000),
    "slow": ("slow_ms", 1_000_000),
    "rtt": ("rtt_us", 1_000),
    "latency": ("latency_us", 1_000),
}
_LISTS = ("multicast_bytes", "multicast_samples", "multicast_to")
EVENTS_MAX = 4096  # so that a long run loses none


def configure(options: Mapping[str, Any]) -> Any:
    """The core's configuration with these options."""
    config = ffi.new("pyddsi_config *")
    lib.pyddsi_config_init(config)
    config.incarnation = 1
    config.events_max = EVENTS_MAX
    for option, value in options.items():
        if option not in NodeOptions.__annotations__:
            raise TypeError(
                f"a node has no option {option!r}; {closest(option, NodeOptions.__annotations__)}"
            )
        _set(config, option, value)
    return config


def _set(config: Any, option: str, value: Any) -> None:
    if option in _TIMES:
        field, unit = _TIMES[option]
        count = -(-nanoseconds(value, option) // unit)  # rounded up: 0 would be for ever
        setattr(config, field, whole(option, count, 0, 2**32 - 1))
    elif option == "id":
        if not isinstance(value, bytes) or not 1 <= len(value) <= 16:
            raise ValueError(f"an id has 1 to 16 bytes, not {value!r}")
        config.id, config.id_size = value.ljust(16, b"\0"), len(value)
    elif option == "role":
        config.role = choose("role", value, ROLES)
    elif option == "features":
        config.features = sum(choose("a feature", feature, FEATURES) for feature in value or ())
    elif option == "scout_to":
        config.scout_to = raw_endpoint(option, value)
    elif option in _LISTS:
        most = lib.PYDDSI_MULTICASTS_MAX
        values: list[Any] = [value] * most if isinstance(value, int) else list(value)
        whole(f"the number of values of {option}", len(values), 0, most)
        for i, one in enumerate(values):
            item: Any = (
                raw_endpoint(option, one)
                if option == "multicast_to"
                else whole(option, one, 0, 2**32 - 1)
            )
            getattr(config, option)[i] = item
    else:
        size = ffi.sizeof(_width(option))
        setattr(config, option, whole(option, value, 0, 2 ** (8 * size) - 1))


def _width(option: str) -> Any:
    return dict(ffi.typeof("pyddsi_config").fields)[option].type
