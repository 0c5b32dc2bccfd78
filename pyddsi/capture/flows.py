"""
What can be said of the messages of a capture, as docs/inside/capture.md says it, in plain Python and by nothing but that page.

    packets of a capture, their messages ──► Follower ──► columns: {"kind": 7, "sn": 3, "usn": 3, "seq_event": 0, ...}

The columns are the page's, those that are not null, and beside them "first_frame" and "missing", which only people want
who look at packets. It takes its time and is for captures that people look at; it is also what other implementations of
the page are compared with. (The file is long because the page is: it holds every rule and nothing else.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyddsi import wire
from pyddsi.capture import Endpoint
from pyddsi.capture._flow import (
    AMBIGUOUS,
    ANEW_BACK,
    ANEW_FIRST,
    BITS,
    EVENTS,
    FAR,
    FILL,
    FIRST,
    GAP,
    HISTORY,
    NEXT,
    PRE_SYNC,
    REPEAT,
    RESET,
    First,
    Flow,
    Where,
)

__all__ = ["EVENTS", "FIRST", "MARKERS", "NEXT", "Columns", "Follower", "Where", "signed"]

Columns = dict[str, Any]

_NEW = (FIRST, RESET, NEXT, GAP, FILL)

MARKERS = (wire.Conduit, wire.Frag, wire.RSpace)
"""What is no message and has no columns."""

LONGER = (14, 28, 56)  # bits of a number, where one does not fit
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


def signed(rid: int) -> int:
    """An id as the columns have it."""
    return -int(rid) if isinstance(rid, wire.SelectionId) else int(rid)


def micros(since: int | None, now: int | None) -> int | None:
    """Whole microseconds between two times."""
    if since is None or now is None or now < since:
        return None
    return (now - since) // 1000


@dataclass(slots=True)
class _Sender:
    """What is known of an endpoint."""

    bits: int | None = None
    opened: bool = False  # an OPEN has said them
    peer_id: bytes | None = None
    lives: int = 0
    handshakes: int = 0
    cuts: int = 0
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
        self._flows: dict[tuple[Endpoint, int, bool, Endpoint | None], Flow] = {}
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

    def cut(self, source: Endpoint) -> None:
        """The packet whose messages were the last ones was cut by a snap length."""
        self._sender(source).cuts += 1

    def _sender(self, endpoint: Endpoint) -> _Sender:
        return self._senders.setdefault(endpoint, _Sender())

    def _bits(self, endpoint: Endpoint) -> int:
        return self.seq_bits or self._sender(endpoint).bits or BITS

    def _flow(self, where: Where, conduit: int, *, reliable: bool) -> Flow:
        """The flow of a message, which begins if it is new."""
        source, to = where.source, where.destination
        one = None if to.multicast else to
        key = source, conduit, reliable, one
        if key not in self._flows:
            word = "reliable" if reliable else "best effort"
            text = f"{source} → {one or 'multicast'} c{conduit} {word}"
            group_conduit = conduit if reliable and one is None else None
            cuts = self._sender(source).cuts
            self._flows[key] = Flow(
                text, reliable, group_conduit, bits=self._bits(source), cuts=cuts
            )
        return self._flows[key]

    def _told(self, source: Endpoint, conduit: int, to: Endpoint) -> Flow | None:
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
                columns["uri"] = self._sender(where.source).names.get(key, anybody) or None

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

    def _flows_of(self, source: Endpoint) -> list[Flow]:
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
                event, usn = flow.place(sn, where.time_ns, cut=sender.cuts != flow.cuts)
            else:
                usn = sn
        if usn is not None:
            self._take(flow, event, usn, where, columns)
        if sn == 0:
            flow.asked_for_0 = False
        flow.asked = False
        if message.sync:  # of best effort nobody asks how it was answered
            flow.solicit(where)
        flow.lives, flow.handshakes = sender.lives, sender.handshakes
        flow.cuts = sender.cuts
        flow.seen += 1
        flow.begun_ns = where.time_ns if flow.begun_ns is None else flow.begun_ns
        flow.last_ns = where.time_ns
        columns |= {"flow": flow.text, "epoch": flow.epoch, "usn": usn, "seq_event": event}
        columns["missing"] = flow.missing

    def _take(
        self, flow: Flow, event: int | None, usn: int, where: Where, columns: Columns
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
            flow.firsts[usn] = First(where.time_ns, where.number)

    def _begin(self, flow: Flow, sender: _Sender, sn: int) -> int | None:
        """Whether the flow begins, or an epoch of it."""
        if not flow.begun:
            if flow.synch is None and flow.group_conduit in sender.synched:
                flow.synch = -1
            return FIRST
        usn = flow.unwrap(sn)
        again = sender.handshakes > flow.handshakes and usn != flow.highest + 1
        if sn == 0:
            again = again and flow.highest >= 1 and not flow.asked_for_0
        else:
            far = flow.highest - usn >= ANEW_BACK
            again = again and sn < ANEW_FIRST and far and not flow.asked
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
        flow.asked = flow.asked or message.mask is not None
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
