"""The Python face of the wire: what its objects are like, what it refuses and in which words, and what it costs."""

from __future__ import annotations

import array
import copy
import json
from typing import Any

import pytest

from pyddsi import wire
from pyddsi.errors import PyddsiError

SDATA = bytes.fromhex("670002023132")
BATCH = wire.BData(7, 5, [wire.Sample(b"a", rid=1), wire.Sample(b"", rid=2)], actual=True)


# ---- messages -----------------------------------------------------------------------------------------------------


def test_documented_bytes() -> None:
    """The protocol's own examples would be read or written as something else."""
    for digits, message in (
        ("0105", wire.Scout(5)),
        ("0101", wire.Scout(wire.Role.BROKER)),
        (
            "0204011475" + "64702f3233392e3235352e302e313a37343437",
            wire.Hello(4, ["udp/239.255.0.1:7447"]),
        ),
        (
            "230102a00232010d" + b"tcp/0.0.0.0:0".hex() + "010c020203",
            wire.Open(
                1,
                b"\xa0\x02",
                50,
                ["tcp/0.0.0.0:0"],
                properties=[wire.Property(wire.PropertyId.AUTHENTICATION, b"\x02\x03")],
            ),
        ),
        (
            "2402c00202b00232010c020203",
            wire.Accept(b"\xc0\x02", b"\xb0\x02", 50, properties=[wire.Property(12, b"\x02\x03")]),
        ),
        ("0502c00200", wire.Close(b"\xc0\x02", wire.Reason.ORDINARY)),
        ("1001b3", wire.KeepAlive(b"\xb3")),
        ("0c8001", wire.Ping(128)),
        ("0d8001", wire.Pong(128)),
        ("67000202" + "0132", wire.SData(0, 1, b"\x01\x32", sync=True, reliable=True)),
        ("47ff7f0208" + 16 * "0", wire.SData(16383, 1, bytes(8), reliable=True)),
        (
            "e7010a020443434343",
            wire.SData(1, 5, b"CCCC", data_rid=1, sync=True, reliable=True),
        ),
        (
            "690a07" + b"/t/data".hex() + "0178",
            wire.WData(10, "/t/data", b"x", sync=True, reliable=True),
        ),
        ("6e64", wire.Synch(100, sync=True, reliable=True)),
        ("ee0101", wire.Synch(1, count=1, sync=True, reliable=True)),
        ("0f01", wire.AckNack(1)),
        ("2f0000", wire.AckNack(0, mask=0)),
        ("2f05ffffffff07", wire.AckNack(5, mask=0x7FFFFFFF)),
        ("2fe00701", wire.AckNack(992, mask=1)),
        (
            "460001030201",
            wire.Declare(0, [wire.Subscription(1, wire.Mode.PUSH)], committed=True),
        ),
        (
            "4600010102072f742f64617461",
            wire.Declare(0, [wire.Resource(1, "/t/data")], committed=True),
        ),
        ("0600010202", wire.Declare(0, [wire.Publication(1)])),
        ("2602010600", wire.Declare(2, [wire.Commit(0)], sync=True)),
        ("260001070000", wire.Declare(0, [wire.Result(0, 0)], sync=True)),
        (
            "26010107000" + "1ee01",
            wire.Declare(1, [wire.Result(0, wire.Status.NO_SPACE, id=119)], sync=True),
        ),
    ):
        assert wire.decode(bytes.fromhex(digits)) == [message]
        assert wire.encode([message]).hex() == digits
    assert wire.decode(bytes.fromhex("13050e00"))[0] == wire.Conduit(5)
    assert wire.encode([wire.Conduit(n) for n in range(7)]).hex() == "130093b3d3f313051306"
    assert wire.encode([wire.RSpace(n) for n in range(6)]).hex() == "180098b8d8f81805"


def test_large_rid() -> None:
    """An id of 60 bits would lose some on its way through the doubling."""
    message = wire.SData(0, 2**60 - 1, b"")
    assert wire.encode([message]).hex() == "0700feffffffffffffff1f00"
    assert wire.decode(wire.encode([message])) == [message]


