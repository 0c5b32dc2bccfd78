"""Each call that waits has a twin that lets other tasks of the loop run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import pyddsi
from pyddsi.testing import Sim
from tests.api.rooms import TIMEOUT, group

APART = {"wait", "loan"}
"""`wait` is the core of the others; a loan waits in its with block, where the memory is written at once."""


def test_every_call_that_waits_has_a_twin() -> None:
    """A task would have to hold up its loop, or begin a thread, for one of the calls that wait."""
    for kind in (pyddsi.Session, pyddsi.Publisher, pyddsi.Subscriber):
        for name in dir(kind):
            call = getattr(kind, name)
            if name.startswith("_") or not callable(call) or name in APART:
                continue
            if name.endswith("_async"):
                assert inspect.iscoroutinefunction(call), name
            elif "timeout" in inspect.signature(call).parameters:
                twin = getattr(kind, name + "_async", None)
                assert twin is not None, f"{kind.__name__}.{name}"
                given, wanted = (
                    inspect.signature(twin).parameters,
                    inspect.signature(call).parameters,
                )
                assert set(wanted) - {"wait"} == set(given), name


def run(
    program: Callable[[pyddsi.Session, pyddsi.Session], Awaitable[Any]], **settings: Any
) -> Any:
    """What a program with two sessions answers."""

    async def within() -> Any:
        settings["group"] = group()
        async with pyddsi.open(**settings) as one, pyddsi.open(**settings) as other:
            return await program(one, other)

    return asyncio.run(within())


def test_twins_do_what_their_calls_do() -> None:
    """A twin would answer something else, or never."""

    async def program(one: pyddsi.Session, other: pyddsi.Session) -> None:
        pub, sub = one.publisher("a"), other.subscriber("a")
        assert await pub.wait_matched_async(timeout=TIMEOUT) == 1
        assert await pub.wait_settled_async(timeout=TIMEOUT) is True
        assert (await one.wait_event_async("connected", timeout=TIMEOUT)).peer == other.name
        await pub.put_array_async(np.arange(6, dtype="u1").reshape(3, 2), timeout=TIMEOUT)
        rows = await sub.recv_array_async(timeout=TIMEOUT)
        while len(rows) < 3:
            rows = np.concatenate([rows, await sub.recv_array_async(timeout=TIMEOUT)])
        assert rows.tolist() == [[0, 1], [2, 3], [4, 5]]
        await one.put_async("a", b"by name", timeout=TIMEOUT)
        assert await sub.recv_async(timeout=TIMEOUT) == b"by name"
        await one.close_async()
        assert one.closed

    run(program)


def test_pull_in_a_task() -> None:
    """A task that pulls would hold up its loop, or get nothing."""

    async def program(one: pyddsi.Session, other: pyddsi.Session) -> list[bytes]:
        sub = other.subscriber("a", mode="pull")
        pub = one.publisher("a", durability="transient", keep=2)
        pub.put_many([b"1", b"2"])
        await pub.wait_matched_async(timeout=TIMEOUT)
        await sub.pull_async(timeout=TIMEOUT)
        return [bytes(await sub.recv_async(timeout=TIMEOUT)) for _ in range(2)]

    assert run(program) == [b"1", b"2"]


def test_room_that_does_not_come() -> None:
    """A task that waits for room would wait for ever, or not be told why there is none."""

    async def program(one: pyddsi.Session, other: pyddsi.Session) -> None:
        other.subscriber("a", depth=1)
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        rows = np.zeros((64, 65536), "u1")
        with pytest.raises(TimeoutError, match="no room for"):
            await pub.put_array_async(rows, timeout=0.01)
        with pytest.raises(TimeoutError, match="no gap within"):
            await one.wait_event_async("gap", timeout=0.01)

    run(program, shared_memory=False)


def test_simulated_time_does_not_pass_in_a_loop() -> None:
    """A task that awaits something simulated would wait for ever."""

    async def settle() -> None:
        with Sim() as sim:
            await sim.node("a").publisher("p").wait_settled_async()

    with pytest.raises(TypeError, match="is simulated: its time passes in the calls that wait"):
        asyncio.run(settle())
