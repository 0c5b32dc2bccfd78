"""
The stand-in for zhe by itself: against the golden captures of the real one, against its own rules, and on real sockets.

It is long because the table of the captures and what each rule of the description looks like in bytes are one argument: that
a test which passes with the stand-in says something about zhe.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real import zhe_bytes as wire
from tests.real.replay import CAPTURES, Replay, Said, passing
from tests.real.zhe import Zhe
from tests.real.zhe_bytes import BadError, Declaration, FatalError, Limits, Message, Reader
from tests.real.zhe_config import CONFIGS, Config, intersect, valid
from tests.real.zhe_net import Net
from tests.real.zhe_udp import Udp, drive

P2P = CONFIGS["p2p"]
GROUPS = (("239.255.0.2", 7447), ("239.255.0.3", 7447))
SEVEN = P2P.changed(seq_bits=7, multicast_samples=63)
SHORT = 0.002
OTHER = ("10.7.7.7", 4000)
MOST = 700  # packets of a capture

BUILDS: dict[str, Config] = {
    "client_large_udp": CONFIGS["client-large"],
    "client_nbiot_udp": CONFIGS["client-nbiot"],
    "mindeps_pubsub": CONFIGS["mindeps"],
    "mixed_seqlen": SEVEN,
    "p2p_roundtrip": P2P.changed(groups=GROUPS),
    "p2p_throughput": P2P.changed(groups=GROUPS[:1]),
    "small_pubsub": CONFIGS["p2p-small"],
    "v_lat0": P2P.changed(latency_ms=0),
    "v_scout3": P2P.changed(scout_count=3),
    "v_seq28": P2P.changed(seq_bits=28),
    "v_seq7": SEVEN,
}

STANDIN = "the broker is a stand-in of its own"
LOSES = "what reaches this side and what is lost on the way is not in the capture"
RACES = "what it had read of its two sockets before it answered is not in the capture"
DROPS = "it drops some of its own packets before they are sent"

LEFT_OUT = {
    ("client_large_udp", "10.77.0.2"): STANDIN,
    ("client_nbiot_udp", "10.77.0.2"): STANDIN,
    ("mixed_seqlen", "10.77.0.1"): "it has 14 bits; the replay of the other side shows all",
    ("p2p_drop_option", "10.77.0.1"): DROPS,
    ("p2p_drop_option", "10.77.0.2"): DROPS,
}
PARTLY = {
    ("p2p_loss5", "10.77.0.2"): LOSES,
    ("three_multicast_loss", "10.77.0.3"): LOSES,
    ("p2p_throughput", "10.77.0.2"): RACES,
    ("p2p_wildcard_pub", "10.77.0.2"): RACES,
    ("p2p_three_peers", "10.77.0.1"): RACES,
    ("p2p_three_peers", "10.77.0.2"): RACES,
    ("p2p_three_peers", "10.77.0.3"): RACES,
}
QUIET = {("result_conflict", "10.77.0.1"): (10,)}
# Where the original's clock stood between two milliseconds: a few decisions hang on which millisecond it is.
PHASES = {"client_large_udp": 0.00005}
CUT = {"p2p_throughput": 150, "p2p_loss5": 1500, "three_multicast_loss": 1500}

UDP = sorted(path.stem for path in CAPTURES.glob("*.pcap") if "tcp" not in path.stem)
SIDES = [
    (name, side)
    for name in UDP
    for side in sorted({p.source[0] for p in passing(name, 300)})
    if (name, side) not in LEFT_OUT
]


def decoded(data: bytes, limits: Limits) -> list[Message]:
    """The messages of a packet."""
    return list(Reader(data, limits).messages())


# ---- the golden captures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UDP)
def test_codec(name: str) -> None:
    """The stand-in's own codec would read a message of zhe otherwise than zhe wrote it."""
    limits = Limits(BUILDS.get(name, P2P).seq_bits, 64, 5)
    for packet in passing(name, CUT.get(name, MOST)):
        reader = Reader(packet.data, limits)
        assert b"".join(map(wire.encode, reader.messages())) == packet.data
        assert reader.oddities == []


