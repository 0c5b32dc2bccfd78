"""Samples, loans and their memory: nothing dangles, nothing leaks, nothing is copied that need not be."""

import asyncio
import gc
import threading
from typing import Any

import numpy as np
import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, two

LARGE = 20_000
LANE_LOANS = 64  # that one shared window lends at once


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("size", [0, 1, 64, 65, 256, 257, 1024, 1025, 1500, LARGE])
def test_sizes(*, size: int, shared_memory: bool) -> None:
    """Samples of every kind of size are whole, as copies and as views."""
    data = np.random.default_rng(size).bytes(size)
    with two(shared_memory=shared_memory) as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        for _ in range(40):
            pub.put(data)
        for number in range(40):
            sample = sub.recv(TIMEOUT)
            assert (bytes(sample), len(sample), sample.size) == (data, size, size), number
            assert sample.data.readonly
            assert sample.data == data


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_view_outlives_everything(*, shared_memory: bool) -> None:
    """A view of a sample is good after the sample, the subscriber and both sessions have gone."""
    data = np.random.default_rng(1).bytes(LARGE)
    with two(shared_memory=shared_memory) as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(data)
        view = sub.recv(TIMEOUT).data[1:]
    del one, other, sub, pub
    gc.collect()
    assert view == data[1:]
    array = np.frombuffer(view, "u1")
    del view
    assert array.tobytes() == data[1:]


def test_release() -> None:
    """A released sample gives no new views; those made before keep its memory."""
    with two() as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(bytes(LARGE))
        with sub.recv(TIMEOUT) as sample:
            view = sample.data
            assert other.counts()["views"] == 1
        with pytest.raises(ValueError, match="was released"):
            _ = sample.data
        assert view == bytes(LARGE)
        assert other.counts()["views"] == 1
        view.release()
        assert other.counts()["views"] == 0


def test_too_many_views() -> None:
    """A program that keeps every sample gets copies when there are too many views, and goes on."""
    count = 2000
    with two(shared_memory=False) as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        kept = []
        for number in range(count):
            pub.put(number.to_bytes(4, "little") * 300)
            kept.append(sub.recv(TIMEOUT))
        assert [int.from_bytes(bytes(one)[:4], "little") for one in kept] == list(range(count))
        counts = other.counts()
        assert counts["views"] + counts["views_copied"] == count
        del kept
        assert other.counts()["views"] == 0
        assert other.stats().allocated_slots <= 1


def test_loans() -> None:
    """A loan is published when its block ends, and only then; in part if the block says so; not if the block raises."""
    with two() as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        with pub.loan(4) as memory:
            assert (len(memory), memory.readonly) == (4, False)
            memory[:] = b"full"
        loan = pub.loan(8)
        with loan as memory:
            memory[:4] = b"part"
            loan.used = 4

        def lose() -> None:
            with pub.loan(4) as memory:
                memory[:] = b"lost"
                raise KeyError

        with pytest.raises(KeyError):
            lose()
        loan = pub.loan(4)
        with pytest.raises(ValueError, match="a loan of 4 bytes cannot use 5"), loan:
            loan.used = 5
        with pytest.raises(ValueError, match="a loan is used once"), loan:
            pass
        with pub.loan(0):
            pass
        with pytest.raises(ValueError, match="released"):
            memory[0] = 1
        pub.put(b"end")
        assert [bytes(sub.recv(TIMEOUT)) for _ in range(4)] == [b"full", b"part", b"", b"end"]


def test_a_loan_that_is_still_looked_at() -> None:
    """An array that outlives its loan changes no sample: what is published is a copy, and counted."""
    with two() as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        with pub.loan(4000) as memory:
            array = np.frombuffer(memory, "u1")
            array[:] = 1
        array[:] = 2
        with pub.loan(4000) as memory:
            memory[:] = bytes(4000)
        assert sum(sub.recv(TIMEOUT).data) == 4000
        assert sum(sub.recv(TIMEOUT).data) == 0
        assert one.counts()["loans_copied"] == 1
        kept = []

        def fail() -> None:
            with pub.loan(4) as memory:
                kept.append(memory[1:])
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        kept[0][0] = 1
        del array, kept[:]


