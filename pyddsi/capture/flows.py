"""
What can be said of the messages of a capture, as docs/inside/capture.md says it, in plain Python and by nothing but that page.

    packets of a capture, their messages ──► Follower ──► columns: {"kind": 7, "sn": 3, "usn": 3, "seq_event": 0, ...}

The columns are the page's, those that are not null, and beside them "first_frame" and "missing", which only people want
who look at packets. It takes its time and is for captures that people look at; it is also what other implementations of
the page are compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyddsi import wire
from pyddsi.capture import Endpoint

Columns = dict[str, Any]

FIRST, NEXT, GAP, REPEAT, FILL, OLD, RESET, AMBIGUOUS, PRE_SYNC = 1, 0, 2, 3, 4, 5, 6, 7, 8
EVENTS = {
    FIRST: "first",
    NEXT: "next",
    GAP: "gap before",
    REPEAT: "repeat",
    FILL: "fills a gap",
    OLD: "old",
    RESET: "reset",
    AMBIGUOUS: "ambiguous",
    PRE_SYNC: "pre-sync",
}
"""The values of `seq_event`."""

MARKERS = (wire.Conduit, wire.Frag, wire.RSpace)
"""What is no message and has no columns."""

HISTORY = 2048  # numbers that a flow remembers
FAR = 2**31  # a number as far away as this is not of the counter
BITS = 14  # of a number, until something else is known
SEQUENCE_BITS_PROPERTY = 4

_EITHER_WAY = (wire.SData, wire.BData, wire.WData, wire.Synch)
_SOLICITS = (wire.Declare, wire.Pull, *_EITHER_WAY)
_ALWAYS_RELIABLE = (wire.Declare, wire.Pull, wire.Migrate)
_NUMBERED = (*_SOLICITS, wire.AckNack)
_COUNTED = (wire.Declare, wire.Pull, wire.SData, wire.BData, wire.WData)
_NAMED = (wire.SData, wire.BData, wire.Pull)
_ON_CONDUITS = (*_NUMBERED, wire.Migrate)


class Where(NamedTuple):
    """Where a message came: the frame's number and time, and whose it is."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint


def signed(rid: int) -> int:
    """An id as the columns have it."""
    return -int(rid) if isinstance(rid, wire.SelectionId) else int(rid)


def micros(since: int | None, now: int | None) -> int | None:
    """Whole microseconds between two times."""
    if since is None or now is None or now < since:
        return None
    return (now - since) // 1000


@dataclass(slots=True)
class _First:
    """When a number first came, in which frame, and whether it was before any SYNCH."""

    time_ns: int | None
    frame: int
    pre_sync: bool


@dataclass(slots=True)
class _Flow:
    """One counter of a sender, in one epoch."""

    text: str
    reliable: bool
    epoch: int = 0
    base: int | None = None  # the epoch's first number
    highest: int = 0
    missing: int = 0
    firsts: dict[int, _First] = field(default_factory=dict)
    lives: int = 0  # of the sender, at the last message
    handshakes: int = 0
    asked_for_0: bool = False
    synch: int | None = None  # handshakes of the sender at the last SYNCH
    covered: int = 0
    solicits: int = 0  # messages that asked for an ACKNACK, and when the last one came
    solicit_ns: int | None = None
    answered: dict[Endpoint, int] = field(default_factory=dict)

    def unwrap(self, sn: int, bits: int) -> int:
        """The number nearest to the highest, of two the lower."""
        half = 1 << bits - 1
        return self.highest + (sn - self.highest + half) % (1 << bits) - half

    def place(self, sn: int, bits: int) -> tuple[int, int | None]:
        """What a number is to a flow that has begun."""
        usn = self.unwrap(sn, bits)
        ahead = usn - self.highest
        if abs(ahead) >= FAR:
            return AMBIGUOUS, None
        if ahead > 0:
            return (NEXT if ahead == 1 else GAP), usn
        if not self.reliable:
            return OLD, usn
        if ahead <= -HISTORY or self.base is None or usn < self.base:
            return AMBIGUOUS, usn
        if usn not in self.firsts:
            return FILL, usn
        return (PRE_SYNC if self.firsts[usn].pre_sync else REPEAT), usn

    def rise(self, usn: int) -> None:
        """The highest is another one, and what falls out of the history is forgotten."""
        for gone in range(self.highest + 1, min(usn, self.highest + HISTORY) + 1):
            self.firsts.pop(gone - HISTORY, None)
        self.highest = usn

    def restart(self, synch: int | None) -> None:
        """Begin an epoch, which has nothing of the one before; its first number is the caller's to set."""
        self.epoch += 1
        self.missing = self.solicits = 0
        self.firsts, self.answered = {}, {}
        self.asked_for_0, self.synch = False, synch

    def solicit(self, where: Where) -> None:
        """An ACKNACK is asked for."""
        self.solicits += 1
        self.solicit_ns = where.time_ns