@pytest.mark.parametrize(("name", "side"), SIDES)
def test_replay(name: str, side: str) -> None:
    """002-112, 002-117, 002-121: the stand-in says something else, or in another order, than the zhe whose place it takes."""
    replay = Replay(
        name,
        side,
        BUILDS.get(name, P2P),
        quiet=QUIET.get((name, side), ()),
        phase=PHASES.get(name, 0.0006),
        most=CUT.get(name, MOST),
    )
    replay.run()
    theirs, ours = replay.original, replay.ours
    assert ours.first == theirs.first
    assert ours.best == theirs.best
    assert ours.again == theirs.again
    if (name, side) not in PARTLY:
        assert ours.reactive == theirs.reactive
        assert ours.synchs == theirs.synchs
    kinds = {one.kind for one in replay.zhe.violations}
    assert kinds == ({"close"} if name == "p2p_conflict_hist" else set())


# What each probe holds that should not be sent to zhe, and how often.
PROBES: dict[str, dict[str, int]] = {
    "close": {},
    "data": {"odd": 1},
    "declare_c": {},
    "handshake": {"refuse": 7},
    "hello_established": {"refuse": 1},
    "malformed": {},
    "maxpeers": {},
    "odd_rid": {"fatal": 1},
    "open_noprops": {"fatal": 1},
    "open_props": {},
    "ping": {"odd": 2},
    "retries": {},
    "submode0": {"drop": 2},
    "unknown": {"drop": 12},
    "unknown_flags": {"odd": 4},
}


@pytest.mark.parametrize("name", PROBES)
def test_probe(name: str) -> None:
    """Wrong or odd input would not have the effect that it had on the real one, or would pass without complaint."""
    replay = Replay(f"probes/{name}", "10.77.0.1", P2P, phase=0.0006, most=MOST)
    replay.run()
    theirs, ours = replay.original, replay.ours
    if (
        name == "submode0"
    ):  # what it answers to a bad declaration, before it drops, is not described
        for said in theirs.reactive.values():
            said.remove(b"\x2f\x00\x00")
    for part in ("reactive", "first", "again", "best", "synchs"):
        assert getattr(ours, part) == getattr(theirs, part), part
    kinds = [one.kind for one in replay.zhe.violations]
    if name != "malformed":
        assert {kind: kinds.count(kind) for kind in set(kinds)} == PROBES[name]
    assert replay.zhe.dead == ("fatal" in kinds)


def test_every_malformed_packet() -> None:
    """A malformed packet of the probes would go unnoticed: each ends the session of who sent it, and nothing else does."""
    replay = Replay("probes/malformed", "10.77.0.1", P2P, phase=0.0006)
    replay.run()
    blamed = {one.source for one in replay.zhe.violations if one.kind == "drop"}
    alive = {slot.address for slot in replay.zhe.slots if slot is not None and slot.established}
    assert len(blamed) >= 10
    assert not blamed & alive


def test_declined_captures_have_reasons() -> None:
    """A side of a capture is neither replayed nor is it said why not."""
    everything = {
        (name, side) for name in UDP for side in {p.source[0] for p in passing(name, 300)}
    }
    assert set(SIDES) | set(LEFT_OUT) == everything
    assert set(PARTLY) <= set(SIDES)


# ---- numbers and names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (16384, "808001")],
)
def test_numbers(value: int, data: str) -> None:
    """002-115: a variable-length number would be written or read wrong."""
    assert wire.vle(value) == bytes.fromhex(data)
    assert Reader(bytes.fromhex(data), Limits()).vle(32, "n") == value