def test_many_loans() -> None:
    """Loans can be taken and given back for ever."""
    with pyddsi.open(group=group()) as session:
        pub = session.publisher("a")
        for _ in range(70_000):
            with pub.loan(64):
                pass


def test_loans_that_are_all_open() -> None:
    """A shared window lends so many at once; who wants one more is told, and does not look for it for ever."""
    with two() as (one, other):
        other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        assert one.wait(TIMEOUT, lambda: one.counts()["lane_readers"])
        loans = [pub.loan(64) for _ in range(LANE_LOANS)]
        for loan in loans:
            loan.__enter__()
        with pytest.raises(TimeoutError), pub.loan(64, timeout=0):
            pass
        with pytest.raises(TimeoutError), pub.loan(64, timeout=0.01):
            pass
        for loan in loans:
            loan.__exit__(None, None, None)
        with pub.loan(64, timeout=TIMEOUT):
            pass


@pytest.mark.parametrize("shared_memory", [True, False])
def test_large_samples(*, shared_memory: bool) -> None:
    """Samples larger than every window go out in pieces, between others, in order, from put, put_many and loan."""
    large = np.random.default_rng(2).bytes(3 << 20)
    with two(shared_memory=shared_memory) as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(b"first")
        pub.put(large)
        pub.put(large[: 1 << 20])
        assert pub.put_many([b"second", large, b"third", large]) == 4
        with pub.loan(1 << 21) as memory:
            memory[:] = large[: 1 << 21]
        loan = pub.loan(1 << 21)
        with loan as memory:
            memory[:4] = b"part"
            loan.used = 4
        pub.put(b"last")
        sizes = [3 << 20, 1 << 20, 6, 3 << 20, 5, 3 << 20, 1 << 21, 4, 4]
        assert bytes(sub.recv(TIMEOUT)) == b"first"
        for size in sizes:
            sample = sub.recv(TIMEOUT)
            assert len(sample) == size
            if size > 6:
                assert bytes(sample) == large[:size]
            del sample
        assert one.stats().accepted == len(sizes) + 1


def test_the_largest_samples() -> None:
    """64 MiB go through large packets; through those of the usual size, nearly a third of it."""
    for packet_max, size in ((65507, 64 << 20), (1472, 20 << 20)):
        with two(packet_max=packet_max) as (one, other):
            sub = other.subscriber("a")
            pub = one.publisher("a")
            pub.wait_matched(timeout=TIMEOUT)
            data = bytes(size)
            writer = threading.Thread(target=pub.put, args=(data,), kwargs={"timeout": TIMEOUT})
            writer.start()
            sample = sub.recv(TIMEOUT)
            writer.join()
            assert sample.data == data
            del sample


def test_samples_that_are_too_large() -> None:
    """What sockets can never send says why, and what would help; what the receiver does not take is in its ledger."""
    with two(sample_max=1 << 20, shared_memory=False) as (one, other):
        sub, best = other.subscriber("a"), other.subscriber("b")
        pub, careless = one.publisher("a"), one.publisher("b", reliable=False)
        pub.wait_matched(timeout=TIMEOUT)
        careless.wait_matched(timeout=TIMEOUT)
        with pytest.raises(ValueError, match="goes out in pieces, which takes time: leave wait=F"):
            pub.put(bytes(2 << 20), wait=False)
        with pytest.raises(ValueError, match="best effort takes 1048576 bytes"):
            careless.put(bytes(2 << 20))
        with pytest.raises(ValueError, match="too many pieces for packets of 1472 bytes"):
            pub.put(bytes(64 << 20))
        with pytest.raises(ValueError, match="best effort takes") as caught:
            careless.put_many([b"x", bytes(2 << 20), b"y"])
        assert caught.value.taken == 1  # type: ignore[attr-defined]
        pub.put(bytes(2 << 20))
        pub.put(b"end")
        assert bytes(sub.recv(TIMEOUT)) == b"end"
        assert bytes(best.recv(TIMEOUT)) == b"x"
        (drop,) = [drop for drop in other.drops() if drop.place == "assembly"]
        assert (drop.reason, drop.count) == ("size", 1)


