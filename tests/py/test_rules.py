"""
Every rule of the protocol broken in turn: which is told, at which byte, in which field, and what zhe would have done;
and that the reading called zhe takes what a live zhe took, as captured, and nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pyddsi import capture, names, wire
from pyddsi._native import ffi, lib
from pyddsi.capture import Packet
from pyddsi.errors import InvalidNameError
from tests.py.golden import CAPTURES

RULES = {
    label.removeprefix("PYDDSI_RULE_"): number
    for number, label in ffi.typeof("enum pyddsi_rule").elements.items()
}
UNBROKEN = {"NONE", "COUNT"}
# A short OPEN, whose parts the vectors below change: version, id, lease, no locators, no properties.
OPEN = "23010177320000"


@dataclass(frozen=True)
class Vector:
    """A packet that breaks one rule: where, in what, and what zhe does about it in a datagram and in a stream."""

    rule: str
    packet: str
    at: int
    kind: str | None
    field: str | None
    zhe: str
    zhe_stream: str
    reading: dict[str, Any] = dataclasses.field(default_factory=dict)
    before: int = 0  # how many messages come before

    def __str__(self) -> str:
        """Its name among the tests."""
        return f"{self.rule} {self.packet[:24]} {' '.join(str(v) for v in self.reading.values())}"


def vectors() -> Iterator[Vector]:
    """Every rule that a packet can break, in every way that has its own place in the code."""
    strict, zhe = {"strictness": "strict"}, {"strictness": "zhe"}
    seven, small = {"seq_bits": 7}, {"rid_bits": 8}
    dropped, accepted = ("drops", "drops"), ("accepts", "accepts")
    refused, dead, cut = ("refuses", "refuses"), ("dies", "dies"), ("drops", "stalls")

    yield Vector("CUT", "67", 1, "SDATA", "sn", *cut)
    yield Vector("CUT", "6780", 1, "SDATA", "sn", *cut)
    yield Vector("CUT", "670002", 3, "SDATA", "payload", *cut)
    yield Vector("CUT", "67000202ff", 3, "SDATA", "payload", *cut)
    yield Vector("CUT", "01050500", 4, "CLOSE", "reason", *cut, before=1)
    yield Vector("CUT", "46000102", 4, "DECLARE", "id", *cut)
    yield Vector("CUT", "4600020600", 5, "DECLARE", None, *cut)
    yield Vector("CUT", "2105010c0302", 4, "SCOUT", "value", *cut)
    yield Vector("KIND_UNKNOWN", "00", 0, None, None, *dropped)
    yield Vector("KIND_UNKNOWN", "01051f", 2, None, None, *dropped, before=1)
    for kind in ("0a", "15", "16", "17"):
        name = {"0a": "QUERY", "15": "SDATA DELTA", "16": "BDATA DELTA", "17": "WDATA DELTA"}[kind]
        yield Vector("KIND_RESERVED", kind + "000000", 0, name, None, *dropped)
    for kind, name in EXTENSIONS.items():
        yield Vector("KIND_EXTENSION", kind + "000000", 0, name, None, *dropped, zhe)
        yield Vector("KIND_EXTENSION", kind + "00", 0, name, None, *dropped, {"extensions": False})
    swallowed = ("ignores", "ignores")
    yield Vector("NUMBER_WIDE", "0c808004", 1, "PING", "hash", *swallowed)
    yield Vector("NUMBER_WIDE", "0dffff04", 1, "PONG", "hash", *swallowed)
    yield Vector("NUMBER_WIDE", "2301017780808080100000", 4, "OPEN", "lease", *dropped)
    yield Vector("NUMBER_WIDE", "13808004", 1, "CONDUIT", "conduit", *dropped)
    yield Vector("NUMBER_WIDE", "01" + "ff" * 9 + "02", 1, "SCOUT", "mask", *dropped)
    yield Vector("NUMBER_WIDE", "01" + "80" * 10 + "00", 1, "SCOUT", "mask", *dropped)
    yield Vector("NUMBER_WIDE", "11808004", 1, "CONDUIT CLOSE", "left", *dropped)
    yield Vector("NUMBER_LONG_FORM", "47808000020161", 1, "SDATA", "sn", *accepted, strict)
    yield Vector("NUMBER_LONG_FORM", "470082000161", 2, "SDATA", "rid", *accepted, strict)
    yield Vector("NUMBER_LONG_FORM", "470002810061", 3, "SDATA", "payload", *accepted, strict)
    yield Vector("NUMBER_LONG_FORM", "06008000", 2, "DECLARE", "declarations", *accepted, strict)
    yield Vector("NUMBER_LONG_FORM", "1385000e00", 1, "CONDUIT", "conduit", *accepted, strict)
    yield Vector("SN_RANGE", "478001020161", 1, "SDATA", "sn", *dropped, seven)
    yield Vector("SN_RANGE", "47808001020161", 1, "SDATA", "sn", *dropped, zhe)
    yield Vector("SN_RANGE", "8e008001", 2, "SYNCH", "count", *dropped, seven)
    yield Vector("SN_RANGE", "128001", 1, "FRAG", "first", *dropped, seven)
    yield Vector("SN_RANGE", "1401008001", 3, "MIGRATE", "last_unreliable", *dropped, seven)
    yield Vector("LENGTH_WIDE", "470002808004", 3, "SDATA", "payload", *dropped)
    yield Vector("LENGTH_WIDE", "0600808004", 2, "DECLARE", "declarations", *dropped)
    yield Vector("LENGTH_WIDE", "2105808004", 2, "SCOUT", "properties", *dropped)
    yield Vector("LENGTH_WIDE", "020401808004", 3, "HELLO", "text", *dropped)
    yield Vector("PEER_ID_LENGTH", "1000", 1, "KEEPALIVE", "id", *dropped, strict)
    yield Vector("PEER_ID_LENGTH", "1000", 1, "KEEPALIVE", "id", *dropped, zhe)
    yield Vector("PEER_ID_LENGTH", "1011" + "77" * 17, 1, "KEEPALIVE", "id", *dropped, strict)
    yield Vector("PEER_ID_LENGTH", "050000", 1, "CLOSE", "id", *accepted, strict)
    yield Vector("PEER_ID_LENGTH", "240177003200", 3, "ACCEPT", "acceptor", *accepted, strict)
    yield Vector("PEER_ID_LENGTH", "230100320000", 2, "OPEN", "id", *refused, zhe)
    seventeen = "230111" + "77" * 17 + "320000"
    yield Vector("PEER_ID_LENGTH", seventeen, 2, "OPEN", "id", *refused, zhe)
    yield Vector("PEER_ID_LENGTH", seventeen, 2, "OPEN", "id", *refused, strict)
    yield Vector("ID_ZERO", "07000000", 2, "SDATA", "rid", *accepted, strict)
    yield Vector("ID_ZERO", "4600010200", 4, "DECLARE", "id", *accepted, strict)
    yield Vector("ID_ZERO", "460001040100", 4, "DECLARE", "id", *accepted, strict)
    yield Vector("ID_ZERO", "460001050301", 5, "DECLARE", "new_id", *accepted, strict)
    yield Vector("ID_ZERO", "8700020100", 3, "SDATA", "data_rid", *accepted, strict)
    yield Vector("ID_WIDE", "0700800200", 2, "SDATA", "rid", *dropped, small)
    yield Vector("ID_WIDE", "470080808080100161", 2, "SDATA", "rid", *dropped, zhe)
    yield Vector("ID_WIDE", "0700" + "ff" * 9 + "0200", 2, "SDATA", "rid", *dropped)
    yield Vector("ID_WIDE", "46000103800201", 4, "DECLARE", "id", *dropped, small)
    yield Vector("ID_PARITY", "6700030161", 2, "SDATA", "rid", *dead, zhe)
    yield Vector("ID_PARITY", "4600010203", 4, "DECLARE", "id", *dead, zhe)
    yield Vector("ID_PARITY", "4600010203", 4, "DECLARE", "id", *dead, strict)
    yield Vector("ID_PARITY", "460001040200", 4, "DECLARE", "id", *dead, strict)
    yield Vector("ID_PARITY", "4600010b02", 4, "DECLARE", "id", *dead, strict)
    conduits = {"strictness": "zhe", "conduits": 3}
    yield Vector("CONDUIT_RANGE", "13034700020178", 1, "CONDUIT", "conduit", *dropped, conduits)
    yield Vector("CONDUIT_SHORT", "d30e00", 0, "CONDUIT", "conduit", *dead, conduits)
    yield Vector(
        "CONDUIT_SHORT", "b30e00f30e00", 3, "CONDUIT", "conduit", *dead, conduits, before=2
    )
    yield Vector("MARKER_ALONE", "93", 0, "CONDUIT", None, *accepted, strict)
    yield Vector("MARKER_ALONE", "01051200", 2, "FRAG", None, *dropped, strict, before=1)
    yield Vector("MARKER_ALONE", "98", 0, "RSPACE", None, *dropped, strict)
    yield Vector("MARKER_ORDER", "93b30e00", 1, "CONDUIT", None, *accepted, strict, before=1)
    yield Vector("MARKER_ORDER", "12009307000200", 2, "CONDUIT", None, *accepted, strict, before=1)
    yield Vector("MARKER_ORDER", "98120007000200", 1, "FRAG", None, *dropped, strict, before=1)
    yield Vector("MARKER_FORM", "13010e00", 0, "CONDUIT", None, *accepted, strict)
    yield Vector("MARKER_FORM", "180407000200", 0, "RSPACE", None, *dropped, strict)
    yield Vector("MARKER_FORM", "33050e00", 0, "CONDUIT", None, *accepted, strict)
    yield Vector("MARKER_TARGET", "930105", 1, "SCOUT", None, *accepted, strict, before=1)
    yield Vector("MARKER_TARGET", "12000e00", 2, "SYNCH", None, *accepted, strict, before=1)
    yield Vector("MARKER_TARGET", "980e00", 1, "SYNCH", None, *accepted, strict, before=1)
    yield Vector("MARKER_TARGET", "1200460000", 2, "DECLARE", None, *accepted, strict, before=1)
    yield Vector("FLAG_UNDEFINED", "4105", 0, "SCOUT", None, *accepted, strict)
    yield Vector("FLAG_UNDEFINED", "2c05", 0, "PING", None, *accepted, strict)
    yield Vector("FLAG_UNDEFINED", "8e00004f00", 3, "ACKNACK", None, *accepted, strict, before=1)
    yield Vector("FLAG_UNDEFINED", "4600018202", 3, "DECLARE", None, *accepted, strict)
    yield Vector("FLAG_UNDEFINED", "4600011202", 3, "DECLARE", None, *accepted, strict)
    bare = "03" + OPEN[2:-2]
    yield Vector("OPEN_PROPERTIES", bare, 0, "OPEN", "properties", *dead, zhe)
    yield Vector("OPEN_PROPERTIES", bare, 0, "OPEN", "properties", *dead, strict)
    for value in ("0107", "00", "02ac02", "028e00"):
        packet = OPEN[:-2] + "020c02020304" + value
        yield Vector("OPEN_SEQ_BITS", packet, 13, "OPEN", "properties", *refused, zhe)
    wrong = "2302" + OPEN[4:]
    yield Vector("OPEN_VERSION", wrong, 1, "OPEN", "version", *refused, zhe)
    yield Vector("OPEN_VERSION", wrong, 1, "OPEN", "version", *refused, strict)
    yield Vector("OPEN_VERSION", "230200320000", 1, "OPEN", "version", *refused, zhe)
    long = "2301017797dd9e0a0000"  # 21,474,839
    yield Vector("OPEN_LEASE", long, 4, "OPEN", "lease", *refused, zhe)
    yield Vector("OPEN_LEASE", long, 4, "OPEN", "lease", *refused, strict)
    yield Vector("DECLARATION_KIND", "46000100", 3, "DECLARE", None, *dropped)
    yield Vector("DECLARATION_KIND", "46000206000c", 5, "DECLARE", None, *dropped)
    yield Vector("DECLARATION_KIND", "4600010f", 3, "DECLARE", None, *dropped)
    yield Vector("COMMIT_LAST", "26000206000202", 3, "DECLARE", None, *accepted, strict)
    yield Vector("MODE", "260001034200", 5, "DECLARE", "mode", *dropped)
    yield Vector("MODE", "260001034206", 5, "DECLARE", "mode", *dropped, zhe)
    yield Vector("FLAG_UNDEFINED", "11003100", 2, "CONDUIT CLOSE", None, *dropped, strict, before=1)
    yield Vector("ID_ZERO", "0b0000", 2, "PULL", "rid", *dropped, strict)
    yield Vector("PERIOD", "460001030203000505", 3, "DECLARE", None, *accepted, strict)
    yield Vector("PERIOD", "460001030204000000", 3, "DECLARE", None, *accepted, strict)
    for strictness, bad_names in ((strict, BAD_NAMES), (zhe, BAD_NAMES_ZHE)):
        for rule, at, name in bad_names:
            packet = wire.encode([wire.WData(0, name, b"x")]).hex()
            at += 3 + (len(name) > 127)  # noqa: PLW2901 - in the packet, not in the name
            yield Vector(rule, packet, at, "WDATA", "uri", *dropped, strictness)


EXTENSIONS = {
    "08": "BDATA",
    "0b": "PULL",
    "11": "CONDUIT CLOSE",
    "12": "FRAG",
    "14": "MIGRATE",
    "18": "RSPACE",
}
BAD_NAMES = [
    ("NAME_EMPTY", 0, ""),
    ("NAME_LONG", 1024, "/" + "x" * 1024),
    ("NAME_START", 0, "no-slash"),
    ("NAME_START", 0, "*/x"),
    ("NAME_END", 2, "/a/"),
    ("NAME_END", 0, "/"),
    ("NAME_CHARACTER", 3, "/a b"[:2] + "/ b"),
    ("NAME_CHARACTER", 1, "/ä"),
    ("NAME_META", 3, "/a/$x"),
]
# zhe has a shorter limit, does not know '$', and sees nothing wrong with two slashes.
BAD_NAMES_ZHE = [
    ("NAME_EMPTY", 0, ""),
    ("NAME_LONG", 100, "/" + "x" * 100),
    ("NAME_START", 0, "no-slash"),
    ("NAME_START", 0, "*/x"),
    ("NAME_END", 3, "/a//"),
    ("NAME_END", 0, "/"),
    ("NAME_CHARACTER", 4, "/a// b"),
    ("NAME_CHARACTER", 3, "/a/$ls"),
]
VECTORS = list(vectors())

# Rules that no packet breaks on its own: frames, and what people write. The tests named here break them.
ELSEWHERE = {
    "FRAME_LENGTH": "test_frame_rules",
    "FRAME_LIMIT": "test_frame_rules",
    "NAME_SEGMENT": "test_double_slash",
    "NAME_SCHEME": "test_name_rules",
    "NAME_TAG": "test_name_rules",
    "NAME_PREDICATE": "test_name_rules",
}


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_rule(vector: Vector) -> None:
    """A rule would not be kept, or its breach be told with a wrong byte, field or reaction of zhe."""
    with pytest.raises(wire.WireError) as caught:
        wire.decode(bytes.fromhex(vector.packet), wire.Reading(**vector.reading))
    error = caught.value
    assert (error.rule, error.at, error.kind, error.field) == (
        vector.rule,
        vector.at,
        vector.kind,
        vector.field,
    )
    assert (error.zhe, error.zhe_stream) == (vector.zhe, vector.zhe_stream)
    assert len(error.messages) == vector.before
    assert str(error).startswith(f"byte {vector.at}: ")


def test_every_rule_is_broken() -> None:
    """A rule that is added would never be seen broken."""
    assert {vector.rule for vector in VECTORS} | set(ELSEWHERE) == set(RULES) - UNBROKEN
    assert all(name in globals() for name in ELSEWHERE.values())


def test_rules_have_words() -> None:
    """A fault would be told as "?" or with another rule's words."""
    texts = {ffi.string(lib.pyddsi_rule_text(number)) for number in RULES.values()}
    for name, number in RULES.items():
        if name != "COUNT":
            assert ffi.string(lib.pyddsi_rule_name(number)).decode() == name
    assert len(texts) == len(RULES)
    assert ffi.string(lib.pyddsi_rule_name(-1)) == ffi.string(lib.pyddsi_rule_name(9999)) == b"?"


