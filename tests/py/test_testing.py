"""
`pyddsi.testing`, as those who test their programs with it meet it: what goes in comes out, whole, once and in order.
"""

from __future__ import annotations

import random

import pytest

from pyddsi.errors import ClosedError
from pyddsi.testing import (
    Sim,
)
from tests.py.worlds import datas, pair

# ---- samples ----------------------------------------------------------------------------------------------------


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
        assert (sample.reliable, sample.space) == (True, 0)
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
        pub, sub = a.publisher("x", way="multicast"), b.subscriber("x", depth=2)
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
        with pytest.raises(ValueError, match="released"), pub.loan(5) as memory:  # noqa: PT012
            pub.node.crash()
            memory[:] = b"hello"
        pub.node.restart()
        again = pub.node.publisher("x")
        with pytest.raises(ClosedError, match="crash"), again.loan(5):
            again.node.crash()


def test_loan_of_an_earlier_life() -> None:
    """A loan that ends after its node's restart would take one of the new life with it."""
    with Sim() as sim:
        pub, sub = pair(sim)
        old = pub.loan(5)
        old.__enter__()
        pub.node.restart()
        again = pub.node.publisher("x")
        again.wait_matched()
        with again.loan(5) as memory:
            with pytest.raises(ClosedError, match="crash"):
                old.__exit__(None, None, None)
            memory[:] = b"hello"
        assert bytes(sub.recv().data) == b"hello"


def test_loan_and_close() -> None:
    """A loan whose publisher is closed meanwhile would hold its place in the node for ever."""
    with Sim() as sim:
        pub, _ = pair(sim)
        sim.node("c").subscriber("y")
        for i in range(200):  # a node has 64 places
            other = pub.node.publisher("y")
            other.wait_matched()
            if i % 2:
                with pytest.raises(ClosedError, match="is closed"), other.loan(5):
                    other.close()
            else:
                with pytest.raises(ZeroDivisionError), other.loan(5):  # noqa: PT012
                    other.close()
                    1 / 0  # noqa: B018
            sim.run(0.01)
        assert pub.node.views == 0


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
    """A sample for a name that nobody declared would not come, or not say its name."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        sub = b.subscriber("plant/**")
        sim.run_until_quiet()
        assert a.put("plant/free", b"x") is True
        assert a.put("elsewhere", b"y") is True
        sample = sub.recv()
        assert (bytes(sample.data), sample.resource, sample.source) == (b"x", "plant/free", "a")
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
        assert b.stats().allocated_slots == 0
        with pytest.raises(ValueError, match="make it with mode='pull' or 'push_pull'"):
            push.pull()


def test_guard() -> None:
    """A guard would not hold samples back while the answer has no room, or look at another number of bytes."""
    with Sim() as sim:
        a, b, c = sim.node("a"), sim.node("b", multicast_bytes=1024), sim.node("c")
        answers, ask = b.publisher("answers", way="multicast"), a.publisher("ask")
        reader = c.subscriber("answers", depth=2)
        asked = b.subscriber("ask", depth=1, guard={answers: 900})
        sim.run_until_quiet()
        answers.put(bytes(200))
        answers.put(bytes(200))
        answers.put(bytes(200))  # the reader's ring has two places: this one stays in the window
        ask.put(b"?")
        sim.run(0.5)
        assert answers.put(
            bytes(200), wait=False
        )  # there is room, but less than the guard asks for
        assert asked.poll() is None
        sim.run(0.5)
        for _ in range(4):
            reader.recv()
        assert bytes(asked.recv().data) == b"?"
        with pytest.raises(ValueError, match="not a publisher of node"):
            a.subscriber("ask", guard={answers: 10})
