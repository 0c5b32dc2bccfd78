"""Packets crafted with scapy: what is computed, kept, shown, random or broken on purpose, and where it is sent."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from typing import Any

import pytest
from scapy.fields import PacketListField, RawVal
from scapy.layers.inet import IP, TCP, UDP
from scapy.packet import Packet, Raw, fuzz

from pyddsi import scapy as zs
from pyddsi import wire
from pyddsi.errors import WireError
from pyddsi.scapy import (
    Accept,
    BData,
    Close,
    Conduit,
    Declare,
    Frame,
    Hello,
    Locator,
    Open,
    Ping,
    Pong,
    Property,
    PyddsiPacket,
    PyddsiStream,
    Result,
    Sample,
    Scout,
    SData,
    Subscription,
    WData,
    mangle,
)


def test_long_forms_are_kept() -> None:
    """A number in more bytes than it needs would be lost as soon as something else in the packet changes."""
    packet = PyddsiPacket(bytes.fromhex("47 80 80 00 82 00 81 00 61 06 00 81 00 03 02 02 ff"))
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


def test_wrong_on_purpose() -> None:
    """A wrong size, count, kind, flag or number could not be sent."""
    assert bytes(SData(data="abc", data_size=1)).hex() == "07000201616263"
    assert bytes(Declare(declarations_count=300)).hex() == "0600ac02"
    assert bytes(SData(kind=31, flags=0, sn=1 << 70)).hex() == "1f" + "80" * 10 + "010200"
    assert bytes(SData(sn=RawVal(b"\x80\x00"))).hex() == "0780000200"
    assert bytes(Conduit(flags="Z", conduit=3)).hex() == "93"
    assert bytes(Frame(size=9) / PyddsiPacket(messages=[Scout()])).hex() == "090100"
    for bad, what in ((SData(sn=-1), "'sn'.* is not negative"), (Close(reason=256), "'reason'")):
        with pytest.raises(ValueError, match=what):
            bytes(bad)
    with pytest.raises(ValueError, match="mode has no 'pushy', only push, pull"):
        Subscription(mode="pushy")
    with pytest.raises(ValueError, match="runs past the end"):
        SData(b"\x07\x00\x02\x02a")


def test_lists_of_others() -> None:
    """A message could not stand in the list of another protocol's layer."""
    field = PacketListField("scouts", [], Scout)
    found: tuple[bytes, Any] = field.getfield(Raw(), b"\x01\x05\x01\x01")
    assert found[0] == b""
    assert [scout.mask for scout in found[1]] == [5, 1]


def test_deep_copies_and_pickles() -> None:
    """A packet would lose something on its way to another process."""
    packet = PyddsiPacket(messages=[Conduit(conduit=2), BData(flags="A", samples=[Sample(rid=3)])])
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
    shown = str(PyddsiPacket(messages=messages).show2(dump=True))
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
    sent = (
        IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=41000) / PyddsiPacket(messages=messages[:2])
    )
    assert sent.summary() == "IP / UDP 10.0.0.1:41000 > 10.0.0.2:7447 / pyddsi CONDUIT HELLO"


@pytest.mark.parametrize("name", sorted(zs.LAYERS))
def test_fuzz_every_class(name: str) -> None:
    """Random values of some class would not be random, not fit their fields, or break the sizes around them."""
    cls = zs.LAYERS[name]
    random.seed(name)
    inside = cls()
    if issubclass(getattr(wire, name, object), wire.Declaration):
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
        assert bytes(PyddsiPacket(data)) == data
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
    scout = Scout(b"\x01\x05")
    scout.flags = "P"
    assert bytes(fuzz(scout)) == b"\x21\x05\x00"
    assert sum(sample.sn < 2**32 for sample, _ in made) > 20


def test_mangle_reaches_everything() -> None:
    """Mangling would leave out some byte, or some size or count: in a list inside a list, or in a frame."""
    locators = [Locator(text="ab")]
    opened = Open(flags="P", id=b"x", locators=locators, properties=[Property(id=4, value=b"y")])
    packet = PyddsiPacket(messages=[opened])
    stream = PyddsiStream(frames=[Frame() / packet])
    sizes = {2, 5, 6, 9, 11}
    for whole, wanted in ((packet, sizes), (stream, {0} | {at + 1 for at in sizes})):
        data = bytes(whole)
        broken = [bytes(mangle(whole, seed)) for seed in range(1000)]
        lengths = {len(other) - len(data) for other in broken}
        assert {-len(data), -1, 0, 1} <= lengths
        # One byte in all of the others is changed; to 7F, which is no single bit away, only where a size is.
        changed = {
            (at, other[at])
            for other in broken
            for at in range(len(data))
            if len(other) == len(data) and other[at] != data[at]
        }
        assert {at for at, _ in changed} == set(range(len(data)))
        assert wanted <= {at for at, byte in changed if byte == 0x7F}


def test_stream() -> None:
    """A segment of a connection would be read otherwise than by the core, or lose the frame that is not whole."""
    scout, ping = PyddsiPacket(messages=[Scout(mask=5)]), PyddsiPacket(messages=[Ping(hash=1)])
    stream = PyddsiStream(frames=[Frame() / scout, Frame() / ping])
    assert bytes(stream).hex(" ") == "02 01 05 02 0c 01"
    assert [frame.size for frame in PyddsiStream(bytes(stream)).frames] == [2, 2]
    unframed = PyddsiStream(frames=[Frame() / scout, Frame(size=0) / (ping / Raw(b"\x0c"))])
    data = bytes(unframed)
    assert data.hex(" ") == "02 01 05 00 0c 01 0c"
    core = wire.Stream()
    assert [bytes(p) for p in core.feed(data)] == [b"\x01\x05", b"\x0c\x01"]
    assert [frame.size for frame in PyddsiStream(data).frames] == [2, 0]
    for text in ("02 01 05 00 0c 01 0c", "80 00 0c 01 00", "00 0c 01 01 05"):
        read = PyddsiStream(bytes.fromhex(text))
        assert bytes(read).hex(" ") == text
        assert isinstance(read.frames[-1].payload.messages[0], Ping)
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
    framed = PyddsiStream(frames=[Frame() / scout])
    for source, destination in ((7447, 9), (9, 7447)):
        assert PyddsiPacket in IP(bytes(IP() / UDP(sport=source, dport=destination) / scout))
        assert Scout in IP(bytes(IP() / TCP(sport=source, dport=destination) / framed))
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
    assert back(Pong(hash=7)).hashret() == ping.hashret()  # type: ignore[no-untyped-call]
    for wrong in (Pong(hash=8), Ping(hash=7), Scout()):
        assert not back(wrong).answers(ping)
    assert back(Pong(hash=8)).hashret() != ping.hashret()  # type: ignore[no-untyped-call]
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
