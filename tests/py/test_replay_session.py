"""Recorded samples published again in live sessions."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

import pyddsi
from pyddsi import wire
from pyddsi.capture import CaptureWarning, Endpoint
from pyddsi.capture.replay import (
    Pace,
    Progress,
    Recording,
    Schedule,
    SessionReplay,
    Topic,
    _session,
    survey,
)
from pyddsi.capture.write import write_datagrams
from pyddsi.cli._session import unsent
from pyddsi.errors import ReplayError
from tests.api.rooms import TIMEOUT, two
from tests.py.golden import CAPTURES
from tests.py.test_replay_samples import ours, samples

SECOND = 1_000_000_000
MAX = Pace(flat_out=True)
Got = tuple[object, bool, bytes]
HERE, GROUP = Endpoint("10.0.0.1", 40000), Endpoint("239.255.0.1", 7447)


def golden(name: str) -> Recording:
    """A capture of zhe."""
    return Recording(CAPTURES / f"{name}.pcap")


def plain(resource: object) -> object:
    """A resource as its subscribers know it: of the wire's name the canonical form."""
    return resource.removeprefix("/") if isinstance(resource, str) else resource


def delivered(recording: Recording, pace: Pace, *, shared: bool = True) -> list[Got]:
    """What a subscriber of everything gets."""
    contents = survey(recording)
    numbers = {topic.resource for topic in contents.topics if isinstance(topic.resource, int)}
    with two(shared_memory=shared, lease=60.0) as (one, other):
        found: list[Got] = []
        every: list[str | int] = ["**", *numbers]
        readers = [other.subscriber(what, depth=1 << 15) for what in every]
        replay = SessionReplay(recording, one, pace, contents=contents)
        replay.declare()
        assert one.wait(TIMEOUT, lambda: replay.matched() == len(contents.topics))
        report = replay.run()
        total = contents.samples * pace.loop

        def take() -> bool:
            for reader in readers:
                while (sample := reader.poll()) is not None:
                    found.append((plain(sample.resource), sample.reliable, bytes(sample)))
            return len(found) >= total

        other.wait(TIMEOUT, take)
        assert unsent(one) == []
    assert (report.samples, report.rounds) == (total, pace.loop)
    assert report.subscribers == 1
    return found


def recorded(name: str) -> list[Got]:
    """What there is to be delivered."""
    found, _ = samples(golden(name))
    return [(plain(one.resource), one.reliable, bytes(one.payload)) for one in found]


@pytest.mark.parametrize("shared", [True, False], ids=["memory", "sockets"])
@pytest.mark.parametrize(
    "name",
    [
        "p2p_loss5",
        "p2p_large_samples",
        "p2p_uri",
        "tcp_live_fixed",
        "v_seq7",
        "p2p_wildcard_pub",
        "three_multicast_loss",
    ],
)
def test_golden(name: str, shared: bool) -> None:  # noqa: FBT001 - a parameter
    """A subscriber of today would lack a sample of then, have it twice, changed, or out of order."""
    wanted, found = recorded(name), delivered(golden(name), MAX, shared=shared)
    for resource in {one[:2] for one in wanted}:
        got = [data for *what, data in found if tuple(what) == resource]
        assert got == [data for *what, data in wanted if tuple(what) == resource], resource
    assert len(found) == len(wanted)


def test_all_that_zhe_lacks(tmp_path: Path) -> None:
    """Samples in pieces, by unicast or best effort would be published as something else."""
    path = tmp_path / "x.pcap"
    put = Counter((plain(name), sure, data) for name, data, sure in ours(path, loss=0.05))
    assert Counter(delivered(Recording(path), Pace(speed=1000))) == put
    topics = survey(Recording(path)).topics
    assert topics == {
        Topic("/plant/sure", 0, reliable=True): 240,
        Topic("/plant/maybe", 0, reliable=False): 40,
        Topic("/plant/alone", 0, reliable=True): 40,
    }


