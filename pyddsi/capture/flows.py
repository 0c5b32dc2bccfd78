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

_NEW = (FIRST, RESET, NEXT, GAP, FILL)

MARKERS = (wire.Conduit, wire.Frag, wire.RSpace)
"""What is no message and has no columns."""

HISTORY = 8192  # numbers of a flow whose times are remembered
STRETCHES = 64  # stretches of missing numbers of a flow that are remembered
PACE_MESSAGES = 16  # what a flow's pace is told from, at least
FAR = 2**31  # a number as far away as this is not of the counter
BITS = 14  # of a number, until something else is known,
LONGER = (14, 28, 56)  # and where one does not fit
BITS_MAX = 56
SEQUENCE_BITS_PROPERTY = 4

_EITHER_WAY = (wire.SData, wire.BData, wire.WData, wire.Synch)
_SOLICITS = (wire.Declare, wire.Pull, *_EITHER_WAY)
_ALWAYS_RELIABLE = (wire.Declare, wire.Pull, wire.Migrate)
_NUMBERED = (*_SOLICITS, wire.AckNack)
_COUNTED = (wire.Declare, wire.Pull, wire.SData, wire.BData, wire.WData)
_GIVES_NAME = (wire.Resource, wire.Selection)
_TAKES_NAME = (wire.ForgetResource, wire.ForgetSelection)
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
    """When a number first came, and in which frame."""

    time_ns: int | None
    frame: int


@dataclass(slots=True)
class _Flow:
    """One counter of a sender, in one epoch."""

    text: str
    reliable: bool
    group_conduit: int | None  # of a reliable flow to groups
    epoch: int = 0
    bits: int = BITS
    begun: bool = False
    lowest: int = 0  # below it nothing is known: the epoch's first number, at first
    highest: int = 0
    missing: int = 0
    stretches: list[tuple[int, int]] = field(default_factory=list)  # from and to, both missing
    firsts: dict[int, _First] = field(default_factory=dict)
    lives: int = 0  # of the sender, at the last message
    handshakes: int = 0
    asked_for_0: bool = False
    synch: int | None = None  # handshakes of the sender at the last SYNCH,
    before_synch: int | None = None  # and the highest at the first
    seen: int = 0  # messages of this epoch, when the first came and the last
    begun_ns: int | None = None
    last_ns: int | None = None
    covered: int = 0
    solicits: int = 0  # messages that asked for an ACKNACK, and when the last one came
    solicit_ns: int | None = None
    answered: dict[Endpoint, int] = field(default_factory=dict)

    def unwrap(self, sn: int) -> int:
        """The number nearest to the highest, of two the lower."""
        half = 1 << self.bits - 1
        return self.highest + (sn - self.highest + half) % (1 << self.bits) - half

    def place(self, sn: int, now: int | None) -> tuple[int, int | None]:
        """What a number is to a flow that has begun."""
        usn = self.unwrap(sn)
        ahead = usn - self.highest
        if abs(ahead) >= FAR:
            return AMBIGUOUS, None
        if ahead > 1 and self.could_have_wrapped(now):
            return AMBIGUOUS, usn
        if ahead > 0:
            return (NEXT if ahead == 1 else GAP), usn
        if not self.reliable:
            return OLD, usn
        if usn < self.lowest:
            return AMBIGUOUS, usn
        if any(low <= usn <= high for low, high in self.stretches):
            return FILL, usn
        early = self.synch is None or (self.before_synch is not None and usn <= self.before_synch)
        return (PRE_SYNC if early else REPEAT), usn

    def could_have_wrapped(self, now: int | None) -> bool:
        """Whether it could have gone half round since its last message, at its own pace."""
        if now is None or self.begun_ns is None or self.last_ns is None:
            return False
        lived, silent = self.last_ns - self.begun_ns, now - self.last_ns
        if self.seen < PACE_MESSAGES or lived <= 0 or silent <= 0:
            return False
        return silent * self.seen > lived << self.bits - 1

    def rise(self, usn: int) -> None:
        """The highest is another one, and what falls out of the history is forgotten."""
        for gone in range(self.highest + 1, min(usn, self.highest + HISTORY) + 1):
            self.firsts.pop(gone - HISTORY, None)
        self.highest = usn

    def lack(self, low: int, high: int) -> None:
        """These did not come; of best effort nobody sends them again."""
        if self.reliable:
            self.stretches.append((low, high))
            self._forget()

    def fill(self, usn: int) -> None:
        """This one of them came."""
        at = next(i for i, (low, high) in enumerate(self.stretches) if low <= usn <= high)
        low, high = self.stretches[at]
        rest = [(low, usn - 1), (usn + 1, high)]
        self.stretches[at : at + 1] = [(low, high) for low, high in rest if low <= high]
        self._forget()

    def _forget(self) -> None:
        if len(self.stretches) > STRETCHES:
            self.lowest = self.stretches.pop(0)[1] + 1

    def begin(self, usn: int) -> None:
        """Nothing is known of what is below this number."""
        self.begun, self.lowest, self.highest = True, usn, usn
        self.stretches, self.firsts = [], {}

    def restart(self, synch: int | None) -> None:
        """Begin an epoch, which has nothing of the one before; its first number is the caller's to set."""
        self.epoch += 1
        self.missing = self.solicits = self.seen = 0
        self.answered = {}
        self.asked_for_0, self.synch, self.before_synch = False, synch, None
        self.begun_ns = None

    def solicit(self, where: Where) -> None:
        """An ACKNACK is asked for."""
        self.solicits += 1
        self.solicit_ns = where.time_ns


