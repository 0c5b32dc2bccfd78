"""
A strict stand-in for zhe, the reference peer: what it does, what it cannot do, and what kills it.

    input, tick ──► Zhe ──► outbox: (destination, bytes)
                     │
                     ├──► received: samples        ──► results: what became of its own commits
                     └──► violations: what the real one would not survive, or would answer by ending the session

It is made from the description of zhe alone (docs of the wire, part A; the numbers of its sections stand in the complaints)
and shares no code with pyddsi. Time is handed in; it is as poor as zhe: no room for what comes early, no repetition but of
what is asked for, housekeeping only when called.

As a program it speaks on real sockets: `python tests/real/zhe.py --help`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.real import zhe_bytes as wire
from tests.real.zhe_bytes import BadError, Declaration, FatalError, Message, Reader
from tests.real.zhe_conduits import Heard
from tests.real.zhe_config import P2P, Address, Config, valid
from tests.real.zhe_session import (
    BROKER,
    PEER,
    UNACCEPTABLE,
    Blame,
    Sessions,
    Slot,
    Violation,
)
from tests.real.zhe_tables import OK, OWN, Publication, Tables


@dataclass(frozen=True, slots=True)
class Received:
    """A sample as the application gets it: for which subscription, and the id (0: by name) that it came with."""

    subscription: int
    rid: int
    payload: bytes
    peer: bytes
    reliable: bool
    conduit: int


class Zhe(Sessions):
    """
    One zhe.

    step: how often, in seconds, housekeeping is called while there is something to do
    """

    def __init__(
        self, config: Config = P2P, peer_id: bytes = b"\xa0\xff", now: float = 0.0
    ) -> None:
        super().__init__(config, peer_id, now)
        self.received: list[Received] = []
        self.results: list[tuple[bytes, int, int, int]] = []
        self.violations: list[Violation] = []
        self.dead = False
        self.tables = Tables(config)
        self._callbacks: dict[int, Callable[[Received], None]] = {}
        self._step_ms = self._ms(now)
        # a transaction: what is still to be declared, calls until its commit, who has not answered
        self._fresh: tuple[list[Declaration], ...] = ([], [], [])
        self._commit_calls: int | None = None
        self._commit = 0
        self._waiting: set[int] = set()

    # ---- the application ----------------------------------------------------------------------------------------

    @property
    def outbox(self) -> list[tuple[Address, bytes]]:
        """Where what is to be sent; whoever drives it takes it from here."""
        return self.send.outbox

    def take(self) -> list[tuple[Address, bytes]]:
        """The same, taken."""
        out, self.send.outbox = self.send.outbox, []
        return out

    def resource(self, rid: int, uri: str) -> None:
        """Declare a name. What another name is known for is refused here."""
        declared = Declaration(wire.RESOURCE, rid, uri.encode())
        status, _ = self.tables.judge([declared])
        if status != OK:
            raise ValueError(f"resource {rid} = {uri}: status {status}")
        self.tables.apply([declared], OWN)
        if self.config.role == "peer" and self.config.uris:
            self._declare(0, declared)

    def publish(self, rid: int, *, reliable: bool = True, conduit: int = 0) -> None:
        """Declare a publication. A peer never says so."""
        self.tables.publications[rid] = Publication(rid, reliable, conduit)
        if self.config.role == "client":
            self._declare(1, Declaration(wire.PUBLICATION, rid))

    def subscribe(self, rid: int, callback: Callable[[Received], None] | None = None) -> None:
        """Declare a subscription."""
        self.tables.subscriptions.append(rid)
        if callback is not None:
            self._callbacks[rid] = callback
        self._declare(2, Declaration(wire.SUBSCRIPTION, rid))

    def payload_max(self, rid: int, conduit: int = 0) -> int:
        """The largest payload, by zhe's far too large reserve for sequence numbers."""
        ahead = 1 + (8 * self.config.seq_bits + 6) // 7 + len(wire.vle(rid << 1))
        left = self.config.packet_max - ahead - len(wire.marker(conduit))
        return left - (2 if left >= 130 else 1)

    def write(self, rid: int, payload: bytes, now: float) -> bool:
        """Write to a publication. False: its window is full. Without a subscriber nothing is sent, and all is well."""
        ms, pub = self._ms(now), self.tables.publications[rid]
        if len(payload) > self.payload_max(rid, pub.conduit):
            raise ValueError(f"§13 a payload of {len(payload)} bytes aborts a debug build")
        sent = self._output(pub.conduit)
        if self.dead or sent is None or not self.tables.wanted(rid):
            return True
        said = Message(wire.SDATA, rid=rid, payload=payload, reliable=pub.reliable)
        if not pub.reliable:
            self.send.best_effort(sent, said, ms)
            done = True
        else:
            done = self.send.reliable(sent, said, ms)
        if self.config.latency_ms == 0:
            self.send.flush(ms)
        return done

    def write_uri(self, uri: str, payload: bytes, now: float) -> bool:
        """Write by name: reliably on conduit 0, as soon as that has a member, whether or not anyone subscribes."""
        sent = self._output(0)
        if self.dead or sent is None or not sent.members:
            return True
        said = Message(wire.WDATA, uri=uri.encode(), payload=payload, reliable=True)
        done = self.send.reliable(sent, said, self._ms(now))
        if self.config.latency_ms == 0:
            self.send.flush(self._ms(now))
        return done

    def flush(self, now: float) -> None:
        """Send what waits for company."""
        self.send.flush(self._ms(now))

    def _declare(self, which: int, one: Declaration) -> None:
        if self.established:
            self._fresh[which].append(one)
            if self._commit_calls is None:
                self._commit_calls = self.config.commit_calls

    # ---- time ---------------------------------------------------------------------------------------------------

    def due(self) -> float:
        """When it is to be ticked next."""
        if self.dead:
            return math.inf
        times = [self._step_ms + 60_000, *self.due_sessions()]
        if any(any(slot.history) for slot in self._established()):
            times.append(self._step_ms + self.config.step_ms)
        if self._commit_calls is not None and not self._waiting:
            times.append(self._step_ms + self.config.step_ms)
        times += [ms for sent in self.outputs() if (ms := self.send.due_ms(sent)) is not None]
        if self.send.deadline_ms is not None:
            times.append(self.send.deadline_ms)
        return max(min(times), self._step_ms + self.config.step_ms) / 1000

    def tick(self, now: float) -> None:
        """Housekeeping."""
        ms = self._ms(now)
        if self.dead:
            return
        self._step_ms = ms
        self.expire(ms)
        for slot in self._established():
            self._tell(slot, ms)
        self._advance(ms)
        for sent in self.outputs():
            when = self.send.due_ms(sent)
            if when is not None and ms >= when:
                self.send.synch(sent, ms)
        self._look(ms)
        if self.send.deadline_ms is not None and ms >= self.send.deadline_ms:
            self.send.flush(ms)

    # ---- own declarations ---------------------------------------------------------------------------------------

    def began(self, slot: Slot) -> None:
        """What was declared before is told: by history, or where there is no unicast conduit by a transaction."""
        resources, publications, wanted = self.tables.own()
        if self.config.role == "client" or self.config.unicast is None:
            self._fresh = (resources, publications, wanted)
            self._commit_calls = self.config.commit_calls
            self._waiting.clear()
        else:
            slot.history = (resources, wanted)

    def ended(self, slot: Slot) -> None:
        """What the peer declared is forgotten, and nothing is expected of it any more."""
        self.tables.forget(slot.index)
        self._waiting.discard(slot.index)

    def _tell(self, slot: Slot, ms: int) -> None:
        """History: one resource and one subscription for each call, committed, to this peer alone."""
        for ahead in slot.history:
            if ahead and slot.unicast is not None:
                said = Message(wire.DECLARE, declarations=[ahead[0]], committed=True)
                if self.send.reliable(slot.unicast, said, ms):
                    del ahead[0]

    def _advance(self, ms: int) -> None:
        """A transaction: one of each for each call, and after all calls of its cursors the commit."""
        sent = self._output(0)
        if self._commit_calls is None or self._waiting or sent is None:
            return
        for ahead in self._fresh:
            if ahead and self.send.reliable(
                sent, Message(wire.DECLARE, declarations=[ahead[0]]), ms
            ):
                del ahead[0]
        if self._commit_calls > 0:
            self._commit_calls -= 1
            return
        commit = Declaration(wire.COMMIT, commit=self._commit)
        if not any(self._fresh) and self.send.reliable(
            sent, Message(wire.DECLARE, declarations=[commit]), ms
        ):
            self._commit = (self._commit + 1) % 256
            self._commit_calls = None
            self._waiting = {slot.index for slot in self._established()}

    # ---- input --------------------------------------------------------------------------------------------------

    def input(self, data: bytes, source: Address, now: float) -> None:
        """A packet comes."""
        ms = self._ms(now)
        if self.dead:
            return

        def blame(kind: str, sentence: str) -> None:
            self.violations.append(Violation(kind, sentence, source, data, now))

        slot = self._slot(source)
        if slot is not None and slot.established:
            slot.heard_ms, slot.fresh = ms, False
        most = self.config.packet_max
        if len(data) > most:
            blame("odd", f"§1 limit {most} bytes, not {len(data)}")
        reader = Reader(data, self.config.limits)
        try:
            for message in reader.messages():
                slot = self._slot(source)
                self._handle(message, slot, source, ms, blame)
        except BadError as error:
            slot = self._slot(source)
            blame("odd" if slot is None else "drop", str(error))
            if slot is not None:
                self._drop(slot)
        except FatalError as error:
            blame("fatal", str(error))
            self.dead = True
            self.send.outbox.clear()
        for sentence in reader.oddities:
            blame("odd", sentence)

    def _handle(
        self,
        said: Message,
        slot: Slot | None,
        source: Address,
        ms: int,
        blame: Blame,
    ) -> None:
        client = self.config.role == "client"
        match said.kind:
            case 1 if (said.mask or 0) & self.bit and slot is None and not client:
                if None in self.slots:
                    hello = Message(wire.HELLO, mask=self.bit, locators=self.config.locators)
                    self.send.alone(source, wire.encode(hello), ms)
            case 2 if (said.mask or 0) & (BROKER if client else BROKER | PEER):
                self._hello(said, slot, source, ms)
            case 3 if not client:
                self._opened(said, slot, source, ms, blame)
            case 4:
                self._accepted(said, slot, source, ms)
            case 5:
                ended = slot or self._moved(said.id, source)
                if ended is not None:
                    self._drop(ended)
            case 12:
                if said.sn >> 16:
                    blame("odd", "§11 a PING hash above 16 bits gets no answer")
                else:
                    pong = Message(wire.PONG, sn=said.sn)
                    self.send.alone(source, wire.encode(pong), ms)
            case 16 if slot is None or not slot.established:
                self._moved(said.id, source)
            case 6 | 7 | 9 | 14 | 15 if slot is not None and slot.established:
                self._on_conduit(said, slot, ms, blame)

    # ---- conduits -----------------------------------------------------------------------------------------------

    def _on_conduit(self, said: Message, slot: Slot, ms: int, blame: Blame) -> None:
        if said.kind == wire.ACKNACK:
            sent = slot.unicast if said.conduit == self.config.unicast else None
            if sent is None and said.conduit < len(self.multicast):
                sent = self.multicast[said.conduit]
            if sent is None:
                blame("odd", f"§4 ACKNACK of conduit {said.conduit}, which nothing was sent on")
            else:
                self.send.answered(sent, slot.index, said, ms)
            return
        heard = slot.heard[said.conduit]
        if said.kind == wire.SYNCH:
            heard.synch(said.sn, said.count or 0)
            if said.sync:
                self._acknack(slot, said.conduit, heard, ms)
        elif not said.reliable:
            if heard.best(said.sn):
                self._deliver(said, slot, reliable=False)
        elif heard.synched:
            if not heard.early(said.sn) and self._effect(said, slot, ms, blame):
                heard.took()
            if self.slots[slot.index] is not slot:
                return
            asks = heard.missing is not None and ms - heard.answered_ms > self.config.rtt_ms
            if said.sync or asks:
                self._acknack(slot, said.conduit, heard, ms)

    def _acknack(self, slot: Slot, conduit: int, heard: Heard, ms: int) -> None:
        sn = heard.expected % (1 << self.config.seq_bits)
        said = Message(wire.ACKNACK, conduit, sn, heard.missing)
        heard.answered_ms = ms
        self.send.alone(slot.address, wire.encode(said), ms)

    def _effect(self, said: Message, slot: Slot, ms: int, blame: Blame) -> bool:
        """The next message in order; whether it counts as received."""
        if said.kind != wire.DECLARE:
            self._deliver(said, slot, reliable=True)
            return True
        if said.committed:
            status, fault = self.tables.judge(said.declarations)
            if status == OK:
                self.tables.apply(said.declarations, slot.index)
            else:
                blame("close", f"§10 a C declaration that cannot be accepted: {status} of {fault}")
                self._close(slot, UNACCEPTABLE, ms)
            return True
        kept = list(slot.kept)
        for one in said.declarations:
            if one.kind == wire.RESULT:
                self.results.append((slot.id, one.commit, one.status, one.rid))
                if one.status != OK:  # one of status 0 is not registered
                    self._waiting.discard(slot.index)
            elif one.kind == wire.COMMIT:
                if not self._answer(one.commit, kept, slot, ms):
                    return False
                kept = []
            else:
                kept.append(one)
        slot.kept = kept
        return True

    def _answer(self, commit: int, kept: Iterable[Declaration], slot: Slot, ms: int) -> bool:
        """The result of a commit; False: the answering window is full, and it counts as not received."""
        status, fault = self.tables.judge(kept)
        result = Declaration(wire.RESULT, commit=commit, status=status, doubled=fault)
        sent = slot.unicast or self.multicast[0]
        if not self.send.reliable(sent, Message(wire.DECLARE, declarations=[result]), ms):
            return False
        if status == OK:
            self.tables.apply(kept, slot.index)
        return True

    def _deliver(self, said: Message, slot: Slot, *, reliable: bool) -> None:
        if said.kind == wire.WDATA:
            if self.config.uris and not valid(said.uri, self.config.uri_max):
                raise BadError(f"§7 an invalid URI in a WDATA ends the session: {said.uri!r}")
            readers = self.tables.readers_by_uri(said.uri)
        else:
            readers = self.tables.readers(said.rid)
        for subscription in readers:
            sample = Received(subscription, said.rid, said.payload, slot.id, reliable, said.conduit)
            self.received.append(sample)
            if subscription in self._callbacks:
                self._callbacks[subscription](sample)


if __name__ == "__main__":
    from tests.real.zhe_udp import main

    sys.exit(main())