def test_places() -> None:
    """A message would not know where it stood, or on which conduit and in which space."""
    packet = bytes.fromhex("01059398070002000f0113000e00")
    read = wire.decode(packet)
    assert [(m.at, m.size, m.conduit, m.space) for m in read] == [
        (0, 2, 0, 0),
        (2, 1, 1, 0),
        (3, 1, 1, 1),
        (4, 4, 1, 1),  # the space is for this one
        (8, 2, 1, 0),  # the conduit stays
        (10, 2, 0, 0),
        (12, 2, 0, 0),
    ]
    made = wire.Scout(5)
    assert (made.at, made.size, made.conduit, made.space) == (-1, 0, 0, 0)
    assert made == read[0]


def test_equality() -> None:
    """Messages that differ would be equal, or the same in another kind of buffer be different."""
    assert wire.SData(0, 1, b"x") == wire.SData(0, 1, bytearray(b"x"))
    assert wire.SData(0, 1, b"x") == wire.SData(0, 1, memoryview(b"x"))
    assert wire.SData(0, 1, b"x") != wire.SData(0, 1, b"y")
    assert wire.SData(0, 1, b"x") != wire.SData(0, 1, b"x", sync=True)
    assert wire.SData(0, 1, b"x") != wire.SData(0, wire.SelectionId(1), b"x")
    assert wire.Ping(1) != wire.Pong(1)
    assert wire.Ping(1) != 1
    assert wire.AckNack(1) != wire.AckNack(1, mask=0)
    assert wire.SelectionId(3) != 3
    assert not wire.SelectionId(3) == 3  # noqa: SIM201 - the other operator
    assert list({3: ""}.keys() & {wire.SelectionId(3): ""}.keys()) == []
    assert wire.SelectionId(3) == wire.SelectionId(3)
    assert len({wire.SelectionId(3), wire.SelectionId(3), 3}) == 2
    with pytest.raises(TypeError):
        hash(wire.Ping(1))
    assert copy.deepcopy(BATCH) == BATCH
    assert wire.BData(7, 5, BATCH.samples[:1], actual=True) != BATCH


def test_shown() -> None:
    """A message would be shown with other words than its fields."""
    message = wire.decode(SDATA)[0]
    assert repr(message) == "SData(sn=0, rid=1, payload=b'12', sync=True, reliable=True)"
    assert str(message) == "SDATA SR sn=0 rid=1 payload=3132 (2)"
    assert str(wire.Scout(13)) == "SCOUT mask=broker+peer+client"
    assert str(wire.Scout(16)) == "SCOUT mask=16"
    assert str(wire.Scout(0)) == "SCOUT mask=0"
    assert str(BATCH) == "BDATA A sn=7 rid=5 samples=[1:61 (1) 2:(0)]"
    assert str(wire.SData(0, wire.SelectionId(4), bytes(40))).endswith(
        "rid=s4 payload=" + 64 * "0" + ".. (40)"
    )
    assert str(wire.WData(0, 'a"\n\\', b"")) == r'WDATA sn=0 uri="a\x22\x0a\x5c" payload=(0)'
    assert str(wire.Ping(1, undefined=0xA0)) == "PING xz hash=1"
    assert wire.lines(bytes.fromhex("930e00")) == [(1, "CONDUIT conduit=1"), (1, "SYNCH sn=0")]
    long = wire.Hello(4, ["x" * 60_000] * 3)
    assert len(str(long)) > 180_000
    with pytest.raises(wire.WireError) as caught:
        wire.lines(bytes.fromhex("0e000e"))
    assert caught.value.messages == [(0, "SYNCH sn=0")]


def test_plain_data() -> None:
    """A message's dictionary would hold what JSON has no word for, or fields that are not there."""
    messages = [
        wire.Open(1, b"\x01", 50, ["udp/x"], properties=[wire.Property(4, b"\x07")]),
        BATCH,
        wire.Declare(0, [wire.Selection(3, "/a?{b}"), wire.Result(0, 0)]),
        wire.Ping(1, undefined=0x20),
    ]
    assert json.loads(json.dumps([m.to_dict() for m in messages])) == [
        {
            "kind": "OPEN",
            "version": 1,
            "id": "01",
            "lease": 50,
            "locators": ["udp/x"],
            "properties": [{"id": 4, "value": "07"}],
        },
        {
            "kind": "BDATA",
            "sn": 7,
            "rid": 5,
            "samples": [{"rid": 1, "payload": "61"}, {"rid": 2, "payload": ""}],
            "sync": False,
            "reliable": False,
            "actual": True,
        },
        {
            "kind": "DECLARE",
            "sn": 0,
            "declarations": [
                {"kind": "SELECTION", "id": "s3", "query": "/a?{b}", "is_global": False},
                {"kind": "RESULT", "commit": 0, "status": 0},
            ],
            "sync": False,
            "committed": False,
        },
        {"kind": "PING", "hash": 1, "undefined": 0x20},
    ]


