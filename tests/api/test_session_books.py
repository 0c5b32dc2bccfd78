"""What Python has taken out of the core is handed over, given back, or listed in the ledger."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import pyddsi
from tests.api.rooms import COUNT, TIMEOUT, Turn, connected, group, listed, numbers, two


class Gate:
    """A callback that keeps what it gets, and stops in the call of one sample until it is let go on."""

    def __init__(self, stop_at: int) -> None:
        self.found: list[bytes] = []
        self.stopped, self.go_on = threading.Event(), threading.Event()
        self._stop_at = stop_at

    def __call__(self, sample: pyddsi.Sample) -> None:
        """One more."""
        self.found.append(bytes(sample))
        if len(self.found) == self._stop_at:
            self.stopped.set()
            assert self.go_on.wait(TIMEOUT)

    def during(self, session: pyddsi.Session, call: Callable[[], object]) -> None:
        """Make a call that ends this callback while it is running, and let it go on when that waits for it."""
        assert self.stopped.wait(TIMEOUT)
        lines, ticks = session.dispatcher()._lines, threading.Event()
        thread = threading.Thread(target=call)
        thread.start()
        for _ in range(int(TIMEOUT * 1000)):
            if all(line.function is not self for line in lines.copy().values()):
                break
            ticks.wait(0.001)
        self.go_on.set()
        thread.join(TIMEOUT)
        assert not thread.is_alive()


def drained(sub: pyddsi.Subscriber, found: list[bytes], count: int) -> list[bytes]:
    """What was found, and what comes until there are so many."""
    while len(found) < count:
        found.append(bytes(sub.recv(TIMEOUT)))
    return found


def test_a_callback_takes_the_place_of_another() -> None:
    """The second callback would lack what the first had been taken for and not been given."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        first, second = Gate(5), Gate(COUNT - 5)
        pub.put_many(numbers())
        sub.callback(first)
        first.during(other, lambda: sub.callback(second))
        assert second.stopped.wait(TIMEOUT)
        second.go_on.set()
        assert first.found + second.found == numbers()


def test_a_callback_is_removed() -> None:
    """recv() would lack what had been taken for the callback."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        first = Gate(5)
        pub.put_many(numbers())
        sub.callback(first)
        first.during(other, lambda: sub.callback(None))
        assert drained(sub, list(first.found), COUNT) == numbers()


@pytest.mark.parametrize("which", ["subscriber", "session"])
@pytest.mark.parametrize("shared_memory", [True, False])
def test_close_during_callbacks(which: str, *, shared_memory: bool) -> None:
    """Samples would be neither handed over nor listed, or be handed over after close() has returned."""
    with two(shared_memory=shared_memory) as (one, other):
        pub, sub = connected(one, other)
        first = Gate(5)
        pub.put_many(numbers())
        sub.callback(first)
        first.during(other, sub.close if which == "subscriber" else other.close)
        seen = len(first.found)
        assert seen == 5
        # those that were still in shared memory, or not acknowledged, are the sender's
        one.close()
        assert len(first.found) == seen
        assert seen + listed(other) + listed(one) == COUNT
        if which == "session":
            assert [
                thread.name for thread in threading.enumerate() if other.name in thread.name
            ] == []


@pytest.mark.parametrize("which", ["subscriber", "session"])
def test_close_after_the_first(which: str) -> None:
    """The samples that recv() had taken ahead would have no line."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        pub.put_many(numbers())
        assert bytes(sub.recv(TIMEOUT)) == b"0"
        (sub if which == "subscriber" else other).close()
        with pytest.raises(pyddsi.ClosedError):
            sub.poll()
        with pytest.raises(pyddsi.ClosedError):
            sub.recv_many()
        one.close()
        assert 1 + listed(other) + listed(one) == COUNT
        taken = other.stats().taken
        assert taken == 1


def test_cancelled_recv_async() -> None:
    """A task that is cancelled while it waits would take a sample with it."""

    async def run() -> list[bytes]:
        where = group()
        async with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
            pub, sub = connected(one, other)
            pub.put_many(numbers())
            found: list[bytes] = []
            while len(found) < COUNT:
                task: asyncio.Task[Any] = asyncio.create_task(
                    sub.recv_async() if len(found) % 2 else sub.recv_many_async(1)
                )
                await Turn()
                task.cancel()
                try:
                    got = await task
                except asyncio.CancelledError:
                    continue
                found += map(bytes, got if isinstance(got, list) else [got])
            return found

    assert asyncio.run(run()) == numbers()


