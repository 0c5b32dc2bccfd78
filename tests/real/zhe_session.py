"""
The sessions of the stand-in: whom it looks for, greets, opens and drops.

    none ──HELLO──► opening 1 .. 5 ──ACCEPT, OPEN──► established ──CLOSE, bad bytes, lease──► none
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.real import zhe_bytes as wire
from tests.real.zhe_bytes import Declaration, Message
from tests.real.zhe_conduits import Heard, Sent
from tests.real.zhe_config import ID_MAX, LEASE_MAX, Address, Config, locator
from tests.real.zhe_send import Sender

BROKER, PEER = 1, 4
LEASE_UNIT_MS = 100
OTHER, VERSION, LENGTH, UNACCEPTABLE = 255, 2, 4, 6

Blame = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Violation:
    """
    What somebody sent that a correct peer would not.

    kind: "fatal": the real one is dead; "drop": it drops the session without a word; "close": it drops it with a CLOSE;
        "refuse": it does not open one; "odd": it does not mind, but nobody should send it
    """

    kind: str
    sentence: str
    source: Address
    data: bytes
    at: float

    def __str__(self) -> str:
        return f"{self.at:.6f} {self.source[0]}:{self.source[1]} {self.kind}: {self.sentence}: {self.data.hex(' ')}"


@dataclass(slots=True, eq=False)
class Slot:
    """A place for a peer."""

    index: int
    address: Address
    locators: list[bytes]
    established: bool = False
    id: bytes = b""
    lease_ms: int = 0
    heard_ms: int = 0
    fresh: bool = True
    opens: int = 0
    open_ms: int = 0
    heard: dict[int, Heard] = field(default_factory=dict)
    unicast: Sent | None = None
    history: tuple[list[Declaration], list[Declaration]] = field(default_factory=lambda: ([], []))
    kept: list[Declaration] = field(default_factory=list)


class Sessions:
    """The half of a zhe that knows its peers. The other half is told when a session begins and ends."""

    def __init__(self, config: Config, peer_id: bytes, now: float) -> None:
        self.config = config
        self.id = peer_id
        self.slots: list[Slot | None] = [None] * config.peers_max
        self.send = Sender(config)
        self.multicast = [
            Sent(i, config.destination(i), config.multicast_bytes, config.multicast_samples)
            for i in range(config.multicasts)
        ]
        self._scout_ms = self._ms(now) + config.scout_ms
        self._scouts = config.scout_count
        self._alive_ms: int | None = None

    def began(self, slot: Slot) -> None:
        """A session was made."""
        raise NotImplementedError

    def ended(self, slot: Slot) -> None:
        """A session, or an attempt at one, is over."""
        raise NotImplementedError

    @staticmethod
    def _ms(now: float) -> int:
        return int(now * 1000 + 1e-6)

    @property
    def peers(self) -> list[bytes]:
        """The ids of those it has a session with."""
        return [slot.id for slot in self._established()]

    @property
    def established(self) -> bool:
        """Whether there is a session with anybody."""
        return any(slot is not None and slot.established for slot in self.slots)

    @property
    def bit(self) -> int:
        """What it says that it is."""
        return BROKER if self.config.role == "broker" else PEER

    def disconnected(self, source: Address) -> None:
        """The connection by which this one was reached is over."""
        slot = self._slot(source)
        if slot is not None:
            self._drop(slot)

    def talks_to(self, source: Address) -> bool:
        """Whether there is a session, or an attempt at one, with this one."""
        return self._slot(source) is not None

    # ---- time ---------------------------------------------------------------------------------------------------

    def due_sessions(self) -> list[int]:
        """When something of this half is due."""
        times = [slot.open_ms + self.config.open_ms + 1 for slot in self._opening()]
        for slot in self._established():
            if slot.lease_ms:
                times.append(slot.heard_ms + slot.lease_ms * (2 if slot.fresh else 1) + 1)
        if self._scouts != 0 and not (self.config.role == "client" and self.established):
            times.append(self._scout_ms)
        if (alive := self._alive_due()) is not None:
            times.append(alive)
        return times

    def expire(self, ms: int) -> None:
        """Leases that have ended, and OPENs without an answer."""
        for slot in self._established():
            wait = slot.lease_ms * (2 if slot.fresh else 1)
            if slot.lease_ms and ms - slot.heard_ms > wait:
                self._close(slot, 0, ms)
        for slot in self._opening():
            if ms - slot.open_ms > self.config.open_ms:
                self._open(slot, ms)

    def _look(self, ms: int) -> None:
        """SCOUT and KEEPALIVE, which share a packet."""
        client = self.config.role == "client"
        begun = False
        if self._scouts != 0 and ms >= self._scout_ms and not (client and self.established):
            broker = self.config.role == "broker"
            looked_for = BROKER if client else PEER if broker else BROKER | PEER
            said = Message(wire.SCOUT, mask=looked_for)
            self.send.flush(ms)
            self.send.put(self.config.scouting, wire.encode(said), ms)
            begun = True
            self._scout_ms = ms + self.config.scout_ms
            if self._scouts is not None:
                self._scouts -= 1
                self._alive_ms = ms if self._scouts == 0 else None
        due = self._alive_due()
        if due is not None and ms >= due:
            said = Message(wire.KEEPALIVE, id=self.id)
            if not begun:
                self.send.flush(ms)
            self.send.put(self.config.scouting, wire.encode(said), ms)
            begun = True
            self._alive_ms = ms + self.config.scout_ms
        if begun:
            self.send.flush(ms)

    def _alive_due(self) -> int | None:
        if not self.established:
            return None
        if self.config.role == "client":
            return self.send.last_ms + self.config.scout_ms if self.config.lease else None
        return self._alive_ms

    # ---- slots --------------------------------------------------------------------------------------------------

    def _established(self) -> list[Slot]:
        return [slot for slot in self.slots if slot is not None and slot.established]

    def _opening(self) -> list[Slot]:
        return [slot for slot in self.slots if slot is not None and not slot.established]

    def _slot(self, source: Address) -> Slot | None:
        found = (slot for slot in self.slots if slot is not None and slot.address == source)
        return next(found, None)

    def _park(self, source: Address, locators: list[bytes]) -> Slot | None:
        """A free place; None: all are taken, and nobody is answered."""
        if None not in self.slots:
            return None
        index = self.slots.index(None)
        slot = self.slots[index] = Slot(index, source, locators)
        return slot

    def outputs(self) -> list[Sent]:
        """All conduits that it sends on now."""
        return self.multicast + [s.unicast for s in self._established() if s.unicast is not None]

    def _output(self, conduit: int) -> Sent | None:
        """The conduit that samples go on: of a client the one to its broker."""
        if conduit < len(self.multicast):
            return self.multicast[conduit]
        found = (slot.unicast for slot in self._established())
        return next(found, None) if not self.multicast else None

    def _drop(self, slot: Slot) -> None:
        """Everything about a peer is forgotten, silently."""
        self.slots[slot.index] = None
        for sent in self.multicast:
            sent.members.pop(slot.index, None)
            sent.release()
        self.ended(slot)

    def _close(self, slot: Slot, reason: int, ms: int) -> None:
        said = Message(wire.CLOSE, id=self.id, reason=reason)
        self.send.alone(slot.address, wire.encode(said), ms)
        self._drop(slot)

    def _open(self, slot: Slot, ms: int) -> None:
        """The next OPEN to this one, or none any more."""
        if not slot.established:
            if slot.opens == self.config.opens:
                self._drop(slot)
                return
            slot.opens, slot.open_ms = slot.opens + 1, ms
        said = Message(wire.OPEN, id=self.id, lease=self.config.lease)
        said.locators = self.config.locators
        bits = self.config.seq_bits
        length = {} if bits == 14 else {wire.SEQUENCE_BITS: wire.vle(bits)}
        said.properties = length | {12: b"\x02\x03"} | dict(self.config.boast)
        self.send.alone(slot.address, wire.encode(said), ms)

    def _accept(self, slot: Slot, opener: bytes, ms: int) -> None:
        said = Message(wire.ACCEPT, id=opener, acceptor=self.id, lease=self.config.lease)
        said.properties = {12: b"\x02\x03"} | dict(self.config.boast)
        self.send.alone(slot.address, wire.encode(said), ms)

    def _establish(self, slot: Slot, peer_id: bytes, lease: int, ms: int) -> None:
        config = self.config
        slot.established, slot.id, slot.lease_ms = True, peer_id, lease * LEASE_UNIT_MS
        slot.heard_ms, slot.fresh = ms, True
        client = config.role == "client"
        slot.heard = {i: Heard(config.seq_bits, client) for i in range(config.conduits_in)}
        for sent in self.multicast:
            if locator(sent.to) in slot.locators:
                sent.members[slot.index] = sent.next
        if config.unicast is not None:
            slot.unicast = Sent(
                config.unicast, slot.address, config.unicast_bytes, config.unicast_samples
            )
            slot.unicast.members[slot.index] = 0
        self.began(slot)

    def _moved(self, peer_id: bytes, source: Address) -> Slot | None:
        """The session of this id goes on from this address, if there is one."""
        for slot in self._established():
            if slot.id == peer_id:
                slot.address = source
                if slot.unicast is not None:
                    slot.unicast.to = source
                return slot
        return None

    # ---- handshakes ---------------------------------------------------------------------------------------------

    def _hello(self, said: Message, slot: Slot | None, source: Address, ms: int) -> None:
        if slot is None:
            slot = self._park(source, said.locators)
        elif slot.established:
            for heard in slot.heard.values():
                heard.synched = self.config.role == "client"
        else:
            return
        if slot is not None:
            self._open(slot, ms)

    def _refusal(self, said: Message) -> tuple[int | None, str] | None:
        """Why an OPEN is refused: the reason, None if it is not even named, and the sentence."""
        length = (said.properties or {}).get(wire.SEQUENCE_BITS)
        if length is not None and length != wire.vle(self.config.seq_bits):
            value = "empty" if not length else f"not {self.config.seq_bits}"
            return (LENGTH if length else OTHER), f"§6 OPEN: property 4 is {value}: {length.hex()}"
        if said.version != 1:
            return VERSION, f"§6 OPEN: version {said.version} is not 1"
        if not 1 <= len(said.id) <= ID_MAX:
            return OTHER, f"§6 OPEN: an id of {len(said.id)} bytes"
        if said.lease > LEASE_MAX:
            return OTHER, f"§6 OPEN: lease {said.lease} above {LEASE_MAX}"
        if said.id == self.id:
            return None, "§6 OPEN with the receiver's own id"
        return None

    def _opened(
        self,
        said: Message,
        slot: Slot | None,
        source: Address,
        ms: int,
        blame: Blame,
    ) -> None:
        refusal = self._refusal(said)
        if refusal is not None:
            reason, sentence = refusal
            blame("refuse", sentence)
            if reason is not None and self.config.unicast is None:
                # with a unicast conduit it is discarded before it leaves; without one it waits for the next packet
                close = Message(wire.CLOSE, id=self.id, reason=reason)
                self.send.put(source, wire.encode(close), ms)
            if slot is not None:
                self._drop(slot)
            return
        if wire.SEQUENCE_BITS not in (said.properties or {}) and self.config.seq_bits != 14:
            blame("refuse", "§17.3 property 4 unless 14 bits: its absence fails on a large number")
        if slot is None or not slot.established:
            moved = self._moved(said.id, source)
            slot = moved or slot or self._park(source, said.locators)
        if slot is None:
            return
        self._accept(slot, said.id, ms)
        if not slot.established:
            self._establish(slot, said.id, said.lease, ms)

    def _accepted(self, said: Message, slot: Slot | None, source: Address, ms: int) -> None:
        if slot is not None and slot.established:
            return
        if self._moved(said.acceptor, source) is None and slot is not None and said.id == self.id:
            self._establish(slot, said.acceptor, said.lease, ms)
