"""How a session's settings become the core's options, and what is said when the core refuses them."""

from __future__ import annotations

from pyddsi._checks import GROUP, address_of, place_of
from pyddsi._looking import EVENTS_KEPT
from pyddsi._native import lib
from pyddsi.errors import OpenError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from typing import Any

    from pyddsi.config import Config

__all__ = ["fill", "refusal"]

KEEP_BYTES = 64 << 20
RING_SAMPLES, RINGS_LEAST, RINGS_MOST = 1024, 1 << 17, 1 << 24
"""Samples that may wait for the subscribers of each name that may be declared; memory that is not used is not taken."""


def refusal(status: int, why: str) -> Exception:
    """The error for a session that the core does not open."""
    if status == lib.PYDDSI_NO_SPACE:
        return MemoryError(why)
    if status == lib.PYDDSI_BAD_ARGUMENT:
        return ValueError(f"these settings cannot be together: {why}")
    return OpenError(why)


def _raw_address(target: Any, address: str) -> None:
    if not address:
        target.kind = 0
        return
    packed, port = address_of(address)
    target.ip = packed.ljust(16, b"\0")
    target.port, target.kind = port, 4 if len(packed) == 4 else 6


KINDS = {("udp", 4): 4, ("udp", 16): 6, ("tcp", 4): 14, ("tcp", 16): 16}
UNIX = 20


class Places:
    """Writes where peers are, and where we are, as the core has it; a path is a number there."""

    def __init__(self, options: Any) -> None:
        self._options = options
        self.paths: list[bytes] = []

    def write(self, target: Any, text: str) -> None:
        """Into an endpoint."""
        place = place_of(text, port_least=0, names=True)
        if place.kind != "unix":
            target.ip = place.packed.ljust(
                16, b"\0"
            )  # of a name nothing, until it is resolved (_seek.py)
            target.port, target.kind = place.port, KINDS[place.kind, len(place.packed) or 4]
            return
        if place.packed not in self.paths:
            self._options.paths[len(self.paths)] = place.packed
            self.paths.append(place.packed)
        target.port, target.kind = self.paths.index(place.packed), UNIX


def _fill_places(options: Any, config: Config) -> tuple[str, ...]:
    places = Places(options)
    options.peer_count = len(config.peers)
    for i, peer in enumerate(config.peers):
        places.write(options.peers[i], peer)
    options.listen_count = 0
    for text in config.listen:
        place = place_of(text, port_least=0)
        if place.kind == "udp":
            options.port = place.port
            continue
        places.write(options.listen[options.listen_count], text)
        options.listen_count += 1
    return tuple(path.decode() for path in places.paths)


def fill(options: Any, config: Config) -> tuple[str, ...]:
    """The core's options for these settings; the answer is the paths of Unix sockets, as they are numbered there."""
    lib.pyddsi_session_options_init(options)
    node = options.node
    if config.group != GROUP:
        _raw_address(options.group, config.group)
    paths = _fill_places(options, config)
    options.interface, options.ttl = config.interface.encode(), config.ttl
    options.loopback, options.shared = config.loopback, config.shared_memory
    options.lane_bytes, options.lane_samples = config.shared_bytes, config.shared_samples
    options.receive_bytes = config.receive_buffer
    node.role = {"peer": lib.PYDDSI_PEER, "client": lib.PYDDSI_CLIENT, "broker": lib.PYDDSI_BROKER}[
        config.role
    ]
    node.id, node.id_size = config.id.ljust(16, b"\0"), len(config.id)
    node.features = sum(int(getattr(lib, f"PYDDSI_CAN_{word.upper()}")) for word in config.features)
    node.lease_ms = -(-round(config.lease * 1e6) // 1000)
    node.scout_ms = -(-round(config.scout * 1e6) // 1000)
    node.slow_ms = -(-round(config.slow * 1e6) // 1000)
    node.latency_us = round(config.latency * 1e6)
    node.packet_max, node.seq_bits = config.packet_max, config.sequence_bits
    node.unicast_bytes, node.unicast_samples = config.window_bytes, config.window_samples
    for i in range(lib.PYDDSI_MULTICASTS_MAX):
        node.multicast_bytes[i] = config.window_bytes
        node.multicast_samples[i] = config.window_samples
    node.sample_max = config.sample_max
    node.assembly_bytes = max(node.assembly_bytes, 2 * config.sample_max)
    node.slots_max, node.peers_max = config.packets_max, config.peers_max
    node.resources_max = config.resources_max
    node.names_bytes = max(node.names_bytes, 64 * config.resources_max)
    node.publishers_max = min(max(node.publishers_max, config.resources_max), 1 << 15)
    node.subscribers_max = node.publishers_max
    node.remotes_max = max(node.remotes_max, 2 * config.resources_max)
    node.remotes_peer_max = node.remotes_max // 2
    node.ring_samples = max(RINGS_LEAST, min(RING_SAMPLES * config.resources_max, RINGS_MOST))
    node.keep_bytes = max(KEEP_BYTES, 2 * config.sample_max)
    node.events_max = EVENTS_KEPT
    return paths