@dataclass(slots=True)
class _Sender:
    """What is known of an endpoint."""

    bits: int | None = None
    opened: bool = False  # an OPEN has said them
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
        self._names: dict[tuple[int, int], tuple[Endpoint, str]] = {}  # who gave it last

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
        elif isinstance(message, wire.KeepAlive):
            self._says_id(where.source, bytes(message.id))
        elif isinstance(message, _COUNTED):
            self._count(where, message, columns)
        elif isinstance(message, wire.Migrate):
            to = None if where.destination.multicast else where.destination
            migrated = self._flows.get((where.source, message.conduit, True, to))
            if migrated is not None:
                columns |= {"flow": migrated.text, "epoch": migrated.epoch}
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
            text = f"{source} → {one or 'multicast'} c{conduit} {word}"
            group_conduit = conduit if reliable and one is None else None
            self._flows[key] = _Flow(text, reliable, group_conduit, bits=self._bits(source))
        return self._flows[key]

    def _told(self, source: Endpoint, conduit: int, to: Endpoint) -> _Flow | None:
        """The flow that a SYNCH or an ACKNACK is about, if there is one."""
        multicast = self._flows.get((source, conduit, True, None))
        if multicast is not None and multicast.begun:
            return multicast
        return self._flows.get((source, conduit, True, to))

    def _contents(self, where: Where, message: wire.Message, columns: Columns) -> None:
        """The columns that say what is in it, and the names that a DECLARE gives."""
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
                    self._name(where.source, message.space, declaration)
        if isinstance(message, (*_NAMED, wire.Migrate)) and message.rid is not None:
            columns["rid"] = signed(message.rid)
            if isinstance(message, _NAMED):
                named = getattr(message, "data_rid", None) or message.rid
                key = message.space, signed(named)
                _, anybody = self._names.get(key, (None, None))
                columns["uri"] = self._sender(where.source).names.get(key, anybody)

    def _name(self, source: Endpoint, space: int, declaration: wire.Declaration) -> None:
        """What a declaration says of names."""
        names = self._sender(source).names
        if isinstance(declaration, _GIVES_NAME):
            key = space, signed(declaration.id)
            name = declaration.uri if isinstance(declaration, wire.Resource) else declaration.query
            if names.get(key) != name:
                names[key] = name
                self._names[key] = source, name
        elif isinstance(declaration, _TAKES_NAME):
            key = space, signed(declaration.id)
            if key in names and self._names.get(key, (None,))[0] == source:
                del self._names[key]
            names.pop(key, None)

    def _handshake(self, where: Where, message: wire.Hello | wire.Open | wire.Accept) -> None:
        """The bits, and the lives of the sender."""
        sender = self._sender(where.source)
        sender.handshakes += 1
        if isinstance(message, wire.Hello):
            return
        if isinstance(message, wire.Open):
            said, bits = bytes(message.id), _announced(message)
            sender.opened = sender.opened or bits is not None
        else:
            other = self._sender(where.destination)
            said, bits = bytes(message.acceptor), other.bits if other.opened else None
        if bits is not None and self.seq_bits is None:
            sender.bits = bits
            for flow in self._flows_of(where.source):
                flow.bits = self._bits(where.source)
        self._says_id(where.source, said)

    def _says_id(self, source: Endpoint, said: bytes) -> None:
        """Another id is another life."""
        sender = self._sender(source)
        if 1 <= len(said) <= 16 and sender.peer_id != said:
            if sender.peer_id is not None:
                sender.lives += 1
                sender.synched.clear()
                for flow in self._flows_of(source):
                    flow.synch = None
            sender.peer_id = said

    def _flows_of(self, source: Endpoint) -> list[_Flow]:
        return [flow for (of, *_), flow in self._flows.items() if of == source]

    def _count(self, where: Where, message: Any, columns: Columns) -> None:
        """A message that counts."""
        sender = self._sender(where.source)
        flow = self._flow(where, message.conduit, reliable=columns["reliable"])
        sn = message.sn
        event: int | None = AMBIGUOUS
        usn: int | None = None
        if sn >> BITS_MAX == 0:
            if sn >> flow.bits:
                flow.bits = next(bits for bits in LONGER if sn >> bits == 0)
            event = self._begin(flow, sender, sn)
            if event is None:
                event, usn = flow.place(sn, where.time_ns)
            else:
                usn = sn
        if usn is not None:
            self._take(flow, event, usn, where, columns)
        if sn == 0:
            flow.asked_for_0 = False
        if message.sync:  # of best effort nobody asks how it was answered
            flow.solicit(where)
        flow.lives, flow.handshakes = sender.lives, sender.handshakes
        flow.seen += 1
        flow.begun_ns = where.time_ns if flow.begun_ns is None else flow.begun_ns
        flow.last_ns = where.time_ns
        columns |= {"flow": flow.text, "epoch": flow.epoch, "usn": usn, "seq_event": event}
        columns["missing"] = flow.missing

    def _take(
        self, flow: _Flow, event: int | None, usn: int, where: Where, columns: Columns
    ) -> None:
        """What a number changes in its flow."""
        jumps = event == AMBIGUOUS and usn > flow.highest
        if event in {FIRST, RESET}:
            flow.begin(usn)
            flow.covered = usn
        elif jumps:
            flow.begin(usn)
        elif event == GAP:
            columns["gap"] = usn - flow.highest - 1
            flow.missing += columns["gap"]
            flow.lack(flow.highest + 1, usn - 1)
        elif event == FILL:
            flow.missing -= 1
            flow.fill(usn)
        elif event in {REPEAT, PRE_SYNC} and usn in flow.firsts:
            first = flow.firsts[usn]
            columns["since_first_us"] = micros(first.time_ns, where.time_ns)
            columns["first_frame"] = first.frame
        if usn > flow.highest:
            flow.rise(usn)
        if jumps or (event in _NEW and flow.highest - usn < HISTORY):
            flow.firsts[usn] = _First(where.time_ns, where.number)

    def _begin(self, flow: _Flow, sender: _Sender, sn: int) -> int | None:
        """Whether the flow begins, or an epoch of it."""
        if not flow.begun:
            if flow.synch is None and flow.group_conduit in sender.synched:
                flow.synch = -1
            return FIRST
        again = (
            sn == 0
            and flow.highest >= 1
            and sender.handshakes > flow.handshakes
            and flow.unwrap(sn) != flow.highest + 1
            and not flow.asked_for_0
        )
        if not again and sender.lives == flow.lives:
            return None
        synch = flow.synch if flow.synch == sender.handshakes else None
        flow.restart(synch)
        return RESET

    def _synch(self, where: Where, message: wire.Synch, columns: Columns) -> None:
        conduit = message.conduit
        sender = self._sender(where.source)
        flow = self._told(where.source, conduit, where.destination)
        if flow is None:
            flow = self._flow(where, conduit, reliable=True)
        if flow.synch is None and flow.begun:
            flow.before_synch = flow.highest
        flow.synch = sender.handshakes
        sender.synched.add(conduit)
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
        if message.sn >> flow.bits:
            return
        if not flow.begun:
            columns["ack_usn"] = message.sn
            return
        usn = flow.unwrap(message.sn)
        if abs(usn - flow.highest) >= FAR:
            return
        columns["ack_usn"] = usn
        end = min(usn, flow.highest + 1)
        if end > flow.covered:
            flow.covered = end
            first = flow.firsts.get(end - 1)
            columns["delivery_us"] = first and micros(first.time_ns, where.time_ns)


def _announced(message: wire.Open) -> int | None:
    """The bits that an OPEN says, if it says any."""
    for found in message.properties or ():
        if found.id == SEQUENCE_BITS_PROPERTY:
            value = _number(bytes(found.value))
            return value if value is not None and 7 <= value <= BITS_MAX else None
    return BITS


def _number(data: bytes) -> int | None:
    """The number that some bytes are, if they are one."""
    if not data or len(data) > 10 or data[-1] > 0x7F or any(byte < 0x80 for byte in data[:-1]):
        return None
    return sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data))