def test_matching() -> None:
    """A match statement would take fields in another order than the wire has them."""
    match wire.decode(SDATA)[0]:
        case wire.SData(sn, rid, payload):
            assert (sn, rid, bytes(payload)) == (0, 1, b"12")
        case other:
            pytest.fail(repr(other))


def test_payloads_are_views() -> None:
    """A payload would be copied, or could be written through; a text that is no text would be lost."""
    packet = bytearray(SDATA)
    message = wire.decode(packet)[0]
    assert isinstance(message, wire.SData)
    assert isinstance(message.payload, memoryview)
    packet[4] = ord("9")
    assert bytes(message.payload) == b"92"
    with pytest.raises(TypeError):
        message.payload[0] = 1
    with pytest.raises(BufferError):
        packet.clear()  # the view keeps the memory
    odd = wire.decode(b"\x09\0\x02\xff\xfe\0")
    assert odd == [wire.WData(0, "\udcff\udcfe", b"")]
    assert wire.encode(odd) == b"\x09\0\x02\xff\xfe\0"


def test_any_buffer() -> None:
    """A packet in another kind of memory would be refused or read as items instead of bytes."""
    wanted = wire.decode(SDATA)
    words = array.array("H", SDATA)
    for packet in (
        bytearray(SDATA),
        memoryview(SDATA),
        memoryview(words),
        memoryview(b"x" + SDATA)[1:],
    ):
        assert wire.decode(packet) == wanted
        assert wire.columns([packet]).sn.tolist() == [0]
    assert wire.encode([wire.SData(0, 1, memoryview(words))]) == b"\x07\0\x02\x06" + SDATA
    assert wire.decode(b"") == []
    assert wire.encode([]) == b""
    for wrong in ("670002", 7, None, [1, 2], memoryview(SDATA)[::2]):
        with pytest.raises((TypeError, BufferError)):
            wire.decode(wrong)  # type: ignore[arg-type]


