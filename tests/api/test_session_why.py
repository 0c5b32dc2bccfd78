"""why_not says what is missing, with the counts of the whole network, and which thing is full."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, two
from tests.cli.programs import started


def test_a_name_that_two_subscribers_mistype() -> None:
    """A second subscriber with the same typing error would hide that no session publishes the name."""
    where = group()
    with ExitStack() as stack:
        one, other, third = (stack.enter_context(pyddsi.open(group=where)) for _ in range(3))
        pub = one.publisher("plant/x")
        other.subscriber("plnt/x")
        third.subscriber("plnt/x")
        other.wait(TIMEOUT, lambda: len(other.resources()) == 3)
        said = other.why_not("plnt/x")
        assert "None of 2 peers publishes a resource that 'plnt/x' covers" in said
        assert "though 1 peer subscribes to it as well" in said
        assert "Did you mean 'plant/x'?" in said
        sub = third.subscriber("plant/**")
        sub.wait_settled(timeout=TIMEOUT)
        pub.wait_matched(timeout=TIMEOUT)
        assert "Did you mean 'plant/x'?" in other.why_not("plnt/x")
        counts = (
            "this session has 1 publisher and 0 subscribers, and 0 peers publish and 1 subscribes"
        )
        assert counts in one.why_not("plant/x")
        assert "This session has put no sample yet." in one.why_not("plant/x")
        assert "1 peer publishes and 0 subscribe." in third.why_not("plant/**")


def test_a_condition_that_never_holds() -> None:
    """A where= that holds for no sample would pass for a healthy subscription on both sides."""
    with two(shared_memory=False) as (one, other):
        sub = other.subscriber("plant/x", where="lum > 50")
        pub = one.publisher("plant/x")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put_many([b"no JSON", b'{"lum": 3}'])
        for declared in (sub, pub):
            declared.wait_settled(timeout=TIMEOUT)
        assert "2 samples of this session went to no one, as no where= held" in one.why_not(
            "plant/x"
        )
        assert "is sent only samples for which {lum > 50} holds" in other.why_not("plant/x")


@pytest.mark.parametrize("own", [True, False])
def test_what_is_full(*, own: bool) -> None:
    """An error would say that the window is full, with 0 of 262144 bytes in it, where another thing is."""
    with two() as (one, other):
        (one if own else other).subscriber("a", depth=1)
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        with suppress(TimeoutError):
            while pub.put(bytes(100_000), timeout=1.0):
                pass  # what is taken ahead makes room again
        with pytest.raises(TimeoutError) as caught:
            pub.put(bytes(100_000), timeout=0.01)
        said = str(caught.value)
        assert "(0 samples" not in said
        full = "its window is full" in said or "memory that it shares" in said
        assert ("queue full (depth=)" in said) == own
        assert full != own


def test_sub_says_what_is_missing() -> None:
    """`pyddsi sub` of a mistyped name would be silent for ever."""
    where = group()
    with pyddsi.open(group=where) as session:
        session.publisher("plant/robot")
        with started(where, "sub", "plant/robt") as program:
            session.wait_event("connected", timeout=TIMEOUT)
            assert program.process.stderr is not None
            said = program.process.stderr.readline().decode()
            said += program.process.stderr.readline().decode()
            assert "None of 1 peer publishes a resource that 'plant/robt' covers" in said
            assert "Did you mean 'plant/robot'?" in said
            program.interrupt()
