"""The network of nodes itself."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from pyddsi._declared import TIMEOUT
from pyddsi._endpoints import raw_endpoint
from pyddsi._native import ffi, lib
from pyddsi._values import SECOND, nanoseconds, whole
from pyddsi.capture.write import write_datagrams
from pyddsi.testing._looks import Packet, packets
from pyddsi.testing._node import Node
from pyddsi.testing._options import NodeOptions
from pyddsi.testing._world import World

PPM = 1_000_000
LOG_BYTES = 64 << 20
_CHANCES = {
    "loss": "loss_ppm",
    "duplicate": "duplicate_ppm",
    "reorder": "reorder_ppm",
    "corrupt": "corrupt_ppm",
    "multicast_loss": "group_loss_ppm",
}
_DELAYS = {"delay": "delay_ns", "jitter": "jitter_ns", "late": "late_ns"}


class Sim:
    """
    A network of nodes in memory, in a time that nobody waits for.

        with Sim(seed=1, loss=0.05, delay=0.001) as sim:
            a, b = sim.node("a"), sim.node("b")
            pub = a.publisher("plant/robot/7/pose")
            sub = b.subscriber("plant/robot/*/pose")
            pub.wait_matched()
            pub.put(b"hello")
            print(bytes(sub.recv().data))

    Nothing happens in it but through calls, and time passes only in those that say so: run, run_until_quiet, and
    all that have a `timeout`. The same calls with the same seed always have the same outcome; `digest` shows it.

    loss, duplicate, reorder, corrupt: chances from 0 to 1 that this happens to a packet
    multicast_loss: the same, beside loss, for a packet to a group; 1.0 is a switch that filters it
    delay, jitter: seconds; each packet takes the delay, and up to the jitter longer
    late: seconds; up to so long later come packets that pass each other, and second copies (0: some milliseconds)
    rate: bytes per second that a link carries; 0: no limit
    mtu: larger packets are lost; 0: none is
    mtu_known: what nodes are told that it carries, when a session begins: so large packets of pieces may be; 0: nothing
    log_bytes: how many bytes of packets are kept for `packets` and `write_pcap`; 0: none
    defaults: options for all nodes

    A Sim is used by one thread.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        loss: float = 0.0,
        duplicate: float = 0.0,
        reorder: float = 0.0,
        corrupt: float = 0.0,
        multicast_loss: float = 0.0,
        delay: float = 0.001,
        jitter: float = 0.0,
        late: float = 0.0,
        rate: int = 0,
        mtu: int = 0,
        mtu_known: int = 0,
        log_bytes: int = LOG_BYTES,
        defaults: NodeOptions | None = None,
    ) -> None:
        self.seed = seed
        self.world = World(seed)
        self._defaults = dict(defaults or {})
        if whole("log_bytes", log_bytes, 0, 2**63):
            lib.pyddsi_sim_log(self.world.enter(), 1, log_bytes)
        self.link(
            loss=loss,
            duplicate=duplicate,
            reorder=reorder,
            corrupt=corrupt,
            multicast_loss=multicast_loss,
            delay=delay,
            jitter=jitter,
            late=late,
            rate=rate,
            mtu=mtu,
            mtu_known=mtu_known,
        )

    def __repr__(self) -> str:
        if self.world.closed:
            return "<Sim, closed>"
        return f"<Sim seed={self.seed} nodes={len(self.nodes)} now={self.now:.6f}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything. Views of samples are released."""
        if not self.world.closed:
            for node in self.nodes:
                node.recall()
            self.world.close()

    # ---- nodes and links ----

    def node(self, name: str | None = None, **options: Unpack[NodeOptions]) -> Node:
        """Add a node and start it. NodeOptions has the options; without a name it is called node0, node1, .."""
        name = f"node{len(self.nodes)}" if name is None else name
        if any(node.name == name for node in self.nodes):
            raise ValueError(f"there is a node {name!r} already; call this one otherwise")
        node = Node(self, self.world, name, self._defaults | dict(options))
        self.world.nodes.append(node)
        return node

    @property
    def nodes(self) -> list[Node]:
        """All nodes in the order in which they were added."""
        return self.world.nodes

    def link(
        self,
        one: Node | None = None,
        two: Node | None = None,
        *,
        both: bool = True,
        loss: float | None = None,
        duplicate: float | None = None,
        reorder: float | None = None,
        corrupt: float | None = None,
        multicast_loss: float | None = None,
        delay: float | None = None,
        jitter: float | None = None,
        late: float | None = None,
        rate: int | None = None,
        mtu: int | None = None,
        mtu_known: int | None = None,
    ) -> None:
        """
        Change the links between two nodes, or of one node, or all; what is not said stays as it is. Nodes that are added
        later have links as they were last set for all.

        both: in both directions, not only from the first node to the second
        """
        chances = {
            "loss": loss,
            "duplicate": duplicate,
            "reorder": reorder,
            "corrupt": corrupt,
            "multicast_loss": multicast_loss,
        }
        changes = {_CHANCES[k]: _ppm(k, v) for k, v in chances.items() if v is not None}
        delays = {"delay": delay, "jitter": jitter, "late": late}
        changes |= {_DELAYS[k]: nanoseconds(v, k) for k, v in delays.items() if v is not None}
        if rate is not None:
            changes["rate_bytes"] = whole("rate", rate, 0, 2**63)
        sizes = {"mtu": mtu, "mtu_known": mtu_known}
        changes |= {k: whole(k, v, 0, 2**31) for k, v in sizes.items() if v is not None}
        self._change(one, two, changes, both=both)

    def partition(self, *groups: Iterable[Node]) -> None:
        """Cut all links between nodes of different groups. With one group: between it and all others."""
        sides = [list(group) for group in groups]
        if len(sides) == 1:
            sides.append([node for node in self.nodes if node not in sides[0]])
        for i, here in enumerate(sides):
            for there in sides[i + 1 :]:
                for one in here:
                    for two in there:
                        self.cut(one, two)

    def cut(self, one: Node, two: Node, *, both: bool = True) -> None:
        """Cut the link between two nodes, in both directions or from the first to the second."""
        self._change(one, two, {"cut": 1}, both=both)

    def heal(self) -> None:
        """Mend all links that were cut. Losses and delays stay."""
        self._change(None, None, {"cut": 0}, both=True)

    def _change(
        self, one: Node | None, two: Node | None, changes: dict[str, int], *, both: bool
    ) -> None:
        sim, raw = self.world.enter(), ffi.new("pyddsi_sim_link *")
        count = len(self.nodes)
        froms = range(count) if one is None else (one.index,)
        tos = range(count) if two is None else (two.index,)
        pairs = {(i, k) for i in froms for k in tos}
        if both:
            pairs |= {(k, i) for i, k in pairs}
        qualities = {}
        for i in range(count):
            for k in range(count):
                lib.pyddsi_sim_link_get(sim, i, k, raw)
                qualities[i, k] = ffi.new("pyddsi_sim_link *", raw[0])
        if one is None and two is None:
            lib.pyddsi_sim_link_get(sim, -1, -1, raw)
            _apply(raw, changes)
            lib.pyddsi_sim_link_set(sim, -1, -1, raw)
        for (i, k), quality in qualities.items():
            if (i, k) in pairs:
                _apply(quality, changes)
            lib.pyddsi_sim_link_set(sim, i, k, quality)

    def inject(self, node: Node, data: bytes, *, source: tuple[str, int] = ("10.9.9.9", 9)) -> None:
        """A packet from anywhere arrives at a node now."""
        raw = ffi.new("pyddsi_endpoint *", raw_endpoint("source", source))
        lib.pyddsi_sim_inject(node.enter(), node.index, raw, ffi.from_buffer(data), len(data))

    # ---- time ----

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self.world.now_ns / SECOND

    @property
    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return self.world.now_ns

    def run(self, duration: float) -> int:
        """Let so many seconds pass. Returns how many things happened."""
        return self.world.run(nanoseconds(duration, "duration"))

    def run_until_quiet(self, timeout: float = TIMEOUT) -> None:
        """
        Let time pass until nothing is left to do: every two nodes that can reach each other have a session, all
        samples are acknowledged, all declarations settled. TimeoutError, which says what is left, if it is not so after
        `timeout` virtual seconds.
        """
        duration = nanoseconds(timeout, "timeout")
        status = lib.pyddsi_sim_run_until_quiet(self.world.enter(), duration)
        for node in self.nodes:
            node.pump()
        if status != lib.PYDDSI_OK:
            self.world.blame()
            raise TimeoutError(f"not quiet after {timeout} s: {self.world.busy()}")

    @property
    def busy(self) -> str | None:
        """What is left to do; None: all is quiet."""
        return self.world.busy()

    # ---- looks ----

    @property
    def digest(self) -> int:
        """A hash of all packets so far: the same for the same seed and calls."""
        return int(lib.pyddsi_sim_digest(self.world.enter()))

    def packets(self) -> list[Packet]:
        """All packets, in the order in which they were sent."""
        return packets(self.world.enter(), [node.name for node in self.nodes])

    def write_pcap(self, path: str | os.PathLike[str]) -> int:
        """Write all packets as a capture, each once, as it was sent. Returns how many there were."""
        return write_pcap(path, self.packets())


def write_pcap(path: str | os.PathLike[str], log: Iterable[Packet]) -> int:
    """Write packets of a log as a capture: what is sent to a group is there once."""
    once: dict[int, Packet] = {}
    for packet in log:
        known = once.get(packet.number)
        if known is None or known.fate == "corrupted":
            once[packet.number] = packet
    return write_datagrams(path, ((p.sent_ns, p.from_, p.to, p.data) for p in once.values()))


def _apply(quality: Any, changes: dict[str, int]) -> None:
    for field, value in changes.items():
        setattr(quality, field, value)


def _ppm(what: str, chance: float) -> int:
    if isinstance(chance, bool) or not isinstance(chance, (int, float)):
        raise TypeError(f"{what} is a chance from 0 to 1, not {chance!r}")
    if not 0 <= chance <= 1:
        raise ValueError(f"{what} is a chance from 0 to 1, not {chance}; 5 percent is 0.05")
    return round(chance * PPM)