# To zhe the id of a selection is another fault than an id of 0.
SELECTION_0 = {"460001050301", "8700020100"}


@pytest.mark.parametrize(
    "packet",
    [
        v.packet
        for v in VECTORS
        if v.zhe == "accepts" and not v.before and v.packet not in SELECTION_0
    ],
)
def test_what_zhe_accepts(packet: str) -> None:
    """The reading of zhe would refuse what zhe takes, though the table says so of a strict reader's fault."""
    assert wire.decode(bytes.fromhex(packet), wire.ZHE) == wire.decode(bytes.fromhex(packet))


def test_frame_rules() -> None:
    """A stream would be read on where zhe closes the connection."""
    for data, rule in (("808001", "FRAME_LENGTH"), ("ffff", "FRAME_LENGTH"), ("65", "FRAME_LIMIT")):
        stream = wire.Stream(packet_max=100)
        with pytest.raises(wire.WireError) as caught:
            stream.feed(bytes.fromhex(data))
        assert (caught.value.rule, caught.value.at) == (rule, 0)
        assert caught.value.zhe_stream == "drops"


def test_lease_limit() -> None:
    """The largest lease that zhe takes would be refused, or one more be taken."""
    for lease, fits in ((21_474_836, True), (21_474_837, False)):
        packet = wire.encode([wire.Open(1, b"x", lease, [], properties=[])])
        for reading in (wire.STRICT, wire.ZHE):
            if fits:
                assert wire.decode(packet, reading)
            else:
                with pytest.raises(wire.WireError, match="the lease is over"):
                    wire.decode(packet, reading)


