"""
From packets to messages: the core finds the fields, this file makes Python objects of them.

For each kind there is a plan, made once from the protocol's table: which attribute takes which field, and how. Nothing
of a packet is copied but names and ids; payloads are memoryviews into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, Spec, ffi, lib, spec, text
from pyddsi.errors import WireError
from pyddsi.wire import messages as classes
from pyddsi.wire._reading import TOLERANT, Reading
from pyddsi.wire._record import Buffer, Message, Record, SelectionId

_ZHE = {
    lib.PYDDSI_ZHE_ACCEPTS: "accepts",
    lib.PYDDSI_ZHE_IGNORES: "ignores",
    lib.PYDDSI_ZHE_REFUSES: "refuses",
    lib.PYDDSI_ZHE_DROPS: "drops",
    lib.PYDDSI_ZHE_STALLS: "stalls",
    lib.PYDDSI_ZHE_DIES: "dies",
}

_ZHE_SENTENCE = {
    "ignores": "zhe ignores it",
    "refuses": "zhe refuses the session",
    "drops": "zhe drops the session",
    "stalls": "zhe stalls",
    "dies": "zhe dies of it",
}


class Packet:
    """
    The memory of a packet, from which views are cut.

    `close` takes the core's hands off it before anything is raised: an error can end up in a cycle of references (who
    keeps it makes one), and Python 3.11's collector crashes on a memoryview in there that cffi still holds.
    """

    __slots__ = ("address", "data", "view")

    def __init__(self, packet: Buffer) -> None:
        self.view = memoryview(packet).cast("B").toreadonly()
        self.data: Any = ffi.from_buffer("uint8_t[]", self.view)
        self.address = int(ffi.cast("uintptr_t", self.data))

    def close(self) -> None:
        """The core has read the packet; views can still be cut."""
        ffi.release(self.data)

    def cut(self, field: Any) -> memoryview:
        """The bytes that a `pyddsi_bytes` points at."""
        if field.size == 0:
            return self.view[:0]
        at = int(ffi.cast("uintptr_t", field.data)) - self.address
        return self.view[at : at + field.size]


Take = Callable[[Any, Packet], Any]


def _id(value: int) -> int:
    return SelectionId(value >> 1) if value & 1 else value >> 1


def _taker(name: str, kind: str) -> Take:
    """How a field of this type becomes a Python value."""
    if kind in {"RID", "SID", "ID", "ID_NONE"}:
        return lambda row, _: _id(getattr(row, name))
    if kind == "BYTES":
        return lambda row, packet: packet.cut(getattr(row, name))
    if kind == "PEER_ID":
        return lambda row, packet: bytes(packet.cut(getattr(row, name)))
    if kind == "TEXT":
        return lambda row, packet: str(packet.cut(getattr(row, name)), "utf-8", "surrogateescape")
    if kind in {"LOCATORS", "PROPERTIES", "SAMPLES", "DECLARATIONS"}:
        return lambda row, packet: tuple(_items(kind, getattr(row, name), packet))
    return lambda row, _: getattr(row, name)


class _Plan:
    """What to do for one row of the table."""

    def __init__(self, row: Spec, cls: type[Record]) -> None:
        self.cls = cls
        self.fields = [(f.name, _taker(f.name, f.type), f.presence, f.flag) for f in row.fields]
        self.flags = [(flag.name, flag.bit) for flag in row.flags if flag.name]
        self.undefined = 0xE0 & ~sum(flag.bit for flag in row.flags)
        self.marker = any(f.type == "MARKER" for f in row.fields)

    def fill(self, record: Any, row: Any, flags: int, packet: Packet) -> None:
        """Set the record's fields from the decoded struct."""
        for name, take, presence, flag in self.fields:
            there = (
                presence == "ALWAYS"
                or (presence == "IF_FLAG" and flags & flag)
                or (presence == "IF_PERIODIC" and row.mode in {3, 4})
                or (presence == "IF_FAILED" and row.status != 0)
            )
            setattr(record, name, take(row, packet) if there else None)
        for name, flag in self.flags:
            setattr(record, name, bool(flags & flag))
        if self.marker:
            value = getattr(record, self.fields[0][0])
            record.long = not flags & 0x80 and 1 <= value <= 4
            # In the long form the other two flags say nothing.
            record.undefined = 0 if flags & 0x80 else flags & 0x60
        elif "undefined" in self.cls.FIELDS:
            record.undefined = flags & self.undefined


@cache
def _plan(table: str, number: int) -> _Plan:
    row = spec(table)[number]
    if table == MESSAGES:
        return _Plan(row, classes.MESSAGES[number])
    if table == DECLARATIONS:
        return _Plan(row, classes.DECLARATIONS[number])
    return _Plan(row, {"PROPERTY": classes.Property, "SAMPLE": classes.Sample}[row.name])


