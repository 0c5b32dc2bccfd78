"""
How zhe makes packets: one buffer, packed for one destination and one reliable conduit, with S where an answer is due.

    put ──► buffer ──► another destination, another reliable conduit, no room, too old ──► outbox
    SYNCH, ACKNACK, handshake: whatever waits leaves first, then they go alone
"""

from __future__ import annotations

from tests.real import zhe_bytes as wire
from tests.real.zhe_bytes import Message, marker
from tests.real.zhe_conduits import Sent, Stored, near
from tests.real.zhe_config import Address, Config


class Sender:
    """The sending half of a zhe."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.outbox: list[tuple[Address, bytes]] = []
        self.deadline_ms: int | None = None
        self.last_ms = 0
        self._to: Address | None = None
        self._buffer = bytearray()
        self._conduit: Sent | None = None
        self._head = -1
        self._scarce = False

    # ---- packets ----

    def flush(self, ms: int) -> None:
        """What waits leaves now."""
        if self._to is None:
            return
        sent = self._conduit
        if sent is not None:
            patience = self.config.synch_ms - 2 * self.config.rtt_ms
            if ms - sent.synch_ms > patience or (sent.scarce and not self._scarce):
                self._buffer[self._head] |= 0x20
                sent.synch_ms = ms
        self.outbox.append((self._to, bytes(self._buffer)))
        self._to, self._buffer, self._conduit = None, bytearray(), None
        self.deadline_ms, self.last_ms = None, ms

    def put(self, to: Address, data: bytes, ms: int, conduit: Sent | None = None) -> int:
        """A message for company; where in the packet it begins."""
        full = len(self._buffer) + len(data) > self.config.packet_max
        other = self._conduit is not None and conduit is not self._conduit
        if self._to is not None and (to != self._to or other or full):
            self.flush(ms)
        if self._to is None:
            self._to = to
        begin = len(self._buffer)
        self._buffer += data
        return begin

    def alone(self, to: Address, data: bytes, ms: int) -> None:
        """A message that travels alone, at once."""
        self.flush(ms)
        self.put(to, data, ms)
        self.flush(ms)

    @property
    def waits(self) -> bool:
        """Whether a packet waits for company."""
        return self._to is not None

    def _age(self, ms: int) -> None:
        if self.deadline_ms is None:
            self.deadline_ms = ms + self.config.latency_ms

    # ---- conduits ----

    def reliable(self, sent: Sent, body: Message, ms: int) -> bool:
        """A message into the window and on its way; False: the window is full, nothing has happened."""
        body.conduit, body.sn = sent.id, sent.next % (1 << self.config.seq_bits)
        stored = Stored(wire.encode(body), len(marker(sent.id)))
        if not sent.room(len(stored.data)):
            if self.waits and sent.next != sent.base:
                self.synch(sent, ms)
            return False
        scarce = sent.scarce
        begin = self.put(sent.to, stored.data, ms, sent)
        if self._conduit is None:
            self._conduit, self._scarce = sent, scarce
        self._head = begin + stored.head
        if sent.next == sent.base:
            sent.synch_ms = ms
        sent.push(stored)
        self._age(ms)
        return True

    def best_effort(self, sent: Sent, body: Message, ms: int) -> bool:
        """A message of best effort; False: the conduit drains, and it is dropped."""
        if sent.draining:
            return False
        body.conduit, body.sn = sent.id, sent.best_next % (1 << self.config.seq_bits)
        sent.best_next += 1
        self.put(sent.to, wire.encode(body), ms)
        self._age(ms)
        return True

    def synch(self, sent: Sent, ms: int, *, sync: bool = True) -> None:
        """Where the conduit stands. It is the point of synchronisation before what waits is looked at."""
        if sync:
            sent.synch_ms = ms
        circle, count = 1 << self.config.seq_bits, sent.next - sent.base
        said = Message(wire.SYNCH, sent.id, sent.next % circle, count=count or None)
        said.sync, said.reliable = sync, True
        self.alone(sent.to, wire.encode(said), ms)

    def due_ms(self, sent: Sent) -> int | None:
        """When the next SYNCH of the conduit is due."""
        return None if sent.next == sent.base else sent.synch_ms + self.config.synch_ms

    def answered(self, sent: Sent, member: int, said: Message, ms: int) -> None:
        """An ACKNACK of a conduit."""
        count = near(said.sn, sent.base, self.config.seq_bits)
        if not sent.base <= count <= sent.next:
            self.synch(sent, ms, sync=False)
            return
        sent.acknowledge(member, count)
        if said.mask is None:
            return
        if ms - sent.again_ms <= self.config.rtt_ms and count < sent.again_end:
            return
        wanted = sent.wanted(count, said.mask)
        if not wanted:
            return
        sent.again_ms, sent.again_end = ms, wanted[-1] + 1
        sent.synch_ms = ms
        for one in wanted:
            stored = sent.entries[one - sent.base]
            begin = self.put(sent.to, stored.written(sync=one == wanted[-1]), ms, sent)
            if self._conduit is None:
                self._conduit, self._scarce = sent, sent.scarce
            self._head = begin + stored.head
        self.flush(ms)
