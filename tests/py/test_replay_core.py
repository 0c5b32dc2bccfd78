"""Recordings fed to a node in the place of one side: test_replay_node.py has zhe's, these are our own, and what is odd."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest

from pyddsi import wire
from pyddsi.capture import Endpoint
from pyddsi.capture.replay import CoreReplay, Delivery, Pace, Packet, Recording, _core, survey
from pyddsi.capture.write import write_datagrams
from pyddsi.errors import ReplayError
from pyddsi.testing import Sim
from tests.py.golden import CAPTURES
from tests.py.test_replay_samples import ours

ANSWERED = 9
SILENT = CAPTURES / "client_nbiot_udp.pcap"


def by_reader(core: CoreReplay) -> dict[int, list[bytes]]:
    """What each subscription got."""
    found: dict[int, list[bytes]] = {}
    for one in core.deliveries():
        found.setdefault(one.reader, []).append(one.data)
    return found


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_ours(tmp_path: Path, loss: float) -> None:
    """A node of ours could not be replaced: its fragments, selections, session numbers would not fit."""
    path = tmp_path / "x.pcap"
    put = ours(path, loss=loss)
    names = [
        [data for name, data, sure in put if sure and name == f"/plant/{what}"]
        for what in ("sure", "alone")
    ]
    core = CoreReplay(Recording(path), "10.0.0.2")
    assert {"fragment", "batch", "pull"} <= set(core.options["features"] or ())
    everything, alone = by_reader(core).values()
    assert alone == names[1]
    assert [data for data in everything if data in set(names[0])] == names[0]
    assert Counter(everything) == Counter(data for _, data, _ in put)
    third = CoreReplay(Recording(path), "10.0.0.3", facts=core.facts)
    ((reader, large),) = by_reader(third).items()
    assert isinstance(reader, wire.SelectionId)
    assert large == [data for data in names[0] if len(data) > 100]
    assert by_reader(CoreReplay(Recording(path), "10.0.0.1", facts=core.facts)) == {}


def test_original_with_a_past(tmp_path: Path) -> None:
    """An ACCEPT that answers an OPEN of the original's fourth session would not be taken from a node in its first."""
    path = tmp_path / "x.pcap"
    with Sim(seed=1, delay=0.001) as sim:
        broker, client = sim.node("broker", role="broker"), sim.node("client", role="client")
        sim.run_until_quiet()
        for _ in range(3):
            broker.restart()
            sim.run(20.0)
        begun, reader = sim.now_ns, client.subscriber("x")
        broker.restart()
        publisher = broker.publisher("x")
        publisher.wait_matched(timeout=60.0)
        publisher.put(b"hello")
        assert bytes(reader.recv().data) == b"hello"
        log = {one.number: one for one in sim.packets() if one.sent_ns >= begun}
        write_datagrams(path, ((one.sent_ns, one.from_, one.to, one.data) for one in log.values()))
    heard = list(Recording(path).heard())
    accepts = [one for _, messages in heard for one in messages if isinstance(one, wire.Accept)]
    assert any(told.id == ANSWERED for one in accepts for told in one.properties or ())
    core = CoreReplay(Recording(path), "10.0.0.2")
    assert core.options["role"] == "client"
    assert [one.data for one in core.deliveries()] == [b"hello"]


def test_same_time(tmp_path: Path) -> None:
    """What a packet leads to would come after the next one, if both have the same time in the capture."""
    path = tmp_path / "x.pcap"
    put = ours(path, loss=0.1)
    core = CoreReplay(Recording(path), "10.0.0.3")
    times = Counter(packet.at_ns for packet, _ in core.recording.heard())
    assert max(times.values()) > 3
    assert len(list(core.deliveries())) == sum(
        1 for name, data, _ in put if name == "/plant/sure" and len(data) > 100
    )


def test_fate() -> None:
    """Packets could not be lost or doubled on purpose, or would be others than those that were named."""
    recording = Recording(CAPTURES / "p2p_unreliable.pcap")
    plain = [one.data for one in CoreReplay(recording, "10.77.0.2").deliveries()]

    def fate(number: int, packet: Packet) -> int:
        assert packet.number == number + 1  # all are of the protocol
        return 0 if number % 2 else 2

    core = CoreReplay(recording, "10.77.0.2")
    found = [one.data for one in core.deliveries(fate)]
    assert 0 < len(found) < len(plain) * 0.6
    assert set(found) < set(plain)
    assert len(found) == len(set(found))


def test_digest() -> None:
    """What went differently would have the same digest."""
    recording = Recording(CAPTURES / "p2p_uri.pcap")
    first, second = CoreReplay(recording, "10.77.0.2"), CoreReplay(recording, "10.77.0.2")
    assert list(first.deliveries()) == list(second.deliveries())
    assert first.digest == second.digest
    list(second.deliveries(lambda number, _: int(number != 30)))
    assert second.digest != first.digest
    slow = CoreReplay(recording, "10.77.0.2", Pace(speed=0.5))
    list(slow.deliveries())
    assert slow.digest != first.digest