@pytest.mark.parametrize(
    ("bits", "good", "bad"),
    [
        (8, "ff01", "ff02"),
        (16, "ffff03", "ffff04"),
        (32, "ffffffff0f", "ffffffff10"),
        (64, "ffffffffffffffffff01", "ffffffffffffffffff02"),
    ],
)
def test_number_widths(bits: int, good: str, bad: str) -> None:
    """002-115: a number too wide for its field would pass, or the widest would not."""
    assert Reader(bytes.fromhex(good), Limits()).vle(bits, "n") == (1 << bits) - 1
    with pytest.raises(BadError):
        Reader(bytes.fromhex(bad), Limits()).vle(bits, "n")


@pytest.mark.parametrize(
    ("one", "two", "meet"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/c", False),
        ("/a/?", "/a/b", True),
        ("/a/?", "/a/bc", False),
        ("/a/*", "/a/", True),
        ("/a/*", "/a/b/c", False),
        ("**/data", "/t/data", True),
        ("/w/**", "/w/x/y", True),
        ("/*/b", "/a/*", True),
        ("/a*", "/b*", False),
        ("/k?/x/*", "/k1/x/abc", True),
        ("/a?b", "/a/b", False),
        ("**", "/", True),
    ],
)
def test_matching(one: str, two: str, meet: bool) -> None:  # noqa: FBT001
    """Two names would meet that no string satisfies, or miss each other."""
    assert intersect(one.encode(), two.encode()) == meet
    assert intersect(two.encode(), one.encode()) == meet


def test_names() -> None:
    """A name that zhe does not take would be taken: by its letters, its ends or its length."""
    assert valid(b"/t/data", 100)
    assert valid(b"**/data", 100)
    assert valid(b"/" + 99 * b"a", 100)
    for bad in (b"", b"t/data", b"/t/", b"/t d", b"*/t", b"/" + 100 * b"a", "/ä".encode()):
        assert not valid(bad, 100), bad


# ---- what ends a session, or zhe --------------------------------------------------------------------------------


class One:
    """A zhe and somebody who speaks to it byte by byte."""

    def __init__(self, config: Config = P2P) -> None:
        self.zhe = Zhe(config)
        self.now = 0.0

    def say(self, *data: bytes | Message, source: tuple[str, int] = OTHER) -> list[bytes]:
        """A packet; what comes back at once."""
        packet = b"".join(one if isinstance(one, bytes) else wire.encode(one) for one in data)
        self.zhe.input(packet, source, self.now)
        return [sent for _, sent in self.zhe.take()]

    def open(self, **fields: object) -> list[bytes]:
        """An OPEN."""
        said = Message(wire.OPEN, id=b"\x01", lease=50, properties={12: b"\x02\x03"})
        said.locators = [b"udp/239.255.0.1:7447"]
        for name, value in fields.items():
            setattr(said, name, value)
        return self.say(said)

    def meet(self) -> None:
        """A session, with conduit 0 synchronised."""
        assert self.open()
        self.say(bytes.fromhex("4e00"))

    def wait(self, seconds: float) -> list[tuple[float, bytes]]:
        """Time passes; what was sent meanwhile, and when."""
        found = []
        end = self.now + seconds
        while (due := self.zhe.due()) <= end:
            self.now = max(due, self.now)
            self.zhe.tick(self.now)
            found += [(round(self.now, 3), data) for _, data in self.zhe.take()]
        self.now = end
        return found

    @property
    def blamed(self) -> list[str]:
        """The kinds of what it complained about."""
        return [one.kind for one in self.zhe.violations]


@pytest.mark.parametrize("kind", [0, 8, 10, 11, 17, 18, *range(20, 32)])
def test_unknown_kinds(kind: int) -> None:
    """A kind that zhe does not know would pass: the gated ones above all."""
    one = One()
    one.meet()
    assert one.say(bytes([kind, 0, 0])) == []
    assert (one.blamed, one.zhe.peers) == (["drop"], [])
    assert one.zhe.violations[0].data == bytes([kind, 0, 0])


