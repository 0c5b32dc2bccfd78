"""The first program that a user writes, in its three forms, in one process and in two."""

import asyncio
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, two

NAME = "plant/robot/7/pose"
PATTERN = "plant/robot/*/pose"


def publish_in_every_way(session: pyddsi.Session) -> None:
    """What the publishing half does: eight samples."""
    pub = session.publisher(NAME, reliable=True)
    pub.wait_matched(timeout=TIMEOUT)
    pub.put(b"one")
    pub.put(bytearray(b"two"))
    pub.put(memoryview(b"three"))
    pub.put(np.array([4], "u1"))
    with pub.loan(4) as memory:
        np.frombuffer(memory, "f4")[:] = 1.0
    pub.put_many([b"six", b"seven"])
    pub.put_array(np.frombuffer(b"8", "u1").reshape(1, 1))


EXPECTED = [b"one", b"two", b"three", b"\x04", b"\0\0\x80?", b"six", b"seven", b"8"]


def test_sync() -> None:
    """Issue 4: the program as it stands, with recv, a loop and an array."""
    with two() as (one, other):
        sub = other.subscriber(PATTERN, depth=1024, on_full="wait")
        publish_in_every_way(one)
        sample = sub.recv(timeout=TIMEOUT)
        assert bytes(sample.data) == b"one"
        assert sample.source == one.name
        assert sample.resource == NAME
        assert (sample.reliable, sample.space, sample.size) == (True, 0, 3)
        rest = [bytes(sample) for _, sample in zip(EXPECTED[1:], sub, strict=False)]
        assert rest == EXPECTED[1:]
        one.publisher(NAME).put_many([b"ab", b"cd"])
        batch = sub.recv_array(timeout=TIMEOUT)
        while len(batch) < 2:
            batch = np.concatenate([batch, sub.recv_array(timeout=TIMEOUT)])
        assert batch.tolist() == [[97, 98], [99, 100]]
        assert [peer.name for peer in one.peers()] == [other.name]
        assert {"connected", "matched"} <= {event.kind for event in one.events()}
        assert one.stats().forgiven == 0
        assert one.stats().accepted == len(EXPECTED) + 2
        assert other.why_not(NAME)


def test_async() -> None:
    """Issue 4: the same with asyncio; the loop is never held up."""

    async def publish(session: pyddsi.Session) -> None:
        pub = session.publisher(NAME)
        await pub.wait_matched_async(timeout=TIMEOUT)
        await pub.put_async(b"one")
        await pub.put_many_async([b"two", b"three"])

    async def run() -> list[bytes]:
        where = group()
        async with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
            sub = other.subscriber(PATTERN)
            task = asyncio.create_task(publish(one))
            first = await sub.recv_async(timeout=TIMEOUT)
            assert first.resource == NAME
            found = [bytes(first)]
            async for sample in sub:
                found.append(bytes(sample))
                if len(found) == 3:
                    break
            await task
            return found

    assert asyncio.run(run()) == [b"one", b"two", b"three"]


def test_callback() -> None:
    """Issue 4: the same with a callback, which answers with a sample of its own."""
    with two() as (one, other):
        answers = one.subscriber("answers")
        reply = other.publisher("answers")
        threads = set()

        @other.subscriber(PATTERN).callback
        def answer(sample: pyddsi.Sample) -> None:
            threads.add(threading.current_thread())
            assert sample.resource == NAME
            reply.put(bytes(sample).upper())

        reply.wait_matched(timeout=TIMEOUT)
        pub = one.publisher(NAME)
        pub.wait_matched(timeout=TIMEOUT)
        pub.put_many([b"a", b"b", b"c"])
        assert [bytes(answers.recv(TIMEOUT)) for _ in range(3)] == [b"A", b"B", b"C"]
        assert threading.main_thread() not in threads
        assert len(threads) == 1


PUBLISHER = """
    import sys, pyddsi
    with pyddsi.open(group=sys.argv[1]) as session:
        pub = session.publisher("plant/robot/7/pose")
        pub.wait_matched(timeout=20)
        for i in range(1000):
            pub.put(b"%d" % i)
        session.close(timeout=20)
"""


def test_two_processes() -> None:
    """Samples of another process all arrive, in order, and its end is told."""
    where = group()
    with pyddsi.open(group=where) as session:
        sub = session.subscriber(PATTERN)
        program = [sys.executable, "-c", textwrap.dedent(PUBLISHER), where]
        with subprocess.Popen(program) as publisher:
            found = [int(bytes(sub.recv(TIMEOUT))) for _ in range(1000)]
            assert publisher.wait() == 0
        assert found == list(range(1000))
        assert session.wait_event("disconnected", timeout=TIMEOUT).reason == "ordinary"


def test_plain_numbers() -> None:
    """Peers that declare no names meet by numbers, and such samples have a number for a name."""
    with two() as (one, other):
        sub = other.subscriber(7)
        pub = one.publisher(7)
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(b"x")
        assert sub.recv(TIMEOUT).resource == 7


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_stream_of_many(*, shared_memory: bool) -> None:
    """Many samples put from one thread and read by another come all, in order, however they travel."""
    count = 20_000
    with two(shared_memory=shared_memory) as (one, other):
        sub = other.subscriber("stream")
        pub = one.publisher("stream")
        pub.wait_matched(timeout=TIMEOUT)

        def publish() -> None:
            for i in range(count):
                pub.put(b"%d" % i)

        thread = threading.Thread(target=publish)
        thread.start()
        found = [int(bytes(sub.recv(TIMEOUT))) for _ in range(count)]
        thread.join()
        assert found == list(range(count))
        harmless = {"expired_peer", "not_synched", "repeat"}  # from before both knew each other
        assert {drop.reason for drop in other.drops()} <= harmless
