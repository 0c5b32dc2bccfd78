"""What of captures is replayed, and when: parts, filters, several files, times that cannot be."""

from __future__ import annotations

import io
import os
import random
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from pyddsi import wire
from pyddsi.capture import CaptureWarning
from pyddsi.capture.replay import (
    Pace,
    Packet,
    RawReplay,
    Recording,
    Route,
    _source,
)
from pyddsi.capture.write import write_datagrams
from pyddsi.errors import CaptureError, ReplayError
from tests.py.replayed import (
    GROUP,
    MAX,
    ONE,
    SECOND,
    TWO,
    Row,
    made,
    receiver,
    refused,
    rows,
    sample,
)


def test_recording_is_not_loaded(tmp_path: Path) -> None:
    """A long recording would be held in memory, instead of being read as it is played."""
    recording = made(tmp_path / "x.pcap", rows(20_000))
    walk = recording.wanted()
    next(walk)
    assert recording.packets == 1
    assert sum(1 for _ in walk) == 19_999
    assert recording.read == 1.0


def test_part_of_a_recording(tmp_path: Path) -> None:
    """Another part would be played than the one that was asked for, by seconds as by the time of day."""
    path = tmp_path / "x.pcap"
    made(path, rows(100, apart_ns=SECOND // 10))
    day = datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)  # the recording begins at 1 s
    for start, until, first, last in (
        (None, None, 0, 99),
        (2, None, 20, 99),
        (None, 0.5, 0, 4),
        (1.5, 2.5, 15, 24),
        (day, None, 20, 99),
        (day, day.replace(second=4), 20, 29),
        (datetime(1970, 1, 1, 0, 0, 3), 5, 20, 49),  # noqa: DTZ001 - taken as UTC
    ):
        found = [packet.data for packet in Recording(path, start=start, until=until).wanted()]
        assert found == [sample(i) for i in range(first, last + 1)]


def test_filter(tmp_path: Path) -> None:
    """A packet would be played though no message of it is wanted."""
    mixed: list[Row] = [(SECOND + i, ONE, GROUP, sample(i, rid=1 + i % 3)) for i in range(9)]
    path = tmp_path / "x.pcap"
    made(path, mixed)

    def third(packet: Packet, message: wire.Message) -> bool:
        assert packet.source == ONE
        return isinstance(message, wire.SData) and message.rid == 3

    found = [packet.data for packet in Recording(path, where=third).wanted()]
    assert found == [sample(i, rid=3) for i in (2, 5, 8)]
    nothing = Recording(path, where=lambda _, message: message.KIND == 0)
    with pytest.raises(
        ReplayError, match=r"of 9 packets in .* s there is none that fits the filter, so"
    ):
        list(nothing.wanted())
    with pytest.raises(
        ReplayError, match="there is none from 100 s until the end, so there is nothing to replay"
    ):
        list(Recording(path, start=100).wanted())


def test_times_that_cannot_be(tmp_path: Path) -> None:
    """A clock that was set would make a pause of fifty years, or let all that follows leave at once."""
    ms = SECOND // 1000
    at = [
        10 * SECOND,
        10 * SECOND + ms,
        0,
        5 * ms,
        400 * 86400 * SECOND,
        400 * 86400 * SECOND + 3 * ms,
        400 * 86400 * SECOND + ms,
    ]
    recording = made(
        tmp_path / "x.pcap", [(time_ns, ONE, GROUP, sample(i)) for i, time_ns in enumerate(at)]
    )
    found = [packet.at_ns for packet in recording.wanted()]
    assert found == [0, ms, ms, 6 * ms, 6 * ms, 9 * ms, 9 * ms]
    assert recording.steps == 2


@pytest.mark.parametrize("absolute", [False, True])
def test_the_core_passes_over_the_same(tmp_path: Path, *, absolute: bool) -> None:
    """Packets before the start would be passed over by other rules than those of the clock, so others would be played."""
    rand = random.Random(7)
    apart = [0, 1, 999_999_999, -1, -999_999_999, -2 * SECOND, 86_400 * SECOND, 86_401 * SECOND]
    at, files = 400 * 86_400 * SECOND, [tmp_path / f"{i}.pcap" for i in range(3)]
    for file in files:
        lines: list[Row] = []
        for i in range(200):
            at += rand.choice(apart)
            lines.append((at, rand.choice((ONE, TWO)), GROUP, sample(i)))
        made(file, lines)
    whole = Recording(files)
    every = list(whole.heard())
    assert whole.steps > 100
    for number in (1, 2, 150, 399, 599):
        packet = every[number][0]
        assert packet.time_ns is not None
        start = datetime.fromtimestamp(packet.time_ns // SECOND, UTC) if absolute else None
        recording = Recording(files, start=start or Fraction(packet.at_ns, SECOND))
        assert list(recording.wanted()) == [one for one, _ in every if recording.within(one)]
        assert (recording.packets, recording.steps) == (len(every), whole.steps)
        recording.check()
    late = Recording(files, start=1e9)
    with pytest.raises(ReplayError, match=r"of 600 packets in .* s there is none from 1e\+09 s"):
        late.check()


def test_a_folder(tmp_path: Path) -> None:
    """A folder or a pattern, which every other command takes, would be refused, or read in another order."""
    files = [tmp_path / f"run_0000{i}.pcap" for i in range(1, 4)]
    for i, file in enumerate(files):
        made(file, [(SECOND + i, ONE, GROUP, sample(i))])
    (tmp_path / "run_00004.pcap").touch()
    (tmp_path / "notes.txt").write_text("no capture", encoding="ascii")
    for what in (tmp_path, tmp_path / "*.pcap"):
        with pytest.warns(CaptureWarning, match=r"run_00004.pcap is empty"):
            recording = Recording(what)
        assert [packet.data for packet in recording.wanted()] == [sample(i) for i in range(3)]


def test_packets_without_a_time() -> None:
    """A packet without a time would end the replay, or wait for ever."""
    clock = _source._Clock()
    assert [clock.at(time) for time in (None, 7 * SECOND, None, 8 * SECOND)] == [0, 0, 0, SECOND]


def test_several_files(tmp_path: Path) -> None:
    """Files of one capture would not be one recording, or an older one have all its packets leave at once."""
    first, second, older = tmp_path / "1.pcap", tmp_path / "2.pcap", tmp_path / "0.pcap"
    made(first, rows(2, apart_ns=SECOND))
    write_datagrams(second, [(4 * SECOND, ONE, GROUP, sample(2))])
    write_datagrams(older, [(0, ONE, GROUP, sample(3)), (3 * SECOND, ONE, GROUP, sample(4))])
    recording = Recording([first, str(second), older])
    found = [(packet.data, packet.at_ns // SECOND) for packet in recording.wanted()]
    assert found == [(sample(i), at) for i, at in enumerate([0, 1, 3, 3, 6])]
    assert recording.name == f"{first} and 2 more"


def test_nothing_to_replay(tmp_path: Path) -> None:
    """A capture with nothing for us would pass for one that was replayed."""
    empty, foreign = tmp_path / "empty.pcap", tmp_path / "foreign.pcap"
    write_datagrams(empty, [])
    write_datagrams(foreign, [(SECOND, ONE, TWO, b"x")])
    route = Route(to=("127.0.0.1", 9))
    assert "empty.pcap: no packet of the protocol among 0 captured, so there is nothing" in refused(
        Recording(empty), route
    )
    said = refused(Recording(foreign), route)
    assert (
        "among 1 captured (1 UDP packets have nothing to do with port 7447; give the well-known port"
        in said
    )
    assert len(list(Recording(foreign, well_known=40001).wanted())) == 1
    with pytest.raises(CaptureError, match="there is no such file"):
        Recording(tmp_path / "none")
    with pytest.raises(ValueError, match="at least one capture"):
        Recording([])
    with pytest.raises(TypeError, match="start is a number of seconds or a datetime, not 'x'"):
        Recording(foreign, start="x")  # type: ignore[arg-type]


def test_pipe(tmp_path: Path) -> None:
    """A pipe with a name would be opened to look at it, and then be empty."""
    path, pipe = tmp_path / "x.pcap", tmp_path / "pipe"
    made(path, rows(3))
    os.mkfifo(pipe)
    recording = Recording(pipe)
    assert recording.once
    reader = os.open(pipe, os.O_RDWR)  # so that nobody waits for the other side
    try:
        os.write(reader, path.read_bytes())
        walk = recording.wanted()
        assert [next(walk).data for _ in range(3)] == [sample(i) for i in range(3)]
    finally:
        os.close(reader)
    with pytest.raises(ReplayError, match="pipe can be played once"):
        RawReplay(recording, Pace(loop=2))


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe could not be replayed, or be read a second time and then be empty."""
    made(tmp_path / "x.pcap", rows(3))

    class Pipe:
        buffer = io.BytesIO((tmp_path / "x.pcap").read_bytes())

    monkeypatch.setattr("sys.stdin", Pipe)
    with receiver() as one:
        route = Route(to=one.address)
        with pytest.raises(ReplayError, match="standard input can be played once"):
            RawReplay(Recording("-"), Pace(loop=2), route)
        assert RawReplay(Recording("-"), MAX, route).run().packets == 3
        assert len(one.take(3)) == 3
