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
from pyddsi.wire import messages as classes
from pyddsi.wire._record import Declaration, Message, Record, SelectionId

_ROOM_FIRST = 2048

_ITEM_CLASSES: dict[str, Any] = {
    "LOCATORS": str,
    "PROPERTIES": classes.Property,
    "SAMPLES": classes.Sample,
}


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
    memory = ffi.from_buffer("uint8_t[]", memoryview(value).cast("B"))
    kept.append(memory)
    target.data = memory
    target.size = len(memory)


def _release(kept: list[Any]) -> None:
    """Let go of what the core has read; see `Packet` in _decode.py for why at once."""
    for memory in kept:
        ffi.release(memory)


def _text(value: Any) -> bytes:
    """A text as it goes on the wire; what was no text when it came goes back as it was."""
    if not isinstance(value, str):
        raise TypeError(f"a text is needed, not {value!r}")
    return value.encode("utf-8", "surrogateescape")


def _set_list(target: Any, field: Field, value: Any, flags: int, kept: list[Any]) -> None:
    """Write the items of a list one behind the other, and point a `pyddsi_list` at them."""
    out = _Output()
    count = 0
    for item in value:
        _write_item(out, field, item, flags)
        count += 1
    kept.append(out.memory)
    target.data, target.size, target.count = out.memory, out.at[0], count
    target.flags = flags


def _write_item(out: _Output, field: Field, item: Any, flags: int) -> None:
    kept: list[Any] = []
    try:
        row, status = _try_item(out, field, item, flags, kept)
    finally:
        _release(kept)
    if status != lib.PYDDSI_OK:
        raise _refused(row, out.fault.rule, out.fault.at)


def _try_item(
    out: _Output, field: Field, item: Any, flags: int, kept: list[Any]
) -> tuple[Spec, int]:
    if field.type == "DECLARATIONS":
        if not isinstance(item, Declaration):
            raise TypeError(f"{field.name} holds declarations, not {item!r}")
        row = spec(DECLARATIONS)[item.KIND]
        native = ffi.new("pyddsi_declaration *")
        native.kind = item.KIND
        native.flags = _fill(native, row, item, kept)
        return row, out.write(lib.pyddsi_encode_declaration, native)
    row = spec(ITEMS)[getattr(lib, f"PYDDSI_TYPE_{field.type}")]
    cls = _ITEM_CLASSES[field.type]
    if not isinstance(item, cls):
        raise TypeError(f"{field.name} holds {cls.__name__}, not {item!r}")
    native = ffi.new(f"pyddsi_{row.name.lower()} *")
    if field.type == "LOCATORS":
        _set_bytes(native.text, _text(item), kept)
        return row, out.write(lib.pyddsi_encode_locator, native)
    there = _fill(native, row, item, kept)
    if field.type == "PROPERTIES":
        return row, out.write(lib.pyddsi_encode_property, native)
    if bool(there & 0x80) != bool(flags & 0x80):
        raise ValueError("BDATA: samples name their resource (rid=) if and only if actual=True")
    return row, out.write(lib.pyddsi_encode_sample, native, flags)


def _set_field(native: Any, field: Field, value: Any, flags: int, kept: list[Any]) -> None:
    if field.type in {"RID", "SID", "ID", "ID_NONE"}:
        setattr(native, field.name, value << 1 | isinstance(value, SelectionId))
    elif field.type in {"BYTES", "PEER_ID"}:
        _set_bytes(getattr(native, field.name), value, kept)
    elif field.type == "TEXT":
        _set_bytes(getattr(native, field.name), _text(value), kept)
    elif field.type in {"LOCATORS", "PROPERTIES", "SAMPLES", "DECLARATIONS"}:
        _set_list(getattr(native, field.name), field, value, flags, kept)
    else:
        setattr(native, field.name, value)


def _undefined(row: Spec, record: Any) -> int:
    """The flags that mean nothing; one that means something has a field of its own, or says that one is there."""
    flags = int(getattr(record, "undefined", 0))
    free = 0xE0 & ~sum(flag.bit for flag in row.flags)
    if row.fields[0].type == "MARKER" and _is_short(row, record):
        free = 0
    if flags & ~free:
        raise ValueError(
            f"{row.name} undefined: the bits that mean nothing are {free:#x}, not {flags:#x}"
        )
    return flags


def _is_short(row: Spec, record: Any) -> bool:
    """Whether a marker goes into its header byte."""
    return 1 <= getattr(record, row.fields[0].name) <= 4 and not record.long


def _header_flags(row: Spec, record: Any) -> int:
    """The flags: those that announce a field, those that are a field, and those that mean nothing."""
    flags = _undefined(row, record)
    for flag in row.flags:
        if flag.name and getattr(record, flag.name):
            flags |= flag.bit
    for field in row.fields:
        if field.presence == "IF_FLAG" and getattr(record, field.name) is not None:
            flags |= field.flag
        if field.type == "MARKER" and _is_short(row, record):
            flags |= 0x80
    return flags


def _has_place(field: Field, record: Any) -> bool:
    """Whether a field that hangs on another field's value is there; any other may be."""
    if field.presence == "IF_PERIODIC":
        return record.mode in {3, 4}
    return field.presence != "IF_FAILED" or record.status != 0


def _fill(native: Any, row: Spec, record: Record, kept: list[Any]) -> int:
    """Fill a struct of the core from a record; returns its flags."""
    flags = _header_flags(row, record)
    for field in row.fields:
        value = getattr(record, field.name)
        if value is None:
            if field.presence != "IF_FLAG" and _has_place(field, record):
                raise ValueError(f"{row.name} {field.name}: a value is needed here")
            continue
        if not _has_place(field, record):
            raise ValueError(f"{row.name} {field.name}: there is no place for {value!r} here")
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
        try:
            native.flags = _fill(native, row, message, kept)
            status = out.write(lib.pyddsi_encode_message, native)
        finally:
            _release(kept)
        if status != lib.PYDDSI_OK:
            raise _refused(row, out.fault.rule, out.fault.at)
    return bytes(out)