def test_part_and_filter() -> None:
    """What is not wanted would be listed, or be kept from the node, so that what is wanted is missing as well."""
    path = CAPTURES / "p2p_uri.pcap"

    def deliveries(recording: Recording) -> list[Delivery]:
        return list(CoreReplay(recording, "10.77.0.2").deliveries())

    everything = deliveries(Recording(path))
    assert len(everything) == 20
    middle = everything[8].at_ns / 1e9
    late = deliveries(Recording(path, start=middle))
    assert late == [one for one in everything if one.at_ns >= everything[8].at_ns]
    early = deliveries(Recording(path, until=middle))
    assert [one.data for one in early] == [
        one.data for one in everything if one.at_ns < everything[8].at_ns
    ]
    named = deliveries(Recording(path, where=lambda _, m: isinstance(m, wire.WData)))
    assert named == [one for one in everything if isinstance(one.resource, str)]
    assert 0 < len(named) < 20


def test_filter_of_pieces(tmp_path: Path) -> None:
    """A sample in pieces would not be found by the filter."""
    path = tmp_path / "x.pcap"
    ours(path, loss=0.0)
    wanted = Recording(
        path, where=lambda _, message: isinstance(message, wire.SData) and message.reliable
    )
    sizes = Counter(len(one.data) for one in CoreReplay(wanted, "10.0.0.2").deliveries())
    assert sizes[20_000] == 40


def test_silence_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of a day would be a day of a node that asks who is there, all of which is remembered."""
    path, data, passed = tmp_path / "x.pcap", bytearray(SILENT.read_bytes()), list[float]()
    places, at = [], 24
    while at < len(data):
        places.append(at)
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    for number, at in enumerate(places):
        struct.pack_into("<I", data, at, struct.unpack_from("<I", data, at)[0] + number * 80_000)
    path.write_bytes(data)

    class Watched(Sim):
        def run(self, seconds: float) -> int:
            passed.append(seconds)
            return super().run(seconds)

    monkeypatch.setattr(_core, "Sim", Watched)
    core = CoreReplay(Recording(path), "10.77.0.2")
    list(core.deliveries())
    assert sum(passed) < 61 * len(places)
    assert sum(len(one.data) for one in core.said) <= _core.SAID_BYTES


@pytest.mark.parametrize("bits", [0, 6, 57, 255, 2**60])
def test_odd_lengths_and_places(tmp_path: Path, bits: int) -> None:
    """A recording with an OPEN that no peer takes, or whose groups are none, would end in a traceback, or take all memory."""
    path = tmp_path / "x.pcap"
    one, two = Endpoint("10.0.0.1", 1), Endpoint("10.0.0.2", 2)
    locators = [
        "udp/239.2\udcea5.0.1:7447", "udp/239.255.0.1:77777", "udp/10.0.0.1:5", "udp/x:²", "udp/239.255.0.1:7447", "",
    ]  # fmt: skip
    bits_told = wire.Property(4, encoded(bits))
    messages: list[tuple[Endpoint, Endpoint, wire.Message]] = [
        (one, two, wire.Open(1, b"me", 50, locators, properties=[bits_told])),
        (two, one, wire.Accept(b"me", b"you", 50, properties=[bits_told])),
        (two, one, wire.Synch(0, reliable=True, sync=True)),
        (two, one, wire.SData(0, 1, b"x", reliable=True)),
    ]
    write_datagrams(
        path, [(i, a, b, wire.encode([what])) for i, (a, b, what) in enumerate(messages)]
    )
    recording = Recording(path, well_known=1)
    core = CoreReplay(recording, one)
    list(core.deliveries())
    assert core.options["multicast_to"] == [("239.255.0.1", 7447)] * 2
    assert survey(recording).samples == 1


def encoded(number: int) -> bytes:
    """As the wire has it."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def refused(
    recording: Recording, side: Endpoint | str | None = None, pace: Pace | None = None
) -> str:
    """What is said instead of playing."""
    with pytest.raises(ReplayError) as caught:
        list(CoreReplay(recording, side, pace).deliveries())
    return str(caught.value)


def test_refused(tmp_path: Path) -> None:
    """A node would be put in the place of nobody, or of another than was meant."""
    recording = Recording(CAPTURES / "p2p_pubsub.pcap")
    said = refused(recording, "10.77.0.9")
    assert "10.77.0.9 has not opened or accepted a session" in said
    assert said.endswith("those that did: 10.77.0.1:48935, 10.77.0.2:46376")
    assert "can be several (127.0.0.1:" in refused(
        Recording(CAPTURES / "lo_pubsub.pcap"), "127.0.0.1"
    )
    assert (
        CoreReplay(recording, "10.77.0.2:46376").side
        == CoreReplay(recording, Endpoint("10.77.0.2", 46376)).side
    )
    assert "cannot be fed flat out" in refused(recording, None, Pace(flat_out=True))
    assert "standard input can be read once" in refused(Recording("-"))
    path = tmp_path / "x.pcap"
    ends = Endpoint("10.0.0.1", 1), Endpoint("239.255.0.1", 7447)
    write_datagrams(path, [(0, *ends, wire.encode([wire.Scout(1)]))])
    assert "nobody opened or accepted a session" in refused(Recording(path))
    wide = [wire.Open(1, b"me", 50, []), wire.Declare(0, [wire.Resource(2**60, "/x")])]
    write_datagrams(path, [(0, *ends, wire.encode(wide))])
    assert "what 10.0.0.1:1 declared cannot be declared again: " in refused(Recording(path))
