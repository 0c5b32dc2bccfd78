"""When packets leave, and how late they were: exact whatever the numbers."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyddsi.capture.replay import Lateness, Pace, Schedule
from pyddsi.errors import ReplayError

SECOND = 1_000_000_000


def dues(pace: Pace, times: list[int], rounds: int = 1, size: int = 100) -> list[int]:
    """All deadlines of so many rounds of packets at these times."""
    schedule, found = Schedule(pace), []
    for _ in range(rounds):
        found += [schedule.base + schedule.due(at, size) for at in times]
        schedule.next_round()
    return found


def test_as_recorded() -> None:
    """A replay would begin with the time before its first packet, or add up what each sleep is too long."""
    times = [5 * SECOND, 5 * SECOND + 1, 7 * SECOND]
    assert dues(Pace(), times) == [0, 1, 2 * SECOND]
    assert dues(Pace(speed=2), times) == [0, 0, SECOND]
    assert dues(Pace(speed=0.5), times) == [0, 2, 4 * SECOND]
    assert dues(Pace(speed="1e-3"), times) == [0, 1000, 2000 * SECOND]
    assert dues(Pace(speed=10**15), times) == [0, 0, 0]
    assert dues(Pace(flat_out=True), times) == [0, 0, 0]


def test_rounds() -> None:
    """The second round would have the times of the first, or a gap be stretched by the speed."""
    times = [3 * SECOND, 4 * SECOND]
    assert dues(Pace(loop=3), times, 3) == [0, SECOND, SECOND, 2 * SECOND, 2 * SECOND, 3 * SECOND]
    assert dues(Pace(speed=2, gap=1.5, loop=2), times, 2) == [
        0,
        SECOND // 2,
        2 * SECOND,
        5 * SECOND // 2,
    ]
    assert list(Pace(loop=3).rounds()) == [0, 1, 2]
    endless = Pace(loop=0).rounds()
    assert [next(endless) for _ in range(1000)] == list(range(1000))


@pytest.mark.parametrize("count", [0, 2**32 - 5000, 2**40])
def test_round_from_memory(count: int) -> None:
    """A round that is pushed from memory would begin elsewhere than one that is read again, or a counter begin anew."""
    for pace in (Pace(gap=1), Pace(pps=7, gap=1), Pace(mbps=3), Pace(speed=3)):
        read, kept = (Schedule(pace, count=count, bits=count) for _ in range(2))
        for schedule in (read, kept):
            for at in range(1000):
                schedule.due(at * 1000, 100 + at)
            schedule.next_round()
        for _ in range(20):
            for at in range(1000):
                read.due(at * 1000, 100 + at)
            kept.repeat()
            for schedule in (read, kept):
                schedule.next_round()
            assert (read.base, read.count, read.bits) == (kept.base, kept.count, kept.bits)
        assert read.count == count + 21_000
        if pace.pps is not None:
            assert read.base == 21 * SECOND + read.count * SECOND // 7 - count * SECOND // 7


@pytest.mark.parametrize("pps", [3, Fraction(1, 7), 99_999.9, 10**9])
def test_packets_a_second(pps: Any) -> None:
    """After some thousand million packets the rate would be another, or a counter of 32 bits begin anew."""
    rate = Fraction(str(pps))
    for count in (0, 2**32 - 2, 5_400_000_000, 2**62):
        schedule = Schedule(Pace(pps=pps), count=count)
        found = [schedule.due(0, 1) for _ in range(1000)]
        begun = int(count * SECOND / rate)
        assert [begun + due for due in found] == [
            int((count + i) * SECOND / rate) for i in range(1000)
        ]
        assert found == sorted(found)
    assert dues(Pace(pps=4, gap=1), [0, 0], 3) == [
        0, SECOND // 4, 3 * SECOND // 2, 7 * SECOND // 4, 3 * SECOND, 13 * SECOND // 4
    ]  # fmt: skip


def test_megabits_a_second() -> None:
    """A rate in bits would be one of bytes, or not hold beyond 2^32 of them."""
    assert dues(Pace(mbps=8), [0, 0, 0], size=1000) == [0, 1_000_000, 2_000_000]
    schedule = Schedule(Pace(mbps="0.001"), bits=2**40)
    assert [schedule.due(0, 125) for _ in range(3)] == [0, SECOND, 2 * SECOND]


def test_endless_wait() -> None:
    """A replay that would take longer than anybody lives would begin, or wrap around and be over at once."""
    with pytest.raises(ReplayError, match="packet 2 would leave in 317 years"):
        dues(Pace(speed="1e-10"), [0, SECOND])
    with pytest.raises(ReplayError, match="years; ask for more"):
        dues(Pace(pps="1e-11"), [0, 0])


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"speed": 0}, ValueError, "speed is a number above 0, such as 0.5 or 100, not 0"),
        ({"speed": "fast"}, ValueError, "not 'fast'"),
        ({"pps": -1}, ValueError, "pps is a number above 0"),
        ({"mbps": True}, TypeError, "mbps is a number, not True"),
        ({"speed": 2, "pps": 3}, ValueError, "speed and pps contradict each other"),
        ({"mbps": 2, "flat_out": True}, ValueError, "mbps and flat_out contradict"),
        ({"loop": -1}, ValueError, "loop is from 0"),
        ({"gap": -1}, ValueError, "gap is from 0"),
    ],
)
def test_wrong(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    """A pace that cannot be would be taken for another one."""
    with pytest.raises(error, match=words):
        Pace(**settings)


def test_length() -> None:
    """The end that is announced would be another than the one that comes."""
    assert Pace(speed=2, loop=3, gap=1).seconds(10, 0, 4 * SECOND) == pytest.approx(8)
    assert Pace(pps=5).seconds(10, 0, 4 * SECOND) == pytest.approx(2)
    assert Pace(mbps=8).seconds(10, 10**6, 0) == pytest.approx(1)


@given(
    st.lists(st.integers(0, 2**63), min_size=1, max_size=200), st.sampled_from([50, 90, 99, 100])
)
def test_percentiles(values: list[int], percent: int) -> None:
    """A percentile would be below the value that it names, or more than a sixteenth above it."""
    late = Lateness()
    for value in values:
        late.add(value)
    ordered = sorted(values)
    exact = ordered[-(-len(values) * percent // 100) - 1]
    found = late.percentile(percent)
    assert exact <= found <= exact + exact // 16
    assert (len(late), late.max_ns) == (len(values), max(values))
    assert sum(count for _, count in late.rows()) == len(values)


def test_lateness_of_nothing() -> None:
    """Who was not late at all would be an error, or early be late."""
    late = Lateness()
    assert (late.percentile(99), len(late), bool(late)) == (0, 0, False)
    late.add(-5)
    assert (late.percentile(99), len(late)) == (0, 1)
    rand = random.Random(1)
    for _ in range(100):
        late.add(rand.randrange(5000))
    assert dict(late.rows())[10_000] == 101