@pytest.mark.parametrize(
    "packet",
    [
        "4700020561",  # the payload runs past the packet
        "4780",  # the number does
        "4780800102 00",  # a number of 2^14
        "47008080808010 00",  # an id wider than 32 bits
        "1303 0e00",  # a conduit beyond the input conduits, long form
        "1000",  # a KEEPALIVE without id
        "4900 0161 00",  # an invalid name
        "26000103 0200",  # mode 0
        "26000103 0206",  # mode 6
        "2600010c 02",  # an unknown declaration
    ],
)
def test_bad_bytes(packet: str) -> None:
    """Bytes that zhe drops a session for would pass."""
    one = One()
    one.meet()
    one.say(bytes.fromhex(packet))
    assert (one.blamed, one.zhe.peers) == (["drop"], [])


@pytest.mark.parametrize("packet", ["f3 0e 00", "d3 0e 00", "67 00 03 01 61", "03 01 01 02 32 00"])
def test_fatal_bytes(packet: str) -> None:
    """Bytes that kill zhe would pass: a conduit beyond the table, an odd id, an OPEN without the flag P."""
    one = One()
    one.meet()
    one.say(bytes.fromhex(packet))
    assert one.blamed == ["fatal"]
    assert one.zhe.dead
    assert one.wait(100.0) == []
    assert one.say(b"\x0c\x01") == []


@pytest.mark.parametrize("packet", ["13 02 0e 00", "0e 80 80 00", "c9 00 02 2f 61 00", "93"])
def test_good_bytes(packet: str) -> None:
    """Bytes that zhe takes would be blamed as an end: long forms, undefined flags, a marker with nothing after it."""
    one = One()
    one.meet()
    one.say(bytes.fromhex(packet))
    assert one.zhe.peers == [b"\x01"]
    assert set(one.blamed) <= {"odd"}


def test_what_came_before_counts() -> None:
    """The messages before a bad one would have no effect."""
    one = One()
    one.meet()
    assert one.say(bytes.fromhex("0c05 0802")) == [b"\x0d\x05"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"properties": {4: b"\x07"}}, 4),
        ({"properties": {4: b""}}, 255),
        ({"version": 2}, 2),
        ({"id": b""}, 255),
        ({"id": bytes(17)}, 255),
        ({"lease": 21_474_837}, 255),
        ({"id": b"\xa0\xff"}, None),
    ],
)
def test_refusals(fields: dict[str, object], reason: int | None) -> None:
    """002-113: an OPEN that zhe refuses would be accepted; or the refusal heard, which is lost with a unicast conduit."""
    one = One()
    assert one.open(**fields) == []
    assert (one.blamed, one.zhe.peers) == (["refuse"], [])
    assert not [data for _, data in one.wait(2.9) if data[0] == wire.CLOSE]
    told = One(P2P.changed(unicast=None, conduits_in=2))
    assert told.open(**fields) == []
    closes = [data for _, data in told.wait(3.1) if data[0] == wire.CLOSE]
    assert closes == ([] if reason is None else [b"\x05\x02\xa0\xff" + bytes([reason])])


def test_absent_length() -> None:
    """An OPEN without the length of numbers, to a zhe that has not 14, would not be noticed, though it is accepted."""
    one = One(SEVEN)
    one.open()
    assert (one.blamed, one.zhe.peers) == (["refuse"], [b"\x01"])


# ---- time -------------------------------------------------------------------------------------------------------


def test_scouts() -> None:
    """The first SCOUT would leave before a whole interval has passed, or a limited number of them would not end."""
    assert [at for at, _ in One().wait(9.5)] == [3.0, 6.0, 9.0]
    one = One(P2P.changed(scout_count=2))
    one.open(lease=0)
    said = [(at, data.hex(" ")) for at, data in one.wait(13.0)]
    alive = "10 02 a0 ff"
    assert said == [(3.0, "01 05"), (6.0, f"01 05 {alive}"), (9.0, alive), (12.0, alive)]


