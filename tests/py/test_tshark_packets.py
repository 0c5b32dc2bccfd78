"""Which bytes the Wireshark plug-in takes for ours, and how it reads connections."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pyddsi import wire
from tests.py import core_columns
from tests.py.golden import load, shapes
from tests.py.make_capture import ethernet, ipv6, udp
from tests.py.make_traffic import (
    FRAMED,
    GROUP,
    LOCATOR,
    LONG,
    OTHER_GROUP,
    WAYS,
    A,
    B,
    C,
    D,
    connection,
    cut,
    datagram,
    framed,
    opening,
    sample,
    written,
)
from tests.py.tshark import compare, fields

SCOUT = wire.encode([wire.Scout(wire.Role.PEER)])
FAULTS = [
    "CUT",
    "KIND_UNKNOWN",
    "KIND_RESERVED",
    "NUMBER_WIDE",
    "SN_RANGE",
    "LENGTH_WIDE",
    "ID_WIDE",
    "DECLARATION_KIND",
    "MODE",
]
KIND, FAULT, FLOW = "pyddsi.kind", "pyddsi.fault", "pyddsi.flow"


def kinds(path: Path, *options: str, profile: bool = False) -> dict[int, list[str]]:
    """The kinds of the messages in each frame that has some."""
    return {
        n: got[KIND]
        for n, got in fields(path, [KIND, "pyddsi.fault"], *options, profile=profile).items()
    }


# ---- datagrams ---------------------------------------------------------------------------------------------------


def test_who_is_known(tmp_path: Path) -> None:
    """Answers between ephemeral ports would be missed, a stranger's be taken, or the packet that gives them away stay blank."""
    frames = [
        datagram(C, D, sample(0)),  # nobody knows them yet
        datagram(A, GROUP, SCOUT),
        datagram(B, A, sample(0)),  # B speaks with one who is known
        datagram(C, B, sample(0)),  # and C with B
        datagram(C, D, sample(1)),
        datagram(("10.0.0.9", 53), ("10.0.0.8", 40008), SCOUT),
        datagram(A, OTHER_GROUP, sample(2)),
        datagram(("10.0.0.9", 53), OTHER_GROUP, sample(3)),  # a group is nobody's alone
    ]
    path = written(tmp_path / "run.pcap", frames)
    assert kinds(path) == {2: ["1"], 3: ["7"], 4: ["7"], 5: ["7"], 7: ["7"]}
    assert kinds(path, "-2") == kinds(path)
    assert [packet.number for packet in load(str(path))] == [2, 3, 4, 5, 7]


HELLO = wire.encode([wire.Hello(wire.Role.PEER, (LOCATOR,))])
GREETINGS = [
    (opening(), True),
    (HELLO, True),
    (opening(7), True),
    (opening(locators=()), False),  # too little to tell it from anything else
    (opening(locators=("http://here",)), False),
    (opening() + b"\x01\x05", False),
    (opening()[:-1], False),
    (b"\x43" + opening()[1:], False),  # an undefined flag
    (b"\x23\x02" + opening()[2:], False),  # another version
    (b"\x03" + opening()[1:-1], False),  # without properties
    (opening(peer_id=b""), False),
    (opening(peer_id=bytes(17)), False),
    (HELLO.replace(b"\x01\x15", b"\x81\x00\x15"), False),  # a number in a longer form than it needs
    (wire.encode([wire.Accept(b"a", b"b", 50, properties=[])]), False),
    (sample(0), False),
    (b"\x01\x05", False),
]


def test_greetings(tmp_path: Path) -> None:
    """On a port of one's own nothing would be found, or anything be taken for the beginning of a session."""
    frames, wanted = list[bytes](), list[int]()
    for n, (data, taken) in enumerate(GREETINGS):
        one, two = (f"10.1.{n}.1", 40001), (f"10.1.{n}.2", 40002)
        said = [(one, two, data), (two, one, sample(0)), (one, OTHER_GROUP, sample(0))]
        frames += [datagram(*each) for each in said]
        wanted += [3 * n + 1, 3 * n + 2, 3 * n + 3] if taken else []
    path = written(tmp_path / "run.pcap", frames)
    assert sorted(kinds(path)) == wanted


def test_ports_and_groups(tmp_path: Path) -> None:
    """The settings for another port or group would do nothing, or the usual port be taken although it was taken away."""
    frames = [
        datagram(A, OTHER_GROUP, sample(0)),
        datagram(B, GROUP, sample(0)),
        datagram(C, ("10.0.0.9", 9001), sample(0)),
    ]
    path = written(tmp_path / "run.pcap", frames)
    assert sorted(kinds(path)) == [2]
    assert sorted(kinds(path, "-o", "pyddsi.ports:9000-9002,17456")) == [1, 3]
    both = ["-o", "pyddsi.ports:7447", "-o", "pyddsi.groups:nonsense, 239.255.9.9, ff02::1"]
    assert sorted(kinds(path, *both)) == [1, 2]
    six = (("fe80::1", 40000), ("ff02::1", 17456))
    path = written(tmp_path / "six.pcap", [ethernet(ipv6(udp(sample(0), six), ways=six))])
    assert fields(path, [FLOW], *both)[1][FLOW] == ["[fe80::1]:40000 → multicast c0 reliable"]


