"""Recorded datagrams sent again, from sockets of this machine to sockets of this machine, or into a file."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyddsi.capture import CaptureWarning, Endpoint
from pyddsi.capture.replay import (
    Pace,
    Packet,
    Progress,
    RawReplay,
    Recording,
    Route,
    Schedule,
    _raw,
)
from pyddsi.errors import CaptureError, ReplayError
from tests.py.golden import CAPTURES
from tests.py.replayed import (
    GROUP,
    MAX,
    ONE,
    SECOND,
    datagrams,
    made,
    receiver,
    refused,
    rows,
    sample,
)


@pytest.mark.parametrize(
    "name", ["p2p_pubsub", "p2p_uri", "p2p_wildcard_pub", "v_scout3", "lo_pubsub"]
)
@pytest.mark.parametrize("pace", [MAX, Pace(speed=10_000)], ids=["max", "fast"])
def test_bytes_in_order(name: str, pace: Pace) -> None:
    """A datagram would be changed, lost, doubled or overtaken, or its sender be taken for another."""
    recorded = datagrams(CAPTURES / f"{name}.pcap")
    with receiver() as one:
        report = RawReplay(Recording(CAPTURES / f"{name}.pcap"), pace, Route(to=one.address)).run()
        got = one.take(len(recorded))
    assert [data for data, _, _ in got] == [bytes(item.data) for item in recorded]
    senders: dict[Endpoint, set[tuple[str, int]]] = {}
    for item, (_, source, _) in zip(recorded, got, strict=True):
        senders.setdefault(item.source, set()).add(source)
    assert all(len(found) == 1 for found in senders.values())
    assert len(set().union(*senders.values())) == len(senders)
    assert set(report.senders) == {str(source) for source in senders}
    assert (report.packets, report.bytes) == (
        len(recorded),
        sum(len(item.data) for item in recorded),
    )
    assert (report.full, report.refused, report.streams, report.broken, report.steps) == (0,) * 5
    assert len(report.late) == (0 if pace is MAX else len(recorded))


@pytest.mark.parametrize("spin", [0, 30_000])
def test_none_is_early(tmp_path: Path, spin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet would leave before its deadline. (How late it leaves is the machine's affair, and nobody's test.)"""
    monkeypatch.setattr(_raw, "SPIN_NS", spin)
    pace, times = Pace(speed=3, loop=2, gap=0.01), [i * i * 100_000 for i in range(20)]
    recording = made(
        tmp_path / "x.pcap", [(SECOND + at, ONE, GROUP, sample(i)) for i, at in enumerate(times)]
    )
    with receiver() as one:
        report = RawReplay(recording, pace, Route(to=one.address)).run()
        got = one.take(40)
    schedule = Schedule(pace)
    deadlines = []
    for _ in range(2):
        deadlines += [schedule.base + schedule.due(at, 1) for at in times]
        schedule.next_round()
    # the system's stamps are of the time of day; that is asked for first, so that no stamp seems earlier than it was
    wall = time.time_ns()
    offset = wall - time.monotonic_ns()
    assert all(
        stamp - offset >= report.begun_ns + due
        for (_, _, stamp), due in zip(got, deadlines, strict=True)
    )
    assert len(report.late) == 40


