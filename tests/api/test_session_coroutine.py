"""Coroutine functions as callbacks: called in the loop in which they were set, a sample at a time."""

from __future__ import annotations

import asyncio

import pytest

import pyddsi
from tests.api.rooms import COUNT, TIMEOUT, Turn, connected, group, listed, numbers


def test_coroutine_functions() -> None:
    """A coroutine function that is a callback would not be awaited, or not for each sample, or not one after another."""

    async def run() -> tuple[list[bytes], list[bytes], int]:
        where = group()
        async with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
            pub, sub = connected(one, other)
            found: list[bytes] = []
            running = most = 0
            all_there = asyncio.Event()

            @sub.callback
            async def keep(sample: pyddsi.Sample) -> None:
                nonlocal running, most
                running += 1
                most = max(most, running)
                await Turn()
                found.append(bytes(sample))
                running -= 1
                if len(found) == COUNT // 2:
                    sub.callback(None)
                    all_there.set()

            await pub.put_many_async(numbers())
            await asyncio.wait_for(all_there.wait(), TIMEOUT)
            rest = [bytes(await sub.recv_async(TIMEOUT)) for _ in range(COUNT // 2)]
            assert asyncio.iscoroutinefunction(keep)
            return found, rest, most

    found, rest, most = asyncio.run(run())
    assert found + rest == numbers()
    assert most == 1


def test_a_coroutine_function_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """The first sample for which it raises would be the last that it gets."""

    async def run() -> None:
        where = group()
        async with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
            pub, sub = connected(one, other)
            end = asyncio.Event()
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            gone.cancel()

            async def fail(sample: pyddsi.Sample) -> None:
                if bytes(sample) == b"0":
                    raise KeyError("first")
                if bytes(sample) == b"1":
                    await gone  # raises CancelledError, though nothing cancels this task
                end.set()

            sub.callback(fail)
            await pub.put_many_async(numbers(3))
            await asyncio.wait_for(end.wait(), TIMEOUT)

    asyncio.run(run())
    assert "KeyError: 'first'" in caplog.text
    assert "CancelledError" in caplog.text


@pytest.mark.parametrize("which", ["here", "thread", "session"])
def test_close_during_a_coroutine(which: str) -> None:
    """A coroutine would go on after its subscriber or session has closed."""

    async def run() -> tuple[int, int, str]:
        where = group()
        async with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
            pub, sub = connected(one, other)
            begun = asyncio.Event()
            calls, end = 0, "never"

            async def wait(_sample: pyddsi.Sample) -> None:
                nonlocal calls, end
                calls += 1
                begun.set()
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    end = "cancelled"
                    raise

            sub.callback(wait)
            await pub.put_many_async(numbers())
            await asyncio.wait_for(begun.wait(), TIMEOUT)
            if which == "here":
                sub.close()
                await Turn()
            elif which == "thread":
                await asyncio.to_thread(sub.close)
            else:
                await other.__aexit__(None, None, None)
            one.close()
            return calls + listed(other) + listed(one), calls, end

    accounted, calls, end = asyncio.run(run())
    assert (accounted, calls, end) == (COUNT, 1, "cancelled")


def test_a_coroutine_that_closes_its_own_subscriber() -> None:
    """It would be cancelled by itself, at its next await."""

    async def run() -> None:
        where = group()
        async with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
            pub, sub = connected(one, other)
            end = asyncio.Event()

            async def last(_sample: pyddsi.Sample) -> None:
                sub.close()
                await Turn()
                end.set()

            sub.callback(last)
            await pub.put_async(b"x")
            await asyncio.wait_for(end.wait(), TIMEOUT)

    asyncio.run(run())