def test_opens() -> None:
    """002-112: OPENs would not be a second apart and five, or an ACCEPT for somebody else would count."""
    one = One()
    (first,) = one.say(Message(wire.HELLO, mask=4))
    assert first[0] == 0x23
    one.say(Message(wire.ACCEPT, id=b"\x77", acceptor=b"\x01", lease=50))
    again = [at for at, data in one.wait(20.0) if data[0] == 0x23]
    assert again == [1.001, 2.002, 3.003, 4.004]
    assert one.zhe.slots == [None] * 16


@pytest.mark.parametrize(("talks", "wait"), [(False, 10.0), (True, 5.0)])
def test_leases(talks: bool, wait: float) -> None:  # noqa: FBT001
    """002-112: the lease would not be twice as long before the first packet, or would not be told by a CLOSE."""
    one = One()
    one.open()
    if talks:
        one.say(b"\x0d\x01")
    ends = [at for at, data in one.wait(20.0) if data[0] == wire.CLOSE]
    assert ends == [pytest.approx(wait + 0.001)]


def test_full_house() -> None:
    """More peers than there are places would be answered."""
    one = One(P2P.changed(peers_max=2))
    for peer_id in (b"\x01", b"\x02", b"\x03"):
        source = "10.7.7.7", peer_id[0]
        hello = one.say(b"\x01\x04", source=source)
        opened = Message(wire.OPEN, id=peer_id, lease=50, properties={})
        assert bool(hello) == bool(one.say(opened, source=source)) == (peer_id != b"\x03")


def test_moves() -> None:
    """An id from another address would not take its session along; a CLOSE from there with a foreign id would end it."""
    one = One()
    one.open()
    one.say(Message(wire.KEEPALIVE, id=b"\x01"), source=("10.7.7.8", 9))
    assert [slot.address for slot in one.zhe.slots if slot] == [("10.7.7.8", 9)]
    one.say(Message(wire.CLOSE, id=b"\x99"), source=("10.7.7.8", 9))
    assert one.zhe.peers == []


# ---- reliability ------------------------------------------------------------------------------------------------


def writer(config: Config = P2P) -> One:
    """A zhe that publishes resource 1 to somebody who subscribes to it and acknowledges nothing yet."""
    one = One(config)
    one.zhe.publish(1)
    one.meet()
    one.say(bytes.fromhex("66 00 01 03 02 01"))
    return one


def test_synch_goes_on() -> None:
    """002-121: what is not acknowledged would be announced more or less often than every 10 ms, or repeated by a timer."""
    one = writer()
    one.zhe.write(1, b"x", one.now)
    one.zhe.flush(one.now)
    one.zhe.take()
    said = one.wait(0.055)
    assert [data.hex(" ") for _, data in said] == ["ee 01 01"] * 5
    assert [round(at * 1000) for at, _ in said] == [10, 20, 30, 40, 50]


def test_resends_what_is_asked_for() -> None:
    """002-121: other messages than those asked for would come again, in another order, or with S on another than the last."""
    one = writer()
    for i in range(40):
        assert one.zhe.write(1, bytes([i]), one.now)
    one.zhe.flush(one.now)
    one.zhe.take()
    one.now += 0.005
    (burst,) = one.say(bytes.fromhex("2f 02 05"))
    assert burst.hex(" ") == "47 02 02 01 02 47 03 02 01 03 67 05 02 01 05"
    assert one.say(bytes.fromhex("2f 02 05")) == [], "not twice within a round trip"
    one.now += 0.005
    (burst,) = one.say(bytes.fromhex("2f 02 ff ff ff ff 0f"))
    assert [m.sn for m in decoded(burst, Limits())] == list(range(2, 34)), "32 at most"
    (synch,) = one.say(bytes.fromhex("0f 01"))
    assert synch.hex(" ") == "ce 28 26", "before the base: where it is, without S"