@pytest.mark.parametrize("kept", [True, False])
def test_rounds(tmp_path: Path, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a parameter
    """A round would lack packets, or those that do not fit into memory not be read again."""
    if not kept:
        monkeypatch.setattr(_raw, "AHEAD_BYTES", 100)
    recording = made(tmp_path / "x.pcap", rows(30))
    walks = Counter[str]()
    wanted = recording.wanted

    def counted() -> Iterator[Packet]:
        walks["read"] += 1
        yield from wanted()

    monkeypatch.setattr(recording, "wanted", counted)
    with receiver() as one:
        report = RawReplay(recording, Pace(pps=100_000, loop=4), Route(to=one.address)).run()
        got = [data for data, _, _ in one.take(120)]
    assert got == [sample(i) for _ in range(4) for i in range(30)]
    assert (report.packets, report.rounds) == (120, 4)
    assert walks["read"] == (1 if kept else 4)


def test_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read ahead would be more than the limit, or memory be given back that is still to be sent from."""
    monkeypatch.setattr(_raw, "AHEAD_BYTES", 500)
    monkeypatch.setattr(_raw, "BATCH_PACKETS", 7)
    recording = made(tmp_path / "x.pcap", rows(400))
    with receiver() as one:
        report = RawReplay(recording, Pace(pps=20_000), Route(to=one.address)).run()
        got = [data for data, _, _ in one.take(400)]  # as many as the smallest buffer holds
    assert got == [sample(i) for i in range(400)]
    assert report.packets == 400


def test_interrupt(tmp_path: Path) -> None:
    """Ctrl-C would wait for the next packet, lose the summary, or leave a thread behind."""
    recording = made(tmp_path / "x.pcap", [*rows(2), (4000 * SECOND, ONE, GROUP, sample(2))])

    def stop(progress: Progress) -> None:
        assert progress.left is not None
        assert 3000 < progress.left < 4000
        raise KeyboardInterrupt

    with receiver() as one:
        replay = RawReplay(recording, None, Route(to=one.address))
        with pytest.raises(KeyboardInterrupt):
            replay.run(stop)
        assert len(one.take(2)) == 2
    assert (replay.report.packets, len(replay.report.late), replay.report.rounds) == (2, 2, 1)
    assert not [
        thread for thread in Path("/proc/self/task").iterdir() if _name(thread) == "pyddsi pace"
    ]


def _name(task: Path) -> str:
    return (task / "comm").read_text().strip()


def test_broken_off(tmp_path: Path) -> None:
    """Of a capture that breaks off nothing would be sent, or its end pass for a good one."""
    path = tmp_path / "x.pcap"
    made(path, rows(10))
    path.write_bytes(path.read_bytes()[:-3])
    with receiver() as one:
        replay = RawReplay(Recording(path), MAX, Route(to=one.address))
        with pytest.warns(CaptureWarning, match="is cut off: 9 packets were read"):
            replay.run()
        assert len(one.take(9)) == 9
    assert replay.report.packets == 9


def test_streams_are_left_out() -> None:
    """Frames of connections would be sent as datagrams, or be missing without a word."""
    path = CAPTURES / "tcp_pubsub.pcap"
    assert "all packets came by TCP connections, which are not replayed raw" in refused(
        Recording(path), Route(to=("127.0.0.1", 9))
    )
    with receiver() as one:
        both = Recording([CAPTURES / "p2p_pubsub.pcap", path])
        report = RawReplay(both, MAX, Route(to=one.address)).run()
        assert len(one.take(47)) == 47
    assert (report.packets, report.streams) == (47, 36)


# ---- into a file ----


@pytest.mark.parametrize("ending", ["pcap", "pcapng"])
def test_file(tmp_path: Path, ending: str) -> None:
    """A file would hold other bytes, addresses or times than those that would have been sent."""
    path, out = CAPTURES / "p2p_uri.pcap", tmp_path / f"out.{ending}"
    recorded = datagrams(path)
    route = Route(maps={"10.77.0.0/24": "192.0.2.0/24"}, ports={7447: 17447})
    report = RawReplay(Recording(path), Pace(speed=2, loop=2, gap=3), route).write(out)
    found = datagrams(out)
    assert [item.data for item in found] == [item.data for item in recorded] * 2
    assert report.packets == len(found) == 2 * len(recorded)
    times = [item.time_ns or 0 for item in recorded]
    once = [(at - times[0]) // 2 for at in times]
    wanted = [times[0] + due for due in once] + [
        times[0] + once[-1] + 3 * SECOND + due for due in once
    ]
    assert [item.time_ns for item in found] == wanted
    for one, other in zip(recorded, found, strict=False):
        for before, after in ((one.source, other.source), (one.destination, other.destination)):
            assert after.address == before.address.replace("10.77.0.", "192.0.2.")
            assert after.port == (17447 if before.port == 7447 else before.port)
    again = Recording(out, well_known=17447)
    assert len(list(again.wanted())) == len(found)


def test_file_that_cannot_be(tmp_path: Path) -> None:
    """What is replayed would be overwritten, a disk be filled, or an empty file be left where nothing was to write."""
    path, out = tmp_path / "x.pcap", tmp_path / "out.pcap"
    recording = made(path, rows(3))
    before = path.read_bytes()
    with pytest.raises(ReplayError, match="is what is replayed; write into another file"):
        RawReplay(recording).write(path)
    assert path.read_bytes() == before
    with pytest.raises(ReplayError, match="rounds without end fill any disk"):
        RawReplay(recording, Pace(loop=0)).write(out)
    with pytest.raises(ReplayError, match="there is none from 50 s"):
        RawReplay(Recording(path, start=50)).write(out)
    assert not out.exists()
    with pytest.raises(CaptureError, match="cannot be written: No such file"):
        RawReplay(recording).write(tmp_path / "nowhere" / "out.pcap")
