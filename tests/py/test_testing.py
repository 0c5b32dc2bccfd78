"""
`pyddsi.testing`, as those who test their programs with it meet it: what goes in comes out, faults do what they say, views
never show memory that is used again, errors say what would be right, and the same seed does the same.
"""

from __future__ import annotations

import gc
import io
import random
import weakref
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pyddsi import wire
from pyddsi.capture import Datagram, open_capture
from pyddsi.errors import ClosedError, ConflictError, DeclarationError, RejectedError
from pyddsi.testing import (
    Node,
    NodeOptions,
    Publisher,
    Sim,
    Subscriber,
    check_texts,
    find_scenario,
    measure_repair,
    run_scenario,
    scenarios,
)


def pair(sim: Sim, name: str = "x", **options: Any) -> tuple[Publisher, Subscriber]:
    """Two nodes, one publishing to the other, all settled."""
    a, b = sim.node("a", **options), sim.node("b", **options)
    pub, sub = a.publisher(name), b.subscriber(name, depth=1024)
    sim.run_until_quiet()
    return pub, sub


def datas(sub: Subscriber) -> list[bytes]:
    """What is there now, copied."""
    return [bytes(sample.data) for sample in sub]


# ---- samples ------------------------------------------------------------------------------------------------------


def test_first_program() -> None:
    """The program of the package's first page would not do what it says."""
    with Sim(seed=1, delay=0.001) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("plant/robot/7/pose", reliable=True)
        sub = b.subscriber("plant/robot/*/pose")
        pub.wait_matched()
        assert pub.put(b"hello") is True
        sample = sub.recv()
        assert bytes(sample.data) == b"hello"
        assert (sample.resource, sample.source) == ("plant/robot/7/pose", "a")
        assert (sample.reliable, sample.conduit, sample.space) == (True, 0, 0)
        assert 0 < sample.time_ns <= sim.now_ns
        assert sub.poll() is None
        assert "plant/robot/7/pose" in repr(sample)


@pytest.mark.parametrize("seed", range(4))
def test_loss(seed: int) -> None:
    """Reliable samples would be missing, doubled or out of order on bad links, or no packet be lost on them."""
    with Sim(seed) as sim:
        pub, sub = pair(sim)
        sim.link(loss=0.2, duplicate=0.05, reorder=0.1, jitter=0.002)
        wanted = [b"%d" % i for i in range(200)]
        for data in wanted:
            pub.put(data)
            sim.run(0.001)
        assert [bytes(sub.recv().data) for _ in wanted] == wanted
        sim.link(loss=0, duplicate=0, reorder=0)
        sim.run_until_quiet()
        assert sub.poll() is None
        assert not pub.window or pub.window.seq == pub.window.seqbase
        fates = {packet.fate for packet in sim.packets()}
        assert {"delivered", "lost", "duplicated"} <= fates
        assert pub.node.stats().resent > 0


def test_best_effort_is_not_repeated() -> None:
    """Best effort would be sent again, or the keyword be lost on the way to the core."""
    with Sim(seed=2) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher("x", reliable=False), b.subscriber("x", depth=256)
        sim.run_until_quiet()
        sim.link(loss=0.5)
        before = a.stats().resent
        for i in range(200):
            pub.put(b"%d" % i)
            sim.run(0.001)
        sim.run(0.1)
        got = [int(data) for data in datas(sub)]
        assert got == sorted(set(got))
        assert 40 < len(got) < 160
        assert a.stats().resent == before


def test_buffers() -> None:
    """A kind of buffer would be refused or sent as other bytes, or a text be taken for bytes."""
    with Sim() as sim:
        pub, sub = pair(sim)
        pub.put(bytearray(b"one"))
        pub.put(memoryview(b"-two-")[1:4])
        pub.put(b"")
        pub.put_many([b"3", bytearray(b"4")])
        assert pub.put_many([]) is True
        assert [bytes(sub.recv().data) for _ in range(5)] == [b"one", b"two", b"", b"3", b"4"]
        with pytest.raises(TypeError, match=r"bytes.*'?str'?; encode\(\) it first"):
            pub.put("text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not int"):
            pub.put(7)  # type: ignore[arg-type]