def test_draining() -> None:
    """A full window would take something before it is empty, reliable or not."""
    one = writer(P2P.changed(multicast_samples=4))
    one.zhe.publish(2, reliable=False)
    one.say(bytes.fromhex("66 01 01 03 04 01"))
    assert [one.zhe.write(1, b"x", 0.0) for _ in range(5)] == [True] * 4 + [False]
    assert one.zhe.take()[-1][1].hex(" ") == "ee 04 04", "a full window with a packet that waits"
    one.say(bytes.fromhex("0f 03"))
    assert not one.zhe.write(1, b"x", 0.0)
    one.zhe.write(2, b"x", 0.0)
    one.zhe.flush(0.0)
    assert one.zhe.take() == []
    one.say(bytes.fromhex("0f 04"))
    assert one.zhe.write(1, b"x", 0.0)


def test_keeps_nothing_early() -> None:
    """002-121: what came early would be kept, instead of being asked for again."""
    one = One()
    one.zhe.subscribe(1)
    one.meet()
    assert one.say(bytes.fromhex("47 01 02 01 61 67 02 02 01 62"))[-1].hex(" ") == "2f 00 03"
    assert one.say(bytes.fromhex("67 00 02 01 63"))[-1].hex(" ") == "2f 01 01"
    assert [sample.payload for sample in one.zhe.received] == [b"c"]


def test_ignores_before_synch() -> None:
    """A peer would take or answer reliable messages before a SYNCH; a client would not."""
    one = One()
    one.zhe.subscribe(1)
    one.open()
    assert one.say(bytes.fromhex("67 00 02 01 61")) == []
    assert one.zhe.received == []


def test_synch_teaches_nothing_in_between() -> None:
    """A SYNCH from between base and end would teach what is missing."""
    one = One()
    one.meet()
    one.say(bytes.fromhex("67 00 02 00 67 01 02 00"))
    assert one.say(bytes.fromhex("ee 05 05"))[-1].hex(" ") == "0f 02"
    assert one.say(bytes.fromhex("ee 05 03"))[-1].hex(" ") == "2f 02 03"


def test_best_effort_order() -> None:
    """What is older than the last one of best effort would be delivered, or what is newer would not."""
    one = One()
    one.zhe.subscribe(1)
    one.open()
    for sn in (5, 4, 5, 6, 6 + 8191, 6 + 8192, 6 + 8191):
        one.say(Message(wire.SDATA, sn=sn % (1 << 14), rid=1, payload=b"%d" % sn))
    assert [int(sample.payload) for sample in one.zhe.received] == [5, 6, 6 + 8191, 6 + 8192]


def test_asks_for_answers() -> None:
    """A writer at 1 kHz would set S more often than when 8 ms have passed, or less often."""
    one = writer()
    marked = []
    for i in range(40):
        one.now = 1.0 + i / 1000
        one.zhe.write(1, b"x", one.now)
        one.zhe.flush(one.now)
        if any(data[0] == 0x67 for _, data in one.zhe.take()):
            marked.append(i)
            one.say(Message(wire.ACKNACK, sn=i + 1))
    assert marked == [9, 19, 29, 39], "from the first message in an empty window on"


def test_newcomers() -> None:
    """A newcomer would have to acknowledge what was sent before it came, or not hold the window from then on."""
    one = writer()
    sent = one.zhe.multicast[0]
    one.zhe.write(1, b"x", 0.0)
    said = Message(wire.OPEN, id=b"\x02", locators=[b"udp/239.255.0.1:7447"], properties={})
    one.say(said, source=("10.7.7.8", 9))
    one.zhe.write(1, b"y", 0.0)
    one.say(b"\x0f\x02")
    assert (sent.base, sent.next) == (1, 2)
    said.id, said.locators = b"\x03", [b"udp/239.255.0.01:7447"]
    one.say(said, source=("10.7.7.9", 9))
    assert len(sent.members) == 2, "another text is another group"