def test_rounds() -> None:
    """A second round would be taken for a repetition of the first."""
    found = delivered(golden("p2p_uri"), Pace(speed=10_000, loop=3, gap=0.01))
    wanted = Counter(recorded("p2p_uri"))
    assert Counter(found) == Counter({what: 3 * count for what, count in wanted.items()})


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample would be put before its time, or at another than that of the recording."""
    now, put = [0], list[tuple[int, int]]()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= _session.WATCH_SECONDS
        now[0] += round(seconds * SECOND) + 1000  # a sleep is always a little too long

    monkeypatch.setattr(time, "sleep", sleep)
    recording, pace = golden("p2p_pubsub"), Pace(speed=2, loop=2, gap=0.5)
    with two() as (one, other):
        other.subscriber(1)
        replay = SessionReplay(recording, one, pace)
        add = replay.report.late.add

        def note(late_ns: int, times: int = 1) -> None:
            put.append((now[0], times))
            add(late_ns, times)

        monkeypatch.setattr(replay.report.late, "add", note)
        report = replay.run()
    schedule, due = Schedule(pace), []
    for _ in range(2):
        due += [schedule.base + schedule.due(sample.at_ns, 1) for sample in samples(recording)[0]]
        schedule.next_round()
    # one sleep in a slice of a quarter second, each a microsecond too long: none of it adds up
    assert [times for _, times in put] == [1] * len(due)
    assert all(0 <= at - wanted <= 1001 for (at, _), wanted in zip(put, due, strict=True))
    assert (report.late.max_ns <= 1001, len(report.late)) == (True, 26)


def test_part_and_filter() -> None:
    """What is not wanted would be published, or its names and numbers be missing for what is."""
    path = CAPTURES / "p2p_uri.pcap"

    def long(_: object, message: wire.Message) -> bool:
        return isinstance(message, wire.WData) and message.uri.startswith("/k7")

    assert set(survey(Recording(path, where=long)).topics) == {
        Topic("/k7/x/long-name_here", 0, reliable=True)
    }
    whole = survey(Recording(path))
    late = survey(Recording(path, start=whole.last_ns / SECOND))
    assert (whole.samples, late.samples) == (22, 1)
    assert all(isinstance(topic.resource, str) for topic in late.topics)
    with pytest.raises(ReplayError, match="there is none that fits the filter"):
        survey(Recording(path, where=lambda *_: False))
    with pytest.raises(ReplayError, match="there is none from 1000 s until the end"):
        survey(Recording(path, start=1000))


def test_nothing_to_publish(tmp_path: Path) -> None:
    """A replay of nothing would wait for a subscriber of nothing."""
    with pytest.raises(ReplayError, match="28 packets of the protocol, and no sample in them"):
        survey(golden("small_pubsub"))
    with pytest.raises(
        ReplayError, match="standard input can be read once, and a session needs to know"
    ):
        survey(Recording("-"))
    path = tmp_path / "x.pcap"
    write_datagrams(
        path, [(0, HERE, GROUP, wire.encode([wire.SData(i, 1, b"x")])) for i in range(3)]
    )
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(CaptureWarning, match="is cut off"):
        assert survey(Recording(path)).samples == 2
    with two() as (one, other):
        reader = other.subscriber(1)
        with pytest.warns(CaptureWarning, match="is cut off"):
            SessionReplay(Recording(path), one, MAX).run()
        assert [bytes(reader.recv(TIMEOUT)) for _ in range(2)] == [b"x", b"x"]


def test_hole_at_the_end(tmp_path: Path) -> None:
    """What waits for a message that the capture lacks would not be published when it ends."""
    path = tmp_path / "x.pcap"
    said = [wire.SData(number, 1, b"%d" % number, reliable=True) for number in (0, 1, 3, 5)]
    write_datagrams(path, [(0, HERE, GROUP, wire.encode([one])) for one in said])
    contents = survey(Recording(path))
    assert (contents.samples, contents.missing) == (4, 2)
    assert [data for _, _, data in delivered(Recording(path), MAX)] == [b"0", b"1", b"3", b"5"]


def test_nobody_subscribes() -> None:
    """A replay to nobody would pass for one that was heard, or not say why nobody is there."""
    with two() as (one, other):
        other.subscriber("elsewhere")
        replay = SessionReplay(golden("p2p_pubsub"), one, MAX, timeout=0.2)
        with pytest.raises(
            TimeoutError, match=r"nobody subscribes to any of its resources after 0.2 s\. "
        ):
            replay.run()
        assert replay.report.samples == 0
        assert SessionReplay(golden("p2p_pubsub"), one, MAX).run(wait=False).samples == 13
        assert one.stats().unmatched == 13


def test_endless_wait() -> None:
    """A replay that ends in a hundred years would first wait for a subscriber."""
    with pyddsi.open(group="", shared_memory=False) as session:
        replay = SessionReplay(golden("p2p_pubsub"), session, Pace(speed="1e-12"))
        with pytest.raises(ReplayError, match=r"would leave in \d+ years"):
            replay.run()


def test_interrupt() -> None:
    """Ctrl-C would wait for the next sample, or lose what was done until then."""

    def stop(progress: Progress) -> None:
        assert progress.left is not None
        assert 12 < progress.left < 12.1
        raise KeyboardInterrupt

    with two() as (one, other):
        other.subscriber(1)
        replay = SessionReplay(golden("p2p_pubsub"), one)
        with pytest.raises(KeyboardInterrupt):
            replay.run(stop)
        assert (replay.report.samples, replay.report.rounds) == (1, 1)
