"""
A second decoder and encoder of the protocol, in plain Python, that shares nothing with the first.

It was written from the description of the protocol alone and takes the tolerant reading. It is slow, and says of
every byte what it is for; where it and the core disagree, one of the two is wrong.

    packet ──► decode ──► [{"kind": "SDATA", "sn": 0, "rid": 2, ...}, ...] ──► encode ──► packet

A message is a dictionary with the names that the Python classes use. Ids are numbers as they stand on the wire, that
is doubled; names and payloads are bytes; what is absent is None. Beside the fields stands "place": where the message
is, how long it is, and the conduit and the resource space in force. `plain` turns a message of pyddsi into the same.
"""

from __future__ import annotations

from typing import Any

from pyddsi import wire

Fields = dict[str, Any]

# number, name, flags that are fields of their own, fields in wire order. `name:type?flag`: there if the flag is set.
MESSAGES = """
 1 SCOUT         -                               mask:n properties:properties?20
 2 HELLO         -                               mask:n locators:locators properties:properties?20
 3 OPEN          -                               version:byte id:bytes lease:n32 locators:locators
                                                 properties:properties?20
 4 ACCEPT        -                               opener:bytes acceptor:bytes lease:n32 properties:properties?20
 5 CLOSE         -                               id:bytes reason:byte
 6 DECLARE       sync=20,committed=40            sn:sn declarations:declarations
 7 SDATA         sync=20,reliable=40             sn:sn rid:id data_rid:id?80 payload:bytes
 8 BDATA         sync=20,reliable=40,actual=80   sn:sn rid:id samples:samples
 9 WDATA         sync=20,reliable=40             sn:sn uri:bytes payload:bytes
11 PULL          sync=20,final=80                sn:sn rid:id limit:n32?40
12 PING          -                               hash:n16
13 PONG          -                               hash:n16
14 SYNCH         sync=20,reliable=40             sn:sn count:sn?80
15 ACKNACK       -                               sn:sn mask:n?20
16 KEEPALIVE     -                               id:bytes
17 CONDUIT_CLOSE -                               left:n16
18 FRAG          -                               first:sn fragments:n32?40
19 CONDUIT       -                               conduit:marker
20 MIGRATE       -                               left:n16 rid:id?20 last_reliable:sn last_unreliable:sn
24 RSPACE        -                               space:marker
"""

DECLARATIONS = """
 1 RESOURCE            -             id:id uri:bytes properties:properties?20
 2 PUBLICATION         -             id:id properties:properties?20
 3 SUBSCRIPTION        -             id:id mode:mode origin:n?periodic period:n?periodic duration:n?periodic
                                     properties:properties?20
 4 SELECTION           is_global=80  id:id query:bytes properties:properties?20
 5 BINDING             is_global=80  id:id new_id:id
 6 COMMIT              -             commit:byte
 7 RESULT              -             commit:byte status:byte id:id?failed
 8 FORGET_RESOURCE     -             id:id
 9 FORGET_PUBLICATION  -             id:id
10 FORGET_SUBSCRIPTION -             id:id
11 FORGET_SELECTION    -             id:id
"""

RESERVED = {10, 21, 22, 23}
EXTENSIONS = {"BDATA", "PULL", "CONDUIT CLOSE", "FRAG", "MIGRATE", "RSPACE"}
ITEMS = {
    "locators": [("text", "bytes", "")],
    "properties": [("id", "n", ""), ("value", "bytes", "")],
    "samples": [("rid", "id", "80"), ("payload", "bytes", "")],
}

# The width of each type of number, and the rule that one breaks which is wider.
NUMBERS = {
    "n": (64, "NUMBER_WIDE"),
    "n32": (32, "NUMBER_WIDE"),
    "n16": (16, "NUMBER_WIDE"),
    "sn": (64, "SN_RANGE"),
    "id": (64, "ID_WIDE"),
    "length": (16, "LENGTH_WIDE"),
}
BYTES_MAX = {16: 3, 32: 5, 64: 10}

Row = tuple[int, str, dict[str, int], list[tuple[str, str, str]]]


