"""Recordings of a session: all that it said and heard is in the file, and only that; what goes wrong."""

from __future__ import annotations

import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pyddsi
from pyddsi import capture, wire
from pyddsi.capture import CaptureWarning
from pyddsi.capture._rotate import SIZE_MIN, Files
from pyddsi.capture.replay import CoreReplay, Pace, SessionReplay, survey
from pyddsi.capture.replay import Recording as Recorded
from pyddsi.capture.replay._samples import Samples
from pyddsi.errors import CaptureError, ClosedError
from tests.api.rooms import TIMEOUT, group

Sent = Counter[tuple[str, bytes]]


@contextmanager
def pair(first: dict[str, Any], second: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Two sessions that hear each other, with settings of their own."""
    where: dict[str, Any] = {"group": group()}
    with pyddsi.open(**where | first) as one, pyddsi.open(**where | second) as two:
        yield one, two


def send(
    one: pyddsi.Session,
    two: pyddsi.Session,
    count: int = 300,
    *,
    size: int = 0,
    shared: bool = False,
) -> Sent:
    """
    Samples from one to the other, until all have come: small ones, and one that takes several packets.

    shared: not before these go by shared memory
    """
    pub = one.publisher("plant/robot/7")
    sub = two.subscriber("plant/**", depth=4096)
    pub.wait_matched(timeout=TIMEOUT)
    if shared:
        assert one.wait(TIMEOUT, lambda: one.counts()["lane_readers"])
    data = [b"%d" % i + bytes(size) for i in range(count)] + [bytes(150_000)]
    for one_of_them in data:
        pub.put(one_of_them, timeout=TIMEOUT)
    got = 0
    while got < len(data):
        got += len(sub.recv_many(256, timeout=TIMEOUT))
    pub.close()
    sub.close()
    return Counter(("plant/robot/7", one_of_them) for one_of_them in data)


def samples(*paths: Path | str) -> Sent:
    """Those in a recording, by name."""
    read = Samples()
    found = [
        one
        for packet, messages in Recorded([str(path) for path in paths]).heard()
        for one in read.push(packet, messages)
    ]
    found += read.finish()
    return Counter((str(one.resource).removeprefix("/"), bytes(one.payload)) for one in found)


def made_up(run: capture.Capture) -> int:
    """Packets that were on no wire: those of shared memory, and the one that says whose recording it is."""
    return sum(1 for _ in run.packets(where="conduit >= 254")) + 1


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "sockets"])
def test_it_holds_what_the_session_counts(tmp_path: Path, *, shared: bool) -> None:
    """A recording would lack packets, or have some that were not there."""
    path = tmp_path / "run.pcapng"
    with pair({"record": path, "shared_memory": shared}, {"shared_memory": shared}) as (one, two):
        sent = send(one, two, shared=shared)
    counts, stats = one.counts(), one.stats()
    packets = sum(counts[f"sent_{who}"] for who in ("receive", "housekeeping", "application"))
    run = capture.open(path)
    info = run.info()
    assert info.frames - made_up(run) == packets + stats.packets_in
    assert info.malformed == 0
    assert not run.problems
    assert [session.end for session in info.sessions] == ["closed"]
    assert [one.uri for one in info.resources] == ["/plant/robot/7"]
    assert samples(path) == sent
    aside = [row for row in info.conduits if row.conduit == 255]
    assert [row.missing + row.repeats for row in aside] == ([0] if shared else [])


def test_the_other_side_says_the_same(tmp_path: Path) -> None:
    """What is heard would be recorded with other directions, places or contents than what is said."""
    paths = tmp_path / "said.pcapng", tmp_path / "heard.pcapng"
    with pair({"record": paths[0]}, {"record": paths[1]}) as (one, two):
        sent = send(one, two)
    assert samples(paths[0]) == samples(paths[1]) == sent
    for path in paths:
        with capture.read_datagrams(path) as datagrams:
            found = {one.destination.multicast for one in datagrams}
        assert found == {True, False}


def test_one_that_begins_late_knows_names(tmp_path: Path) -> None:
    """Samples of a recording that begins after the declarations would have numbers for names."""
    path = tmp_path / "late.pcapng"
    with pair({}, {}) as (one, two):
        pub = one.publisher("plant/robot/7")
        sub = two.subscriber("plant/**")
        pub.wait_matched(timeout=TIMEOUT)
        with two.record(path) as recorder:
            pub.put(b"late", timeout=TIMEOUT)
            assert bytes(sub.recv(TIMEOUT)) == b"late"
        assert recorder.closed
        assert recorder.counts.lost == 0
        pub.put(b"later", timeout=TIMEOUT)
        assert bytes(sub.recv(TIMEOUT)) == b"later"
    assert samples(path) == Counter({("plant/robot/7", b"late"): 1})


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_connections(tmp_path: Path, kind: str) -> None:
    """What goes through a connection would not be there, or be no connection."""
    path = tmp_path / "run.pcapng"
    where = "tcp/127.0.0.1:0" if kind == "tcp" else f"unix/{tmp_path}/socket"
    with pyddsi.open(group="", listen=(where,), record=path) as one:
        at = str(one.listening[0]) if kind == "tcp" else where
        with pyddsi.open(group="", peers=(at,), shared_memory=False) as two:
            sent = send(one, two)
    run = capture.open(path)
    info = run.info()
    assert info.malformed == 0
    assert not run.problems
    assert {session.end for session in info.sessions} == {"closed"}
    assert samples(path) == sent
    assert all(peer.endpoint.startswith("tcp/") for peer in info.peers if peer.packets > 1)


def test_why_something_was_dropped(tmp_path: Path) -> None:
    """A packet that was refused would stand there as if it had been taken."""
    path = tmp_path / "run.pcapng"
    with (
        pyddsi.open(group=group(), record=path) as session,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        where = session.endpoint
        stranger.sendto(b"\xff\xff", (where.address, where.port))
        stranger.sendto(wire.encode([wire.AckNack(1)]), (where.address, where.port))
        while sum(drop.count for drop in session.drops()) < 2:  # which rings no bell
            session.wait(0.01, lambda: False)
    data = path.read_bytes()
    assert data.count(b"1 dropped as a packet that came in because its bytes break a rule") == 1
    assert data.count(b"because it came from an address without a session") == 1


def test_record_replay_record(tmp_path: Path) -> None:
    """A recording of a replay would have other samples than the recording that is replayed."""
    first, second = tmp_path / "first.pcapng", tmp_path / "second.pcapng"
    with pair({"record": first}, {}) as (one, two):
        sent = send(one, two)
    recording = Recorded(str(first))
    with pair({"record": second}, {}) as (one, two):
        sub = two.subscriber("plant/**", depth=4096)
        replay = SessionReplay(recording, one, Pace(flat_out=True), contents=survey(recording))
        replay.declare()
        replay.wait_matched(TIMEOUT)
        replay.run()
        got = 0
        while got < len(sent):
            got += len(sub.recv_many(256, timeout=TIMEOUT))
    assert samples(second) == samples(first) == sent


def test_a_node_is_not_fed_shared_memory(tmp_path: Path) -> None:
    """A node in the place of a session would take samples of shared memory for nonsense, and end the session."""
    path = tmp_path / "run.pcapng"
    with pair({"record": path}, {}) as (one, two):
        send(one, two)
    side = max(capture.open(path).info().sessions[0].opener, "")
    replay = CoreReplay(Recorded(str(path)), side)
    list(replay.deliveries())
    assert [drop.reason for drop in replay.drops if drop.reason == "bad_bytes"] == []


# ---- files ----


def test_files_of_a_limited_size(tmp_path: Path) -> None:
    """A file would be larger than allowed, or a recording of several not be one."""
    path = tmp_path / "run.pcapng"
    with pair({}, {}) as (one, two):
        with one.record(path, max_size=SIZE_MIN) as recorder:
            sent = send(one, two, 400, size=1000)
        names = recorder.files
    assert len(names) > 3
    assert names[0] == str(tmp_path / "run_00001.pcapng")
    assert all(Path(name).stat().st_size <= SIZE_MIN for name in names)
    assert sum(Path(name).stat().st_size for name in names) == recorder.counts.bytes
    run = capture.open(tmp_path)
    assert [member.continues for member in run.members] == [False] + [True] * (len(names) - 1)
    info = run.info()
    assert not run.problems
    assert info.frames >= recorder.counts.packets
    assert samples(*names) == sent
    with pyddsi.open(group=group()) as session, pytest.raises(CaptureError, match="exists"):
        session.record(path, max_size=SIZE_MIN)


def test_so_many_packets(tmp_path: Path) -> None:
    """A recording of so many packets would have more, or never end."""
    path = tmp_path / "run.pcapng"
    with pair({}, {}) as (one, two):
        recorder = one.record(path, count=20)
        send(one, two)
        assert recorder.wait(TIMEOUT)
        assert recorder.counts.packets == 20
        again = one.record(tmp_path / "again.pcapng")
        send(one, two)
        again.close()
    assert capture.open(path).info().frames >= 20
    assert again.counts.packets > 20


# ---- what goes wrong ----


def test_what_cannot_be(tmp_path: Path) -> None:
    """A recording that cannot be would not say why, or leave something behind that stops the next one."""
    path = tmp_path / "run.pcapng"
    path.write_bytes(b"precious")
    with pyddsi.open(group=group()) as session:
        for name, why in (
            (path, "exists; name another file"),
            (tmp_path / "nowhere" / "run.pcapng", "cannot be written: No such file"),
            (tmp_path / "run.pcap", "ends in .pcapng"),
        ):
            with pytest.raises(CaptureError, match=why):
                session.record(name)
        mistakes: list[dict[str, Any]] = [
            {"max_size": 5},
            {"max_time": 0.0},
            {"count": 0},
            {"keep": 2},
        ]
        for wrong in mistakes:
            with pytest.raises(ValueError, match=next(iter(wrong))):
                session.record(tmp_path / "new.pcapng", **wrong)
        assert path.read_bytes() == b"precious"
        with (
            session.record(path, overwrite=True),
            pytest.raises(CaptureError, match="is being recorded into"),
        ):
            session.record(tmp_path / "second.pcapng")
    with pytest.raises(ClosedError):
        session.record(tmp_path / "third.pcapng")
    assert not (tmp_path / "third.pcapng").exists()
    with pytest.raises(CaptureError, match="exists"):
        pyddsi.open(group=group(), record=path)
    assert not capture.open(path).info().problems


def test_a_full_disk(tmp_path: Path) -> None:
    """A full disk would end the session, leave a broken file, or be kept quiet."""
    path = tmp_path / "run.pcapng"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pair({"shared_memory": False}, {"shared_memory": False}) as (one, two):
        recorder = one.record(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            send(one, two, 300, size=1000)
            assert recorder.wait(TIMEOUT)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert isinstance(recorder.problem, CaptureError)
        with pytest.raises(CaptureError, match="cannot be written on: File too large"):
            recorder.close()
        recorder.close()  # it was said
        with one.record(tmp_path / "next.pcapng"):
            send(one, two, 5)
    with pytest.warns(CaptureWarning, match="has no end"):
        info = capture.open(path).info()
    assert [problem.kind for problem in info.problems] == ["unended"]
    assert info.frames - 1 == recorder.counts.packets > 50
    assert path.stat().st_size <= 100_000


def test_the_session_says_that_its_recording_ended_early(tmp_path: Path) -> None:
    """A program that records by an argument of `open` would never learn that its recording is not whole."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    recorded = pyddsi.open(group=group(), record=tmp_path / "run.pcapng")
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        with pytest.raises(CaptureError, match="File too large"):
            recorded.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert recorded.closed
    recorded.close()  # it was said


def test_whatever_ends_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder would end in silence because of an error that nobody has thought of."""

    def broken(*_arguments: object) -> None:
        raise RuntimeError("a fault of ours")

    with pyddsi.open(group=group()) as session:
        monkeypatch.setattr(Files, "write", broken)
        recorder = session.record(tmp_path / "run.pcapng")
        session.publisher("plant/robot/7")
        assert recorder.wait(TIMEOUT)
        with pytest.raises(CaptureError, match="RuntimeError: a fault of ours"):
            recorder.close()


def test_the_end_of_the_session_is_its_end(tmp_path: Path) -> None:
    """The farewell would be missing, or a recorder outlive its session."""
    path = tmp_path / "run.pcapng"
    with pair({"record": path}, {}) as (one, two):
        send(one, two, 3)
    assert "CLOSE" in capture.open(path).info().kinds


def test_an_interface(tmp_path: Path) -> None:
    """What goes by would not be recorded, or what is not ours would be; or nobody know what permission is missing."""
    path = tmp_path / "lo.pcapng"
    where = group()
    port = int(where.rpartition(":")[2])
    try:
        recorder = capture.record("lo", path, ports=(port,))
    except PermissionError as error:
        assert "CAP_NET_RAW" in str(error)
        return
    with recorder:
        plain = {"interface": "lo", "shared_memory": False, "group": where}
        with pair(plain, plain) as (one, two):
            sent = send(one, two)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(b"others", ("127.0.0.1", 9))
        while not recorder.counts.left_out:  # it went by last
            assert not recorder.wait(0.02)
    run = capture.open(path, ports=(port,))
    info = run.info()
    assert info.frames == recorder.counts.packets
    assert not info.foreign
    assert sum(one.messages - one.repeats for one in info.resources) >= len(sent)
    with pytest.raises(CaptureError, match="nosuch0"):
        capture.record("nosuch0", tmp_path / "no.pcapng")