def test_full_window() -> None:
    """A full window would lose a sample, block for ever, or not say so; or room would not be noticed."""
    with Sim() as sim:
        a, b = sim.node("a", multicast_bytes=4096, multicast_samples=16), sim.node("b")
        pub, sub = a.publisher("x"), b.subscriber("x", depth=2)
        sim.run_until_quiet()
        count = 0
        while pub.put(b"%d" % count, wait=False):
            count += 1
        assert count == 16
        before = sim.now
        with pytest.raises(
            TimeoutError, match=r"publisher 'x' of node 'a'.*window is full.*0\.25 s.*\bb\b"
        ):
            pub.put(b"more", timeout=0.25)
        assert sim.now == pytest.approx(before + 0.25)
        got = []
        for _ in range(16):
            got.append(bytes(sub.recv().data))
        pub.put(b"last")
        assert [*got, bytes(sub.recv().data)] == [*(b"%d" % i for i in range(count)), b"last"]
        with pytest.raises(
            ValueError, match=r"5000 bytes can never be sent at once; its window has 4096"
        ):
            pub.put(bytes(5000))


def test_recv_runs_the_world() -> None:
    """Recv would not let time pass, return late, or not end."""
    with Sim(delay=0.010) as sim:
        pub, sub = pair(sim)
        start = sim.now
        pub.put(b"x")
        sub.recv()
        assert 0.010 <= sim.now - start < 0.012
        start = sim.now
        with pytest.raises(
            TimeoutError, match=r"subscriber 'x' of node 'b': no sample came within 0\.5 s"
        ):
            sub.recv(timeout=0.5)
        assert sim.now == pytest.approx(start + 0.5)


def test_loan() -> None:
    """A loan would send other bytes than were written, or send after an error, or be usable afterwards."""
    with Sim() as sim:
        pub, sub = pair(sim)
        with pub.loan(5) as memory:
            memory[:] = b"hello"
        with pytest.raises(ValueError, match="released"):
            memory[0] = 1
        loan = pub.loan(100)
        with loan as memory:
            memory[:3] = b"abc"
            loan.used = 3
        with pytest.raises(ZeroDivisionError), pub.loan(4) as memory:  # noqa: PT012
            memory[:] = b"gone"
            1 / 0  # noqa: B018
        loan = pub.loan(4)
        with pytest.raises(ValueError, match="4 bytes cannot use 5"), loan:
            loan.used = 5
        with pytest.raises(ClosedError, match="a loan is used once"), loan:
            pass
        with pub.loan(0):
            pass
        pub.put(b"end")
        assert [bytes(sub.recv().data) for _ in range(4)] == [b"hello", b"abc", b"", b"end"]
        sim.run_until_quiet()
        assert pub.window is not None
        assert pub.window.used_bytes == 0


def test_loan_and_crash() -> None:
    """A loan whose node crashes meanwhile would write to memory that is used again, or be taken for sent."""
    with Sim() as sim:
        pub, _ = pair(sim)
        with pytest.raises(ClosedError, match="crash"), pub.loan(5) as memory:  # noqa: PT012
            pub.node.crash()
            memory[:] = b"hello"


def test_stream() -> None:
    """A sample larger than any window would not arrive whole, or an unfinished one arrive."""
    content = random.Random(1).randbytes(300_000)
    with Sim(loss=0.02, seed=4) as sim:
        pub, sub = pair(sim)
        with pub.stream(len(content)) as stream:
            for at in range(0, len(content), 7001):
                stream.write(content[at : at + 7001])
        assert bytes(sub.recv().data) == content
        with (
            pytest.raises(ValueError, match="10 are missing; it is dropped"),
            pub.stream(10_000) as stream,
        ):
            stream.write(bytes(9990))
        with pytest.raises(KeyError), pub.stream(10_000) as stream:  # noqa: PT012
            stream.write(bytes(5000))
            raise KeyError
        with (
            pytest.raises(ValueError, match="more than the 10 that are left"),
            pub.stream(10) as stream,
        ):
            stream.write(b"12345678901")
        pub.put(b"after")
        assert bytes(sub.recv().data) == b"after"


