"""Recorded datagrams sent again, from sockets of this machine to sockets of this machine, or into a file."""

from __future__ import annotations

import io
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pyddsi import wire
from pyddsi.capture import Datagram, Endpoint, open_capture
from pyddsi.capture.replay import (
    Pace,
    Packet,
    Progress,
    RawReplay,
    Recording,
    Route,
    Schedule,
    _raw,
    _source,
)
from pyddsi.capture.write import write_datagrams
from pyddsi.errors import CaptureError, ReplayError
from tests.api.rooms import group
from tests.py.golden import CAPTURES

SECOND = 1_000_000_000
TIMEOUT = 20.0
MAX = Pace(flat_out=True)
ONE, TWO, GROUP = (
    Endpoint("10.0.0.1", 40000),
    Endpoint("10.0.0.2", 40001),
    Endpoint("239.255.0.1", 7447),
)
SO_TIMESTAMPNS = 35
Row = tuple[int, Endpoint, Endpoint, bytes]


class Receiver:
    """A socket, and what came to it: bytes, from where, and when, as the system says."""

    def __init__(self, family: int = socket.AF_INET, host: str = "127.0.0.1") -> None:
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.settimeout(TIMEOUT)
        self.socket.bind((host, 0))
        self.address: tuple[str, int] = self.socket.getsockname()[:2]

    def take(self, count: int) -> list[tuple[bytes, tuple[str, int], int]]:
        """So many datagrams, and none more."""
        found = []
        for _ in range(count):
            data, words, _, source = self.socket.recvmsg(65536, 256)
            seconds, rest = struct.unpack("qq", words[0][2])
            found.append((data, source[:2], seconds * SECOND + rest))
        self.socket.setblocking(False)  # noqa: FBT003
        with pytest.raises(BlockingIOError):
            self.socket.recv(1)
        self.socket.settimeout(TIMEOUT)
        return found


@contextmanager
def receiver(*arguments: Any) -> Iterator[Receiver]:
    """A socket for the time of a block."""
    one = Receiver(*arguments)
    with one.socket:
        yield one


def datagrams(path: Path) -> list[Datagram]:
    """What a capture holds."""
    with open_capture(path) as capture:
        return [item for item in capture if isinstance(item, Datagram)]


def made(path: Path, rows: Sequence[Row]) -> Recording:
    """A recording of these."""
    write_datagrams(path, rows)
    return Recording(path)


def sample(number: int, *, rid: int = 1) -> bytes:
    """A packet with a sample."""
    return wire.encode([wire.SData(number % 16384, rid, b"%d" % number, reliable=False)])


def rows(
    count: int, *, apart_ns: int = 1000, source: Endpoint = ONE, target: Endpoint = GROUP
) -> list[Row]:
    """Packets so far apart."""
    return [(SECOND + i * apart_ns, source, target, sample(i)) for i in range(count)]


def test_recording_is_not_loaded(tmp_path: Path) -> None:
    """A long recording would be held in memory, instead of being read as it is played."""
    recording = made(tmp_path / "x.pcap", rows(20_000))
    walk = recording.wanted()
    next(walk)
    assert recording.packets == 1
    assert sum(1 for _ in walk) == 19_999
    assert recording.read == 1.0


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
        with pytest.raises(CaptureError, match="is cut off: 9 packets were read"):
            replay.run()
        assert len(one.take(9)) == 9
    assert replay.report.packets == 9


# ---- addresses ----


def test_senders_are_mapped(tmp_path: Path) -> None:
    """A receiver would see other addresses than those that it was told to."""
    mapping = {"10.0.0.0/8": "127.0.0.0/8"}
    taken = Counter[tuple[str, int]]()
    with receiver() as one, receiver(socket.AF_INET, "127.0.0.9") as two:
        ports = {40000: _free("127.0.0.1"), 40001: _free("127.0.0.2"), 7447: two.address[1]}
        to = Endpoint("10.0.0.9", 7447)
        recording = made(tmp_path / "x.pcap", rows(3, target=to) + rows(2, source=TWO, target=to))
        report = RawReplay(recording, MAX, Route(maps=mapping, ports=ports)).run()
        taken.update(source for _, source, _ in two.take(5))
        assert not one.take(0)
    assert taken == {("127.0.0.1", ports[40000]): 3, ("127.0.0.2", ports[40001]): 2}
    assert report.senders == {
        str(ONE): f"127.0.0.1:{ports[40000]}",
        str(TWO): f"127.0.0.2:{ports[40001]}",
    }


