"""
What docs/inside/capture.md says of messages, in stories: who sends what to whom, and what has to be said of it.

Each story is told among addresses of its own, a millisecond a packet. All of them together are a capture for tshark. It is long
because there is a story for every line of that page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyddsi import wire
from pyddsi.capture import Endpoint
from pyddsi.capture.flows import EVENTS, Columns, Follower, Where
from pyddsi.capture.write import write_datagrams
from tests.py import core_columns
from tests.py.golden import load
from tests.py.tshark import compare

MS = 1_000_000
Step = tuple[str, str, Any, dict[str, Any]]

NOTHING: Any = None  # the column is not there


def said(event: str, **columns: Any) -> dict[str, Any]:
    """An event, and other columns."""
    return {"seq_event": next(n for n, name in EVENTS.items() if name == event), **columns}


def data(sn: int, *, sync: bool = False, reliable: bool = True) -> wire.SData:
    """A sample."""
    return wire.SData(sn, 1, b"x", sync=sync, reliable=reliable)


def declare(sn: int, *declarations: wire.Declaration) -> wire.Declare:
    """Declarations."""
    return wire.Declare(sn, declarations)


def opening(peer_id: bytes = b"\xaa", bits: int | bytes | None = None) -> wire.Open:
    """An OPEN."""
    value = bytes([bits]) if isinstance(bits, int) else bits
    properties = [] if value is None else [wire.Property(4, value)]
    return wire.Open(1, peer_id, 50, (), properties=properties)


def accept(opener: bytes = b"\xaa", acceptor: bytes = b"\xbb") -> wire.Accept:
    """An ACCEPT."""
    return wire.Accept(opener, acceptor, 50, properties=[])


HELLO = wire.Hello(wire.Role.PEER, ())
SYNCH = wire.Synch(0, sync=True)

# Who and whom: "A" to "D" are endpoints, "G" is a group.
STORIES: dict[str, list[Step]] = {
    "numbers in order, a gap, what fills it, and repeats": [
        ("A", "B", SYNCH, {"seq_event": NOTHING, "outstanding": 0, "flow": "A → B c0 reliable"}),
        ("A", "B", data(5), said("first", usn=5, epoch=0, missing=0, flow="A → B c0 reliable")),
        ("A", "B", data(6), said("next", usn=6, gap=NOTHING)),
        ("A", "B", data(9), said("gap before", usn=9, gap=2, missing=2)),
        ("A", "B", data(7), said("fills a gap", usn=7, missing=1)),
        ("A", "B", data(7), said("repeat", usn=7, missing=1, since_first_us=1000, first_frame=-1)),
        ("A", "B", data(4), said("ambiguous", usn=4, since_first_us=NOTHING)),
        ("A", "B", data(10), said("next", usn=10, missing=1)),
    ],
    "best effort that the network swapped came late, and is not missing": [
        ("A", "B", data(5, reliable=False), said("first", flow="A → B c0 best effort")),
        ("A", "B", data(8, reliable=False), said("gap before", gap=2)),
        ("A", "B", data(6, reliable=False), said("fills a gap", missing=1, since_first_us=NOTHING)),
        ("A", "B", data(6, reliable=False), said("old", usn=6, missing=1)),
        ("A", "B", data(4, reliable=False), said("old", usn=4)),
        ("A", "B", data(8, reliable=False), said("old", usn=8, first_frame=NOTHING)),
        ("A", "B", data(5), said("first")),
    ],
    "each receiver, conduit and sender has its own numbers, a group is one": [
        ("A", "B", data(5), said("first")),
        ("A", "C", data(5), said("first", flow="A → C c0 reliable")),
        ("A", "G", data(5), said("first", flow="A → multicast c0 reliable")),
        ("A", "H", data(6), said("next", flow="A → multicast c0 reliable")),
        ("A", "B", [wire.Conduit(1), data(5)], said("first", flow="A → B c1 reliable", conduit=1)),
        ("B", "A", data(5), said("first")),
        ("A", "B", wire.WData(6, "/x", b"", reliable=True), said("next", uri="/x", payload_len=0)),
        (
            "A",
            "B",
            wire.BData(7, 1, [wire.Sample(b"ab"), wire.Sample(b"c")], reliable=True),
            said("next", payload_len=3),
        ),
        ("A", "B", wire.Pull(8, 3), said("next", reliable=True, rid=3)),
        ("A", "B", declare(9), said("next", reliable=True)),
        (
            "A",
            "B",
            wire.Migrate(1, 5, 5),
            {"seq_event": NOTHING, "reliable": True, "flow": "A → B c0 reliable"},
        ),
    ],
    "what was missing at the first SYNCH": [
        ("A", "B", data(0), said("first")),
        ("A", "B", data(2), said("gap before")),
        ("A", "B", SYNCH, {}),
        ("A", "B", data(1), said("fills a gap")),
        ("A", "B", data(1), said("pre-sync")),  # the receiver has gone beyond it
        ("A", "B", data(3), said("next")),
        ("A", "B", data(3), said("repeat")),
    ],
    "what came before the first SYNCH had to be ignored": [
        ("A", "B", data(0), said("first")),
        ("A", "C", SYNCH, {}),
        ("A", "B", data(0), said("pre-sync", since_first_us=2000)),
        ("A", "B", SYNCH, {}),
        ("A", "B", data(1), said("next")),
        ("A", "B", data(0), said("pre-sync", since_first_us=5000)),
        ("A", "B", data(1), said("repeat")),
    ],
    "a SYNCH for a newcomer is one for the group": [
        ("A", "B", SYNCH, {"flow": "A → B c0 reliable"}),
        ("A", "G", data(0), said("first")),
        ("A", "G", data(0), said("repeat")),
        ("A", "G", [wire.Conduit(1), data(0)], said("first")),
        ("A", "G", [wire.Conduit(1), data(0)], said("pre-sync")),
        ("A", "B", [wire.Conduit(1), SYNCH], {"flow": "A → multicast c1 reliable"}),
        ("A", "G", [wire.Conduit(1), data(1)], said("next")),
        ("A", "G", [wire.Conduit(1), data(1)], said("repeat")),
    ],
    "a group to which nothing has been sent is not acknowledged": [
        ("A", "G", SYNCH, {"flow": "A → multicast c0 reliable"}),
        ("A", "B", data(0), said("first")),
        ("B", "A", wire.AckNack(1), {"flow": "A → B c0 reliable", "ack_usn": 1}),
        ("A", "C", SYNCH, {"flow": "A → C c0 reliable"}),
        ("A", "G", data(4), said("first")),
        ("B", "A", wire.AckNack(5), {"flow": "A → multicast c0 reliable", "ack_usn": 5}),
    ],
    "bits as OPEN says and ACCEPT takes over": [
        ("A", "B", opening(bits=7), {"seq_event": NOTHING}),
        ("B", "A", data(127), said("first")),
        ("B", "A", data(0), said("ambiguous", usn=0)),  # of 14 bits still
        ("B", "A", accept(), {}),
        ("A", "B", data(127), said("first", usn=127)),
        ("A", "B", data(0), said("next", usn=128)),
        ("B", "A", data(1), said("gap before", usn=129, gap=1)),
        ("A", "B", opening(bits=b""), {}),
        ("A", "B", opening(bits=57), {}),
        ("A", "B", opening(bits=b"\x0e\x00"), {}),
        ("A", "B", data(1), said("next", usn=129)),
        ("A", "B", opening(bits=b"\x8e\x00"), {}),  # 14, in a long form
        ("A", "B", data(130), said("next", usn=130)),
        ("A", "B", opening(bits=7), {}),
        ("A", "B", opening(), {}),
        ("A", "B", data(131), said("next", usn=131)),
        ("C", "B", opening(b"\xac", bits=57), {}),
        ("C", "B", opening(b"\xac", bits=b"\x80"), {}),  # no number, so B follows what is known
        ("C", "A", accept(), {}),
        ("C", "A", data(16383), said("first")),
        ("C", "B", accept(), {}),  # B has opened nothing
        ("C", "A", data(0), said("next", usn=16384)),
    ],
    "a number that does not fit shows that its flow has more bits": [
        ("A", "B", opening(bits=7), {}),
        ("A", "B", data(126), said("first")),
        ("A", "C", data(127), said("first")),
        ("A", "B", data(128), said("gap before", usn=128, gap=1)),
        ("A", "B", data(127), said("fills a gap", usn=127)),
        ("A", "C", data(0), said("next", usn=128)),  # another flow
        ("A", "B", data(16384), said("gap before", usn=16384)),
        ("A", "B", data(2**28), said("gap before", usn=2**28)),
        ("B", "A", wire.AckNack(2**28 + 1), {"ack_usn": 2**28 + 1}),
        ("B", "A", wire.AckNack(2**56), {"ack_usn": NOTHING}),
        ("A", "B", data(2**56), said("ambiguous", usn=NOTHING)),
        ("A", "B", data(2**28 + 1), said("next", usn=2**28 + 1)),
        ("A", "B", opening(bits=7), {}),  # it says them anew
        ("A", "B", data(2), said("next", usn=2**28 + 2)),
        ("A", "D", data(2**56), said("ambiguous", usn=NOTHING)),
        ("A", "D", data(20000), said("first", usn=20000)),
    ],
    "after a long silence nobody knows how far a counter went": [
        ("A", "B", opening(bits=7), {}),
        ("A", "B", SYNCH, {}),
        ("A", "B", data(1), said("first")),
        *(("A", "B", data(sn), said("next")) for sn in range(2, 16)),
        ("A", "B", data(17), said("gap before", gap=1)),
        *((("C", "A", HELLO, {}),) * 59),  # 60 ms, where half round takes 60: 15 * 64 / 16
        ("A", "B", data(19), said("gap before", gap=1)),
        ("A", "B", data(16), said("fills a gap")),
        *((("C", "A", HELLO, {}),) * 300),
        ("A", "B", data(16), said("repeat")),
        *((("C", "A", HELLO, {}),) * 1500),
        ("A", "B", data(20), said("next", usn=20)),  # there is no doubt about the next
        *((("C", "A", HELLO, {}),) * 7000),
        ("A", "B", data(22), said("ambiguous", usn=22, gap=NOTHING, missing=1)),
        (
            "A",
            "B",
            data(18),
            said("ambiguous", usn=18),
        ),  # it was missing, one time round or another
        ("A", "B", data(22), said("repeat", since_first_us=2000)),
        ("A", "B", data(24), said("gap before", gap=1, missing=2)),
        ("B", "A", wire.AckNack(23), {"delivery_us": 4000}),
    ],
    "a loss of more than half round": [
        ("A", "B", opening(bits=7), {}),
        ("A", "B", SYNCH, {}),
        ("A", "B", data(0), said("first")),
        *(("A", "B", data(sn), said("next")) for sn in range(1, 20)),
        *((("C", "A", HELLO, {}),) * 80),
        ("A", "B", data(100), said("ambiguous", usn=100)),  # 28 lower, or 100
        ("A", "B", data(101), said("next", usn=101)),
    ],
    "a counter that begins anew and lost its first numbers": [
        ("A", "B", opening(), {}),
        ("A", "B", SYNCH, {}),
        ("A", "B", data(100), said("first")),
        ("A", "B", data(2), said("ambiguous")),  # it has greeted nobody since
        ("A", "B", opening(), {}),
        ("B", "A", wire.AckNack(2, mask=1), {}),
        ("A", "B", data(2), said("ambiguous")),  # it was asked for
        ("A", "B", opening(), {}),
        ("A", "B", data(16), said("ambiguous")),
        ("A", "B", opening(), {}),
        ("A", "B", data(15), said("reset", usn=15, epoch=1)),
        ("A", "B", data(16), said("next", usn=16)),
    ],
    "too many stretches of missing numbers": [
        ("A", "B", SYNCH, {}),
        ("A", "B", data(0), said("first")),
        *(("A", "B", data(3 * n), said("gap before", gap=2)) for n in range(1, 1025)),
        ("A", "B", data(1), said("fills a gap")),
        ("A", "B", data(1), said("repeat")),
        ("A", "B", data(3076), said("gap before", gap=3)),  # the 1,025th: 2 is forgotten
        ("A", "B", data(2), said("ambiguous")),
        ("A", "B", data(0), said("ambiguous")),
        ("A", "B", data(3), said("repeat")),
        ("A", "B", data(4), said("fills a gap")),
        ("A", "B", data(3074), said("fills a gap")),  # parts one in two: 5 is forgotten
        ("A", "B", data(5), said("ambiguous")),
        ("A", "B", data(6), said("repeat")),
        ("A", "B", data(3073), said("fills a gap")),
        ("A", "B", data(3075), said("fills a gap")),
    ],
    "exactly opposite is behind": [
        ("A", "B", opening(bits=7), {}),
        ("A", "B", data(0), said("first")),
        ("A", "B", data(63), said("gap before", usn=63)),
        ("A", "B", data(127), said("ambiguous", usn=-1)),
        ("A", "B", data(126), said("gap before", usn=126)),
    ],
    "how far away a number may be": [
        ("A", "B", opening(bits=56), {}),
        ("A", "B", data(0), said("first")),
        ("A", "B", data(2**31), said("ambiguous", usn=NOTHING)),
        ("A", "B", data(2**31 - 1), said("gap before", gap=2**31 - 2)),
        ("A", "B", data(2**56 - 1), said("ambiguous", usn=NOTHING)),
        ("B", "A", wire.AckNack(2**32 - 1), {"ack_usn": NOTHING}),
        ("B", "A", wire.AckNack(2**32 - 2), {"ack_usn": 2**32 - 2}),
        ("B", "A", wire.AckNack(2**56 - 1), {"ack_usn": NOTHING}),
        ("B", "A", wire.AckNack(0), {"ack_usn": 0}),
    ],
    "another id is another life": [
        ("A", "B", opening(), {}),
        ("A", "B", SYNCH, {}),
        ("A", "B", data(5), said("first")),
        ("A", "B", data(7), said("gap before", missing=1)),
        ("A", "G", data(7), said("first")),
        ("A", "G", data(7, reliable=False), said("first")),
        ("A", "B", opening(b"\xab"), {}),
        ("A", "B", data(9), said("reset", epoch=1, usn=9, missing=0)),
        ("A", "B", data(9), said("pre-sync", epoch=1)),
        ("A", "G", SYNCH, {"epoch": 0}),
        ("A", "G", data(3), said("reset", epoch=1, usn=3)),
        ("A", "G", data(3), said("repeat", epoch=1)),
        ("A", "G", data(8, reliable=False), said("reset", epoch=1)),
        ("A", "C", data(8), said("first", epoch=0)),
        ("A", "B", [wire.Conduit(1), SYNCH], {}),
        ("A", "B", opening(b"\xac"), {}),
        ("A", "G", [wire.Conduit(1), data(0)], said("first", epoch=0)),
        ("A", "G", [wire.Conduit(1), data(0)], said("pre-sync")),
        ("B", "A", accept(b"\xab", b"\xbb"), {}),
        ("B", "A", data(3), said("first")),
        ("B", "A", accept(b"\xab", b"\xbc"), {}),
        ("B", "A", data(4), said("reset")),
        ("B", "A", wire.KeepAlive(b"\xbc"), {}),
        ("B", "A", data(5), said("next")),
        ("B", "A", wire.KeepAlive(b"\xbb"), {}),
        ("B", "A", data(4), said("reset", epoch=2)),
        ("A", "B", wire.AckNack(0, mask=0), {}),
        ("B", "A", accept(b"\xab", b"\xbd"), {}),
        ("B", "A", data(5), said("reset", epoch=3)),
        ("B", "A", HELLO, {}),
        ("B", "A", data(0), said("reset", epoch=4)),  # what was asked for belongs to another life
    ],
    "a counter that begins again": [
        ("A", "B", SYNCH, {}),
        ("A", "B", data(0), said("first")),
        ("A", "B", data(1), said("next")),
        ("A", "B", data(0), said("repeat")),  # nobody has met anew
        ("A", "C", HELLO, {}),
        ("A", "B", data(1), said("repeat")),
        ("A", "B", data(0), said("repeat")),  # it went on since
        ("A", "C", HELLO, {}),
        ("B", "A", wire.AckNack(0, mask=3), {"nacked": 3}),
        ("A", "B", data(0), said("repeat")),  # it is asked for
        ("A", "C", HELLO, {}),
        ("A", "B", data(0), said("reset", epoch=1)),  # and is not any more
        ("B", "A", wire.AckNack(1), {"epoch": 1, "ack_usn": 1, "answer_us": NOTHING}),
        ("A", "C", opening(), {}),
        ("A", "B", data(0), said("pre-sync")),  # nothing came behind it
        ("A", "B", data(1), said("next")),
        ("A", "C", accept(), {}),
        ("A", "B", SYNCH, {}),
        ("A", "B", data(0), said("reset", epoch=2, usn=0)),
        ("A", "B", data(0), said("repeat")),
    ],
    "a wrap is no new beginning": [
        ("A", "B", opening(bits=7), {}),
        ("A", "B", data(127), said("first")),
        ("A", "B", opening(bits=7), {}),
        ("A", "B", data(0), said("next", usn=128)),
        ("A", "B", data(1), said("next")),
        ("A", "B", opening(bits=7), {}),
        ("A", "B", data(0), said("reset", usn=0)),
    ],
    "answers": [
        ("A", "G", data(0), said("first")),
        ("B", "A", wire.AckNack(0), {"answer_us": NOTHING, "flow": "A → multicast c0 reliable"}),
        ("A", "G", data(1, sync=True), said("next")),
        ("A", "G", data(2), said("next")),
        ("B", "A", wire.AckNack(2), {"answer_us": 2000, "ack_usn": 2}),
        ("B", "A", wire.AckNack(2), {"answer_us": NOTHING}),
        ("C", "A", wire.AckNack(2), {"answer_us": 4000}),
        ("A", "G", data(2, sync=True, reliable=False), said("first")),
        ("B", "A", wire.AckNack(3), {"answer_us": NOTHING}),
        ("A", "G", SYNCH, {}),
        ("A", "G", data(2, sync=True), {}),
        ("B", "A", wire.AckNack(3), {"answer_us": 1000}),
        ("C", "A", wire.AckNack(3), {"answer_us": 2000}),
        (
            "B",
            "A",
            [wire.Conduit(1), wire.AckNack(3)],
            {"answer_us": NOTHING, "flow": NOTHING, "ack_usn": NOTHING},
        ),
        ("A", "B", [wire.Conduit(1), SYNCH], {}),
        (
            "B",
            "A",
            [wire.Conduit(1), wire.AckNack(3)],
            {"answer_us": 1000, "flow": "A → B c1 reliable", "ack_usn": 3},
        ),
    ],
    "deliveries": [
        ("A", "G", data(5), said("first")),
        ("A", "G", data(6), said("next")),
        ("B", "A", wire.AckNack(5), {"delivery_us": NOTHING}),
        ("C", "A", wire.AckNack(6), {"delivery_us": 3000}),
        ("B", "A", wire.AckNack(6), {"delivery_us": NOTHING}),
        ("A", "G", data(6), said("pre-sync")),
        ("B", "A", wire.AckNack(7, mask=0), {"delivery_us": 5000, "ack_usn": 7, "nacked": 1}),
        ("A", "G", data(9), said("gap before")),
        ("B", "A", wire.AckNack(9), {"delivery_us": NOTHING}),  # 8 was never seen
        ("B", "A", wire.AckNack(50), {"delivery_us": 2000, "ack_usn": 50}),
        ("A", "G", data(10), said("next")),
        ("B", "A", wire.AckNack(11), {"delivery_us": 1000}),
        ("B", "A", wire.AckNack(16383), {"delivery_us": NOTHING, "ack_usn": -1}),
        ("B", "A", wire.AckNack(16384), {"delivery_us": NOTHING, "ack_usn": NOTHING}),
    ],
    "names": [
        (
            "A",
            "B",
            [wire.Conduit(2), declare(0, wire.Resource(1, "/one"), wire.Resource(2, "/two"))],
            {"uri": NOTHING},
        ),
        ("A", "G", data(0), said("first", uri="/one", rid=1)),
        ("B", "A", data(0), said("first", uri="/one")),  # who gave it none means what another does
        (
            "B",
            "A",
            [wire.Conduit(2), declare(0, wire.Resource(1, "/own"))],
            {},
        ),
        ("B", "A", data(1), said("next", uri="/own")),
        ("C", "A", data(0), said("first", uri="/own")),  # the last one
        ("B", "A", [wire.Conduit(2), declare(1, wire.ForgetResource(1))], {}),
        ("B", "A", data(2), said("next", uri=NOTHING)),  # it was the last
        ("A", "B", [wire.Conduit(2), declare(1, wire.Resource(1, "/one"))], {}),  # nothing new
        ("B", "A", data(3), said("next", uri=NOTHING)),
        (
            "A",
            "B",
            [wire.Conduit(2), declare(2, wire.Selection(wire.SelectionId(7), "/some?x"))],
            {},
        ),
        ("A", "B", wire.Pull(0, wire.SelectionId(7)), said("first", uri="/some?x", rid=-7)),
        ("A", "B", [wire.Conduit(2), declare(3, wire.ForgetSelection(wire.SelectionId(7)))], {}),
        ("A", "B", wire.Pull(1, wire.SelectionId(7)), said("next", uri=NOTHING)),
        ("A", "G", [wire.RSpace(2), data(1)], said("next", uri=NOTHING)),
        ("A", "B", [wire.Conduit(2), wire.RSpace(2), declare(1, wire.Resource(1, "/other"))], {}),
        ("A", "G", [wire.RSpace(2), data(2)], said("next", uri="/other")),
        (
            "A",
            "G",
            wire.SData(3, wire.SelectionId(7), b"", data_rid=2, reliable=True),
            said("next", uri="/two", rid=-7),
        ),
        ("A", "G", wire.SData(4, 2, b"", data_rid=0, reliable=True), said("next", uri="/two")),
        ("A", "G", wire.Pull(5, 2), said("next", uri="/two")),
        ("A", "C", [wire.RSpace(2), data(0), data(1)], said("next", uri="/one")),
        ("A", "B", [wire.Conduit(2), declare(2, wire.ForgetResource(2))], {}),
        ("A", "G", wire.BData(6, 2, [], reliable=True), said("next", uri=NOTHING)),
        ("A", "G", wire.Migrate(0, 1, 1, rid=2), {"uri": NOTHING, "rid": 2}),
    ],
}


def told(name: str) -> tuple[list[tuple[int, Endpoint, Endpoint, bytes]], list[dict[str, Any]]]:
    """The packets of a story, and what has to be said of the last message of each."""
    place = list(STORIES).index(name)
    who = {"G": Endpoint("239.255.0.1", 7447), "H": Endpoint("239.255.0.2", 7447)}
    who |= {letter: Endpoint(f"10.1.{place}.{n}", 7447) for n, letter in enumerate("ABCD", 1)}
    packets = []
    for n, (source, to, message, _) in enumerate(STORIES[name]):
        messages = message if isinstance(message, list) else [message]
        packets.append((n * MS, who[source], who[to], wire.encode(messages)))
    wanted = [dict(columns) for *_, columns in STORIES[name]]
    for columns in wanted:
        if columns.get("flow"):
            source, _, to, rest = columns["flow"].split(" ", 3)
            columns["flow"] = f"{who[source]} → {who.get(to, to)} {rest}"
    return packets, wanted


def followed(name: str) -> Iterator[Columns]:
    """What is said of the last message of each packet."""
    follower = Follower()
    packets, _ = told(name)
    for number, (time_ns, source, to, content) in enumerate(packets, 1):
        where = Where(number, time_ns, source, to)
        yield [follower.follow(where, message) for message in wire.decode(content)][-1]


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    """A message would be said to be what it is not."""
    _, wanted = told(name)
    for number, (columns, expected) in enumerate(zip(followed(name), wanted, strict=True), 1):
        if expected.get("first_frame") == -1:
            expected["first_frame"] = number - 1
        got = {column: columns.get(column, NOTHING) for column in expected}
        assert got == expected, f"packet {number}"


def test_stories_in_wireshark(tmp_path: Path) -> None:
    """The plug-in would say another thing of one of them."""
    path = tmp_path / "stories.pcap"
    write_datagrams(path, [packet for name in STORIES for packet in told(name)[0]])
    compare(path, load(str(path)))


@pytest.mark.parametrize("name", STORIES)
def test_story_in_the_core(name: str, tmp_path: Path) -> None:
    """The core would say another thing of one of them."""
    path = tmp_path / "story.pcap"
    write_datagrams(path, told(name)[0])
    core_columns.compare(path, load(str(path)))


def test_history() -> None:
    """What is remembered of a flow would grow with the capture, or less be remembered than the page says."""
    follower = Follower()
    ends = Endpoint("10.0.0.1", 7447), Endpoint("10.0.0.2", 7447)

    def columns(sn: int, number: int) -> Columns:
        message = wire.decode(wire.encode([data(sn)]))[0]
        return follower.follow(Where(number, number * MS, *ends), message)

    follower.follow(Where(0, 0, *ends), wire.decode(wire.encode([opening(bits=28)]))[0])
    for sn in range(10_000):
        columns(sn, sn + 1)
    assert "since_first_us" not in columns(10_000 - 8193, 10_001)
    assert columns(10_000 - 8192, 10_002)["since_first_us"] > 0
    [flow] = follower._flows.values()
    assert len(flow.firsts) == 8192
    assert EVENTS[columns(1_000_000, 10_003)["seq_event"]] == "gap before"
    assert len(flow.firsts) == 1
    assert EVENTS[columns(10_000, 10_004)["seq_event"]] == "fills a gap"
    assert len(flow.firsts) == 1
