"""
`pyddsi.testing`: counts, events, ledgers and packets show what happened, declarations are settled or refused, options
reach the core, and wrong ones are refused with words that help.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from pyddsi import wire
from pyddsi.capture import Datagram, read_datagrams
from pyddsi.errors import ClosedError, ConflictError, DeclarationError, RejectedError
from pyddsi.testing import (
    Sim,
    measure_repair,
    run_scenario,
)
from tests.py.worlds import datas, pair

# ---- looks ------------------------------------------------------------------------------------------------------


def test_looks() -> None:
    """Counts, peers or windows would show other things than happened."""
    with Sim() as sim:
        pub, sub = pair(sim, lease=7.5, way="multicast")
        a, b = pub.node, sub.node
        for _ in range(5):
            pub.put(b"x" * 10)
        window = pub.window
        assert window is not None
        assert (window.seq - window.seqbase, window.members, window.used_bytes) == (5, 1, 50)
        assert (a.window(0), a.window(5)) == (window, None)
        assert a.stats().in_flight == 5
        sim.run_until_quiet()
        assert len(datas(sub)) == 5
        assert (a.stats().accepted, a.stats().in_flight, b.stats().taken) == (5, 0, 5)
        (peer,) = a.peers()
        assert (peer.name, peer.id, peer.state, peer.lease) == ("b", b.id, "established", 7.5)
        assert peer.endpoint == b.endpoint
        assert "batch" in peer.features
        assert 0.002 <= peer.rtt < 0.01
        assert pub.conduit == 0
        kinds = [event.kind for event in a.events()]
        assert kinds.count("connected") == kinds.count("matched") == 1
        assert a.events() == []


def test_events_name_what_they_are_about() -> None:
    """An event would not say which publisher, peer or resource it is about."""
    with Sim() as sim:
        pub, _ = pair(sim)
        matched = next(event for event in pub.node.events() if event.kind == "matched")
        assert matched.of is pub
        assert (matched.peer, matched.resource) == ("b", "x")
        assert str(matched).endswith("matched b publisher 'x' of node 'a'")


def test_drops() -> None:
    """A drop would not be in the ledger, or stand there for another reason or resource."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x")
        newest = b.subscriber("x", depth=4, on_full="drop_newest")
        oldest = b.subscriber("x", depth=4, on_full="drop_oldest")
        sim.run_until_quiet()
        for i in range(10):
            pub.put(b"%d" % i)
        sim.run_until_quiet()
        assert datas(newest) == [b"0", b"1", b"2", b"3"]
        assert datas(oldest) == [b"6", b"7", b"8", b"9"]
        lines = {(d.place, d.reason, d.resource): d.count for d in b.drops() if d.place == "ring"}
        assert lines == {("ring", "full", "x"): 6, ("ring", "overwritten", "x"): 6}
        assert "6 of x: " in "\n".join(map(str, b.drops()))


def test_packets() -> None:
    """The log would lack packets, or name other ends or messages."""
    with Sim() as sim:
        pair(sim)
        log = sim.packets()
        assert [p.number for p in log] == sorted(p.number for p in log)
        first = log[0]
        assert isinstance(first.messages[0], wire.Scout)
        assert (first.source, first.target, first.to.multicast) == ("a", "b", True)
        assert str(first).startswith("0.000000 a > b delivered: SCOUT")
    with Sim(log_bytes=0) as sim:
        pair(sim)
        assert sim.packets() == []


def test_pcap(tmp_path: Path) -> None:
    """A capture of a simulation would not hold what was sent, once each, when it was sent."""
    with Sim(loss=0.1, seed=5) as sim:
        a, b = sim.node("a"), sim.node("b")
        c = sim.node("c")
        pub = a.publisher("x")
        b.subscriber("x"), c.subscriber("x")
        sim.run_until_quiet()
        sim.link(a, b, corrupt=0.5, both=False)
        sim.link(a, c, corrupt=0.5, both=False)
        for i in range(20):
            pub.put(bytes(range(i, 256)))
            sim.run(0.01)
        count = sim.write_pcap(tmp_path / "sim.pcap")
        log = {packet.number: packet for packet in sim.packets()}
        whole = {p.number: p for p in sim.packets() if p.fate != "corrupted"}
        assert len(whole) < len(log)
        log |= whole  # as it was sent, if somebody got it so
    content = (tmp_path / "sim.pcap").read_bytes()
    with read_datagrams(io.BytesIO(content)) as capture:
        items = list(capture)
    assert count == len(items) == len(log)
    for item, packet in zip(items, log.values(), strict=True):
        assert isinstance(item, Datagram)
        assert (item.time_ns, item.source, item.destination) == (
            packet.sent_ns,
            packet.from_,
            packet.to,
        )
        assert bytes(item.data) == packet.data
    for at in range(
        24, len(content)
    ):  # every IP header's sum is right: its words add up to all ones
        size = int.from_bytes(content[at + 8 : at + 12], "little")
        head = content[at + 16 : at + 36]
        words = sum(int.from_bytes(head[i : i + 2], "big") for i in range(0, 20, 2))
        assert words % 0xFFFF == 0
        assert size == int.from_bytes(head[2:4], "big")
        break