def test_large_samples_with_asyncio() -> None:
    """A large sample does not hold up the event loop."""

    async def run() -> list[int]:
        where = group()
        async with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
            sub = other.subscriber("a")
            pub = one.publisher("a")
            await pub.wait_matched_async(timeout=TIMEOUT)
            task = asyncio.create_task(pub.put_async(bytes(3 << 20)))
            found = [len(await sub.recv_async(TIMEOUT))]
            await task
            task = asyncio.create_task(pub.put_many_async([b"x", bytes(3 << 20), b"y"]))
            found += [len(await sub.recv_async(TIMEOUT)) for _ in range(3)]
            await task
            return found

    assert asyncio.run(run()) == [3 << 20, 1, 3 << 20, 1]


def test_other_buffers() -> None:
    """Arrays are put as they are, scattered ones as if they were in one piece."""
    matrix = np.arange(24, dtype="u2").reshape(4, 6)
    with two() as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(matrix)
        pub.put(matrix[::2, ::3])
        pub.put(matrix.T)
        assert pub.put_many(iter([matrix[0], matrix[:, 0]])) == 2
        assert pub.put_array(matrix[:, ::2]) == 4
        expected: list[Any] = [matrix, matrix[::2, ::3], matrix.T, matrix[0], matrix[:, 0]]
        expected += list(matrix[:, ::2])
        for array in expected:
            assert bytes(sub.recv(TIMEOUT)) == array.tobytes()


def test_arrays() -> None:
    """recv_array takes what is of one size, and leaves the rest for the next call."""
    with two() as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put_array(np.arange(1000, dtype="f4").reshape(250, 4))
        pub.put_many([b"odd", b"ODD"])
        pub.put_array(np.arange(8, dtype="f4").reshape(4, 2))
        first = sub.recv(TIMEOUT)
        assert np.frombuffer(first.data, "f4").tolist() == [0, 1, 2, 3]
        found = 1
        while found < 250:
            rows = sub.recv_array("f4", max=100, timeout=TIMEOUT)
            assert rows[0].tolist() == [found * 4 + i for i in range(4)]
            assert len(rows) <= 100
            found += len(rows)
        odd = b""
        while len(odd) < 6:
            odd += sub.recv_array(timeout=TIMEOUT).tobytes()
        assert odd == b"oddODD"
        with pytest.raises(ValueError, match="the next sample has 8 bytes, no whole number of"):
            sub.recv_array("V3", timeout=TIMEOUT)
        pairs = sub.recv_array("f4,f4", max=1, timeout=TIMEOUT)
        assert pairs["f1"].tolist() == [1]
        rest = [np.frombuffer(sub.recv(TIMEOUT).data, "f4").tolist() for _ in range(3)]
        assert rest == [[2, 3], [4, 5], [6, 7]]


def test_drop_oldest() -> None:
    """A reader that wants the newest gets the newest, and the ledger has the rest."""
    with two(shared_memory=False) as (one, other):
        sub = other.subscriber("a", depth=4, on_full="drop_oldest")
        marks = other.subscriber("marks")
        pub, mark = one.publisher("a"), one.publisher("marks")
        pub.wait_matched(timeout=TIMEOUT)
        mark.wait_matched(timeout=TIMEOUT)
        for number in range(100):
            pub.put(bytes([number]))
        mark.put(b"")
        marks.recv(TIMEOUT)
        assert [sub.recv(TIMEOUT).data[0] for _ in range(4)] == [96, 97, 98, 99]
        (drop,) = [one for one in other.drops() if one.reason == "overwritten"]
        assert (drop.count, drop.place) == (96, "ring")


def test_names_of_those_who_left() -> None:
    """A sample whose publisher has left before it is read, or whose reader has closed since, would show a number."""
    where = group()
    with pyddsi.open(group=where) as reader:
        sub = reader.subscriber("**")
        for name in ("plant/1", "plant/2"):
            with pyddsi.open(group=where) as writer:
                pub = writer.publisher(name)
                pub.wait_matched(timeout=TIMEOUT)
                pub.put(b"last words")
            reader.wait_event("disconnected", timeout=TIMEOUT)
        samples = sub.recv_many(timeout=TIMEOUT)
        assert not reader.resources()
        assert [sample.resource for sample in samples] == ["plant/1", "plant/2"]
    assert [sample.resource for sample in samples] == ["plant/1", "plant/2"]
