"""The scapy layers against the core: what one reads or writes, the other does too, byte for byte and field for field."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.fields import RawVal
from scapy.layers.inet import IP, TCP, UDP
from scapy.packet import Packet, Raw, fuzz

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
    Frame,
    Hello,
    KeepAlive,
    Layer,
    Locator,
    Migrate,
    Open,
    Ping,
    Pong,
    Property,
    Publication,
    Pull,
    PyddsiPacket,
    PyddsiStream,
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
from tests.py.strategies import message_lists

ROWS = {row.name: row for table in (MESSAGES, DECLARATIONS, ITEMS) for row in spec(table).values()}
BODIES = sorted(name for name, row in ROWS.items() if row.part != "R")


def row_of(layer: Packet) -> Spec:
    """The row of the table that a layer is made of."""
    return ROWS[str(layer.name)]


def called(field: Field) -> str:
    """The name that a field of the table has in scapy."""
    return "data" if field.name == "payload" else field.name


def header(layer: Packet, row: Spec) -> int:
    """The flags as they stand in the header byte; an item has none."""
    if not hasattr(layer, "flags"):
        return 0
    return int(layer.flags) << (4 if row in spec(DECLARATIONS).values() else 5) & 0xE0


def record(layer: Packet) -> Any:
    """What pyddsi.wire makes of the same bytes."""
    row = row_of(layer)
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
    return cls(**values)


def layer(found: Any) -> Packet:
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
    assert sorted(cls().name for cls in zs.LAYERS.values()) == BODIES
    for name, cls in zs.LAYERS.items():
        assert getattr(zs, name) is cls
        assert name in zs.__all__
        assert name == "Locator" or getattr(wire, name).NAME == cls().name
        assert not [field.name for field in cls.fields_desc if hasattr(Packet, field.name)]


@pytest.mark.parametrize("name", sorted(index()))
def test_capture(name: str) -> None:
    """A real packet would be read otherwise than by the core, lose a byte, or end elsewhere than where it is broken."""
    for data in {packet.data for packet in load(name)}:
        check(data)


@given(message_lists())
def test_random_messages(messages: list[wire.Message]) -> None:
    """Some message would be built otherwise than the core encodes it."""
    packet = PyddsiPacket(messages=[layer(message) for message in messages])
    data = wire.encode(messages)
    assert bytes(packet) == data
    again = check(data)
    assert isinstance(again.payload, type(Packet().payload))
    assert bytes(IP() / UDP() / again.copy())[28:] == data


@given(st.binary(max_size=64))
def test_random_bytes(data: bytes) -> None:
    """Some garbage would raise, lose bytes, or be taken for more or fewer messages than the core takes it for."""
    check(data)


@given(st.integers(0, len(shapes()) - 1), st.integers(0, 2**32))
def test_mangled_capture(number: int, seed: int) -> None:
    """A packet that is nearly right would be read otherwise than by the core, or be broken in another way each time."""
    packet = PyddsiPacket(shapes()[number])
    broken = mangle(packet, seed)
    assert isinstance(broken, PyddsiPacket)
    assert bytes(broken) != bytes(packet) == shapes()[number]
    assert bytes(mangle(packet, seed)) == bytes(broken)
    check(bytes(broken))


def test_mangle_reaches_everything() -> None:
    """Mangling would leave out the sizes in a list inside a list, the counts, or the bytes."""
    locators = [Locator(text="ab")]
    opened = Open(flags="P", id=b"x", locators=locators, properties=[Property(id=4, value=b"y")])
    packet = PyddsiPacket(messages=[opened])
    data = bytes(packet)
    sizes = {at for at, byte in enumerate(data) if at in {2, 5, 6, 9, 11}}
    changed: set[int] = set()
    lengths: set[int] = set()
    for seed in range(400):
        broken = bytes(mangle(packet, seed))
        lengths.add(len(broken) - len(data))
        differ = [at for at in range(len(data)) if broken[at : at + 1] != data[at : at + 1]]
        if len(differ) == 1 and len(broken) == len(data):
            changed.add(differ[0])
    assert sizes <= changed == set(range(len(data)))
    assert {-len(data), -1, 0, 1} <= lengths
    stream = PyddsiStream(frames=[Frame() / packet])
    assert any(bytes(mangle(stream, seed))[1:] == data for seed in range(99))


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


# ---- what is kept, computed, shown -----------------------------------------------------------------------------------


def test_long_forms_are_kept() -> None:
    """A number in more bytes than it needs would be lost as soon as something else in the packet changes."""
    packet = check(bytes.fromhex("47 80 80 00 82 00 81 00 61 06 00 81 00 03 02 02 ff"))
    packet.messages[1].declarations[0].mode = "push"
    assert bytes(packet) == bytes.fromhex("47 80 80 00 82 00 81 00 61 06 00 81 00 03 02 01 ff")
    packet.messages[0].sn = packet.messages[0].rid = 1
    del packet.messages[0].data_size
    assert bytes(packet) == bytes.fromhex("47 01 02 01 61 06 00 81 00 03 02 01 ff")


def test_sizes_follow_a_change() -> None:
    """What was dissected could not be changed: the old sizes, counts and markers, or the old bytes, would go out."""
    inner = Property(id=4, value=b"\x07")
    opened = Open(flags="P", id=b"x", properties=[inner])
    packet = PyddsiPacket(bytes(PyddsiPacket(messages=[Conduit(conduit=1), opened])))
    packet.messages[0].conduit = 7
    packet.messages[1].properties[0].value = b"abc"
    packet.messages[1].locators.append(Locator(text="l"))
    assert packet.messages[1].locators_count == 1
    assert bytes(packet) == bytes.fromhex("13 07 23 01 01 78 00 01 01 6c 01 04 03 616263")
    assert (IP() / UDP() / packet)[UDP].len is None


def test_wrong_on_purpose() -> None:
    """A wrong size, count, kind, flag or number could not be sent."""
    assert bytes(SData(data="abc", data_size=1)).hex() == "07000201616263"
    assert bytes(Declare(declarations_count=300)).hex() == "0600ac02"
    assert bytes(SData(kind=31, flags=0, sn=1 << 70)).hex() == "1f" + "80" * 10 + "010200"
    assert bytes(SData(sn=RawVal(b"\x80\x00"))).hex() == "0780000200"
    assert bytes(Conduit(flags="Z", conduit=3)).hex() == "93"
    assert bytes(Frame(size=9) / PyddsiPacket(messages=[Scout()])).hex() == "090100"
    for bad in (SData(sn=-1), Close(reason=256)):
        with pytest.raises(ValueError, match="While building field"):
            bytes(bad)
    with pytest.raises(ValueError, match="mode has no 'pushy', only push, pull"):
        Subscription(mode="pushy")
    with pytest.raises(ValueError, match="runs past the end"):
        SData(b"\x07\x00\x02\x05a")


def test_deep_copies_and_pickles() -> None:
    """A packet would lose something on its way to another process."""
    packet = PyddsiPacket(messages=[messages[0] for _, messages in VECTORS])
    for other in (packet.copy(), copy.deepcopy(packet), pickle.loads(pickle.dumps(packet))):  # noqa: S301
        assert bytes(other) == bytes(packet)


def test_show_names_things() -> None:
    """A person would read numbers where the protocol has names, or see fields that are not there."""
    declared = [Subscription(id="s3", mode="pull"), Result(status=2, id=7)]
    messages = [
        Conduit(conduit=2),
        Hello(mask=21),
        SData(flags="SR", rid=wire.SelectionId(4)),
        Close(reason=3),
        Declare(flags="C", declarations=declared),
        Scout(flags="P", mask=2, properties=[Property(id=4)]),
        WData(uri="/a"),
    ]
    shown = PyddsiPacket(messages=messages).show2(dump=True)
    lines = [" ".join(line.replace("|", " ").split()) for line in shown.splitlines()]
    for wanted in (
        "flags = 2Z",
        "conduit = 2",
        "mask = broker+peer+16",
        "flags = SR",
        "rid = s4",
        "data_size = 0",
        "reason = out-of-resources",
        "flags = C",
        "declarations_count= 2",
        "id = s3",
        "mode = pull",
        "status = conflict",
        "id = 7",
        "flags = P",
        "mask = durability",
        "id = sequence-bits",
        "uri = '/a'",
        "kind = WDATA",
    ):
        assert wanted in lines
    assert not [line for line in lines if line.startswith(("data_rid", "origin", "[ Raw"))]
    assert PyddsiPacket(messages=messages[:3]).summary() == "pyddsi CONDUIT HELLO SDATA"


# ---- fuzz, streams, ports, answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(zs.LAYERS))
def test_fuzz_every_class(name: str) -> None:
    """Random values of some class would not be random, not fit their fields, or break the sizes around them."""
    cls = zs.LAYERS[name]
    random.seed(name)
    inside = cls()
    if issubclass(cls, Layer) and ROWS[str(inside.name)] in spec(DECLARATIONS).values():
        inside = Declare(declarations=[inside])
    elif isinstance(inside, Sample):
        inside = BData(samples=[inside])
    elif isinstance(inside, Locator):
        inside = Hello(locators=[inside])
    elif isinstance(inside, Property):
        inside = Scout(flags="P", properties=[fuzz(inside)])
    packet = fuzz(PyddsiPacket(messages=[inside]))
    made = {bytes(packet) for _ in range(100)}
    assert len(made) > 10
    for data in made:
        wire.decode(data)
        check(data)
    assert len({bytes(fuzz(cls())) for _ in range(100)}) > 2


def test_fuzz_varies_each_field() -> None:
    """Fuzzing would leave a field as it is, or draw nothing but long numbers."""
    random.seed(1)
    packet = fuzz(
        PyddsiPacket(messages=[SData(flags="A"), Declare(declarations=[Subscription(mode=3)])])
    )
    made = [PyddsiPacket(bytes(packet)).messages for _ in range(100)]
    for name in ("sn", "rid", "data_rid", "data"):
        assert len({getattr(sample, name) for sample, _ in made}) > 20, name
    for name in ("id", "origin", "period", "duration"):
        assert len({getattr(declare.declarations[0], name) for _, declare in made}) > 20, name
    assert {sample.flags for sample, _ in made} == {4}
    assert sum(sample.sn < 2**32 for sample, _ in made) > 20


def test_stream() -> None:
    """A segment of a connection would be read otherwise than by the core, or lose the frame that is not whole."""
    scout, ping = PyddsiPacket(messages=[Scout(mask=5)]), PyddsiPacket(messages=[Ping(hash=1)])
    stream = PyddsiStream(frames=[Frame() / scout, Frame() / ping])
    assert bytes(stream).hex(" ") == "02 01 05 02 0c 01"
    unframed = PyddsiStream(frames=[Frame() / scout, Frame(size=0) / (ping / Raw(b"\x0c"))])
    data = bytes(unframed)
    assert data.hex(" ") == "02 01 05 00 0c 01 0c"
    core = wire.Stream()
    assert [bytes(p) for p in core.feed(data)] == [b"\x01\x05", b"\x0c\x01"]
    for text in (
        "02 01 05 02 0c",
        "82 00 01 05 01 ff",
        "00",
        "02 01 05 00",
        "81 80 00 05",
        "ff 7f 01",
        "",
    ):
        data = bytes.fromhex(text)
        read = PyddsiStream(data)
        assert bytes(read) == data
        packets = [bytes(frame.payload) for frame in read.frames if frame.payload]
        core = wire.Stream()
        try:
            taken = [bytes(p) for p in core.feed(data)]
        except WireError as error:
            taken = [bytes(p) for p in error.messages]
        assert packets == taken
    random.seed(2)
    for _ in range(50):
        read = PyddsiStream(
            bytes(fuzz(PyddsiStream(frames=[Frame() / PyddsiPacket(messages=[SData()])])))
        )
        assert not read.payload
        assert not read.frames[0].payload.payload
        assert read.frames[0].size == len(read.frames[0].payload)


def test_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets at the well-known port, or at one that was bound, would be shown as raw bytes; others would not be."""
    monkeypatch.setattr(UDP, "payload_guess", UDP.payload_guess)
    monkeypatch.setattr(TCP, "payload_guess", TCP.payload_guess)
    scout = PyddsiPacket(messages=[Scout()])
    assert (UDP() / scout).dport == zs.PORT == 7447
    assert (TCP() / PyddsiStream()).dport == zs.PORT
    for ports in ({"dport": 7447}, {"sport": 7447}):
        assert PyddsiPacket in IP(bytes(IP() / UDP(**ports) / scout))
        framed = IP() / TCP(**ports) / PyddsiStream(frames=[Frame() / scout])
        assert Scout in IP(bytes(framed))
    other = bytes(IP() / UDP(sport=40001, dport=40002) / scout)
    assert PyddsiPacket not in IP(other)
    zs.bind(40002)
    assert PyddsiPacket in IP(other)
    assert PyddsiStream in IP(bytes(IP() / TCP(sport=40002, dport=40003) / b"\x02\x01\x00"))