def test_port_of_another_protocol(tmp_path: Path) -> None:
    """With the profile, an endpoint that has been learnt would still go to whoever has its port, such as mDNS."""
    other = ("10.0.0.2", 5353)
    frames = [
        datagram(A, other, opening()),
        datagram(other, A, sample(0)),
        datagram(A, other, sample(0)),
    ]
    path = written(tmp_path / "run.pcap", frames)
    assert sorted(kinds(path, profile=True)) == [1, 2, 3]


def test_truncated(tmp_path: Path) -> None:
    """What the capture has cut off would be called the sender's fault."""
    frames = [
        datagram(A, GROUP, sample(0) + sample(1, b"y" * 100)),
        datagram(A, GROUP, sample(2)[:-1]),
    ]
    path = written(tmp_path / "run.pcap", frames, snap=80)
    experts = ["pyddsi.expert.truncated", "pyddsi.expert.malformed"]
    found = fields(path, [KIND, FAULT, *experts])
    assert {n: (got[KIND], got[FAULT]) for n, got in found.items()} == {
        1: (["7"], ["CUT"]),
        2: ([], ["CUT"]),
    }
    assert [bool(found[1][expert]) for expert in experts] == [True, False]
    assert [bool(found[2][expert]) for expert in experts] == [False, True]


# ---- numbers ------------------------------------------------------------------------------------------------------

