"""The program at the head of the issue that asked for sessions, as it stands there, in its three forms."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group

COUNT = 40


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Somebody else, who subscribes to what the program publishes, and publishes what it subscribes to."""
    monkeypatch.setenv("PYDDSI_GROUP", group())
    heard: list[bytes] = []
    over = threading.Event()

    def publish(session: pyddsi.Session) -> None:
        pub = session.publisher("plant/robot/8/pose")
        number = 0
        while not over.is_set():
            try:
                if pub.matched and pub.put(b"%08d" % number, timeout=0.1):
                    number += 1
                else:
                    over.wait(0.001)
            except (TimeoutError, pyddsi.ClosedError):
                continue

    with pyddsi.open() as session:
        session.subscriber("plant/robot/7/pose").callback(
            lambda sample: heard.append(bytes(sample))
        )
        thread = threading.Thread(target=publish, args=(session,))
        thread.start()
        try:
            yield heard
        finally:
            over.set()
            thread.join()


def heard_all(heard: list[bytes], count: int) -> None:
    """Wait until so much was heard."""
    ticks = threading.Event()
    for _ in range(int(TIMEOUT * 1000)):
        if len(heard) >= count:
            return
        ticks.wait(0.001)
    raise AssertionError(heard)


def test_sync(world: list[bytes]) -> None:
    """Issue 4: a line of the program would not do what it says."""
    list_of_buffers: list[bytes | bytearray | memoryview] = [
        b"one",
        bytearray(b"two"),
        memoryview(b"three"),
    ]
    matrix = np.arange(12, dtype="u1").reshape(3, 4)
    with pyddsi.open() as session:
        pub = session.publisher("plant/robot/7/pose", reliable=True)
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(b"...")
        with pub.loan(4096) as buf:
            np.frombuffer(buf, "f4")[:] = 1.0
        pub.put_many(list_of_buffers)
        pub.put_array(matrix)

        sub = session.subscriber("plant/robot/*/pose", depth=1024, on_full="wait")
        sample = sub.recv(timeout=TIMEOUT)
        assert isinstance(sample.data, memoryview)
        assert str(sample.resource).startswith("plant/robot/")
        assert sample.number >= 0
        assert sample.source in {peer.name for peer in session.peers()} | {session.name}
        assert sample.time_ns > 1_600_000_000 * 10**9
        for seen, sample in enumerate(sub):
            assert sample.size == 8
            if seen == COUNT:
                break
        assert len(sub.recv_many()) >= 1
        batch = sub.recv_array()
        assert batch.shape[1] == 8
        assert isinstance(session.peers(), list)
        assert session.events()
        assert isinstance(session.drops(), list)
        assert session.stats().accepted == 8
        assert "plant/robot/7/pose" in session.why_not("plant/robot/7/pose")
    heard_all(world, 8)
    expected = [b"...", np.ones(1024, "f4").tobytes(), b"one", b"two", b"three"]
    assert world == expected + [bytes(row) for row in matrix]


def test_async(world: list[bytes]) -> None:
    """Issue 4: the same lines with asyncio."""

    async def main() -> None:
        async with pyddsi.open() as session:
            pub = session.publisher("plant/robot/7/pose", reliable=True)
            await pub.wait_matched_async(timeout=TIMEOUT)
            await pub.put_async(b"...")
            with pub.loan(4096) as buf:
                np.frombuffer(buf, "f4")[:] = 1.0
            await pub.put_many_async([b"one", b"two"])

            sub = session.subscriber("plant/robot/*/pose", depth=1024, on_full="wait")
            await sub.recv_async(timeout=TIMEOUT)
            seen = 0
            async for _sample in sub:
                seen += 1
                if seen == COUNT:
                    break
            assert await sub.recv_many_async(timeout=TIMEOUT)

    asyncio.run(main())
    heard_all(world, 4)
    assert world == [b"...", np.ones(1024, "f4").tobytes(), b"one", b"two"]


def test_callback(world: list[bytes]) -> None:
    """Issue 4: the same with a callback, which publishes what it gets."""
    with pyddsi.open() as session:
        pub = session.publisher("plant/robot/7/pose", reliable=True)
        pub.wait_matched(timeout=TIMEOUT)
        sub = session.subscriber("plant/robot/8/pose", depth=1024, on_full="wait")
        sub.callback(lambda sample: pub.put(sample.data))
        heard_all(world, COUNT)
    assert world[:COUNT] == [b"%08d" % number for number in range(COUNT)]
