"""Sessions followed by scapy: the same packets, messages and columns as everywhere else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.sendrecv import sniff

from pyddsi import wire
from pyddsi.scapy import (
    AckNack,
    Conduit,
    Declare,
    Frame,
    Layer,
    Open,
    Ping,
    Pong,
    PyddsiPacket,
    PyddsiSession,
    PyddsiStream,
    SData,
    Synch,
)
from tests.py.golden import CAPTURES, index, load
from tests.py.make_traffic import (
    FRAMED,
    GROUP,
    OTHER_GROUP,
    WAYS,
    A,
    B,
    connection,
    cut,
    datagram,
    framed,
    opening,
    sample,
    written,
)
from tests.py.test_flows import STORIES, told
from tests.py.test_scapy import record
from tests.py.tshark import fields, followed

NAMES = sorted(index())
SHOWN = ("sn", "usn", "seq_event", "since_first_us", "ack_usn", "answer_us", "delivery_us", "uri")


def packets_of(captured: Packet) -> list[PyddsiPacket]:
    """Our packets in a captured one."""
    if PyddsiStream in captured:
        return [f.payload for f in captured[PyddsiStream].frames if PyddsiPacket in f]
    return [captured[PyddsiPacket]] if PyddsiPacket in captured else []


def messages_of(captured: Packet) -> list[Layer]:
    """The messages and markers of all of them."""
    return [message for packet in packets_of(captured) for message in packet.messages]


def read(path: Path, session: Any = PyddsiSession) -> dict[int, Packet]:
    """The captured packets that hold something of ours, by their numbers."""
    everything = enumerate(sniff(offline=str(path), session=session), 1)
    return {number: captured for number, captured in everything if packets_of(captured)}


@pytest.mark.parametrize("name", NAMES)
def test_capture(name: str) -> None:
    """Scapy would read a packet otherwise than the core, leave it to its port, or say other things of it than Wireshark."""
    found = read(CAPTURES / name)
    wanted: dict[int, list[Any]] = {}
    columns: dict[int, list[Any]] = {}
    for packet, rows in followed(load(name)):
        wanted.setdefault(packet.number, []).extend(packet.messages)
        columns.setdefault(packet.number, []).extend(rows)
    assert set(found) == set(wanted)
    shown = fields(CAPTURES / name, [f"pyddsi.{column}" for column in SHOWN])
    for number, captured in found.items():
        layers = messages_of(captured)
        assert [record(layer) for layer in layers] == wanted[number]
        said = [dict(layer.columns) for layer in layers if layer.columns]
        assert said == columns[number]
        for column in SHOWN if number in shown else ():
            values = [str(each[column]) for each in said if column in each]
            assert shown[number][f"pyddsi.{column}"] == values


@pytest.mark.parametrize(("name", "count"), [("p2p_loss5", 401), ("three_multicast_loss", 623)])
def test_repeats(name: str, count: int) -> None:
    """The repeats that are known to be in a capture would not be found."""
    samples = [
        message
        for captured in read(CAPTURES / f"{name}.pcap").values()
        for message in messages_of(captured)
        if isinstance(message, SData)
    ]
    assert sum(message.columns["seq_event"] in {3, 8} for message in samples) == count


def test_malformed() -> None:
    """Bytes behind a fault would be lost, or be taken for messages that the sender may not use."""
    for name in ("probes/malformed.pcap", "probes/unknown.pcap"):
        bad = {packet.number: packet for packet in load(name) if packet.error is not None}
        found = list(sniff(offline=str(CAPTURES / name), session=PyddsiSession))
        for number, packet in bad.items():
            layer = found[number - 1][PyddsiPacket]
            end = packet.messages[-1].at + packet.messages[-1].size if packet.messages else 0
            assert [record(message) for message in layer.messages] == packet.messages
            assert layer[Raw].load == packet.data[end:]


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_connection(size: int, tmp_path: Path) -> None:
    """Frames of a connection would be lost, or put together wrongly, where a segment ends."""
    path = written(tmp_path / "run.pcap", connection(cut(FRAMED, size)))
    found = [record(m) for captured in read(path).values() for m in messages_of(captured)]
    assert found == [message for packet in load(str(path)) for message in packet.messages]
    assert len(found) == 6


def segments(sequence: int, pieces: list[bytes]) -> list[Packet]:
    """A connection's beginning and its segments, as captured."""
    head = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40000, dport=7447, flags="A")
    start = head.copy()
    start[TCP].flags, start[TCP].seq = "S", sequence
    made, at = [start], sequence + 1
    for piece in pieces:
        packet = head / Raw(piece)
        packet[TCP].seq = at % 2**32
        made.append(packet)
        at += len(piece)
    return [IP(bytes(packet)) for packet in made]