def test_put_by_name() -> None:
    """A sample for a name that nobody declared would not come, or claim to be of a resource."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        sub = b.subscriber("plant/**")
        sim.run_until_quiet()
        assert a.put("plant/free", b"x") is True
        assert a.put("elsewhere", b"y") is True
        sample = sub.recv()
        assert (bytes(sample.data), sample.resource, sample.source) == (b"x", None, "a")
        sim.run(0.1)
        assert sub.poll() is None
        with pytest.raises(ValueError, match="does not fit one packet"):
            a.put("plant/free", bytes(10_000))


def test_where() -> None:
    """A predicate would not reach the publisher, or let other samples pass; or a name's own predicate be overlooked."""
    with Sim() as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("lamp/1")
        bright = b.subscriber("lamp/*", where="lum > 5 and $size < 20")
        dark = c.subscriber("lamp/*?{lum <= 5}")
        sim.run_until_quiet()
        for lum in range(10):
            pub.put(b'{"lum": %d}' % lum)
        sim.run_until_quiet()
        assert datas(bright) == [b'{"lum": %d}' % lum for lum in range(6, 10)]
        assert datas(dark) == [b'{"lum": %d}' % lum for lum in range(6)]
        with pytest.raises(TypeError, match="a name or a pattern"):
            b.subscriber(7, where="lum > 0")


def test_pull() -> None:
    """A pull would bring more than was asked for, or nothing; or its end not be seen, or be taken for a sample."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher("x", keep=8), b.subscriber("x", mode="pull", depth=32)
        push = b.subscriber("y")
        with pytest.raises(TimeoutError, match="nobody who can be asked"):
            sub.pull(timeout=0.0)
        sim.run_until_quiet()
        for i in range(10):
            pub.put(b"%d" % i)
        sim.run_until_quiet()
        assert datas(sub) == []
        sub.pull(max=3)
        sim.run_until_quiet()
        assert datas(sub) == [b"2", b"3", b"4"]
        assert sub.answers == 1
        with pytest.raises(ValueError, match="make it with mode='pull' or 'push_pull'"):
            push.pull()


def test_guard() -> None:
    """A guard would not hold samples back while the answer has no room."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b", multicast_bytes=1024, multicast_samples=4)
        c = sim.node("c")
        answers = b.publisher("answers")
        reader = c.subscriber("answers", depth=1)
        ask = a.publisher("ask")
        asked = b.subscriber("ask", guard={answers: 10})
        sim.run_until_quiet()
        for _ in range(2):  # the reader takes one, and no more
            while answers.put(b"0123456789", wait=False):
                pass
            sim.run(0.2)
        ask.put(b"?")
        sim.run(0.5)
        assert asked.poll() is None
        for _ in range(4):
            reader.recv()
        assert bytes(asked.recv().data) == b"?"
        with pytest.raises(ValueError, match="of the same node"):
            a.subscriber("ask", guard={answers: 10})


# ---- views --------------------------------------------------------------------------------------------------------


def test_views_hold_their_memory() -> None:
    """A sample's memory would be used again while somebody looks at it, or never again."""
    with Sim() as sim:
        pub, sub = pair(sim)
        free = sub.node.stats().allocated_slots
        kept = []
        for i in range(50):
            pub.put(b"sample %d" % i)
            kept.append(sub.recv().data[7:])  # neither the sample nor its whole view stays
        assert [bytes(view) for view in kept] == [b"%d" % i for i in range(50)]
        assert sub.node.stats().allocated_slots > free
        assert sub.node.views == 50
        del kept
        assert sub.node.views == 0
        assert sub.node.stats().allocated_slots == free


