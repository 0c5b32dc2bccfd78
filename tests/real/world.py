"""
A node of pyddsi and a stand-in for zhe in one simulated network, and what both say to each other.
"""

from __future__ import annotations

from typing import Unpack

from pyddsi.testing import NodeOptions, Publisher, Sim, Subscriber
from tests.real.zhe import Zhe
from tests.real.zhe_config import CONFIGS, Config
from tests.real.zhe_net import Net

SHORT = 0.002
PATIENCE = 30.0
WIDE = "too wide NACK mask"  # zhe takes the part that it understands

# Of the zhe: what it publishes and subscribes to. Of the node: the same the other way.
OUT, INTO = 100, 101
OUT_NAME, INTO_NAME = "/z/out", "/z/in"


class World:
    """
    One node, one zhe.

    names: whether they speak of names, or of plain numbers
    chance: the seed of what is lost
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        names: bool = True,
        loss: float = 0.0,
        chance: int = 1,
        **options: Unpack[NodeOptions],
    ) -> None:
        self.names = names
        self.sim = Sim(chance)
        self.net = Net(self.sim, loss=loss, seed=chance)
        self.node = self.sim.node("a", **options)
        self.zhe = Zhe(config or CONFIGS["p2p"])
        self.net.add(self.zhe)
        self.declare_zhe()
        self.pub, self.sub = self.declare_node()

    def declare_zhe(self, *, reliable: bool = True) -> None:
        """What the zhe declares."""
        if self.names:
            self.zhe.resource(OUT, OUT_NAME)
            self.zhe.resource(INTO, "/z/i?")
        self.zhe.publish(OUT, reliable=reliable)
        self.zhe.subscribe(INTO)

    def declare_node(self, *, reliable: bool = True) -> tuple[Publisher, Subscriber]:
        """What the node declares."""
        into: int | str = INTO_NAME if self.names else INTO
        out: int | str = "/*/out" if self.names else OUT
        pub = self.node.publisher(into, reliable=reliable)
        return pub, self.node.subscriber(out, depth=500)

    def matched(self, timeout: float = PATIENCE) -> float:
        """Time passes until both know of each other; how much."""
        begin = self.net.now
        self.net.run_until(lambda: self.pub.matched and self.zhe.tables.wanted(OUT), timeout)
        return self.net.now - begin

    def put(self, number: int) -> None:
        """Each of them writes a sample, as soon as it can."""
        payload = b"%d" % number
        while not self.zhe.write(OUT, payload, self.net.now):
            self.net.run(SHORT)
        self.zhe.flush(self.net.now)
        while not self.pub.put(payload, wait=False):
            self.net.run(SHORT)

    def talk(self, count: int = 30) -> tuple[list[int], list[int]]:
        """So many samples both ways; what came out at the node, and at the zhe."""
        before = len(self.zhe.received)
        got: list[int] = []
        for number in range(count):
            self.put(number)
            self.net.run(SHORT)
            got += self._taken()
        for _ in range(100):
            if len(got) >= count and len(self.zhe.received) - before >= count:
                break
            self.net.run(0.02)
            got += self._taken()
        return got, [int(one.payload) for one in self.zhe.received[before:]]

    def _taken(self) -> list[int]:
        return [int(bytes(one.data)) for one in self.sub]

    @property
    def complaints(self) -> list[str]:
        """What the node sent to the zhe and should not have; masks that zhe cuts do not count."""
        return [one for one in self.net.complaints() if WIDE not in one]

    def reborn(self, peer_id: bytes | None = None, *, port: int = 40000) -> None:
        """A zhe is started anew in the place of the old one, which is gone without a word."""
        config = self.zhe.config
        self.net.remove(self.zhe)
        self.zhe = Zhe(config, peer_id or self.zhe.id, self.net.now)
        self.net.add(self.zhe, port=port)
        self.declare_zhe()

    @property
    def net_address(self) -> tuple[str, int]:
        """Where the node's packets come from."""
        where = self.node.endpoint
        return str(where.address), where.port