# ---- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "rule", "field"),
    [
        (wire.SData(-1, 1, b""), "NUMBER_WIDE", "sn"),
        (wire.SData(2**64, 1, b""), "NUMBER_WIDE", "sn"),
        (wire.SData(0, 2**63, b""), "NUMBER_WIDE", "rid"),
        (wire.SData(0, -1, b""), "NUMBER_WIDE", "rid"),
        (wire.Ping(65536), "NUMBER_WIDE", "hash"),
        (wire.Open(256, b"x", 1, []), "NUMBER_WIDE", "version"),
        (wire.Open(1, b"x", 2**32, []), "NUMBER_WIDE", "lease"),
        (wire.Close(b"x", 256), "NUMBER_WIDE", "reason"),
        (wire.Conduit(65536), "NUMBER_WIDE", "conduit"),
        (wire.Conduit(2**70), "NUMBER_WIDE", "conduit"),
        (wire.ConduitClose(65536), "NUMBER_WIDE", "left"),
        (wire.Frag(0, fragments=2**32), "NUMBER_WIDE", "fragments"),
        (wire.Declare(0, [wire.Commit(256)]), "NUMBER_WIDE", "commit"),
        (wire.Declare(0, [wire.Subscription(1, 0)]), "MODE", "mode"),
        (wire.Declare(0, [wire.Subscription(1, 6)]), "MODE", "mode"),
        (wire.Declare(0, [wire.Commit(0)] * 65536), "LENGTH_WIDE", "declarations"),
        (wire.Open(1, bytes(65536), 1, []), "LENGTH_WIDE", "id"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else type(value).__name__,
)
def test_refused_values(message: wire.Message, rule: str, field: str) -> None:
    """A value that nobody could read would be written, or wrapped around silently."""
    with pytest.raises(wire.WireError) as caught:
        wire.encode([wire.Ping(1), message])
    error = caught.value
    assert (error.rule, error.field) == (rule, field)
    assert isinstance(error, PyddsiError)
    assert isinstance(error, ValueError)
    assert str(error).startswith(f"{error.kind} ")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (wire.SData(None, 1, b""), "SDATA sn: a value is needed"),  # type: ignore[arg-type]
        (wire.Ping(None), "PING hash: a value is needed"),  # type: ignore[arg-type]
        (wire.SData(0, 1, b"", undefined=0x10), "SDATA undefined"),
        (wire.SData(0, 1, b"", undefined=0x20), "SDATA undefined"),  # that is sync=True
        (wire.SData(0, 1, b"", undefined=0x80), "SDATA undefined"),  # that announces data_rid
        (wire.Scout(0, undefined=0x20), "SCOUT undefined"),  # and that properties
        (wire.Ping(0, undefined=0x100), "PING undefined"),
        (wire.Conduit(2, undefined=0x20), "CONDUIT undefined"),  # there is no room for it
        (wire.Conduit(7, undefined=0x80), "CONDUIT undefined"),
        (wire.Declare(0, [wire.Subscription(1, 3)]), "SUBSCRIPTION origin: a value is needed"),
        (
            wire.Declare(0, [wire.Subscription(1, 1, origin=5)]),
            "SUBSCRIPTION origin: there is no place",
        ),
        (wire.Declare(0, [wire.Result(0, 0, id=5)]), "RESULT id: there is no place"),
        (wire.Declare(0, [wire.Result(0, 2)]), "RESULT id: a value is needed"),
        (wire.BData(0, 1, [wire.Sample(b"")], actual=True), "samples name their resource"),
        (wire.BData(0, 1, [wire.Sample(b"", rid=1)]), "samples name their resource"),
        (wire.WData(0, "\ud800", b""), "surrogates not allowed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused_combinations(message: wire.Message, words: str) -> None:
    """A message would be written that comes back as another one."""
    with pytest.raises(ValueError, match=words):
        wire.encode([message])


@pytest.mark.parametrize(
    "message",
    [
        wire.SData("0", 1, b""),  # type: ignore[arg-type]
        wire.SData(0, "1", b""),  # type: ignore[arg-type]
        wire.SData(0.5, 1, b""),  # type: ignore[arg-type]
        wire.SData(0, 1.0, b""),  # type: ignore[arg-type]
        wire.SData(0, 1, "text"),  # type: ignore[arg-type]
        wire.SData(0, 1, 5),  # type: ignore[arg-type]
        wire.SData(0, 1, memoryview(b"abcd")[::2]),
        wire.WData(0, b"/a", b""),  # type: ignore[arg-type]
        wire.KeepAlive("id"),  # type: ignore[arg-type]
        wire.Hello(1, [b"udp/x"]),  # type: ignore[list-item]
        wire.Hello(1, [5]),  # type: ignore[list-item]
        wire.Scout(1, properties=[wire.Sample(b"")]),  # type: ignore[list-item]
        wire.BData(0, 1, [b"x"]),  # type: ignore[list-item]
        wire.Declare(0, [wire.Ping(1)]),  # type: ignore[list-item]
        wire.Conduit(None),  # type: ignore[arg-type]
        wire.Commit(0),
        "SDATA",
        None,
    ],
    ids=repr,
)
def test_refused_types(message: Any) -> None:
    """A value of a wrong type would be taken for one of the right type."""
    with pytest.raises(TypeError):
        wire.encode([message])


def test_iterables() -> None:
    """What yields messages would be refused because it is no list; a text or a message is neither."""
    assert wire.encode(m for m in (wire.Ping(1), wire.Ping(2))) == b"\x0c\1\x0c\2"
    assert wire.Hello(1, (x for x in ("a", "b"))).locators == ("a", "b")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        wire.encode(wire.Ping(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        wire.encode("abc")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"strictness": "loose"}, "strictness is tolerant, strict or zhe, not 'loose'"),
        ({"seq_bits": 6}, "7 to 56 bits, not 6"),
        ({"seq_bits": 57}, "7 to 56 bits, not 57"),
        ({"rid_bits": 24}, "8, 16, 32 or 64 bits wide, not 24"),
        ({"conduits": 0}, "1 to 65536 conduits, not 0"),
        ({"conduits": 65537}, "1 to 65536 conduits, not 65537"),
    ],
)
def test_refused_readings(arguments: dict[str, Any], words: str) -> None:
    """A reading with limits that no peer has would be made, and mean something else."""
    with pytest.raises(ValueError, match=words):
        wire.Reading(**arguments)
