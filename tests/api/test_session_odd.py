"""Odd things that people try: each answer says in one sentence what was wrong and what would be right."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, two

Asked = Callable[[pyddsi.Session], Any]

ODD: dict[str, tuple[Asked, type[Exception], str]] = {
    "a resource that is none": (
        lambda s: s.publisher(None),  # type: ignore[arg-type]
        TypeError,
        r"a resource is a name, or a whole number, not None$",
    ),
    "a name as bytes": (
        lambda s: s.subscriber(b"a"),  # type: ignore[arg-type]
        TypeError,
        r"not b'a'; decode\(\) it first",
    ),
    "a predicate of a publisher": (
        lambda s: s.publisher("a?{x > 1}"),
        ValueError,
        r"it is for subscribers: leave out \?\{\.\.\.\}",
    ),
    "where= no text": (
        lambda s: s.subscriber("a", where=5),  # type: ignore[arg-type]
        TypeError,
        r"where is a text, such as 'lum > 0",
    ),
    "where= that ends too early": (
        lambda s: s.subscriber("a", where="lum >"),
        pyddsi.DeclarationError,
        r"something is missing at its end; a predicate is such as lum > 0",
    ),
    "a depth beyond all": (
        lambda s: s.subscriber("a", depth=1 << 30),
        pyddsi.DeclarationError,
        r"or a smaller depth, has room",
    ),
    "an event that is none": (
        lambda s: s.wait_event("conected"),  # type: ignore[arg-type]
        ValueError,
        r"an event cannot be 'conected'; did you mean 'connected'\?",
    ),
    "matched with less than nobody": (
        lambda s: s.publisher("a").wait_matched(-1),
        ValueError,
        r"count is from 1 to",
    ),
    "the end with nobody": (
        lambda s: s.close_session(None),  # type: ignore[arg-type]
        TypeError,
        r"takes one of peers\(\), not None",
    ),
    "why not nothing": (
        lambda s: s.why_not(None),  # type: ignore[arg-type]
        TypeError,
        r"a resource is a name, or a whole number",
    ),
    "a copy": (copy.copy, TypeError, r"cannot be copied or pickled; open another one"),
    "a pickle": (pickle.dumps, TypeError, r"cannot be copied or pickled"),
    "a list as an array": (
        lambda s: s.publisher("a").put_array([[1]]),  # type: ignore[arg-type]
        TypeError,
        r"put_many\(\) takes a list of samples",
    ),
    "an array of objects": (
        lambda s: s.publisher("a").put(np.array(["a", "b"], dtype=object)),
        TypeError,
        r"not an array of Python objects",
    ),
    "a loan of a terabyte": (
        lambda s: s.publisher("a").loan(1 << 47).__enter__(),
        ValueError,
        r"too many pieces",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_odd(what: str) -> None:
    """It would be guessed at, do harm, or be answered with something that helps nobody."""
    ask, kind, words = ODD[what]
    with pyddsi.open(group=group()) as session, pytest.raises(kind, match=words):
        ask(session)


def test_config_takes_keywords() -> None:
    """A position would mean whichever setting happens to stand there."""
    made: Any = pyddsi.Config
    with pytest.raises(TypeError, match="Config takes keywords alone, not 7"):
        made(7)


def test_the_end_is_told() -> None:
    """A closed session would begin again, wait for ever, or be named as what it was asked for."""
    session = pyddsi.open(group=group())
    session.close()
    with pytest.raises(pyddsi.ClosedError, match=rf"^session {session.name} is closed"):
        session.resources()
    with pytest.raises(pyddsi.ClosedError, match="open another one"), session:
        pass
    with pytest.raises(pyddsi.ClosedError, match="is closed"):
        session.wait_event(timeout=None)


def test_arrays_of_numbers() -> None:
    """What is no array of objects would be refused with those that are."""
    with two() as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        times = np.array(["2026-01-01"], "M8[ns]")
        fields = np.zeros(1, [("x", "f8"), ("y", "i4")])
        for array in (times, fields, np.arange(6.0)[::2], np.asfortranarray(np.eye(3))):
            pub.put(array)
            assert bytes(sub.recv(TIMEOUT)) == array.tobytes()


def test_memory_that_is_not_used() -> None:
    """A session's tables, which have room for far more than it has, would be written to when it opens, and so be taken."""
    program = f"""
        import resource
        import pyddsi
        pyddsi.open
        faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        before = faults()
        with pyddsi.open(group={group()!r}) as session:
            print((faults() - before) * resource.getpagesize())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 4 << 20