def test_sys_exit_in_a_callback(caplog: pytest.LogCaptureFixture) -> None:
    """One callback that exits would end all callbacks of the session, without a word."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        rest = Gate(1)

        def leave(sample: pyddsi.Sample) -> None:
            if bytes(sample) == b"0":
                sys.exit(3)
            rest(sample)

        sub.callback(leave)
        pub.put_many(numbers(2))
        assert rest.stopped.wait(TIMEOUT)
        rest.go_on.set()
        sub.close()
    assert rest.found == [b"1"]
    assert "SystemExit: 3" in caplog.text
    assert "sys.exit() ends a program from its main thread only" in caplog.text


INTERRUPTED = """
import pyddsi, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell's background job starts without
with pyddsi.open(group=sys.argv[1]) as session:
    sub, pub, other = session.subscriber("a"), session.publisher("a"), session.subscriber("b")

    @sub.callback
    def stop(sample):
        raise KeyboardInterrupt

    try:
        pub.put(b"x")
        other.recv()
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_keyboard_interrupt_in_a_callback() -> None:
    """A program that waits in its main thread would not hear of it."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, group()],
        capture_output=True,
        text=True,
        timeout=3 * TIMEOUT,
        check=True,
    )
    assert done.stdout == "interrupted\n"
    assert "the callback of subscriber 'a'" in done.stderr


def test_what_is_no_callback() -> None:
    """A function that cannot be called with a sample would fail with each of them, in the log alone."""

    async def coroutine(_sample: pyddsi.Sample) -> None: ...

    with pyddsi.open(group=group()) as session:
        sub = session.subscriber("a")
        with pytest.raises(TypeError, match=r"one argument, the sample, and .*lambda.* takes \(\)"):
            sub.callback(lambda: None)  # type: ignore[type-var]
        with pytest.raises(TypeError, match="called with a sample; 3 cannot be"):
            sub.callback(3)  # type: ignore[type-var]
        with pytest.raises(TypeError, match="is a coroutine function, and no event loop runs here"):
            sub.callback(coroutine)
        assert sub.callback(print) is print
        assert sub.callback(None) is None
        sub.close()
        with pytest.raises(pyddsi.ClosedError):
            sub.callback(print)
    with pytest.raises(pyddsi.ClosedError):
        session.dispatcher()


def test_a_function_that_answers_a_coroutine(caplog: pytest.LogCaptureFixture) -> None:
    """A callback whose code never runs would look as if it did."""

    async def coroutine(_sample: pyddsi.Sample) -> None: ...

    with two() as (one, other):
        pub, sub = connected(one, other)
        rest = Gate(1)
        sub.callback(lambda sample: coroutine(sample) if bytes(sample) == b"0" else rest(sample))
        pub.put_many(numbers(2))
        assert rest.stopped.wait(TIMEOUT)
        rest.go_on.set()
        sub.close()
    assert "answers a coroutine, which nothing awaits" in caplog.text


NO_MEMORY = """
import pyddsi, resource, sys

SIZE = 1000 * 1000
settings = {"group": sys.argv[1], "sample_max": SIZE}
with pyddsi.open(**settings) as one, pyddsi.open(**settings) as other:
    sub = other.subscriber("a", depth=16, on_full="drop_oldest")  # takes none ahead
    pub = one.publisher("a")
    pub.wait_matched()
    for _ in range(8):
        pub.put(bytes(SIZE))
    kept = []
    while other.counts()["views_copied"] == 0:  # from here on each is a copy
        kept.append(sub.recv(timeout=20))
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + SIZE // 4, limits[1]))
    rest = []
    try:
        while True:
            rest.append(bytes(SIZE))
    except MemoryError:
        pass
    try:
        sub.recv(timeout=20)
    except MemoryError:
        print("no memory")
    resource.setrlimit(resource.RLIMIT_AS, limits)
    lost = [(drop.place, drop.reason, drop.count) for drop in other.drops() if drop.resource == "a"]
    while sub.poll() is not None:
        kept.append(None)
    print(lost, len(kept) + sum(count for *_, count in lost))
"""


def test_no_memory_for_a_sample() -> None:
    """A sample that cannot be given to the program for want of memory would be gone without a line."""
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY, group()],
        capture_output=True,
        text=True,
        timeout=3 * TIMEOUT,
        check=True,
    )
    assert done.stdout == "no memory\n[('ring', 'full', 1)] 8\n"