def numbers(found: Any) -> list[int]:
    """The numbers of all samples."""
    return [m.sn for captured in found for m in messages_of(captured) if isinstance(m, SData)]


@pytest.mark.parametrize("sequence", [999, 2**32 - 1, 2**32 - 15])
def test_segments_out_of_order(sequence: int) -> None:
    """A segment that came late would be left out, or one that came twice be read twice; also where their numbers wrap."""
    start, *sent = segments(sequence, cut(FRAMED, 10))
    longer = segments(sequence, [FRAMED[:20], FRAMED[20:45], FRAMED[45:60], FRAMED[60:]])
    halfway = segments(sequence, [FRAMED[:40], FRAMED[40:60]])[2]
    order = [start, sent[1], sent[0], sent[0], *longer[1:3], longer[4], sent[6], halfway]
    found = sniff(offline=order, session=PyddsiSession)
    assert numbers(found) == [0, 1, 2, 3, 4]
    assert [bool(messages_of(captured)) for captured in found][:4] == [False, False, True, False]


def test_segment_that_is_missing() -> None:
    """Behind a hole bytes would be taken for frames, or what waits for the missing be kept for ever."""
    pieces = cut(FRAMED + framed(*[sample(n) for n in range(1000)]), 10)
    sent = segments(999, pieces)
    session = PyddsiSession()
    assert numbers(sniff(offline=[*sent[:2], *sent[3:]], session=session)) == [0]
    [direction] = session._directions.values()
    assert not direction._held
    again = segments(4999, pieces)
    assert numbers(sniff(offline=again, session=session))[:5] == [0, 1, 2, 3, 4]
    assert not numbers(sniff(offline=sent[1:], session=PyddsiSession))  # without its beginning


def test_pieces() -> None:
    """A datagram in IP fragments would not be put together."""
    packet = PyddsiPacket(messages=[SData(flags="R", sn=3, data=bytes(4000))])
    whole = IP(src="10.0.0.1", dst="10.0.0.2", id=7) / UDP(sport=40000, dport=7447) / packet
    cut_up = fragment(whole, 1400)  # type: ignore[no-untyped-call]
    pieces = [IP(bytes(piece)) for piece in cut_up]
    assert len(pieces) == 3
    [found] = sniff(offline=pieces, session=PyddsiSession)
    assert [record(m) for m in messages_of(found)] == [record(m) for m in packet.messages]
    assert found[SData].columns["seq_event"] == 1


def test_settings(tmp_path: Path) -> None:
    """Another port or group, or a length of numbers that is set, would change nothing; a stranger be taken for one of ours."""
    frames = [datagram(A, OTHER_GROUP, sample(127)), datagram(A, OTHER_GROUP, sample(0))]
    path = written(tmp_path / "run.pcap", [*frames, datagram(B, GROUP, sample(1))])
    assert set(read(path)) == {3}
    for session in (
        PyddsiSession(port=17456, seq_bits=7),
        PyddsiSession(groups=["239.255.9.9"], seq_bits=7),
    ):
        found = read(path, session)
        assert [messages_of(found[n])[0].columns["usn"] for n in (1, 2)] == [127, 128]
    path = written(tmp_path / "open.pcap", [datagram(A, B, opening()), datagram(B, A, sample(0))])
    assert set(read(path)) == {1, 2}
    path = written(tmp_path / "none.pcap", [datagram(A, B, sample(0)), datagram(B, A, b"")])
    assert not read(path)
    ends = [(A, GROUP), (A, OTHER_GROUP), (B, OTHER_GROUP)]
    frames = [datagram(*each, sample(0)) for each in ends]
    assert set(read(written(tmp_path / "group.pcap", frames))) == {
        1,
        2,
    }  # a group is nobody's alone


