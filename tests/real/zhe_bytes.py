"""
The bytes of the reference peer zhe, read and written as it does.

It shares nothing with pyddsi's own codec: two that were written apart are wrong in the same way less often. The reader is as
narrow as zhe: what ends a session there raises `BadError` here, with the sentence of the format that was broken. What zhe merely
passes over (an undefined flag, a mask too wide) is an oddity, which a strict test may look at.

It is long because writing and reading stand side by side: whoever changes one sees the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

PACKET_MAX = 1472
AUTHENTICATION = b"\x0c\x02\x02\x03"
SEQUENCE_BITS = 4

SCOUT, HELLO, OPEN, ACCEPT, CLOSE, DECLARE, SDATA, WDATA = 1, 2, 3, 4, 5, 6, 7, 9
PING, PONG, SYNCH, ACKNACK, KEEPALIVE, CONDUIT = 12, 13, 14, 15, 16, 19

# What the gated kinds are called, so that a complaint about one can name it.
GATED = {
    8: "BDATA",
    10: "QUERY",
    11: "PULL",
    17: "CONDUIT CLOSE",
    18: "FRAG",
    20: "MIGRATE",
    21: "delta SDATA",
    22: "delta BDATA",
    23: "delta WDATA",
    24: "RSPACE",
}
FLAGS = {
    SCOUT: 0x20,
    HELLO: 0x20,
    OPEN: 0x20,
    ACCEPT: 0x20,
    CLOSE: 0,
    DECLARE: 0x60,
    SDATA: 0xE0,
    WDATA: 0x60,
    PING: 0,
    PONG: 0,
    SYNCH: 0xE0,
    ACKNACK: 0x20,
    KEEPALIVE: 0,
    CONDUIT: 0xE0,
}
ON_CONDUIT = {DECLARE, SDATA, WDATA, SYNCH, ACKNACK}

RESOURCE, PUBLICATION, SUBSCRIPTION, SELECTION, BINDING, COMMIT, RESULT = 1, 2, 3, 4, 5, 6, 7
FORGETS = {8, 9, 10, 11}
DECLARATION_FLAGS = {1: 0x20, 2: 0x20, 3: 0x20, 4: 0xA0, 5: 0x80}
PUSH = 1


class BadError(Exception):
    """Input that ends the session at zhe."""


class FatalError(Exception):
    """Input that zhe does not survive."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the reader's configuration says of numbers."""

    seq_bits: int = 14
    rid_bits: int = 32
    conduits_in: int = 3


@dataclass(frozen=True, slots=True)
class Declaration:
    """One declaration. rid is not doubled; of a selection or binding it is the number as it came."""

    kind: int
    rid: int = 0
    uri: bytes = b""
    mode: int = PUSH
    commit: int = 0
    status: int = 0
    doubled: int = 0


@dataclass(slots=True)
class Message:
    """One message; which fields count depends on its kind."""

    kind: int
    conduit: int = 0
    sn: int = 0
    mask: int | None = None
    locators: list[bytes] = field(default_factory=list)
    version: int = 1
    id: bytes = b""
    acceptor: bytes = b""
    lease: int = 0
    properties: dict[int, bytes] | None = None
    reason: int = 0
    rid: int = 0
    via: int | None = None
    uri: bytes = b""
    payload: bytes = b""
    count: int | None = None
    declarations: list[Declaration] = field(default_factory=list)
    sync: bool = False
    reliable: bool = False
    committed: bool = False


# ---- writing ----------------------------------------------------------------------------------------------------