_LISTS: dict[str, tuple[Any, str, int]] = {
    "LOCATORS": (lib.pyddsi_list_locator, "pyddsi_locator *", 0),
    "PROPERTIES": (lib.pyddsi_list_property, "pyddsi_property *", lib.PYDDSI_TYPE_PROPERTIES),
    "SAMPLES": (lib.pyddsi_list_sample, "pyddsi_sample *", lib.PYDDSI_TYPE_SAMPLES),
    "DECLARATIONS": (lib.pyddsi_list_declaration, "pyddsi_declaration *", 0),
}


def _items(kind: str, items: Any, packet: Packet) -> Iterator[Any]:
    """The items of a list."""
    pop, type_name, number = _LISTS[kind]
    rest = ffi.new("pyddsi_list *", items)
    row = ffi.new(type_name)
    flags = items.flags
    while pop(rest, row) == lib.PYDDSI_OK:
        if kind == "LOCATORS":
            yield str(packet.cut(row.text), "utf-8", "surrogateescape")
            continue
        if kind == "DECLARATIONS":
            plan, flags = _plan(DECLARATIONS, row.kind), row.flags
        else:
            plan = _plan(ITEMS, number)
        item = plan.cls.__new__(plan.cls)
        plan.fill(item, row, flags, packet)
        yield item


def _message(row: Any, packet: Packet) -> Message:
    plan = _plan(MESSAGES, row.kind)
    message: Any = plan.cls.__new__(plan.cls)
    message.at, message.size = row.at, row.size
    message.conduit, message.space = row.conduit, row.space
    plan.fill(message, row, row.flags, packet)
    return message  # type: ignore[no-any-return]


def fault_error(decoder: Any, done: list[Message]) -> WireError:
    """The error for what the decoder stopped at."""
    rule, at, kind = decoder.fault.rule, decoder.fault.at, decoder.kind
    row = spec(MESSAGES).get(kind)
    field = None if decoder.field == ffi.NULL else text(decoder.field)
    zhe = _ZHE[lib.pyddsi_rule_zhe(rule, kind, 0)]
    place = " ".join(part for part in (row.name if row else f"kind {kind}", field) if part)
    sentence = f"byte {at}: {text(lib.pyddsi_rule_text(rule))} ({place}"
    sentence += f"; {_ZHE_SENTENCE[zhe]})" if zhe in _ZHE_SENTENCE else ")"
    return WireError(
        sentence,
        rule=text(lib.pyddsi_rule_name(rule)),
        at=at,
        kind=row.name if row else None,
        field=field,
        zhe=zhe,
        zhe_stream=_ZHE[lib.pyddsi_rule_zhe(rule, kind, 1)],
        messages=done,
    )


def decode(packet: Buffer, reading: Reading = TOLERANT) -> list[Message]:
    """
    All messages of a packet, markers included.

    Raises WireError, which holds the messages before the fault, when a byte breaks a rule of the reading.
    """
    memory = Packet(packet)
    decoder = ffi.new("pyddsi_decoder *")
    row = ffi.new("pyddsi_message *")
    lib.pyddsi_decoder_init(decoder, reading.native, memory.data, len(memory.view))
    done: list[Message] = []
    try:
        while (status := lib.pyddsi_decoder_next(decoder, row)) == lib.PYDDSI_OK:
            done.append(_message(row, memory))
    finally:
        memory.close()
    if status != lib.PYDDSI_END:
        raise fault_error(decoder, done)
    return done


def lines(packet: Buffer, reading: Reading = TOLERANT) -> list[tuple[int, str]]:
    """
    The messages of a packet as text, each with its conduit, without making objects of them.

    Raises WireError like decode; its `messages` are such pairs.
    """
    memory = Packet(packet)
    decoder = ffi.new("pyddsi_decoder *")
    row = ffi.new("pyddsi_message *")
    room = 4096
    out = ffi.new("char[]", room)
    lib.pyddsi_decoder_init(decoder, reading.native, memory.data, len(memory.view))
    done: list[Any] = []
    try:
        while (status := lib.pyddsi_decoder_next(decoder, row)) == lib.PYDDSI_OK:
            size = lib.pyddsi_print_message(row, out, room)
            if size >= room:
                room = size + 1
                out = ffi.new("char[]", room)
                lib.pyddsi_print_message(row, out, room)
            done.append((row.conduit, ffi.string(out).decode("ascii")))
    finally:
        memory.close()
    if status != lib.PYDDSI_END:
        raise fault_error(decoder, done)
    return done