def test_payload_limit() -> None:
    """A payload larger than zhe sends would be sent."""
    assert Zhe().payload_max(1) == 1452
    one = writer()
    with pytest.raises(ValueError, match="1453"):
        one.zhe.write(1, bytes(1453), 0.0)


# ---- declarations -----------------------------------------------------------------------------------------------


def declared(*items: Declaration, sn: int, committed: bool = False) -> Message:
    """A DECLARE with S."""
    said = Message(wire.DECLARE, sn=sn, declarations=list(items), sync=True)
    said.committed = committed
    return said


def result(one: One, *items: Declaration) -> str:
    """The result of a transaction, as it stands in its declaration."""
    commit = Declaration(wire.COMMIT, commit=9)
    said = b"".join(one.say(declared(*items, commit, sn=0)))
    (found,) = [m.declarations[0] for m in decoded(said, Limits()) if m.kind == wire.DECLARE]
    return wire.declaration(found).hex(" ")


RES, SUB = wire.RESOURCE, wire.SUBSCRIPTION


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "07 09 00"),
        ([Declaration(RES, 5, b"/a"), Declaration(SUB, 5)], "07 09 00"),
        ([Declaration(SUB, 5), Declaration(RES, 5, b"/a")], "07 09 00"),
        ([Declaration(wire.PUBLICATION, 5), Declaration(8, 5)], "07 09 00"),
        ([Declaration(RES, 7, b"/other")], "07 09 02 0e"),
        ([Declaration(RES, 8, b"/used")], "07 09 02 10"),
        ([Declaration(RES, 5, b"bad")], "07 09 05 0a"),
        ([Declaration(SUB, 1 << 20)], "07 09 05 80 80 80 01"),
        ([Declaration(wire.SELECTION, 2, b"/a", doubled=5)], "07 09 06 05"),
        ([Declaration(SUB, 5, mode=2)], "07 09 06 0a"),
        ([Declaration(RES, 100 + i, b"/%d" % i) for i in range(20)], "07 09 01 ee 01"),
    ],
)
def test_results(items: list[Declaration], said: str) -> None:
    """002-117, 002-118: a transaction would have another result, or take effect though it failed."""
    one = One()
    one.zhe.resource(7, "/seven")
    one.zhe.publish(8)
    one.meet()
    before = dict(one.zhe.tables.uris)
    assert result(one, *items) == said
    if said != "07 09 00":
        assert (one.zhe.tables.uris, one.zhe.tables.remote) == (before, {})


def test_committed_conflict() -> None:
    """002-117: a committed declaration that cannot be would not close the session with reason 6."""
    one = One()
    one.zhe.resource(7, "/seven")
    one.meet()
    said = one.say(declared(Declaration(RES, 7, b"/other"), sn=0, committed=True))
    assert said == [b"\x05\x02\xa0\xff\x06"]
    assert (one.blamed, one.zhe.peers) == (["close"], [])


def test_first_result_is_missed() -> None:
    """A result of status 0 would be registered: then the stand-in would be better than zhe, and send a second transaction."""
    for status, goes_on in ((0, False), (2, True)):
        one = One(P2P.changed(commit_calls=3))
        one.meet()
        one.say(b"\x0d\x01")
        one.zhe.subscribe(5)
        said = Said()
        for _, data in one.wait(0.5):
            for message in decoded(data, Limits()):
                said.note(OTHER, message, 14)
        kinds = [data.hex(" ") for data in said.first[0, OTHER]]
        assert kinds == ["06 00 01 03 0a 01", "06 01 01 06 00"]
        answer = Declaration(wire.RESULT, commit=0, status=status, rid=5)
        one.say(b"\x0f\x02")
        one.say(declared(answer, sn=0))
        one.zhe.subscribe(6)
        fresh = [data for _, data in one.wait(0.5) if data[0] & 31 == wire.DECLARE]
        assert bool(fresh) == goes_on