def vle(value: int) -> bytes:
    """A variable-length number in its shortest form."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def vector(data: bytes) -> bytes:
    """A byte vector."""
    return vle(len(data)) + data


def vectors(items: list[bytes]) -> bytes:
    """Locators."""
    return vle(len(items)) + b"".join(map(vector, items))


def marker(conduit: int) -> bytes:
    """What stands before a message of this conduit."""
    if conduit == 0:
        return b""
    if conduit <= 4:
        return bytes([CONDUIT | 0x80 | (conduit - 1) << 5])
    return bytes([CONDUIT]) + vle(conduit)


def properties(found: dict[int, bytes] | None) -> bytes:
    """A property list, if there is one."""
    if found is None:
        return b""
    return vle(len(found)) + b"".join(vle(i) + vector(v) for i, v in found.items())


def declaration(one: Declaration) -> bytes:
    """One declaration."""
    head = bytes([one.kind])
    doubled = vle(one.doubled or one.rid << 1)
    if one.kind in {RESOURCE, SELECTION}:
        return head + doubled + vector(one.uri)
    if one.kind == SUBSCRIPTION:
        return head + doubled + bytes([one.mode])
    if one.kind == COMMIT:
        return head + bytes([one.commit])
    if one.kind == RESULT:
        return head + bytes([one.commit, one.status]) + (doubled if one.status else b"")
    return head + doubled


def encode(one: Message) -> bytes:
    """A message with its marker."""
    flag_p = 0x20 if one.properties is not None else 0
    flag_s = 0x20 if one.sync else 0
    flag_r = 0x40 if one.reliable else 0
    head, kind, sn = marker(one.conduit), one.kind, vle(one.sn)
    if kind == SCOUT:
        return bytes([kind | flag_p]) + vle(one.mask or 0) + properties(one.properties)
    if kind == HELLO:
        shown = vle(one.mask or 0) + vectors(one.locators)
        return bytes([kind | flag_p]) + shown + properties(one.properties)
    if kind == OPEN:
        who = bytes([one.version]) + vector(one.id) + vle(one.lease) + vectors(one.locators)
        return bytes([kind | flag_p]) + who + properties(one.properties)
    if kind == ACCEPT:
        both = vector(one.id) + vector(one.acceptor) + vle(one.lease)
        return bytes([kind | flag_p]) + both + properties(one.properties)
    if kind == CLOSE:
        return bytes([kind]) + vector(one.id) + bytes([one.reason])
    if kind == KEEPALIVE:
        return bytes([kind]) + vector(one.id)
    if kind in {PING, PONG}:
        return bytes([kind]) + vle(one.sn)
    if kind == DECLARE:
        flags = flag_s | (0x40 if one.committed else 0)
        body = b"".join(map(declaration, one.declarations))
        return head + bytes([kind | flags]) + sn + vle(len(one.declarations)) + body
    if kind == SDATA:
        via = b"" if one.via is None else vle(one.via << 1)
        flags = flag_s | flag_r | (0x80 if via else 0)
        return head + bytes([kind | flags]) + sn + via + vle(one.rid << 1) + vector(one.payload)
    if kind == WDATA:
        named = vector(one.uri) + vector(one.payload)
        return head + bytes([kind | flag_s | flag_r]) + sn + named
    if kind == SYNCH:
        count = b"" if one.count is None else vle(one.count)
        return head + bytes([kind | flag_s | flag_r | (0x80 if count else 0)]) + sn + count
    assert kind == ACKNACK
    mask = b"" if one.mask is None else vle(one.mask)
    return head + bytes([kind | (0x20 if mask else 0)]) + sn + mask


# ---- reading ----------------------------------------------------------------------------------------------------


class Reader:
    """Goes through one packet."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.limits = limits
        self.pos = 0
        self.oddities: list[str] = []

    def byte(self) -> int:
        """The next byte."""
        if self.pos >= len(self.data):
            raise BadError("§12 message runs past the packet")
        self.pos += 1
        return self.data[self.pos - 1]

    def vle(self, bits: int, what: str) -> int:
        """A number for a field of this width; longer forms are taken as far as they fit."""
        most = -(-bits // 7)
        value = 0
        for i in range(most):
            one = self.byte()
            if i == most - 1 and one >> (bits - 7 * i):
                break
            value |= (one & 127) << 7 * i
            if one < 128:
                return value
        raise BadError(f"§2 {what}: more than {bits} bits is an overflow and ends the session")

    def loose(self) -> int:
        """A number of any width: what zhe takes without a look at its size."""
        value = shift = 0
        while True:
            one = self.byte()
            value |= (one & 127) << shift
            shift += 7
            if one < 128:
                return value

    def vector(self, what: str) -> bytes:
        """A byte vector."""
        size = self.vle(16, f"length of {what}")
        if size > len(self.data) - self.pos:
            raise BadError(f"§12 message runs past the packet ({what})")
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def sn(self) -> int:
        """A sequence number, or a count coded like one."""
        bits = self.limits.seq_bits
        value = self.vle(next(w for w in (8, 16, 32, 64) if bits <= w), "sn")
        if value >> bits:
            raise BadError(f"§2 sn {value}: 2^{bits} or more is an overflow and ends the session")
        return value

    def rid(self) -> int:
        """A resource's id, not doubled."""
        value = self.doubled()
        if value & 1:
            raise FatalError(f"§16.6 an odd rid ({value}) aborts a debug build")
        return value >> 1

    def doubled(self) -> int:
        """An id as it stands on the wire."""
        return self.vle(self.limits.rid_bits, "rid")

    def properties(self, *, there: bool) -> dict[int, bytes] | None:
        """A property list."""
        if not there:
            return None
        found = {}
        for _ in range(self.vle(16, "number of properties")):
            number = self.vle(32, "property id")
            found[number] = self.vector("property")
        return found

    def locators(self) -> list[bytes]:
        """A list of texts."""
        return [self.vector("locator") for _ in range(self.vle(16, "number of locators"))]

    def odd(self, what: str) -> None:
        """Zhe does not mind, but a strict look does."""
        self.oddities.append(what)

    def messages(self) -> Iterator[Message]:
        """One by one, so that those before a bad one have taken effect."""
        conduit = 0
        marked = True
        while self.pos < len(self.data):
            head = self.byte()
            kind, flags = head & 31, head & 0xE0
            if kind not in FLAGS:
                name = GATED.get(kind, "unknown")
                raise BadError(
                    f"§12 unknown or unimplemented kind {kind} ({name}): session dropped, no CLOSE"
                )
            if flags & ~FLAGS[kind]:
                self.odd(f"§3 undefined flags are sent as 0: {head:02x}")
            if kind == CONDUIT:
                conduit, marked = self.marker(flags), True
                continue
            if kind in ON_CONDUIT:
                if conduit and not marked:
                    self.odd(
                        f"§4 a marker before every message of a non-zero conduit: here "
                        f"{conduit} is still in force"
                    )
                marked = False
            one = Message(kind, conduit if kind in ON_CONDUIT else 0)
            one.sync, one.reliable = bool(flags & 0x20), bool(flags & 0x40)
            self.body(one, flags)
            yield one

    def marker(self, flags: int) -> int:
        """A CONDUIT message."""
        if flags & 0x80:
            conduit = 1 + (flags >> 5 & 3)
            if conduit >= self.limits.conduits_in:
                raise FatalError(
                    f"§16.5 short-form conduit id {conduit} beyond the {self.limits.conduits_in} "
                    f"input conduits reads and writes outside the table"
                )
            return conduit
        conduit = self.vle(8, "conduit id")
        if conduit >= self.limits.conduits_in:
            raise BadError(
                f"§4 a long-form id ({conduit}) at or above the receiver's "
                f"{self.limits.conduits_in} input conduits ends the session"
            )
        return conduit

    def body(self, one: Message, flags: int) -> None:
        """What follows the header."""
        there = bool(flags & 0x20)
        match one.kind:
            case 1:
                one.mask, one.properties = self.vle(32, "mask"), self.properties(there=there)
            case 2:
                one.mask, one.locators = self.vle(32, "mask"), self.locators()
                one.properties = self.properties(there=there)
            case 3:
                one.version, one.id = self.byte(), self.vector("peer id")
                one.lease, one.locators = self.vle(32, "lease"), self.locators()
                if not there:
                    raise FatalError("§16.1 an OPEN without the P flag crashes zhe")
                one.properties = self.properties(there=there)
            case 4:
                one.id, one.acceptor = self.vector("opener"), self.vector("acceptor")
                one.lease, one.properties = self.vle(32, "lease"), self.properties(there=there)
            case 5:
                one.id, one.reason = self.vector("peer id"), self.byte()
            case 6:
                one.committed, one.reliable, one.sn = bool(flags & 0x40), True, self.sn()
                for _ in range(self.vle(16, "number of declarations")):
                    one.declarations.append(self.declaration())
            case 7:
                one.sn, one.rid = self.sn(), self.rid()
                if flags & 0x80:
                    one.via, one.rid = one.rid, self.rid()
                one.payload = self.vector("payload")
            case 9:
                one.sn, one.uri = self.sn(), self.vector("URI")
                one.payload = self.vector("payload")
            case 12 | 13:
                one.sn = self.loose()
            case 14:
                one.sn = self.sn()
                one.count = self.sn() if flags & 0x80 else None
            case 15:
                one.sn = self.sn()
                one.mask = self.loose() if there else None
                if one.mask is not None and one.mask >> 32:
                    self.odd(f"§12 too wide NACK mask, cut to 32 bits: {one.mask:x}")
                    one.mask &= 0xFFFFFFFF
            case _:
                one.id = self.vector("peer id")
                if not one.id:
                    raise BadError("§12 empty KEEPALIVE id: session dropped")

    def declaration(self) -> Declaration:
        """One of a DECLARE."""
        head = self.byte()
        kind, flags = head & 15, head & 0xF0
        if flags & ~DECLARATION_FLAGS.get(kind, 0):
            self.odd(f"§10 undefined flags of a declaration: {head:02x}")
        found = self.declared(kind)
        if flags & 0x20 and kind <= SELECTION:
            self.properties(there=True)
        return found

    def declared(self, kind: int) -> Declaration:
        """Its fields."""
        match kind:
            case 1:
                return Declaration(kind, self.rid(), self.vector("URI"))
            case 2:
                return Declaration(kind, self.rid())
            case 3:
                rid, mode = self.rid(), self.byte()
                if not 1 <= mode <= 5:
                    raise BadError(f"§10 subscription mode 0 or above 5 ({mode}): session dropped")
                if mode in {3, 4}:
                    for what in ("origin", "period", "duration"):
                        self.vle(64, what)
                return Declaration(kind, rid, mode=mode)
            case 4:
                doubled = self.doubled()
                return Declaration(kind, doubled >> 1, self.vector("query"), doubled=doubled)
            case 5:
                old = self.doubled()
                self.doubled()
                return Declaration(kind, old >> 1, doubled=old)
            case 6:
                return Declaration(kind, commit=self.byte())
            case 7:
                commit, status = self.byte(), self.byte()
                doubled = self.doubled() if status else 0
                return Declaration(
                    kind, doubled >> 1, commit=commit, status=status, doubled=doubled
                )
            case 8 | 9 | 10 | 11:
                doubled = self.doubled()
                return Declaration(kind, doubled >> 1, doubled=doubled)
            case _:
                raise BadError(f"§10 unknown declaration kind {kind}: session dropped")