def rows(text: str) -> dict[int, Row]:
    """A table above, by number."""
    found: dict[int, Row] = {}
    number = 0
    for line in text.strip().splitlines():
        words = line.split()
        if words[0].isdigit():
            number = int(words[0])
            pairs = [pair.split("=") for pair in words[2].split(",") if "=" in pair]
            flags = {name: int(bit, 16) for name, bit in pairs}
            found[number] = (number, words[1].replace("_", " "), flags, [])
            words = words[3:]
        for word in words:
            name, kind, when = f"{word}?".replace(":", "?").split("?")[:3]
            found[number][3].append((name, kind, when))
    return found


KINDS = rows(MESSAGES)
DECLARED = rows(DECLARATIONS)


class OracleError(Exception):
    """The packet is bad: the rule, the byte, and the messages before."""

    def __init__(self, rule: str, at: int, done: list[Fields] | None = None) -> None:
        super().__init__(rule, at)
        self.rule, self.at, self.done = rule, at, done or []


def present(when: str, flags: int, so_far: Fields) -> bool:
    """Whether a field is there."""
    if when == "periodic":
        return bool(so_far["mode"] in {3, 4})
    if when == "failed":
        return bool(so_far["status"])
    return not when or bool(flags & int(when, 16))


class Reader:
    """Walks over bytes; `starts` collects where fields begin."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.starts: list[int] = []

    def byte(self) -> int:
        """One byte."""
        self.starts.append(self.at)
        if self.at == len(self.data):
            raise OracleError("CUT", self.at)
        self.at += 1
        return self.data[self.at - 1]

    def number(self, kind: str) -> int:
        """Seven bits a byte, the least significant first, as long as the width allows."""
        bits, rule = NUMBERS[kind]
        start, value = self.at, 0
        self.starts.append(start)
        for i in range(BYTES_MAX[bits]):
            if self.at == len(self.data):
                raise OracleError("CUT", start)
            group = self.data[self.at]
            self.at += 1
            value += (group % 128) << (7 * i)
            if value >> bits:
                break
            if group < 128:
                return value
        raise OracleError(rule, start)

    def vector(self) -> bytes:
        """A length, then as many bytes."""
        start = self.at
        size = self.number("length")
        if size > len(self.data) - self.at:
            raise OracleError("CUT", start)
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, kind: str, flags: int) -> Any:
        """A field of any type."""
        if kind in NUMBERS:
            return self.number(kind)
        if kind == "bytes":
            return self.vector()
        if kind == "mode":
            mode = self.byte()
            if not 1 <= mode <= 5:
                raise OracleError("MODE", self.at - 1)
            return mode
        if kind == "byte":
            return self.byte()
        count = self.number("length")
        if kind == "declarations":
            return [self.declaration() for _ in range(count)]
        items = [self.fields(ITEMS[kind], flags) for _ in range(count)]
        return [item["text"] for item in items] if kind == "locators" else items

    def fields(self, layout: list[tuple[str, str, str]], flags: int) -> Fields:
        """The fields of a row."""
        found: Fields = {}
        for name, kind, when in layout:
            there = present(when, flags, found)
            found[name] = self.value(kind, flags) if there else None
        return found

    def declaration(self) -> Fields:
        """A declaration with its header."""
        begin = self.at
        header = self.byte()
        if header % 16 not in DECLARED:
            raise OracleError("DECLARATION_KIND", begin)
        _, name, named, layout = DECLARED[header % 16]
        return {"kind": name} | self.fields(layout, header) | flags_of(header, named, layout)

    def message(self, *, extensions: bool) -> Fields:
        """A message or marker with its header."""
        begin = self.at
        header = self.byte()
        if header % 32 not in KINDS:
            raise OracleError("KIND_RESERVED" if header % 32 in RESERVED else "KIND_UNKNOWN", begin)
        _, name, named, layout = KINDS[header % 32]
        if name in EXTENSIONS and not extensions:
            raise OracleError("KIND_EXTENSION", begin)
        if layout[0][1] != "marker":
            return {"kind": name} | self.fields(layout, header) | flags_of(header, named, layout)
        if header & 0x80:
            return {"kind": name, layout[0][0]: header // 32 % 4 + 1, "long": False, "undefined": 0}
        value = self.number("n16")
        return {
            "kind": name,
            layout[0][0]: value,
            "long": 1 <= value <= 4,
            "undefined": header & 0x60,
        }


def flags_of(header: int, named: dict[str, int], layout: list[tuple[str, str, str]]) -> Fields:
    """The flags that are fields, and those that mean nothing."""
    known = sum({*named.values(), *(int(when, 16) for _, _, when in layout if when.isdigit())})
    found: Fields = {name: bool(header & bit) for name, bit in named.items()}
    return found | {"undefined": header & 0xE0 & ~known}


def decode(packet: bytes, *, extensions: bool = True, reader: Reader | None = None) -> list[Fields]:
    """All messages of a packet; OracleError says where it stops being one."""
    reader = reader or Reader(packet)
    done: list[Fields] = []
    conduit = space = 0
    while reader.at < len(packet):
        at = reader.at
        try:
            message = reader.message(extensions=extensions)
        except OracleError as error:
            raise OracleError(error.rule, error.at, done) from None
        if message["kind"] == "CONDUIT":
            conduit = message["conduit"]
        if message["kind"] == "RSPACE":
            space = message["space"]
        message["place"] = at, reader.at - at, conduit, space
        done.append(message)
        if message["kind"] not in {"CONDUIT", "FRAG", "RSPACE"}:
            space = 0
    return done


def number(value: int) -> bytes:
    """A number in its shortest form."""
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def put(kind: str, value: Any, flags: int) -> bytes:
    """A field of any type."""
    if kind in NUMBERS:
        return number(value)
    if kind == "bytes":
        return number(len(value)) + bytes(value)
    if kind in {"byte", "mode"}:
        return bytes([value])
    if kind == "locators":
        items = [put("bytes", item, 0) for item in value]
    elif kind == "declarations":
        by_name = {row[1]: row for row in DECLARED.values()}
        items = [put_row(by_name[item["kind"]], item) for item in value]
    else:
        items = [put_fields(ITEMS[kind], item, flags) for item in value]
    return number(len(items)) + b"".join(items)


def put_fields(layout: list[tuple[str, str, str]], fields: Fields, flags: int) -> bytes:
    """The fields of a row that are there."""
    return b"".join(
        put(kind, fields[name], flags) for name, kind, _ in layout if fields[name] is not None
    )


def put_row(row: Row, fields: Fields) -> bytes:
    """A message or declaration with its header."""
    kind, _, named, layout = row
    header = kind | fields["undefined"]
    if layout[0][1] == "marker":
        value = fields[layout[0][0]]
        if 1 <= value <= 4 and not fields["long"]:
            return bytes([kind | 0x80 | (value - 1) << 5])
        return bytes([header]) + number(value)
    header |= sum(bit for name, bit in named.items() if fields[name])
    for name, _, when in layout:
        if when.isdigit() and fields[name] is not None:
            header |= int(when, 16)
    return bytes([header]) + put_fields(layout, fields, header)


def encode(messages: list[Fields]) -> bytes:
    """The messages as a packet, in the shortest form."""
    by_name = {row[1]: row for row in KINDS.values()}
    return b"".join(put_row(by_name[message["kind"]], message) for message in messages)


def plain_value(name: str, value: Any) -> Any:
    """A value of pyddsi as the oracle has it."""
    if isinstance(value, wire.Record):
        return plain_record(value)
    if isinstance(value, tuple):
        return [plain_value(name, item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if name in {"id", "rid", "data_rid", "new_id"} and isinstance(value, int):
        return 2 * int(value) + isinstance(value, wire.SelectionId)
    return value


def plain_record(record: wire.Record) -> Fields:
    """The fields of a message, a declaration or an item."""
    if isinstance(record, wire.Property):
        return {"id": record.id, "value": bytes(record.value)}
    found = {name: plain_value(name, getattr(record, name)) for name in record.FIELDS}
    return found if isinstance(record, wire.Sample) else {"kind": record.NAME} | found


def plain(message: wire.Message) -> Fields:
    """A message of pyddsi as the oracle has it."""
    place = message.at, message.size, message.conduit, message.space
    return plain_record(message) | {"place": place}