def test_release() -> None:
    """A released sample would still be readable, or its memory stay taken; releasing twice would raise."""
    with Sim() as sim:
        pub, sub = pair(sim)
        pub.put(b"abc")
        with sub.recv() as sample:
            view = sample.data
            assert view.readonly
            assert sub.node.views == 1
        with pytest.raises(ValueError, match="released"):
            bytes(view)
        sample.release()
        assert sub.node.views == 0


@pytest.mark.parametrize("end", ["crash", "restart", "close", "sim"])
def test_views_end_with_their_node(end: str) -> None:
    """A view would show memory of a node that is gone: bytes of somebody else, or none at all."""
    with Sim() as sim:
        pub, sub = pair(sim)
        pub.put(b"abc")
        pub.put(b"def")
        sample, view = sub.recv(), sub.recv().data
        if end == "sim":
            sim.close()
        else:
            getattr(sub.node, end)()
        for gone in (sample.data, view):
            with pytest.raises(ValueError, match="released"):
                bytes(gone)
        assert sub.node.views == 0


def test_parts_of_views_survive_or_forbid() -> None:
    """A part of a view would be read after its memory was freed or given to another life of the node."""
    with Sim() as sim:
        pub, sub = pair(sim)
        pub.put(b"abcdef")
        part = sub.recv().data[2:4]
        sub.node.crash()
        assert bytes(part) == b"cd"
        with pytest.raises(
            BufferError, match=r"node 'b' cannot restart.*1 samples are still looked at"
        ):
            sub.node.restart()
        sim.close()
        assert bytes(part) == b"cd"
    memory = weakref.ref(sim.world)
    del sim, pub, sub
    gc.collect()
    assert memory() is not None
    assert bytes(part) == b"cd"
    del part
    gc.collect()
    assert memory() is None


def test_memory_goes_at_close() -> None:
    """A closed Sim would keep its memory until the garbage collector comes."""
    gc.disable()
    try:
        for _ in range(3):
            with Sim() as sim:
                for i in range(8):
                    sim.node(multicast_bytes=32 << 20, unicast_bytes=2400 + i)
            rss = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
            assert rss < 2 << 30
    finally:
        gc.enable()


# ---- faults and time ----------------------------------------------------------------------------------------------


def test_same_seed_same_world() -> None:
    """A run could not be repeated, or the seed would change nothing."""

    def run(seed: int) -> tuple[int, float, list[str]]:
        with Sim(seed, loss=0.1, jitter=0.001) as sim:
            pub, sub = pair(sim)
            for i in range(50):
                pub.put(b"%d" % i)
                if i % 7 == 0:
                    sub.recv()
            pub.node.crash()
            sim.run(1.0)
            return sim.digest, sim.now, [str(packet) for packet in sim.packets()]

    assert run(1) == run(1)
    assert run(1)[0] != run(2)[0]


def test_crash_and_restart() -> None:
    """A crash would say farewell, or leave things usable; a restart would not come back with the same id."""
    with Sim(defaults={"lease": 1.0}) as sim:
        pub, sub = pair(sim)
        a, b = pub.node, sub.node
        a.events()
        b.crash()
        assert (b.running, repr(b)) == (False, "<Node 'b', crashed>")
        for call in (sub.poll, b.stats, lambda: b.subscriber("x"), b.crash):
            with pytest.raises(ClosedError, match=r"node 'b' has crashed; restart\(\) it first"):
                call()
        sim.run(3.0)
        assert [(e.kind, e.peer, e.reason) for e in a.events()] == [
            ("disconnected", "b", "lease"),
            ("unmatched", "b", None),
        ]
        assert pub.matched == []
        incarnation, port = b.life, b.endpoint.port
        b.restart(same_port=False)
        assert (b.running, repr(b)) == (True, "<Node 'b', running>")
        assert b.life > incarnation
        assert b.endpoint.port != port
        with pytest.raises(ClosedError, match="went with the crash of its node; make another one"):
            sub.poll()
        again = b.subscriber("x")
        pub.wait_matched()
        sim.run_until_quiet()
        pub.put(b"again")
        assert bytes(again.recv().data) == b"again"
        assert [peer.incarnation for peer in a.peers() if peer.state == "established"] == [2]