def test_double_slash() -> None:
    """A correct sender's reading would take a name with an empty segment."""
    with pytest.raises(wire.WireError) as caught:
        wire.decode(wire.encode([wire.WData(0, "/a//b", b"")]), wire.STRICT)
    error = caught.value
    assert (error.rule, error.at, error.zhe) == ("NAME_SEGMENT", 6, "accepts")
    for name in ("/a//b", "//x", "/" + "x" * 99, "**/x", "/?*-_9"):
        data = wire.WData(0, name, b"")
        assert wire.decode(wire.encode([data]), wire.ZHE) == [data]


def test_name_rules() -> None:
    """A name that people write would pass with a fault in its scheme, tags or predicate."""
    for name, rule, at in (
        ("dds://a", "NAME_SCHEME", 0),
        ("/a#nonsense", "NAME_TAG", 3),
        ("/a?{x", "NAME_PREDICATE", 5),
    ):
        with pytest.raises(InvalidNameError) as caught:
            names.canonical(name)
        assert (caught.value.rule, caught.value.at) == (rule, at)


# ---- what a live zhe did ------------------------------------------------------------------------------------------


def probes(name: str) -> Iterator[tuple[Packet, bool]]:
    """
    What was sent to a live zhe, and whether it was alive for the sender afterwards.

    Behind each probe its sender wrote a SYNCH that asks for an answer; an ACKNACK comes at once or never.
    """
    packets = list(capture.open(CAPTURES / name).packets())
    for i, packet in enumerate(packets):
        if packet.source.address != "10.77.0.2" or bytes(packet.data)[:2] != b"\x6e\x00":
            continue
        before = [p for p in packets[:i] if p.source == packet.source][-1]
        later = [p for p in packets[i + 1 :] if packet.source in {p.source, p.destination}]
        answered = bool(later) and bytes(later[0].data)[:1] == b"\x0f"
        yield before, answered