WIDE = 2**56
NUMBERS = [
    (7, [125, 126, 127, 0, 1, 0, 2, 64, 65, 1, 66]),
    (14, [16382, 16383, 0, 1, 5, 3, 16380, 16381, 4, 2, 16384, 6]),
    (28, [2**28 - 2, 2**28 - 1, 0, 3, 1, 2**27 + 3, 2**27 + 4, 4]),
    (56, [WIDE - 2, WIDE - 1, 0, 2**53 - 1, 2**53 + 1, 1, WIDE - 3, 2, WIDE, WIDE // 2 + 2, 3]),
    (56, [2**53 - 2, 2**53 - 1, 2**53, 2**53 + 3, 2**53 + 1, 2**53 + 2, 2**53 + 2]),
    (14, [5000, 7100, 5052, 5051, 5053, 4999, 7101]),
    (14, [5052, 5053, 7100, 5053, 5052, 12000, 9953, 9952, 7100]),
    (56, [2**63, 0, 2**31, 2**31 + 1, 1, 2]),
    (63, [0, 2**14, 1]),  # which nobody can have
]


@pytest.mark.parametrize("reliable", [True, False], ids=["reliable", "best effort"])
def test_numbers(reliable: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A number would be unwrapped wrongly: over the wrap, behind, far off, or where Lua's own numbers are no longer exact."""
    frames = list[bytes]()
    for place, (bits, numbers) in enumerate(NUMBERS):
        one, two = (f"10.1.{place}.1", 40001), (f"10.1.{place}.2", 40002)
        frames += [datagram(one, GROUP, SCOUT), datagram(one, two, opening(bits))]
        frames.append(datagram(two, one, HELLO))
        for n, sn in enumerate(numbers):
            frames.append(datagram(one, two, sample(sn, reliable=reliable)))
            ack = wire.AckNack(numbers[n - 1] % 2**bits, mask=2**64 - 1 if n % 3 == 0 else None)
            frames.append(datagram(two, one, wire.encode([ack])))
    path = written(tmp_path / "run.pcap", frames)
    compare(path, load(str(path)))
    core_columns.compare(path, load(str(path)))


def test_bits_that_are_set(tmp_path: Path) -> None:
    """The setting for the length of sequence numbers would do nothing."""
    frames = [datagram(A, GROUP, sample(n % 128)) for n in range(120, 140)]
    path = written(tmp_path / "run.pcap", frames)
    compare(path, load(str(path)), "-o", "pyddsi.seq_bits:7", seq_bits=7)
    core_columns.compare(path, load(str(path)), seq_bits=7)
    assert fields(path, ["pyddsi.usn"], "-o", "pyddsi.seq_bits:7")[20]["pyddsi.usn"] == ["139"]


def test_ids_and_masks(tmp_path: Path) -> None:
    """A number of 64 bits, a selection's id, a long form, or text that is none would be shown as something else."""
    most = 2**63 - 1
    messages = [
        wire.Scout(2**64 - 1),
        wire.SData(2**64 - 1, most, b""),
        wire.SData(0, wire.SelectionId(most), bytes(range(256)), data_rid=3),
        wire.Conduit(2, long=True),
        wire.Conduit(65535),
        wire.WData(1, "/\udcff\x01", b"", undefined=0x80),
        wire.AckNack(2, mask=2**64 - 1),
        wire.AckNack(2, mask=0),
        wire.Migrate(1, 2**63, 2**64 - 1, rid=wire.SelectionId(3)),
        wire.Declare(
            3, [wire.Selection(7, "/x?{a > 1}", is_global=True), wire.Binding(7, 8, undefined=0x20)]
        ),
    ]
    path = written(tmp_path / "run.pcap", [datagram(A, GROUP, wire.encode(messages))])
    compare(path, load(str(path)))
    core_columns.compare(path, load(str(path)))


def broken(data: bytes, choice: random.Random) -> bytes:
    """A packet with a byte that is wrong, missing, or too many."""
    at = choice.randrange(len(data))
    middle = choice.choice(
        [b"", bytes([data[at] ^ 1 << choice.randrange(8)]), b"\xff" + data[at:][:1]]
    )
    return data[:at] + middle + data[at + 1 :]


def test_broken_packets(tmp_path: Path) -> None:
    """A length would be taken on trust, a rule be broken unseen, or what comes before the fault be lost."""
    choice = random.Random(1)
    whole = [data for data in shapes() if len(data) < 200]
    packets = [broken(choice.choice(whole), choice) for _ in range(1500)]
    packets += [choice.randbytes(choice.randrange(1, 40)) for _ in range(500)]
    for size, last in ((9, 1), (9, 2), (9, 0x80), (4, 0x0F), (4, 0x10), (2, 3), (2, 4)):
        for group in (0x80, 0xFF):
            number = bytes([*[group] * size, last]) + bytes(9)
            packets += [bytes([kind, *head]) + number for kind in range(256) for head in ([], [0])]
    frames = [
        datagram((f"10.0.{n // 250}.{n % 250}", 40001), GROUP, data)
        for n, data in enumerate(packets)
    ]
    path = written(tmp_path / "run.pcap", frames)
    faults = {packet.error.rule for packet in load(str(path)) if packet.error}
    assert faults == set(FAULTS)
    compare(path, load(str(path)))


# ---- connections --------------------------------------------------------------------------------------------------

UNFRAMED = b"\x00" + b"".join(
    [b"\x93", sample(5), sample(6), b"\xb3\x13\x07", sample(7), LONG, sample(8)]
)


STREAMS = [FRAMED, FRAMED + UNFRAMED, framed(sample(0)[:-1], sample(1)) + b"\x80" + UNFRAMED]


@pytest.mark.parametrize("data", STREAMS, ids=["framed", "unframed", "faulty"])
def test_connection(data: bytes, tmp_path: Path) -> None:
    """Messages of a connection would be lost, doubled or wrongly put together where a segment ends."""
    frames = [
        frame
        for size in (1, 2, 3, 7, 100, 1000)
        for frame in connection(cut(data, size), ((f"10.1.0.{size % 255}", 40000), WAYS[1]))
    ]
    path = written(tmp_path / "run.pcap", frames)
    compare(path, load(str(path)))
    compare(path, load(str(path)), "-2")


def test_connection_beside_datagrams(tmp_path: Path) -> None:
    """A connection and datagrams between the same ports would be taken for one flow, of one sender."""
    one, two = WAYS
    frames = [datagram(one, two, data) for data in (opening(7), sample(126), sample(0))]
    stream = connection([framed(sample(126)), framed(sample(0))])
    path = written(tmp_path / "run.pcap", stream + frames)
    events = [got["pyddsi.seq_event"] for got in fields(path, ["pyddsi.seq_event", KIND]).values()]
    assert events == [["1"], ["7"], [], ["1"], ["2"]]


@pytest.mark.parametrize(
    ("data", "rule", "counted"),
    [
        (framed(sample(0)) + b"\x80\x80\x01" + framed(sample(1)), "FRAME_LENGTH", 1),
        (b"\x00" + sample(0) + b"\x0a" + sample(1), "KIND_RESERVED", 1),
        (b"\x00" + sample(0) + sample(1, bytes(16384)) + sample(2), "FRAME_LIMIT", 1),
    ],
)
def test_broken_connection(data: bytes, rule: str, counted: int, tmp_path: Path) -> None:
    """Behind a fault that ends the framing, bytes would be taken for packets; or the fault be said again and again."""
    path = written(tmp_path / "run.pcap", connection([*cut(data, 1000), b"more", b"and more"]))
    found = fields(path, [KIND, FAULT])
    assert [rule] == [fault for got in found.values() for fault in got[FAULT]]
    assert ["7"] * counted == [kind for got in found.values() for kind in got[KIND]]


def test_segment_that_is_not_put_together(tmp_path: Path) -> None:
    """Where Wireshark puts no segments together, a frame that is not whole would be taken for a packet."""
    path = written(tmp_path / "run.pcap", connection(cut(FRAMED, 100)))
    found = fields(path, [KIND, FAULT], "-o", "tcp.desegment_tcp_streams:FALSE")
    assert found[2] == {KIND: ["7", "7", "7"], FAULT: []}