def test_commit_takes_its_time() -> None:
    """A commit would follow its declarations at once, instead of after 255 calls of housekeeping."""
    one = One()
    one.meet()
    one.say(b"\x0d\x01")
    one.zhe.subscribe(5)
    said = [(at, data) for at, data in one.wait(1.0) if data[0] & 31 == wire.DECLARE]
    assert said[0][1].hex(" ") == "06 00 01 03 0a 01"
    assert said[1][1].hex(" ").endswith("01 06 00")
    assert 0.25 <= said[1][0] - said[0][0] <= 0.27


# ---- two of them, in memory and on sockets ----------------------------------------------------------------------


@pytest.mark.parametrize("config", ["p2p", "p2p-small", "p2p-large", "mindeps"])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_two(config: str, loss: float) -> None:
    """Two of them would not understand each other: samples lost or turned round, or one blaming the other."""
    net = Net(loss=loss, seed=3)
    left, right = (Zhe(CONFIGS[config].changed(commit_calls=50), name) for name in (b"l", b"r"))
    for one, (out, into) in ((left, (1, 2)), (right, (2, 1))):
        net.add(one)
        one.publish(out)
        one.subscribe(into)
    net.run_until(lambda: left.tables.wanted(1) and right.tables.wanted(2), 30.0)
    for i in range(60):
        for one, out in ((left, 1), (right, 2)):
            while not one.write(out, bytes([i]), net.now):
                net.run(SHORT)
        net.run(SHORT)
    net.run_until(lambda: len(left.received) + len(right.received) == 120, 30.0)
    for one in (left, right):
        assert [sample.payload[0] for sample in one.received] == list(range(60))
    assert net.complaints() == []


def test_sockets() -> None:
    """On real sockets they would not find each other, by multicast, or not talk."""
    config = P2P.changed(scouting=("239.255.0.1", 17448), scout_ms=20, lease=5)
    ends = [Udp(Zhe(config, name, time.monotonic())) for name in (b"l", b"r")]
    left, right = (end.zhe for end in ends)
    left.publish(1)
    right.subscribe(1)
    try:
        drive(ends, lambda: left.tables.wanted(1))
        for i in range(20):
            assert left.write(1, bytes([i]), time.monotonic())
        drive(ends, lambda: len(right.received) == 20)
        assert [sample.payload[0] for sample in right.received] == list(range(20))
    finally:
        for end in ends:
            end.close()
    assert left.violations == right.violations == []


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[str]]:
    """The stand-in as a process, which is killed at the end."""
    script = Path(__file__).with_name("zhe.py")
    command = [sys.executable, str(script), "--port", "17449", "--scout-ms", "20", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str], event: str) -> dict[str, object]:
    """The next line about this."""
    assert process.stdout is not None
    for line in process.stdout:
        said: dict[str, object] = json.loads(line)
        if said["event"] == event:
            return said
    raise AssertionError(f"it ended before it said {event}")


def test_program() -> None:
    """As a program it would not run, tell what comes, notice that another was killed, or end with the right status."""
    with program("--id", "0a", "--subscribe", "1=/t/x", "--lease", "3") as reader:
        assert heard(reader, "ready")["id"] == "0a"
        with program("--id", "0b", "--publish", "2=/t/*", "--every", "0.01", "--lease", "3") as one:
            assert heard(reader, "peer")["id"] == "0b"
            for i in range(3):
                sample = heard(reader, "sample")
                assert (sample["rid"], sample["payload"]) == (2, str(i))
            one.send_signal(signal.SIGKILL)
        assert heard(reader, "gone")["id"] == "0b"


def test_fatal_and_bad_are_different() -> None:
    """What kills zhe would count as what merely ends a session."""
    assert not issubclass(FatalError, BadError)
    assert not issubclass(BadError, FatalError)