@pytest.mark.parametrize("name", ["malformed", "unknown", "submode0", "unknown_flags", "ping"])
def test_zhe_as_seen(name: str) -> None:
    """The reading of zhe would refuse what the real one lived through, or take what ended its session."""
    reading = wire.Reading("zhe", conduits=3)
    seen = list(probes(f"probes/{name}.pcap"))
    judged = {True: 0, False: 0}
    for packet, answered in seen:
        try:
            wire.decode(packet.data, reading)
            taken = True
        except wire.WireError as error:
            assert error.zhe == "drops"
            taken = False
        assert taken == answered, bytes(packet.data).hex()
        judged[taken] += 1
    assert judged[True] > 0
    # The second probe of submode0 is the last of its file: nobody asked afterwards.
    assert judged[False] == {"malformed": 12, "unknown": 12, "submode0": 1}.get(name, 0)


def test_zhe_handshake_as_seen() -> None:
    """The reading of zhe would let an OPEN through that a real one refused, or refuse the one that it took."""
    packets = list(capture.open(CAPTURES / "probes/handshake.pcap").packets())
    answered = {p.destination for p in packets if p.data[0] % 32 == 4}
    refused = []
    for packet in packets:
        if packet.data[0] % 32 != 3 or packet.source.address != "10.77.0.2":
            continue
        try:
            wire.decode(packet.data, wire.ZHE)
            assert packet.source in answered
        except wire.WireError as error:
            assert packet.source not in answered
            assert error.zhe == "refuses"
            refused.append(error.rule)
    wanted = ["OPEN_VERSION"] + 3 * ["OPEN_SEQ_BITS"] + 2 * ["PEER_ID_LENGTH"] + ["OPEN_LEASE"]
    assert refused == wanted