def _free(host: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def test_group(tmp_path: Path) -> None:
    """What went to a group would not reach it, or leave by another interface than the one named."""
    address, _, port = group().partition(":")
    recording = made(tmp_path / "x.pcap", rows(5))
    route = Route(maps={"239.255.0.1": address}, ports={7447: int(port)}, interface="lo")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(TIMEOUT)
        one.bind((address, int(port)))
        joined = socket.inet_aton(address) + socket.inet_aton("127.0.0.1")
        one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        for interface in ("lo", "127.0.0.1"):
            route.interface = interface
            RawReplay(recording, MAX, route).run()
            got = [one.recvfrom(65536) for _ in range(5)]
            assert [data for data, _ in got] == [sample(i) for i in range(5)]
            assert {source[0] for _, source in got} == {"127.0.0.1"}


def test_ipv6(tmp_path: Path) -> None:
    """IPv6 would not be replayed, or not told apart."""
    source, target = Endpoint("fd00::1", 40000), Endpoint("fd00::2", 7447)
    recording = made(tmp_path / "x.pcap", rows(4, source=source, target=target))
    with receiver(socket.AF_INET6, "::1") as one:
        ports = {7447: one.address[1]}
        report = RawReplay(
            recording,
            MAX,
            Route(maps={"fd00::/64": "::1"}, ports=ports | {40000: _free("127.0.0.1")}),
        ).run()
        assert [data for data, _, _ in one.take(4)] == [sample(i) for i in range(4)]
    assert next(iter(report.senders.values())).startswith("[::1]:")
    with receiver() as one:  # the family is that of whom it goes to
        RawReplay(recording, MAX, Route(to=one.address)).run()
        assert len(one.take(4)) == 4


def test_route_of_addresses() -> None:
    """An address would lose its host, or a group be sent elsewhere though nobody said so."""
    route = Route(maps={"10.1.0.0/16": "127.9.0.0/16", "10.0.0.0/8": "192.0.2.7"}, ports={1: 2})
    assert route.target(Endpoint("10.1.2.3", 1)) == ("127.9.2.3", 2)
    assert route.target(Endpoint("10.2.2.3", 3)) == ("192.0.2.7", 3)
    assert route.target(GROUP) == GROUP
    assert route.source(GROUP) is None
    assert route.source(Endpoint("10.1.2.3", 1)) == ("127.9.2.3", 2)
    assert Route(to=("127.0.0.1", 9)).target(GROUP) == ("127.0.0.1", 9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"maps": {"10.0.0.0/8": "127.0.0.0/16"}},
            "127.0.0.0/16 has no room for all addresses of 10.0.0.0/8",
        ),
        (
            {"maps": {"10.0.0.1/8": "127.0.0.0/8"}},
            "has host bits set; a network is such as 10.0.0.0/8",
        ),
        ({"maps": {"x": "127.0.0.0/8"}}, "map x=127.0.0.0/8: 'x' does not appear to be"),
        ({"ports": {0: 1}}, "a port is from 1 to 65535, not 0"),
        ({"to": ("127.0.0.1", 0)}, "the port of to is from 1"),
        ({"to": ("somewhere", 1)}, "'somewhere' does not appear to be"),
    ],
)
def test_wrong_route(settings: dict[str, Any], words: str) -> None:
    """Addresses that cannot be exchanged would be exchanged for others."""
    with pytest.raises(ValueError, match=words):
        Route(**settings)


def refused(recording: Recording, route: Route, pace: Pace = MAX) -> str:
    """What is said instead of sending."""
    with pytest.raises(ReplayError) as caught:
        RawReplay(recording, pace, route).run()
    return str(caught.value)


def test_no_way(tmp_path: Path) -> None:
    """What cannot be sent as it is asked for would be told packet by packet, or only by a number at the end."""
    recording = made(tmp_path / "x.pcap", rows(3))
    said = refused(recording, Route(maps={"10.0.0.0/8": "198.51.100.1"}))
    assert (
        "10.0.0.1:40000 is to send from 198.51.100.1, which is no address of this machine" in said
    )
    said = refused(recording, Route(maps={"10.0.0.0/8": "::1"}))
    assert "to an address of the other family; map both to the same" in said
    said = refused(recording, Route(to=("127.0.0.1", 9), interface="none0"))
    assert said.startswith("there is no interface 'none0'; there are ")
    with receiver(socket.AF_INET, "127.0.0.1") as one:
        said = refused(
            recording, Route(maps={"10.0.0.1": "127.0.0.1"}, ports={40000: one.address[1]})
        )
        assert (
            f"is to send from 127.0.0.1:{one.address[1]}, which is in use; map its port to another"
            in said
        )
    far = made(tmp_path / "y.pcap", rows(3, target=Endpoint("203.0.113.1", 7447)))
    said = refused(
        far, Route(maps={"10.0.0.0/8": "127.0.0.1"})
    )  # what has the address of lo leaves by lo alone
    assert said.startswith("there is no way to 203.0.113.1:7447: ")
    assert said.endswith("map its network to one of this machine, or say where everything is to go")


def test_too_many_senders(tmp_path: Path) -> None:
    """A capture of a large network would use up all descriptors, and say so by an error of the system."""
    many = [Endpoint(f"10.0.{i // 200}.{i % 200 + 1}", 40000) for i in range(1030)]
    recording = made(
        tmp_path / "x.pcap", [(SECOND + i, one, GROUP, sample(i)) for i, one in enumerate(many)]
    )
    assert "socket" in refused(recording, Route(to=("127.0.0.1", 9)))


# ---- what is replayed ----


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
