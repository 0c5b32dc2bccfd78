"""What was published, found in what was sent: numbers unwrapped, repeats left out, pieces joined, names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyddsi import wire
from pyddsi.capture import Endpoint
from pyddsi.capture.replay import Packet, Recording, Sample, Samples
from pyddsi.capture.replay._flow import BEHIND_MAX, HELD_MAX, HELD_NS, Flow, Pieces
from pyddsi.testing import Sim
from tests.py.golden import CAPTURES
from tests.py.test_replay_node import SAMPLES, Model, facts

HERE, THERE, GROUP = Endpoint("10.0.0.1", 1), Endpoint("10.0.0.2", 2), Endpoint("239.255.0.1", 7447)


def samples(recording: Recording) -> tuple[list[Sample], Samples]:
    """All samples of a recording."""
    reader = Samples()
    found = [one for packet, messages in recording.heard() for one in reader.push(packet, messages)]
    return [*found, *reader.finish()], reader


# ---- flows ----


@given(
    st.integers(7, 14),
    st.integers(0, 2**14),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), min_size=1, max_size=300),
)
@settings(max_examples=200, deadline=None)
def test_flow(bits: int, first: int, fates: list[tuple[int, int]]) -> None:
    """A message would be lost, come twice or out of order, however late or often it was captured, and whatever wraps."""
    arrivals = [(0, first)]  # the first one says where the count begins
    for i, (late, copies) in enumerate(fates, 1):
        arrivals += [(i, first + i)] + [(i + late + k, first + i) for k in range(copies)]
        arrivals.remove((i, first + i)) if late and copies else None
    arrivals.sort(key=lambda one: one[0])
    flow = Flow[int](bits, reliable=True)
    found = [one for _, count in arrivals for one in flow.push(count % (1 << bits), count, 0)]
    assert [count for _, count in found] == list(range(first, first + len(fates) + 1))
    start = first % (1 << bits)
    assert [number for number, _ in found] == list(range(start, start + len(fates) + 1))
    assert (flow.missing, flow.repeats) == (0, len(arrivals) - len(found))


def test_flow_that_lacks_something() -> None:
    """What the capture lacks would hold up all that follows, or not be told."""
    flow = Flow[int](14, reliable=True)
    assert [m for _, m in flow.push(5, 5, 0)] == [5]
    assert not list(flow.push(8, 8, 0))
    assert not list(flow.push(7, 7, HELD_NS))
    assert [m for _, m in flow.push(10, 10, HELD_NS + 1)] == [7, 8]
    assert (flow.missing, flow.repeats) == (1, 0)
    assert [m for _, m in flow.push(9, 9, HELD_NS + 2)] == [9, 10]
    late = list(flow.push(6, 6, HELD_NS + 3))
    assert (late, flow.repeats) == ([], 1)
    assert not list(flow.push(20, 20, 9 * HELD_NS))
    assert [m for _, m in flow.finish()] == [20]
    assert flow.missing == 1 + 9


def test_flow_that_holds_much() -> None:
    """Memory would grow without end behind one message that is missing."""
    flow = Flow[int](28, reliable=True)
    found = [m for n in (0, *range(2, HELD_MAX + 3)) for _, m in flow.push(n, n, 0)]
    assert found == [0, *range(2, HELD_MAX + 3)]
    assert flow.missing == 1


def test_flow_of_best_effort() -> None:
    """What was overtaken would come after all, or what was lost be waited for."""
    flow = Flow[int](7, reliable=False)
    numbers = [126, 127, 0, 3, 2, 3, 4]
    assert [m for n in numbers for _, m in flow.push(n, n, 0)] == [126, 127, 0, 3, 4]
    assert (flow.missing, flow.repeats) == (2, 2)


def test_synch() -> None:
    """What the sender has given up would be waited for, or a sender that began anew be taken for a repetition."""
    flow = Flow[int](14, reliable=True)
    assert not list(flow.synch(4, 4))
    assert not list(flow.push(2, 2, 0))  # not the first: that is 0
    assert [m for _, m in flow.push(0, 0, 0)] == [0]
    assert [m for _, m in flow.synch(5, 3)] == [2]  # 1 is given up
    assert [m for _, m in flow.push(3, 3, 0)] == [3]
    assert flow.missing == 1
    assert not list(flow.synch(9, 6))  # nothing is lost yet
    for i in range(BEHIND_MAX):
        assert not list(flow.push(0, 0, 0)), i
        assert not list(flow.synch(1, 1))
    assert [m for _, m in flow.push(0, 100, 0)] == [100]


# ---- pieces ----


def pieces(
    told: list[tuple[int, int | None, int | None]],
) -> tuple[list[tuple[int, bytes]], Pieces[int]]:
    """What comes of messages (number, first of their series or None, how many), each with one byte."""
    one, found = Pieces[int](), []
    for number, first, count in told:
        if first is None:
            found += list(one.other(number))
            found.append((number, b"-"))
        else:
            found += list(
                one.piece(
                    number, number, wire.Frag(first, fragments=count), number, bytes([number])
                )
            )
    one.finish()
    return found, one


@pytest.mark.parametrize(
    ("told", "wanted", "incomplete"),
    [
        ([(1, 1, 2), (2, 1, 2)], [(1, b"\1\2")], 0),
        ([(1, 1, None), (2, 1, None), (3, None, None)], [(1, b"\1\2"), (3, b"-")], 0),
        ([(1, 1, None), (2, 2, None), (3, None, None)], [(1, b"\1"), (2, b"\2"), (3, b"-")], 0),
        ([(1, 1, 3), (2, 1, 3), (4, None, None)], [(4, b"-")], 1),
        ([(1, 1, None), (3, None, None)], [(3, b"-")], 1),
        ([(1, 1, 3), (3, 1, 3), (4, 4, 1)], [(4, b"\4")], 2),
        ([(5, 1, 9), (6, 1, 9), (7, None, None)], [(7, b"-")], 1),
        ([(1, 1, None), (2, 1, None)], [], 1),
    ],
)
def test_pieces(
    told: list[tuple[int, int | None, int | None]], wanted: list[tuple[int, bytes]], incomplete: int
) -> None:
    """A sample would be put together of pieces that do not belong together, lack one, or be lost with all its pieces there."""
    found, one = pieces(told)
    assert found == wanted
    assert one.incomplete == incomplete


# ---- samples ----

ALONE = [
    (name, side)
    for name, sides in SAMPLES.items()
    for side, count in sides.items()
    if count and list(sides.values()).count(0) == len(sides) - 1 and name != "lo_pubsub"
]


@pytest.mark.parametrize(("name", "side"), ALONE)
def test_golden(name: str, side: str) -> None:
    """A sample of zhe would be missing, doubled or out of order, against what its receiver must have had."""
    known = facts(name)
    end = next(one for one in known.ids if one.address == side)
    model = Model(name, end, known.bits(end), client=name.startswith("client"))
    found, reader = samples(Recording(CAPTURES / f"{name}.pcap"))
    wanted = Counter(what[3] for taken in model.taken.values() for what in taken)
    got = Counter(bytes(one.payload) for one in found if one.packet.source != end)
    assert not wanted - got
    assert (reader.missing, reader.incomplete) == (0, 0)
    order = [what[3] for taken in model.taken.values() for what in taken]
    if len(model.taken) == 1:
        assert [bytes(one.payload) for one in found if bytes(one.payload) in wanted] == order


def test_golden_has_most_captures() -> None:
    """The captures would be left out by how they are chosen."""
    assert len(ALONE) >= 12
    assert {"p2p_loss5", "v_seq7", "p2p_uri", "client_large_tcp", "p2p_unreliable"} <= {
        name for name, _ in ALONE
    }


@pytest.mark.parametrize(
    ("name", "count", "resources"),
    [
        ("p2p_throughput", 19779, {"/t/data": 19778, "/t/pong": 1}),
        ("tcp_live_fixed", 325, {1: 300, "/t/data": 20, "/q/data": 5}),
        ("three_multicast_loss", 600, {1: 600}),
        ("p2p_roundtrip", 4056, {1: 2028, 2: 2028}),
        ("p2p_uri", 22, {"/t/data": 10, "/k1/x/abc": 5, "/k7/x/long-name_here": 5, "/nomatch": 2}),
        ("p2p_wildcard_pub", 10, {"/w/**": 10}),
    ],
)
def test_names(name: str, count: int, resources: dict[str | int, int]) -> None:
    """A resource would lose the name that was declared for it, or two be one."""
    found, _ = samples(Recording(CAPTURES / f"{name}.pcap"))
    assert len(found) == count
    assert Counter(one.resource for one in found) == resources
    assert [one.at_ns for one in found] == sorted(one.at_ns for one in found)


def ours(path: Path, *, loss: float) -> list[tuple[str | int, bytes, bool]]:
    """A recording of our own nodes with all that zhe lacks; what was published in it."""
    put: list[tuple[str | int, bytes, bool]] = []
    with Sim(seed=3, loss=loss, delay=0.001) as sim:
        one, two, three = sim.node("one"), sim.node("two"), sim.node("three")
        sure, maybe = one.publisher("plant/sure"), one.publisher("plant/maybe", reliable=False)
        alone = one.publisher("plant/alone", way="unicast")
        readers = [
            two.subscriber("plant/**", depth=4096),
            two.subscriber("plant/alone", depth=4096),
            three.subscriber("plant/sure", where="$size > 100", depth=4096),
        ]
        sure.wait_matched(2)
        alone.wait_matched()
        for i in range(40):
            for publisher, data in (
                (sure, bytes([i]) * (1 + 100 * i)),
                (sure, bytes([i]) * 20_000),
                (maybe, b"maybe %d" % i),
                (alone, b"alone %d" % i),
                *((sure, b"small %d %d" % (i, k)) for k in range(4)),
            ):
                publisher.put(data)
                put.append((f"/{publisher.name}", data, publisher is not maybe))
            sim.run(0.01)
            for reader in readers:
                for sample in reader:
                    sample.release()
        sim.run_until_quiet()
        sim.write_pcap(path)
    return put


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_ours(tmp_path: Path, loss: float) -> None:
    """Fragments, repetitions to groups, or unicast conduits of our own would not be understood."""
    put = ours(tmp_path / "x.pcap", loss=loss)
    found, reader = samples(Recording(tmp_path / "x.pcap"))
    for name in ("/plant/sure", "/plant/maybe", "/plant/alone"):
        got = [
            (one.resource, bytes(one.payload), one.reliable)
            for one in found
            if one.resource == name
        ]
        assert got == [what for what in put if what[0] == name]
    assert len(found) == len(put)
    assert bool(reader.repeats) == bool(loss)
    assert (reader.missing, reader.incomplete) == (0, 0)


def said(
    reader: Samples, *messages: wire.Message, source: Endpoint = HERE, target: Endpoint = GROUP
) -> list[Sample]:
    """What comes of a packet with these messages."""
    data = wire.encode(list(messages))
    packet = Packet("x", 1, 0, 0, source, target, data, stream=False)
    return list(reader.push(packet, wire.decode(data)))


def test_odd_messages() -> None:
    """A batch, another resource's sample or the end of an answer would be read as something else."""
    reader = Samples()
    items = [wire.Sample(b"a", rid=3), wire.Sample(b"b", rid=4)]
    found = said(
        reader,
        wire.BData(0, 3, items, reliable=True, actual=True),
        wire.SData(1, 3, b"c", data_rid=7, reliable=True),
        wire.SData(2, 3, b"", data_rid=0, reliable=True),
        wire.WData(3, "/x/y", b"d", reliable=True),
        wire.BData(4, 9, [wire.Sample(b"e")], reliable=True),
    )
    assert [(one.resource, bytes(one.payload)) for one in found] == [
        (3, b"a"), (4, b"b"), (7, b"c"), ("/x/y", b"d"), (9, b"e")
    ]  # fmt: skip