def test_partition_and_heal() -> None:
    """A cut link would let packets through, cut others, or not be mended."""
    with Sim(defaults={"lease": 0.5, "scout": 0.1}) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x")
        subs = b.subscriber("x"), c.subscriber("x")
        sim.run_until_quiet()
        sim.partition([a, c])
        cut = sim.now_ns
        sim.run(2.0)
        assert pub.matched == ["c"]
        passed = [p for p in sim.packets() if p.sent_ns > cut and p.arrived]
        assert passed
        assert all("b" not in {p.source, p.target} for p in passed)
        pub.put(b"1")
        assert bytes(subs[1].recv().data) == b"1"
        sim.heal()
        pub.wait_matched(2)
        sim.run_until_quiet()
        sim.cut(a, b, both=False)
        cut = sim.now_ns
        sim.run(0.3)
        fates = defaultdict(set)
        for p in sim.packets():
            if p.sent_ns > cut:
                fates[p.source, p.target].add(p.fate)
        assert fates["a", "b"] == {"cut"}
        assert fates["b", "a"] == {"delivered"}


def test_links() -> None:
    """A change of one link would change others, or forget what was set before."""
    with Sim(delay=0.001) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        sim.run_until_quiet()
        sim.link(a, b, delay=0.030, both=False)
        sim.link(a, b, loss=0.0)
        sim.link(jitter=0.0)
        start = sim.now_ns
        pub = a.publisher("x")
        c.subscriber("x"), b.subscriber("x")
        sim.run_until_quiet()
        pub.put(b"1")
        sim.run_until_quiet()
        taken = {
            (p.source, p.target): p.arrives_ns - p.sent_ns
            for p in sim.packets()
            if p.sent_ns >= start and p.fate == "delivered"
        }
        assert taken["a", "b"] // 1_000_000 == 30
        assert {taken[ends] // 1_000_000 for ends in taken if ends != ("a", "b")} == {1}
        d = sim.node("d")
        sim.link(loss=1.0)
        sim.link(d, loss=0.0)
        start = sim.now_ns
        sim.run(4.0)
        for p in sim.packets():
            if p.sent_ns >= start:
                assert p.arrived == ("d" in {p.source, p.target})


def test_pause_and_clock() -> None:
    """A paused node would answer, or lose what waits for it; a clock that steps would break a session or run backwards."""
    with Sim(defaults={"lease": 60.0}) as sim:
        pub, sub = pair(sim)
        sub.node.pause(2.0)
        pub.put(b"1")
        start = sim.now
        assert bytes(sub.recv().data) == b"1"
        assert sim.now - start == pytest.approx(2.0, abs=0.01)
        pub.node.clock_step(-0.5)
        sub.node.clock_step(10.0)
        for i in range(20):
            pub.put(b"%d" % i)
        times = [sub.recv().time_ns for _ in range(20)]
        assert times == sorted(times)
        assert times[0] / 1e9 == pytest.approx(sim.now + 10.0, abs=0.1)
        with pytest.raises(ValueError, match="104 days"):
            sub.node.clock_step(1e8)


def test_time() -> None:
    """Time would pass by itself, or not as far as it was told."""
    with Sim() as sim:
        sim.node("a")
        assert sim.now == 0.0
        assert sim.run(1.5) > 0
        assert (sim.now, sim.now_ns) == (1.5, 1_500_000_000)
        for wrong in (-1.0, float("nan"), float("inf"), 1e12):
            with pytest.raises(ValueError, match="duration is from 0 to"):
                sim.run(wrong)
        with pytest.raises(TypeError, match="number of seconds"):
            sim.run("1")  # type: ignore[arg-type]


def test_quiet() -> None:
    """run_until_quiet would stop too early, or not say what is left."""
    with Sim() as sim:
        pub, sub = pair(sim)
        sim.link(loss=1.0)
        pub.put(b"x")
        with pytest.raises(
            TimeoutError, match=r"not quiet after 0\.5 s: a window is not acknowledged"
        ):
            sim.run_until_quiet(timeout=0.5)
        left = [sim.busy]
        sim.link(loss=0.0)
        sim.run_until_quiet()
        left.append(sim.busy)
        assert left == ["a window is not acknowledged", None]
        assert datas(sub) == [b"x"]


def test_inject() -> None:
    """Bytes from nowhere would not reach the node, or not be counted."""
    with Sim() as sim:
        a = sim.node("a")
        sim.inject(a, b"\xff\xff\xff", source=("10.1.2.3", 999))
        packet = sim.packets()[-1]
        assert (packet.fate, packet.source, packet.target) == ("injected", None, "a")
        assert str(packet.from_) == "10.1.2.3:999"
        assert packet.messages == []
        assert sum(drop.count for drop in a.drops()) >= 1
        with pytest.raises(ValueError, match="a pair of an IP address and a port"):
            sim.inject(a, b"", source=("nowhere", 1))


# ---- declarations -------------------------------------------------------------------------------------------------


def test_numbers_of_names() -> None:
    """A name would have another number elsewhere, or two names the same, or take one of the program's own."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b", rid_bits=16)
        numbers = {}
        for i in range(150):
            name = f"name/{i}"
            numbers[name] = a.resource(name).number
            assert b.resource(name).number == numbers[name]
        assert len(set(numbers.values())) == 150
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
        with pytest.raises(ClosedError, match="the node is closed"):
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


# ---- looks --------------------------------------------------------------------------------------------------------


def test_looks() -> None:
    """Counts, peers or windows would show other things than happened."""
    with Sim() as sim:
        pub, sub = pair(sim, lease=7.5)
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
        pub.put(bytes(range(256)))
        sim.run_until_quiet()
        count = sim.write_pcap(tmp_path / "sim.pcap")
        log = {packet.number: packet for packet in sim.packets()}
    content = (tmp_path / "sim.pcap").read_bytes()
    with open_capture(io.BytesIO(content)) as capture:
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


# ---- wrong use ----------------------------------------------------------------------------------------------------


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


# ---- scenarios ----------------------------------------------------------------------------------------------------


def test_scenarios() -> None:
    """A scenario could not be found or played, or its report be of another run."""
    known = scenarios()
    assert len(known) == len({scenario.name for scenario in known}) >= 20
    assert find_scenario("loss").text
    assert all(scenario.text for scenario in known)
    one, two = run_scenario("loss", 3), run_scenario("loss", 3, keep_packets=True)
    assert one.digest == two.digest
    assert (one.scenario, one.seed, one.sent) == ("loss", 3, [])
    assert one.digest != run_scenario("loss", 4).digest
    assert len({packet.number for packet in two.sent}) >= two.packets > 0
    assert sum(packet.fate == "lost" for packet in two.sent) == two.packets_lost
    assert list(one.checks) == list(check_texts())
    assert sum(one.checks.values()) > 100
    assert one.to_dict()["scenario"] == "loss"
    assert "sent" not in one.to_dict()


def test_repair() -> None:
    """The measurement would not lose or not repair, or count in other units."""
    found = measure_repair(1, loss=0.05, samples=500)
    assert found.put == found.delivered == 500
    assert 5 <= found.lost <= 60
    assert 0.001 < found.median <= found.p99 <= found.max < 1.0
    assert found.resent_per_lost == found.resent / found.lost
    assert measure_repair(1, loss=0.0, samples=100).resent_per_lost == 0.0


# ---- anything -----------------------------------------------------------------------------------------------------


class Model:
    """What must come out of a world in which anything is done, as long as no lease ends: all, once, in order."""

    def __init__(self, sim: Sim, rand: random.Random) -> None:
        self.sim, self.rand = sim, rand
        options: NodeOptions = {
            "lease": 60.0,
            "slow": 600.0,
            "multicast_bytes": 8192,
            "multicast_samples": 32,
        }
        self.nodes: list[Node] = [sim.node(**options) for _ in range(rand.randint(2, 4))]
        names = ["a/1", "a/2", "b/1"]
        self.pubs = [rand.choice(self.nodes).publisher(rand.choice(names)) for _ in range(3)]
        self.subs = [
            rand.choice(self.nodes).subscriber(rand.choice([*names, "a/*", "**"]), depth=8)
            for _ in range(4)
        ]
        sim.run_until_quiet()
        self.wanted: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.got: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.held: list[Any] = []
        self.count = 0

    def matches(self, pub: Publisher, sub: Subscriber) -> bool:
        """Whether samples of this publisher are for this subscriber."""
        covers = {"**": ("a/1", "a/2", "b/1"), "a/*": ("a/1", "a/2")}.get(
            str(sub.name), (sub.name,)
        )
        return pub.name in covers and pub.node is not sub.node

    def put(self) -> None:
        """One sample into one publisher, if there is room."""
        which = self.rand.randrange(len(self.pubs))
        data = bytes([which]) + b"%d." % self.count + bytes(self.rand.choice([0, 1, 50, 500, 3000]))
        self.count += 1
        if self.pubs[which].put(data, wait=False):
            for i, sub in enumerate(self.subs):
                if self.matches(self.pubs[which], sub):
                    self.wanted[which, i].append(data)

    def take(self) -> None:
        """What one subscriber has, up to some."""
        i = self.rand.randrange(len(self.subs))
        for _ in range(self.rand.randint(1, 8)):
            if (sample := self.subs[i].poll()) is None:
                return
            data = bytes(sample.data)
            self.got[data[0], i].append(data)
            assert sample.source == self.pubs[data[0]].node.name
            assert sample.resource == self.pubs[data[0]].name
            self.held.append((sample.data, data))

    def step(self) -> None:
        """Anything."""
        self.rand.choice([self.put, self.put, self.put, self.take, self.take, self.other])()

    def other(self) -> None:
        """Anything but samples."""
        match self.rand.randrange(5):
            case 0:
                self.sim.link(
                    *self.rand.sample(self.nodes, 2),
                    loss=self.rand.choice([0, 0.1, 0.5]),
                    both=False,
                )
            case 1:
                self.rand.choice(self.nodes).pause(self.rand.random() * 0.05)
            case 2:
                self.rand.choice(self.nodes).clock_step(self.rand.choice([0.5, -0.5]))
            case 3:
                self.rand.shuffle(self.held)
                del self.held[len(self.held) // 2 :]
            case _:
                self.sim.run(self.rand.random() * 0.02)

    def settle(self) -> None:
        """No more faults: all that is wanted must come."""
        self.sim.link(loss=0.0)
        for _ in range(400):
            self.sim.run(0.05)
            for _ in range(20):
                self.take()
            if self.got == {key: value for key, value in self.wanted.items() if value}:
                return


@pytest.mark.parametrize("seed", range(12))
def test_anything(seed: int) -> None:
    """Some order of calls would lose, repeat, mix up or overwrite samples."""
    with Sim(seed, loss=0.05) as sim:
        model = Model(sim, random.Random(seed))
        for _ in range(300):
            model.step()
        model.settle()
        assert model.got == {key: value for key, value in model.wanted.items() if value}
        assert all(view == data for view, data in model.held)
        model.held.clear()
        sim.run_until_quiet(timeout=30.0)
        for node in sim.nodes:
            assert (node.views, node.stats().in_flight, node.stats().rings_used) == (0, 0, 0)