def test_answers() -> None:
    """sr() would wait for ever for a PONG or an ACCEPT that has come, or take another's."""
    ping = (
        IP(src="10.0.0.1", dst="10.0.0.2")
        / UDP(sport=4000, dport=4001)
        / PyddsiPacket(messages=[Ping(hash=7)])
    )

    def back(message: Packet) -> Packet:
        packet = PyddsiPacket(messages=[Scout(), message])
        return IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=4001, dport=4000) / packet

    assert back(Pong(hash=7)).answers(ping)
    assert back(Pong(hash=7)).hashret() == ping.hashret()
    for wrong in (Pong(hash=8), Ping(hash=7), Scout()):
        assert not back(wrong).answers(ping)
    assert back(Pong(hash=8)).hashret() != ping.hashret()
    opened = PyddsiPacket(messages=[Open(id=b"me")])
    accepted = PyddsiPacket(messages=[Accept(opener=b"me", acceptor=b"you")])
    assert accepted.answers(opened)
    assert accepted.hashret() == opened.hashret()
    assert not opened.answers(accepted)
    assert not PyddsiPacket(messages=[Accept(opener=b"you", acceptor=b"me")]).answers(opened)
    assert not accepted.answers(Raw(b"x"))


def test_imports() -> None:
    """Our package's name would hide scapy's, or importing it would load all of scapy."""
    code = """
import sys
import pyddsi.scapy as zs
import scapy
assert scapy.__name__ == "scapy" and scapy is not zs and hasattr(scapy, "VERSION")
assert sys.modules["scapy.fields"].Field and "scapy.all" not in sys.modules
from pyddsi.scapy import *
assert PyddsiPacket is zs.PyddsiPacket and SData is zs.SData
"""
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, cwd=zs.__path__[0] + "/../.."
    )
