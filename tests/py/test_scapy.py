"""The scapy layers against the core: what one reads or writes the other does, byte for byte and field for field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet

from pyddsi import scapy as zs
from pyddsi import wire
from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, Field, Spec, spec
from pyddsi.errors import WireError
from pyddsi.scapy import (
    Accept,
    AckNack,
    BData,
    Binding,
    Close,
    Commit,
    Conduit,
    ConduitClose,
    Declare,
    ForgetSelection,
    Frag,
    Hello,
    KeepAlive,
    Locator,
    Migrate,
    Open,
    Ping,
    Pong,
    Property,
    Publication,
    Pull,
    PyddsiPacket,
    Resource,
    Result,
    RSpace,
    Sample,
    Scout,
    SData,
    Selection,
    Subscription,
    Synch,
    WData,
    mangle,
)
from tests.py.golden import index, load, shapes
from tests.py.strategies import Maker

DECLARED = {row.name for row in spec(DECLARATIONS).values()}
ROWS = {row.name: row for table in (MESSAGES, DECLARATIONS, ITEMS) for row in spec(table).values()}
DATAGRAM_MAX = 65507
BODIES = sorted(name for name, row in ROWS.items() if row.part != "R")


def called(field: Field) -> str:
    """The name that a field of the table has in scapy."""
    return "data" if field.name == "payload" else field.name


def header(layer: Packet, row: Spec) -> int:
    """The flags as they stand in the header byte; an item has none."""
    if not hasattr(layer, "flags"):
        return 0
    return int(layer.flags) << (4 if row.name in DECLARED else 5) & 0xE0


def record(layer: Packet) -> Any:
    """What pyddsi.wire makes of the same bytes."""
    row = ROWS[str(layer.name)]
    if row.name == "LOCATOR":
        return layer.text
    values: dict[str, Any] = {}
    for field in row.fields:
        value = getattr(layer, called(field))
        values[field.name] = tuple(map(record, value)) if isinstance(value, list) else value
    flags = header(layer, row)
    values |= {flag.name: bool(flags & flag.bit) for flag in row.flags if flag.name}
    cls = getattr(wire, type(layer).__name__)
    if "undefined" in cls.FIELDS:
        values["undefined"] = flags & 0xE0 & ~sum(flag.bit for flag in row.flags)
    if row.fields[0].type == "MARKER":
        short = bool(flags & 0x80)
        values["long"] = not short and 1 <= values[row.fields[0].name] <= 4
        values["undefined"] = 0 if short else flags & 0x60
    found = cls(**values)
    for name, value in values.items():
        setattr(
            found, name, value
        )  # a constructor makes any id a selection's where one should stand
    return found


def layer(found: Any) -> Any:
    """A layer with the fields of a record of pyddsi.wire."""
    if isinstance(found, str):
        return Locator(text=found)
    row = ROWS[found.NAME]
    values: dict[str, Any] = {}
    for field in row.fields:
        value = getattr(found, field.name)
        if value is not None:
            values[called(field)] = [layer(v) for v in value] if isinstance(value, tuple) else value
    if "undefined" not in found.FIELDS:
        return getattr(zs, type(found).__name__)(**values)
    flags = found.undefined
    for flag in row.flags:
        flags |= flag.bit if flag.name and getattr(found, flag.name) else 0
    for field in row.fields:
        flags |= field.flag if getattr(found, field.name) is not None else 0
    if row.fields[0].type != "MARKER" or found.long or found.undefined:
        values["flags"] = flags >> (4 if isinstance(found, wire.Declaration) else 5)
    return getattr(zs, type(found).__name__)(**values)


def decoded(data: bytes) -> tuple[list[wire.Message], int]:
    """The messages of a packet as the core reads them, and where they end."""
    try:
        found = wire.decode(data)
    except WireError as error:
        found = error.messages
    return found, found[-1].at + found[-1].size if found else 0


def check(data: bytes) -> PyddsiPacket:
    """Dissect a packet; scapy must find what the core finds, and build the same bytes."""
    packet = PyddsiPacket(data)
    messages, end = decoded(data)
    assert [record(message) for message in packet.messages] == messages
    assert bytes(packet.payload) == data[end:]
    packet.clear_cache()
    assert bytes(packet) == data
    return packet


# ---- against captures and at random ----------------------------------------------------------------------------------


def test_layer_for_every_row() -> None:
    """A row of the table would have no layer, or a field of it be hidden behind something that scapy calls the same."""
    assert sorted(str(cls().name) for cls in zs.LAYERS.values()) == BODIES
    for name, cls in zs.LAYERS.items():
        assert getattr(zs, name) is cls
        assert name in zs.__all__
        assert name == "Locator" or cls().name == getattr(wire, name).NAME
        assert not [field.name for field in cls.fields_desc if hasattr(Packet, field.name)]


@pytest.mark.parametrize("name", sorted(index()))
def test_capture(name: str) -> None:
    """A real packet would be read otherwise than by the core, lose a byte, or end elsewhere than where it is broken."""
    for data in {packet.data for packet in load(name)}:
        check(data)


@given(st.binary(max_size=96))
def test_random_messages(choices: bytes) -> None:
    """Some message would be built otherwise than the core encodes it."""
    messages = Maker(choices).messages()
    packet = PyddsiPacket(messages=[layer(message) for message in messages])
    data = wire.encode(messages)
    assert bytes(packet) == data
    again = check(data)
    assert not again.payload
    if len(data) <= DATAGRAM_MAX:
        assert bytes(IP() / UDP() / again.copy())[28:] == data


@given(st.binary(max_size=64))
def test_random_bytes(data: bytes) -> None:
    """Some garbage would raise, lose bytes, or be taken for more or fewer messages than the core takes it for."""
    check(data)


@given(st.binary(max_size=96), st.integers(0, 2**32))
def test_mangled_messages(choices: bytes, seed: int) -> None:
    """A packet that is nearly right would be read otherwise than by the core, or be broken in another way each time."""
    packet = PyddsiPacket(messages=[layer(message) for message in Maker(choices).messages()])
    broken = mangle(packet, seed)
    assert isinstance(broken, PyddsiPacket)
    assert bytes(broken) != bytes(packet)
    assert bytes(mangle(packet, seed)) == bytes(broken)
    check(bytes(broken))


def test_mangled_captures() -> None:
    """The same for what zhe sends: a packet of every shape, each broken in a few ways."""
    for data in shapes():
        for seed in range(5):
            check(bytes(mangle(PyddsiPacket(data), seed)))


# ---- vectors ---------------------------------------------------------------------------------------------------------

URI = [Locator(text="udp/239.255.0.1:7447")]
AUTHENTICATION = Property(id="authentication", value=b"\x02\x03")
UDP_HEX = b"udp/239.255.0.1:7447".hex()

VECTORS: list[tuple[str, list[Packet]]] = [
    ("01 05", [Scout(mask="broker+peer")]),
    ("21 01 00", [Scout(flags="P", mask="broker")]),
    (f"02 04 01 14 {UDP_HEX}", [Hello(mask="peer", locators=URI)]),
    (
        f"23 01 02 a002 32 01 14 {UDP_HEX} 01 0c 02 0203",
        [Open(flags="P", id=b"\xa0\x02", lease=50, locators=URI, properties=[AUTHENTICATION])],
    ),
    (
        "24 02 c002 02 b002 32 01 0c 02 0203",
        [
            Accept(
                flags="P",
                opener=b"\xc0\x02",
                acceptor=b"\xb0\x02",
                lease=50,
                properties=[AUTHENTICATION],
            )
        ],
    ),
    ("05 02 c002 00", [Close(id=b"\xc0\x02", reason="ordinary")]),
    ("05 01 61 ff", [Close(id="a", reason="other")]),
    ("10 01 b3", [KeepAlive(id=b"\xb3")]),
    ("0c 80 01 0d 80 01", [Ping(hash=128), Pong(hash=128)]),
    ("67 00 02 02 01 32", [SData(flags="SR", rid=1, payload=b"\x01\x32")]),
    ("47 ff 7f 02 00", [SData(flags="R", sn=16383)]),
    (
        "e7 01 0a 02 04 43434343",
        [SData(flags="SRA", sn=1, rid=5, data_rid=1, data="CCCC")],
    ),
    ("07 00 07 00", [SData(rid="s3")]),
    (
        "88 05 02 02 04 01 61 06 00",
        [BData(flags="A", sn=5, samples=[Sample(rid=2, data="a"), Sample(rid=3)])],
    ),
    ("08 05 02 01 01 61", [BData(sn=5, samples=[Sample(data="a")])]),
    ("69 0a 02 2f74 01 78", [WData(flags="SR", sn=10, uri="/t", data="x")]),
    ("09 00 02 2fff 00", [WData(uri="/\udcff")]),
    ("eb 01 07 90 03", [Pull(flags="SNF", sn=1, rid=wire.SelectionId(3), limit=400)]),
    ("6e 64", [Synch(flags="SR", sn=100)]),
    ("ee 01 01", [Synch(flags="SRU", sn=1, count=1)]),
    ("0f 01", [AckNack(sn=1)]),
    ("2f 05 ff ff ff ff 07", [AckNack(flags="M", sn=5, mask=0x7FFFFFFF)]),
    ("11 03", [ConduitClose(left=3)]),
    ("12 07 07 00 02 00", [Frag(first=7), SData()]),
    ("52 07 03", [Frag(flags="N", first=7, fragments=3)]),
    ("93 b3 d3 f3 13 05 13 00", [Conduit(conduit=n) for n in (1, 2, 3, 4, 5, 0)]),
    ("13 02", [Conduit(conduit=2, flags=0)]),
    ("53 02", [Conduit(conduit=2, flags="4")]),
    ("14 01 09 0a", [Migrate(left=1, last_reliable=9, last_unreliable=10)]),
    ("34 01 06 09 0a", [Migrate(flags="I", left=1, rid=3, last_reliable=9, last_unreliable=10)]),
    ("98 18 00 18 05", [RSpace(space=1), RSpace(), RSpace(space=5)]),
    (
        "b3 46 00 01 03 02 01",
        [Conduit(conduit=2), Declare(flags="C", declarations=[Subscription(mode="push")])],
    ),
    (
        "46 00 01 01 02 07 2f742f64617461",
        [Declare(flags="C", declarations=[Resource(id=1, uri="/t/data")])],
    ),
    (
        "26 02 02 02 02 06 00",
        [Declare(flags="S", sn=2, declarations=[Publication(), Commit(commit=0)])],
    ),
    ("26 00 01 07 00 00", [Declare(flags="S", declarations=[Result(status="ok")])]),
    (
        "26 01 01 07 00 01 ee 01",
        [Declare(flags="S", sn=1, declarations=[Result(status="no-space", id=119)])],
    ),
    (
        "06 00 01 03 02 04 01 0a 02",
        [
            Declare(
                declarations=[Subscription(mode="periodic-pull", origin=1, period=10, duration=2)]
            )
        ],
    ),
    (
        "06 00 03 84 07 01 61 85 07 08 0b 07",
        [
            Declare(
                declarations=[
                    Selection(flags="G", id=3, query="a"),
                    Binding(flags="G", id=3, new_id=4),
                    ForgetSelection(id=3),
                ]
            )
        ],
    ),
    ("06 00 01 12 02", [Declare(declarations=[Publication(flags="1")])]),
    ("e1 05 00", [Scout(flags="P48", mask=5)]),
]


@pytest.mark.parametrize(("text", "messages"), VECTORS, ids=[text for text, _ in VECTORS])
def test_vector(text: str, messages: list[Packet]) -> None:
    """A message would be built from its names, flags and numbers otherwise than the protocol has it."""
    data = bytes.fromhex(text)
    assert bytes(PyddsiPacket(messages=messages)) == data
    assert check(data).messages == PyddsiPacket(data).messages
    assert not check(data).payload


def test_vectors_have_every_message() -> None:
    """The vectors would leave out a kind that was added."""
    assert {type(m).__name__ for _, messages in VECTORS for m in messages} == {
        cls.__name__ for cls in wire.MESSAGES.values()
    }