def test_connection_beside_datagrams(tmp_path: Path) -> None:
    """A connection and datagrams between the same ports would be taken for one flow, of one sender."""
    frames = [datagram(*WAYS, data) for data in (opening(7), sample(126), sample(0))]
    stream = connection([framed(sample(126)), framed(sample(0))])
    found = read(written(tmp_path / "run.pcap", stream + frames))
    events = [m.columns.get("seq_event") for got in found.values() for m in messages_of(got)]
    assert events == [1, 7, None, 1, 2]


def test_another_layer_at_the_port() -> None:
    """What has been learnt would give way to whatever scapy knows the port for, such as mDNS; or a stranger be changed."""
    there = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=40001, dport=5353)
    strange = Ether(bytes(Ether() / there / Raw(sample(0))))
    before = bytes(strange)
    [found] = sniff(offline=[strange], session=PyddsiSession)
    assert not packets_of(found)
    assert bytes(found) == before
    sent = [IP(bytes(there / Raw(data))) for data in (opening(), sample(0))]
    learnt = sniff(offline=sent, session=PyddsiSession)
    assert [type(m) for captured in learnt for m in messages_of(captured)] == [Open, SData]
    assert [bytes(captured) for captured in learnt] == [bytes(packet) for packet in sent]


def test_columns_stay(tmp_path: Path) -> None:
    """A copy would have forgotten what its message is, and the summary not say it."""
    name = next(name for name in STORIES if name.startswith("numbers"))
    frames = [
        datagram((source.address, source.port), (to.address, to.port), data)
        for _, source, to, data in told(name)[0]
    ]
    found = read(written(tmp_path / "run.pcap", frames))
    summaries = [captured.summary().split(" / ")[-1] for captured in found.values()]
    assert summaries[2:6] == [
        "pyddsi SDATA",
        "pyddsi SDATA(gap before)",
        "pyddsi SDATA(fills a gap)",
        "pyddsi SDATA(repeat)",
    ]
    copied = found[5].copy()
    assert copied[SData].columns == found[5][SData].columns
    assert copied[SData].columns["seq_event"] == 4
    assert SData().columns == {}


def asking(*messages: Packet) -> PyddsiPacket:
    """A packet."""
    return PyddsiPacket(messages=list(messages))


def test_acknack_answers() -> None:
    """sr() would wait for ever for the ACKNACK that it asked for, or take one for another conduit."""
    answer, other = asking(AckNack(sn=1)), asking(Conduit(conduit=2), AckNack(flags="M", sn=0))
    questions = [SData(flags="SR"), Declare(flags="S"), Synch(flags="S")]
    for question in questions:
        assert answer.answers(asking(question))
        assert answer.hashret() == asking(question).hashret()
        assert not other.answers(asking(question))
        assert other.hashret() != asking(question).hashret()
        moved = asking(Conduit(conduit=2), question)
        assert other.answers(moved)
        assert other.hashret() == moved.hashret()
        assert not asking(question).answers(answer)
    for silent in (SData(flags="R"), SData(flags="S"), Declare(), Synch(flags="R"), Ping(), Open()):
        assert not answer.answers(asking(silent))
    assert not asking(Pong()).answers(asking(SData(flags="SR")))


def test_frames_in_one_segment() -> None:
    """Of several frames in a segment only the first would be followed."""
    frames = [Frame() / asking(SData(flags="R", sn=n)) for n in (0, 1, 0)]
    head = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40000, dport=7447, flags="A", seq=1000)
    start = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40000, dport=7447, flags="S", seq=999)
    sent = [IP(bytes(packet)) for packet in (start, head / PyddsiStream(frames=frames))]
    found = sniff(offline=sent, session=PyddsiSession)
    events = Counter(m.columns["seq_event"] for m in messages_of(found[1]))
    assert events == {1: 1, 0: 1, 8: 1}
    assert wire.Stream().feed(bytes(found[1][TCP].payload)) == [
        bytes(p) for p in packets_of(found[1])
    ]
