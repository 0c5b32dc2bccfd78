"""
From messages to packets: this file fills the core's structs from Python objects, the core writes the bytes.

What the core writes is canonical, and what it would not read it does not write, so every packet that `encode` returns
can be decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, Field, Spec, ffi, lib, spec, text
from pyddsi.errors import WireError
from pyddsi.wire._record import Declaration, Message, Record, SelectionId

_ROOM_FIRST = 2048

_ITEM_CLASSES = {"LOCATORS": "str", "PROPERTIES": "Property", "SAMPLES": "Sample"}


class _Output:
    """Memory that grows while something is written to it."""

    def __init__(self) -> None:
        self.room = _ROOM_FIRST
        self.memory: Any = ffi.new("uint8_t[]", self.room)
        self.at: Any = ffi.new("size_t *")
        self.fault: Any = ffi.new("pyddsi_fault *")

    def write(self, call: Callable[..., int], *arguments: Any) -> int:
        """Call an encoder, with more room as often as it asks for it."""
        status = call(*arguments, self.memory, self.room, self.at, self.fault)
        while status == lib.PYDDSI_NO_SPACE:
            memory = ffi.new("uint8_t[]", self.room * 2)
            ffi.memmove(memory, self.memory, self.at[0])
            self.memory, self.room = memory, self.room * 2
            status = call(*arguments, self.memory, self.room, self.at, self.fault)
        return status

    def __bytes__(self) -> bytes:
        return bytes(ffi.buffer(self.memory, self.at[0]))


def _refused(row: Spec, rule: int, number: int) -> WireError:
    """The error for a record that the core does not write."""
    field = row.fields[number].name if number < len(row.fields) else None
    name = text(lib.pyddsi_rule_name(rule))
    place = row.name if field is None or name.startswith("KIND") else f"{row.name} {field}"
    return WireError(
        f"{place}: {text(lib.pyddsi_rule_text(rule))}", rule=name, at=0, kind=row.name, field=field
    )


def _set_bytes(target: Any, value: Any, kept: list[Any]) -> None:
    """Point a `pyddsi_bytes` at memory that `kept` keeps alive."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    memory = ffi.from_buffer("uint8_t[]", memoryview(data).cast("B"))
    kept.append(memory)
    target.data = memory
    target.size = len(memory)


def _set_list(target: Any, field: Field, value: Any, flags: int, kept: list[Any]) -> None:
    """Write the items of a list one behind the other, and point a `pyddsi_list` at them."""
    out = _Output()
    count = 0
    for item in value:
        _write_item(out, field, item, flags)
        count += 1
    kept.append(out)
    target.data, target.size, target.count = out.memory, out.at[0], count
    target.flags = flags


def _write_item(out: _Output, field: Field, item: Any, flags: int) -> None:
    kept: list[Any] = []
    if field.type == "DECLARATIONS":
        if not isinstance(item, Declaration):
            raise TypeError(f"{field.name} holds declarations, not {item!r}")
        row = spec(DECLARATIONS)[item.KIND]
        native = ffi.new("pyddsi_declaration *")
        native.kind = item.KIND
        native.flags = _fill(native, row, item, kept)
        status = out.write(lib.pyddsi_encode_declaration, native)
    else:
        row = spec(ITEMS)[getattr(lib, f"PYDDSI_TYPE_{field.type}")]
        if type(item).__name__ != _ITEM_CLASSES[field.type]:
            raise TypeError(f"{field.name} holds {_ITEM_CLASSES[field.type]}, not {item!r}")
        native = ffi.new(f"pyddsi_{row.name.lower()} *")
        if field.type == "LOCATORS":
            _set_bytes(native.text, item, kept)
            status = out.write(lib.pyddsi_encode_locator, native)
        elif field.type == "PROPERTIES":
            _fill(native, row, item, kept)
            status = out.write(lib.pyddsi_encode_property, native)
        else:
            there = _fill(native, row, item, kept)
            if bool(there & 0x80) != bool(flags & 0x80):
                raise ValueError("BDATA: samples name their resource (rid=) if and only if actual=True")
            status = out.write(lib.pyddsi_encode_sample, native, flags)
    if status != lib.PYDDSI_OK:
        raise _refused(row, out.fault.rule, out.fault.at)


def _set_field(native: Any, field: Field, value: Any, flags: int, kept: list[Any]) -> None:
    if field.type in {"RID", "SID", "ID", "ID_NONE"}:
        setattr(native, field.name, value << 1 | isinstance(value, SelectionId))
    elif field.type in {"BYTES", "PEER_ID", "TEXT"}:
        _set_bytes(getattr(native, field.name), value, kept)
    elif field.type in {"LOCATORS", "PROPERTIES", "SAMPLES", "DECLARATIONS"}:
        _set_list(getattr(native, field.name), field, value, flags, kept)
    else:
        setattr(native, field.name, value)


def _header_flags(row: Spec, record: Any) -> int:
    """The flags: those that announce a field, those that are a field, and those that mean nothing."""
    flags = int(getattr(record, "undefined", 0))
    if flags & ~0xE0:
        raise ValueError(f"{row.name} undefined: the flags are the bits 20, 40 and 80 (hex), not {flags:#x}")
    for flag in row.flags:
        if flag.name and getattr(record, flag.name):
            flags |= flag.bit
    for field in row.fields:
        if field.presence == "IF_FLAG" and getattr(record, field.name) is not None:
            flags |= field.flag
        if field.type == "MARKER" and 1 <= getattr(record, field.name) <= 4 and not record.long:
            flags |= 0x80
    return flags


def _needed(field: Field, record: Any) -> bool:
    """Whether a field that hangs on another field's value must be there."""
    if field.presence == "IF_PERIODIC":
        return record.mode in {3, 4}
    return field.presence == "IF_FAILED" and record.status != 0


def _fill(native: Any, row: Spec, record: Record, kept: list[Any]) -> int:
    """Fill a struct of the core from a record; returns its flags."""
    flags = _header_flags(row, record)
    for field in row.fields:
        value = getattr(record, field.name)
        if value is None:
            if field.presence == "ALWAYS" or _needed(field, record):
                raise ValueError(f"{row.name} {field.name}: a value is needed here")
            continue
        try:
            _set_field(native, field, value, flags, kept)
        except (TypeError, OverflowError) as error:
            if isinstance(error, OverflowError):
                raise WireError(
                    f"{row.name} {field.name}: {value!r} does not fit",
                    rule="NUMBER_WIDE",
                    at=0,
                    kind=row.name,
                    field=field.name,
                ) from None
            raise TypeError(f"{row.name} {field.name}: {error}") from None
    return flags


def encode(messages: Iterable[Message]) -> bytes:
    """
    The messages as one packet, in the order given, markers included.

    Raises WireError when a value breaks a rule that every reading has, TypeError for a value of a wrong type.
    """
    out = _Output()
    for message in messages:
        if not isinstance(message, Message):
            raise TypeError(f"a packet holds messages, not {message!r}")
        row = spec(MESSAGES)[message.KIND]
        native = ffi.new("pyddsi_message *")
        kept: list[Any] = []
        native.kind = message.KIND
        native.flags = _fill(native, row, message, kept)
        status = out.write(lib.pyddsi_encode_message, native)
        if status != lib.PYDDSI_OK:
            raise _refused(row, out.fault.rule, out.fault.at)
    return bytes(out)