def test_same_number_for_two() -> None:
    """Two peers' unicast numbers, or two senders', would be one counter; a group's and a copy of it two."""
    reader = Samples()
    one = wire.SData(0, 1, b"x", reliable=True)
    assert len(said(reader, wire.Conduit(2), one, target=THERE)) == 1
    assert len(said(reader, wire.Conduit(2), one, target=Endpoint("10.0.0.3", 3))) == 1
    assert len(said(reader, wire.Conduit(2), one, target=THERE)) == 0
    assert len(said(reader, one)) == 1
    assert len(said(reader, one, target=THERE)) == 0  # conduit 0 is a group's
    assert len(said(reader, one, source=THERE)) == 1
    assert reader.repeats == 2


def test_another_life() -> None:
    """A peer that began anew at its old address would have its samples taken for repetitions."""

    def opened(incarnation: int) -> wire.Open:
        told = [wire.Property(wire.PropertyId.INCARNATION, bytes([incarnation]))]
        return wire.Open(1, b"me", 50, [], properties=told)

    reader, one = Samples(), wire.SData(0, 1, b"x", reliable=True)
    for life in (1, 2):
        assert not said(reader, opened(life), target=THERE)
        assert len(said(reader, one)) == 1
        assert not said(reader, opened(life), target=THERE)  # repeated
        assert len(said(reader, one)) == 0
    assert reader.repeats == 2


def test_names_are_valid() -> None:
    """A name that is none would end the replay, or be published."""
    reader = Samples()
    declared = [wire.Resource(1, "/a b"), wire.Resource(2, "/a"), wire.Resource(2, "/b")]
    assert not said(reader, wire.Declare(0, declared))
    found = said(reader, *(wire.SData(1 + i, 1 + i, b"", reliable=True) for i in range(3)))
    assert [one.resource for one in found] == [1, "/a", 3]
    assert [
        one.resource for one in said(reader, wire.SData(0, 2, b"", reliable=True), source=THERE)
    ] == ["/a"]
    assert not said(reader, wire.WData(4, "/a b", b"", reliable=True))
