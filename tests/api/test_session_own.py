"""A session's own subscribers get what it publishes: one session is enough to try things out, and parts of a program can talk."""

import threading

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, two


def test_one_session() -> None:
    """The first program that people write, with one session, would wait for ever."""
    with pyddsi.open(group=group()) as session:
        pub = session.publisher("plant/robot/7/pose", reliable=True)
        assert pub.matched == []
        sub = session.subscriber("plant/robot/*/pose")
        other = session.subscriber("elsewhere")
        pub.wait_matched(timeout=TIMEOUT)
        assert pub.matched == [session.name]
        pub.put(b"put")
        pub.put_many([b"one", b"two"])
        with pub.loan(8) as memory:
            memory[:4] = b"loan"
        large = bytes(range(256)) * 12000
        pub.put(large)
        session.put("plant/robot/8/pose", b"by name")
        samples = [sub.recv(TIMEOUT) for _ in range(6)]
        assert [bytes(sample) for sample in samples] == [
            b"put",
            b"one",
            b"two",
            b"loan\0\0\0\0",
            large,
            b"by name",
        ]
        assert {sample.source for sample in samples} == {session.name}
        assert {sample.resource for sample in samples[:5]} == {"plant/robot/7/pose"}
        assert other.poll() is None
        assert session.drops() == []
    assert bytes(samples[4]) == large  # a view outlives its session


def test_beside_others() -> None:
    """Own subscribers would take samples away from peers, or get them twice."""
    with two() as (one, other):
        pub = one.publisher("a")
        mine, theirs = one.subscriber("a"), other.subscriber("a")
        pub.wait_matched(2, timeout=TIMEOUT)
        back = other.publisher("a")
        back.wait_matched(2, timeout=TIMEOUT)
        for i in range(500):
            pub.put(b"%d" % i)
        back.put(b"end")
        found: list[list[pyddsi.Sample]] = [[] for _ in range(2)]
        for sub, samples in zip((mine, theirs), found, strict=True):
            while len(samples) < 500 + 1:
                samples.append(sub.recv(TIMEOUT))
            assert sub.poll() is None
            numbers = [bytes(one) for one in samples if bytes(one) != b"end"]
            assert numbers == [b"%d" % i for i in range(500)]


def test_waiting() -> None:
    """A reliable put would lose samples of a slow reader of its own session, or never go on."""
    with pyddsi.open(group=group()) as session:
        pub, sub = session.publisher("a"), session.subscriber("a", depth=4)
        careless = session.publisher("a", reliable=False)
        assert pub.put_many([b"x"] * 9, wait=False) == 4
        assert pub.put(b"y", wait=False) is False
        with pytest.raises(TimeoutError, match="a subscriber of this session has its queue full"):
            pub.put(b"y", timeout=0.01)
        careless.put(b"z")
        (drop,) = session.drops()
        assert (drop.place, drop.reason, drop.count) == ("ring", "full", 1)
        thread = threading.Thread(target=pub.put_many, args=([b"w"] * 500,))
        thread.start()
        assert [bytes(sub.recv(TIMEOUT)) for _ in range(504)] == [b"x"] * 4 + [b"w"] * 500
        thread.join()


def test_callback_publishes() -> None:
    """What a callback publishes would not reach the other callbacks of its session."""
    with pyddsi.open(group=group()) as session:
        done = threading.Event()
        back = session.publisher("answer")
        ask = session.publisher("question")
        session.subscriber("question").callback(lambda sample: back.put(bytes(sample) * 2))
        found = []

        def note(sample: pyddsi.Sample) -> None:
            found.append(bytes(sample))
            if len(found) == 100:
                done.set()

        session.subscriber("answer").callback(note)
        for i in range(100):
            ask.put(b"%02d" % i)
        assert done.wait(TIMEOUT)
        assert found == [b"%02d" % i * 2 for i in range(100)]


def test_filters() -> None:
    """A predicate would be ignored, or what it leaves out be called a loss."""
    with pyddsi.open(group=group()) as session:
        pub = session.publisher("a")
        sub = session.subscriber("a", where="lum > 50")
        pub.put_many([b'{"lum": 60}', b'{"lum": 6}', b'{"lum": 66}'])
        assert [bytes(sub.recv(TIMEOUT)) for _ in range(2)] == [
            b'{"lum": 60}',
            b'{"lum": 66}',
        ]
        assert session.drops() == []


def test_many_subscribers() -> None:
    """The 129th subscriber would be refused, though there is memory, and the setting that the error names would not help."""
    with pyddsi.open(group=group()) as session:
        for number in range(300):
            session.subscriber(f"a/{number}")
        session.subscriber("many", depth=65536)