@dataclass(slots=True)
class _Sender:
    """What is known of an endpoint."""

    bits: int | None = None
    peer_id: bytes | None = None
    lives: int = 0
    handshakes: int = 0
    synched: set[int] = field(default_factory=set)
    names: dict[tuple[int, int], str] = field(default_factory=dict)


class Follower:
    """
    Follows the messages of a capture in their order.

    UDP and TCP endpoints are never the same, so what comes over the one and over the other has a follower of its own.
    seq_bits: the length of sequence numbers, if it is not to be as announced
    """

    def __init__(self, seq_bits: int | None = None) -> None:
        self.seq_bits = seq_bits
        self._senders: dict[Endpoint, _Sender] = {}
        self._flows: dict[tuple[Endpoint, int, bool, Endpoint | None], _Flow] = {}

    def follow(self, where: Where, message: wire.Message) -> Columns:
        """The columns of the next message; a marker has none."""
        if isinstance(message, MARKERS):
            return {}
        columns: Columns = {"kind": message.KIND}
        if isinstance(message, _SOLICITS):
            columns["solicit"] = message.sync
        if isinstance(message, _ALWAYS_RELIABLE):
            columns["reliable"] = True
        elif isinstance(message, _EITHER_WAY):
            columns["reliable"] = message.reliable
        if isinstance(message, _ON_CONDUITS):
            columns["conduit"] = message.conduit
        if isinstance(message, _NUMBERED):
            columns["sn"] = message.sn
        self._contents(where, message, columns)
        if isinstance(message, (wire.Hello, wire.Open, wire.Accept)):
            self._handshake(where, message)
        elif isinstance(message, _COUNTED):
            self._count(where, message, columns)
        elif isinstance(message, wire.Migrate):
            columns["flow"] = self._flow(where, message.conduit, reliable=True).text
        elif isinstance(message, wire.Synch):
            self._synch(where, message, columns)
        elif isinstance(message, wire.AckNack):
            self._acknack(where, message, columns)
        return {name: value for name, value in columns.items() if value is not None}

    def _sender(self, endpoint: Endpoint) -> _Sender:
        return self._senders.setdefault(endpoint, _Sender())

    def _bits(self, endpoint: Endpoint) -> int:
        return self.seq_bits or self._sender(endpoint).bits or BITS

    def _flow(self, where: Where, conduit: int, *, reliable: bool) -> _Flow:
        """The flow of a message, which begins if it is new."""
        source, to = where.source, where.destination
        one = None if to.multicast else to
        key = source, conduit, reliable, one
        if key not in self._flows:
            word = "reliable" if reliable else "best effort"
            flow = _Flow(f"{source} → {one or 'multicast'} c{conduit} {word}", reliable)
            if one is None and conduit in self._sender(source).synched:
                flow.synch = -1
            self._flows[key] = flow
        return self._flows[key]

    def _told(self, source: Endpoint, conduit: int, to: Endpoint) -> _Flow | None:
        """The flow that a SYNCH or an ACKNACK is about, if there is one."""
        multicast = self._flows.get((source, conduit, True, None))
        if multicast is not None and multicast.base is not None:
            return multicast
        return self._flows.get((source, conduit, True, to))

    def _contents(self, where: Where, message: wire.Message, columns: Columns) -> None:
        """The columns that say what is in it, and the names that a DECLARE gives."""
        names = self._sender(where.source).names
        match message:
            case wire.WData():
                columns |= {"uri": message.uri, "payload_len": len(message.payload)}
            case wire.SData():
                columns["payload_len"] = len(message.payload)
            case wire.BData():
                columns["payload_len"] = sum(len(sample.payload) for sample in message.samples)
            case wire.Synch():
                columns["outstanding"] = message.count or 0
            case wire.AckNack() if message.mask is not None:
                columns |= {"nack_mask": message.mask, "nacked": 1 + message.mask.bit_count()}
            case wire.Declare():
                for declaration in message.declarations:
                    if isinstance(declaration, wire.Resource):
                        names[message.space, signed(declaration.id)] = declaration.uri
                    elif isinstance(declaration, wire.ForgetResource):
                        names.pop((message.space, signed(declaration.id)), None)
        if isinstance(message, (*_NAMED, wire.Migrate)) and message.rid is not None:
            columns["rid"] = signed(message.rid)
            if isinstance(message, _NAMED):
                named = getattr(message, "data_rid", None) or message.rid
                columns["uri"] = names.get((message.space, signed(named)))

    def _handshake(self, where: Where, message: wire.Hello | wire.Open | wire.Accept) -> None:
        """The bits, and the lives of the sender."""
        sender = self._sender(where.source)
        sender.handshakes += 1
        if isinstance(message, wire.Hello):
            return
        if isinstance(message, wire.Open):
            sender.bits = _announced(message, sender.bits)
            said = bytes(message.id)
        else:
            sender.bits = self._sender(where.destination).bits or sender.bits
            said = bytes(message.acceptor)
        if sender.peer_id not in {None, said}:
            sender.lives += 1
            sender.synched.clear()
        sender.peer_id = said

    def _count(self, where: Where, message: Any, columns: Columns) -> None:
        """A message that counts."""
        sender = self._sender(where.source)
        flow = self._flow(where, message.conduit, reliable=columns["reliable"])
        sn, bits = message.sn, self._bits(where.source)
        usn: int | None = None
        event = AMBIGUOUS if sn >> bits else self._begin(flow, sender, sn, bits)
        if event in {FIRST, RESET}:
            usn = flow.base = flow.highest = flow.covered = sn
        elif event is None:
            event, usn = flow.place(sn, bits)
        if event == GAP and usn is not None:
            columns["gap"] = usn - flow.highest - 1
            flow.missing += columns["gap"]
        elif event == FILL:
            flow.missing -= 1
        elif event in {REPEAT, PRE_SYNC} and usn is not None:
            first = flow.firsts[usn]
            columns["since_first_us"] = micros(first.time_ns, where.time_ns)
            columns["first_frame"] = first.frame
        if event in {NEXT, GAP} and usn is not None:
            flow.rise(usn)
        if event in {FIRST, RESET, NEXT, GAP, FILL} and usn is not None:
            flow.firsts[usn] = _First(where.time_ns, where.number, flow.synch is None)
        if sn == 0:
            flow.asked_for_0 = False
        if message.sync:  # of best effort nobody asks how it was answered
            flow.solicit(where)
        flow.lives, flow.handshakes = sender.lives, sender.handshakes
        columns |= {"flow": flow.text, "epoch": flow.epoch, "usn": usn, "seq_event": event}
        columns["missing"] = flow.missing

    def _begin(self, flow: _Flow, sender: _Sender, sn: int, bits: int) -> int | None:
        """Whether the flow begins, or an epoch of it."""
        if flow.base is None:
            return FIRST
        again = (
            sn == 0
            and flow.highest >= 1
            and sender.handshakes > flow.handshakes
            and flow.unwrap(sn, bits) != flow.highest + 1
            and not flow.asked_for_0
        )
        if not again and sender.lives == flow.lives:
            return None
        synch = flow.synch if flow.synch == sender.handshakes else None
        flow.restart(synch)
        return RESET

    def _synch(self, where: Where, message: wire.Synch, columns: Columns) -> None:
        source, conduit = where.source, message.conduit
        sender = self._sender(source)
        sender.synched.add(conduit)
        own = self._flow(where, conduit, reliable=True)
        own.synch = sender.handshakes
        multicast = self._flows.get((source, conduit, True, None))
        if multicast is not None:
            multicast.synch = sender.handshakes
        flow = self._told(source, conduit, where.destination) or own
        if message.sync:
            flow.solicit(where)
        columns |= {"flow": flow.text, "epoch": flow.epoch}

    def _acknack(self, where: Where, message: wire.AckNack, columns: Columns) -> None:
        peer, source = where.source, where.destination
        flow = self._told(source, message.conduit, peer)
        if flow is None:
            return
        columns |= {"flow": flow.text, "epoch": flow.epoch}
        if flow.answered.get(peer, 0) != flow.solicits:
            flow.answered[peer] = flow.solicits
            columns["answer_us"] = micros(flow.solicit_ns, where.time_ns)
        if message.sn == 0 and message.mask is not None:
            flow.asked_for_0 = True
        bits = self._bits(source)
        if message.sn >> bits:
            return
        if flow.base is None:
            columns["ack_usn"] = message.sn
            return
        usn = flow.unwrap(message.sn, bits)
        if abs(usn - flow.highest) >= FAR:
            return
        columns["ack_usn"] = usn
        end = min(usn, flow.highest + 1)
        if end > flow.covered:
            flow.covered = end
            first = flow.firsts.get(end - 1)
            columns["delivery_us"] = first and micros(first.time_ns, where.time_ns)


def _announced(message: wire.Open, before: int | None) -> int | None:
    """The bits that an OPEN says."""
    for found in message.properties or ():
        if found.id == SEQUENCE_BITS_PROPERTY:
            value = _number(bytes(found.value))
            return value if value is not None and 7 <= value <= 56 else before
    return BITS


def _number(data: bytes) -> int | None:
    """The number that some bytes are, if they are one."""
    if not data or len(data) > 10 or data[-1] > 0x7F or any(byte < 0x80 for byte in data[:-1]):
        return None
    return sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data))