# ---- declarations -----------------------------------------------------------------------------------------------


def test_numbers_of_names() -> None:
    """A name would have another number elsewhere, or two names the same, or take one of the program's own."""
    with Sim() as sim:
        a, b = sim.node("a", resources_max=1024), sim.node("b", resources_max=1024, rid_bits=16)
        numbers = {}
        for i in range(400):
            name = f"name/{i}"
            numbers[name] = a.resource(name).number
            assert b.resource(name).number == numbers[name]
        assert len(set(numbers.values())) == 400
        assert min(numbers.values()) >= 64
        assert max(numbers.values()) < 8192
        assert a.resource("name/7") is a.resource("/name/7")
        assert a.resource("own", number=3).number == 3
        assert a.publisher("own").number == 3
    with Sim() as other:
        assert other.node(rid_bits=8).resource("small").number < 128
    with Sim() as other:
        assert other.node().resource("name/99").number == numbers["name/99"]


def test_plain_numbers() -> None:
    """A program that numbers its resources itself could not, or would see names."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher(7, space=3), b.subscriber(7, space=3)
        other = b.subscriber(7)
        sim.run_until_quiet()
        pub.put(b"x")
        sample = sub.recv()
        assert (sample.resource, sample.space) == (7, 3)
        sim.run(0.1)
        assert other.poll() is None


def test_conflict() -> None:
    """Two names for one number would go unnoticed, or the error not name them; here, and where both declare at once."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        a.resource("plant/one", number=3)
        sim.run_until_quiet()
        with pytest.raises(
            ConflictError,
            match=r"'plant/two' of node 'b', number 3, contradicts 'plant/one' of node 'a'",
        ) as caught:
            b.resource("plant/two", number=3)
        assert caught.value.number == 3
        assert "plant/one" in caught.value.names
        one, two = a.resource("u/1", number=4), b.resource("u/2", number=4)
        assert one.status in {"pending", "settled"}
        failed = 0
        sim.run_until_quiet()
        for resource in (one, two):
            try:
                resource.wait_settled()
            except ConflictError as error:
                assert set(error.names) == {"u/1", "u/2"}
                failed += 1
        assert failed == 1


def test_rejected() -> None:
    """The second subscriber of a publisher for one would not be told, or with other words."""
    with Sim() as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x", way="unicast")
        first, second = b.subscriber("x"), c.subscriber("x")
        sim.run_until_quiet()
        refused = []
        for sub in (first, second):
            try:
                sub.wait_settled()
            except RejectedError as error:
                assert "way='auto'" in str(error)
                assert error.status == "rejected"
                refused.append(sub)
        assert len(refused) == 1
        assert refused[0].status == "rejected"
        assert len(pub.matched) == 1
        assert any(event.kind == "rejected" for event in refused[0].node.events())


def test_tables_are_full() -> None:
    """A full table would be reported as something else, or without a way out."""
    with Sim() as sim:
        a = sim.node("a", publishers_max=2)
        a.publisher(1), a.publisher(2)
        with pytest.raises(DeclarationError, match="publishers_max") as caught:
            a.publisher(3)
        assert caught.value.status == "no_space"


def test_closing() -> None:
    """What is closed would still do something, or a peer not be told."""
    with Sim() as sim:
        pub, sub = pair(sim)
        sub.close()
        sub.close()
        with pytest.raises(ClosedError, match="subscriber 'x' of node 'b' is closed"):
            sub.poll()
        sim.run(0.1)
        assert pub.matched == []
        with pub:
            pass
        with pytest.raises(ClosedError, match="is closed"):
            pub.put(b"x")
        a, b = pub.node, sub.node
        a.close()
        assert "closed" in repr(a)
        with pytest.raises(ClosedError, match="node 'a' is closed"):
            a.publisher("y")
        b.events()
        sim.run(0.5)
        assert ("disconnected", "a", "ordinary") in [
            (event.kind, event.peer, event.reason) for event in b.events()
        ]
    for call in (lambda: sim.run(1.0), lambda: sim.now, lambda: pub.put(b"x"), a.events):
        with pytest.raises(ClosedError):
            call()
    assert "closed" in repr(sim)
    sim.close()


def test_close_session() -> None:
    """A session that is ended by hand would not end, or not come again."""
    with Sim(defaults={"scout": 0.2}) as sim:
        pub, sub = pair(sim)
        a, b = pub.node, sub.node
        b.events()
        a.close_session(b)
        with pytest.raises(ValueError, match="no session with 'b'"):
            a.close_session(b)
        sim.run(0.05)
        assert "disconnected" in [event.kind for event in b.events()]
        pub.wait_matched()


