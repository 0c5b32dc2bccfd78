"""
A network of zhes in virtual time, and of pyddsi's nodes if a Sim is given: what foreign ends send is injected, what nodes
send is read off the log.

    Sim: nodes ──► log ──► loss, delay ──► Zhe ──► outbox ──► loss, delay ──► inject ──► nodes
                                            └────────────────────────────────────────► other zhes
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from pyddsi._looks import endpoint
from pyddsi._native import ffi, lib
from pyddsi.testing import Node, Sim
from tests.real.zhe import Zhe
from tests.real.zhe_config import Address

DELAY = 0.0005
STEP = 0.0005  # not longer than the delay, so that nothing arrives before it was sent
IDLE_STEP = 0.002  # when nobody has said anything for so many steps, what comes first may be as late as this
IDLE_AFTER = 40


class Net:
    """
    Moves packets and time.

    loss: how likely a packet does not reach one of its hearers
    skew: a zhe reads two sockets, one for what is sent to it alone and one for its groups: each packet lies in its socket for
        up to so many seconds, and overtakes none of the same socket
    deaf: zhes that hear nothing at the moment
    """

    def __init__(
        self,
        sim: Sim | None = None,
        *,
        seed: int = 1,
        loss: float = 0.0,
        delay: float = DELAY,
        skew: float = 0.0,
    ) -> None:
        self.sim = sim
        self.loss = loss
        self.delay = delay
        self.skew = skew
        self.deaf: set[Address] = set()
        self._read: dict[tuple[Address, bool], float] = {}
        self.zhes: dict[Address, Zhe] = {}
        self.log: list[tuple[float, Address, Address, bytes]] = []
        self._random = random.Random(seed)
        self._order = count()
        self._queue: list[tuple[float, int, Address, Address, bytes]] = []
        self._now = 0.0
        self._seen = 0
        self._idle = 0
        self._raw = ffi.new("pyddsi_sim_packet *")

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._now if self.sim is None else self.sim.now

    def add(self, zhe: Zhe, host: str = "10.8.0.1", port: int = 40000) -> Address:
        """A zhe joins, with an address of its own."""
        address = host, port
        while address in self.zhes:
            address = host, address[1] + 1
        self.zhes[address] = zhe
        return address

    def remove(self, zhe: Zhe) -> None:
        """A zhe is switched off."""
        self.zhes = {address: one for address, one in self.zhes.items() if one is not zhe}

    # ---- packets ----

    def _hearers(self, zhe: Zhe, to: Address, address: Address) -> bool:
        config = zhe.config
        return to in {address, config.scouting} or to in config.groups

    def _send(self, source: Address, to: Address, data: bytes, at: float) -> None:
        """A packet of a zhe goes to whoever hears it."""
        self.log.append((at, source, to, data))
        for address, zhe in self.zhes.items():
            if address != source and self._hearers(zhe, to, address):
                self._later(source, address, data, at, grouped=to != address)
        for node in () if self.sim is None else self.sim.nodes:
            if node.running and (to[0].startswith("239.") or to == _address(node)):
                self._later(source, _address(node), data, at)

    def _later(
        self, source: Address, to: Address, data: bytes, at: float, *, grouped: bool = False
    ) -> None:
        if self._random.random() < self.loss or to in self.deaf:
            return
        when = at + self.delay
        if self.skew and to in self.zhes:
            when += self._random.random() * self.skew
            when = self._read[to, grouped] = max(when, self._read.get((to, grouped), 0.0))
        heappush(self._queue, (when, next(self._order), source, to, data))

    def _arrive(self, source: Address, to: Address, data: bytes) -> None:
        zhe = self.zhes.get(to)
        if zhe is not None:
            zhe.input(data, source, self.now)
            return
        for node in () if self.sim is None else self.sim.nodes:
            if node.running and _address(node) == to and self.sim is not None:
                self.sim.inject(node, data, source=source)

    def _overhear(self) -> None:
        """What the nodes have sent since the last look."""
        if self.sim is None:
            return
        raw, world = self._raw, self.sim.world.enter()
        before = -1
        self._idle += 1
        while lib.pyddsi_sim_packet_get(world, self._seen, raw) == lib.PYDDSI_OK:
            self._seen += 1
            self._idle = 0
            source, target = endpoint(raw.source), endpoint(raw.target)
            if getattr(raw, "from") < 0 or raw.number == before or not source or not target:
                continue
            before = raw.number  # what goes to a group is there once for each hearer
            data = bytes(ffi.buffer(raw.packet.data, raw.packet.size))
            here, to = (str(source.address), source.port), (str(target.address), target.port)
            self.log.append((raw.sent_ns / 1e9, here, to, data))
            for address, zhe in self.zhes.items():
                if self._hearers(zhe, to, address):
                    self._later(here, address, data, raw.sent_ns / 1e9, grouped=to != address)

    # ---- time ----

    def run(self, duration: float) -> None:
        """Let so many seconds pass."""
        end = self.now + duration
        while self.now < end - 1e-9:
            self._step(end)

    def run_until(self, ready: Callable[[], object], timeout: float = 10.0) -> None:
        """Let time pass until this is so."""
        end = self.now + timeout
        while not ready():
            assert self.now < end, f"not within {timeout} s"
            self._step(end)

    def _step(self, end: float) -> None:
        self._collect()
        times = [end, *(zhe.due() for zhe in self.zhes.values())]
        if self._queue:
            times.append(self._queue[0][0])
        if self.sim is not None:
            times.append(self.now + (STEP if self._idle < IDLE_AFTER else IDLE_STEP))
        self._pass(max(0.0, min(times) - self.now))
        self._overhear()
        while self._queue and self._queue[0][0] <= self.now + 1e-9:
            _, _, source, to, data = heappop(self._queue)
            self._arrive(source, to, data)
            self._collect()
        for zhe in self.zhes.values():
            if zhe.due() <= self.now + 1e-9:
                zhe.tick(self.now)
        self._collect()

    def _pass(self, duration: float) -> None:
        if self.sim is None:
            self._now += duration
        else:
            self.sim.run(duration)

    def _collect(self) -> None:
        for address, zhe in list(self.zhes.items()):
            for to, data in zhe.take():
                self._send(address, to, data, self.now)

    # ---- looks ----

    def complaints(self) -> list[str]:
        """All that was sent to a zhe and should not have been."""
        return [str(one) for zhe in self.zhes.values() for one in zhe.violations]


def _address(node: Node) -> Address:
    where = node.endpoint
    return str(where.address), where.port
