"""Callbacks and asyncio: what holds beside the first program."""

import asyncio
import logging
import threading
from typing import Any

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, Turn, group, two


def connected(one: pyddsi.Session, other: pyddsi.Session, **options: Any) -> tuple[Any, Any]:
    """A publisher and its subscriber."""
    sub = other.subscriber("a", **options)
    pub = one.publisher("a")
    pub.wait_matched(timeout=TIMEOUT)
    return pub, sub


def test_a_callback_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """What a callback raises is logged with its subscriber, and the next sample comes."""
    done = threading.Event()

    def fail(sample: pyddsi.Sample) -> None:
        if bytes(sample) == b"2":
            done.set()
        raise KeyError(bytes(sample))

    with two() as (one, other), caplog.at_level(logging.ERROR, "pyddsi"):
        pub, sub = connected(one, other)
        sub.callback(fail)
        pub.put_many([b"1", b"2"])
        assert done.wait(TIMEOUT)
        sub.close()
    assert [record.name for record in caplog.records] == ["pyddsi"] * 2
    assert "the callback of subscriber 'a' of session" in caplog.text
    assert "KeyError: b'1'" in caplog.text


def test_samples_from_before_the_callback() -> None:
    """Samples that came before the callback was set are not forgotten."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        pub.put(b"x")
        first = sub.recv(TIMEOUT)
        pub.put_many([b"y", b"z"])
        found: list[bytes] = [bytes(first)]
        done = threading.Event()

        def keep(sample: pyddsi.Sample) -> None:
            found.append(bytes(sample))
            if len(found) == 3:
                done.set()

        sub.callback(keep)
        assert done.wait(TIMEOUT)
        assert found == [b"x", b"y", b"z"]


def test_no_callback_after_close() -> None:
    """002-32: callbacks never run after close() of their subscriber has returned."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        running, go_on = threading.Event(), threading.Event()
        calls: list[bytes] = []

        def slow(sample: pyddsi.Sample) -> None:
            running.set()
            go_on.wait(TIMEOUT)
            calls.append(bytes(sample))

        sub.callback(slow)
        pub.put_many([b"%d" % i for i in range(10)])
        assert running.wait(TIMEOUT)
        closer = threading.Thread(target=sub.close)
        closer.start()
        go_on.set()
        closer.join(TIMEOUT)
        seen = len(calls)
        pub.put(b"more")
        assert seen >= 1
        assert len(calls) == seen


def test_a_callback_may_do_anything() -> None:
    """A callback makes a publisher, closes its own subscriber, and ends the session it belongs to."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        done = threading.Event()

        def everything(_sample: pyddsi.Sample) -> None:
            other.publisher("b").put(b"")
            sub.close()
            other.close()
            done.set()

        sub.callback(everything)
        pub.put(b"x")
        assert done.wait(TIMEOUT)
        assert other.closed


def test_a_callback_can_be_taken_back() -> None:
    """Without its callback a subscriber is read as any other."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        sub.callback(lambda _sample: None)
        sub.callback(None)
        pub.put(b"x")
        assert bytes(sub.recv(TIMEOUT)) == b"x"


def test_async_end() -> None:
    """A task that waits is told of the end of its session: a loop ends, recv_async raises."""

    async def run() -> str:
        session = pyddsi.open(group=group())
        sub = session.subscriber("a")

        async def read() -> list[Any]:
            return [sample async for sample in sub]

        loop, waiting = asyncio.create_task(read()), asyncio.create_task(sub.recv_async())
        await Turn()
        await asyncio.to_thread(session.close)
        assert await loop == []
        with pytest.raises(pyddsi.ClosedError):
            await waiting
        with pytest.raises(pyddsi.ClosedError):
            await sub.recv_many_async()
        return "done"

    assert asyncio.run(run()) == "done"


def test_async_timeouts() -> None:
    """Waits of tasks end as those of threads, with the same words; a cancelled one leaves nothing behind."""

    async def run() -> None:
        async with pyddsi.open(group=group()) as session:
            pub, sub = session.publisher("b"), session.subscriber("a")
            with pytest.raises(TimeoutError, match=r"subscriber 'a'.*no sample came"):
                await sub.recv_async(timeout=0.001)
            with pytest.raises(TimeoutError, match=r"no sample came"):
                await sub.recv_many_async(timeout=0.001)
            with pytest.raises(TimeoutError, match=r"0 of 1 peers subscribe"):
                await pub.wait_matched_async(timeout=0.001)
            task = asyncio.create_task(sub.recv_async())
            await Turn()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await pub.put_async(b"nobody wants it")

    asyncio.run(run())


def test_two_loops() -> None:
    """A session serves one event loop after another, and refuses two at a time."""
    with pyddsi.open(group=group()) as session:
        sub = session.subscriber("a")

        async def wait() -> None:
            with pytest.raises(TimeoutError):
                await sub.recv_async(timeout=0.001)

        asyncio.run(wait())
        asyncio.run(wait())

        async def refused() -> None:
            with pytest.raises(pyddsi.PyddsiError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, wait())
            await wait()

        async def second() -> None:
            await wait()
            await refused()

        asyncio.run(second())


def test_tasks_share_the_loop() -> None:
    """A task that always finds a sample lets other tasks run."""

    async def run() -> tuple[int, int]:
        where, count = group(), 5000
        async with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
            sub, pub = other.subscriber("a", depth=count), one.publisher("a")
            await pub.wait_matched_async(timeout=TIMEOUT)
            turns = 0

            async def other_task() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await Turn()

            await pub.put_many_async([b"x"] * count, timeout=TIMEOUT)
            task = asyncio.create_task(other_task())
            found = 0
            async for _ in sub:
                found += 1
                if found == count:
                    break
            task.cancel()
            return found, turns

    found, turns = asyncio.run(run())
    assert found == 5000
    assert turns > 10