# ---- wrong use --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"leese": 1.0}, TypeError, "no option 'leese'; did you mean 'lease'"),
        ({"lease": -1.0}, ValueError, "lease is from 0"),
        ({"lease": "1"}, TypeError, "lease is a number of seconds"),
        ({"seq_bits": 5}, ValueError, "node 'n': seq_bits must be 7 to 56"),
        ({"seq_bits": 300}, ValueError, "seq_bits is from 0 to 255"),
        ({"seq_bits": True}, TypeError, "seq_bits is a whole number"),
        ({"role": "per"}, ValueError, "role cannot be 'per'; did you mean 'peer'"),
        ({"features": {"bach"}}, ValueError, "a feature cannot be 'bach'; did you mean 'batch'"),
        ({"id": b""}, ValueError, "1 to 16 bytes"),
        ({"id": "a"}, ValueError, "1 to 16 bytes"),
        ({"scout_to": ("here", 1)}, ValueError, "scout_to is a pair"),
        ({"multicast_to": [("239.0.0.1", 0)]}, ValueError, "multicast_to is a pair"),
        ({"multicast_bytes": [64] * 9}, ValueError, "values of multicast_bytes is from 0 to 8"),
        ({"latency": 5000.0}, ValueError, "latency is from 0"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], match: str) -> None:
    """A wrong option would be taken, or refused without saying what would be right."""
    with Sim() as sim:
        with pytest.raises(error, match=match):
            sim.node("n", **options)
        assert sim.nodes == []


def test_options_reach_the_core() -> None:
    """An option would be lost, or its unit be wrong."""
    with Sim(defaults={"lease": 2.0}) as sim:
        a = sim.node("a", id=b"me", features=None, multicasts=2, multicast_bytes=[4096, 8192])
        b = sim.node("b", lease=3.0, features={"batch"}, incarnation=9)
        sim.node("c", multicast_to=[("239.1.1.1", 7000)], lease=0.0)
        assert a.id == b"me"
        sim.run(1.0)
        looks = {peer.name: peer for peer in sim.nodes[2].peers()}
        assert (looks["a"].lease, looks["a"].features, looks["a"].id) == (2.0, frozenset(), b"me")
        assert (looks["b"].lease, looks["b"].features) == (3.0, frozenset({"batch"}))
        sizes = [window.size_bytes for i in range(3) if (window := a.window(i)) is not None]
        assert sizes == [4096, 8192]
        assert b.name == "b"
        assert [event.peer for event in b.events() if event.kind == "connected"]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda n: n.subscriber("x", mode="psh"),
            ValueError,
            "mode cannot be 'psh'; did you mean 'push'",
        ),
        (lambda n: n.subscriber("x", on_full="block"), ValueError, "on_full cannot be"),
        (lambda n: n.subscriber("x", depth=0), ValueError, "depth is from 1"),
        (lambda n: n.subscriber("a b"), ValueError, "character 2"),
        (lambda n: n.publisher("x", way="any"), ValueError, "way cannot be"),
        (lambda n: n.publisher("x", conduit=8), ValueError, "conduit is from 0 to 7"),
        (lambda n: n.publisher("x", reliable="yes"), TypeError, "reliable is True, False, or None"),
        (lambda n: n.publisher(0), ValueError, "number is from 1"),
        (lambda n: n.publisher(1.5), TypeError, "whole number"),
        (lambda n: n.publisher("x", space=256), ValueError, "space is from 0 to 255"),
        (lambda n: n.publisher("x", durability="firm"), ValueError, "durability cannot be"),
        (lambda n: n.sim.link(loss=5), ValueError, "chance from 0 to 1, not 5; 5 percent is 0.05"),
        (lambda n: n.sim.link(loss="5"), TypeError, "chance from 0 to 1"),
        (lambda n: n.sim.node("n"), ValueError, "there is a node 'n' already"),
        (lambda _: Sim(-1), ValueError, "seed is from 0"),
        (lambda _: Sim("x"), TypeError, "seed is a whole number"),  # type: ignore[arg-type]
        (lambda _: run_scenario("los", 1), ValueError, "no scenario 'los'; did you mean 'loss'"),
        (lambda _: run_scenario("loss", -1), ValueError, "seed is from 0"),
        (lambda _: measure_repair(1, rate=0), ValueError, "rate is from 1"),
    ],
)
def test_wrong_calls(call: Any, error: type[Exception], match: str) -> None:
    """A wrong argument would be taken, or refused without saying what would be right."""
    with Sim() as sim, pytest.raises(error, match=match):
        call(sim.node("n"))
