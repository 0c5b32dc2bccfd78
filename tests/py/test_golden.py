"""
What a real zhe sent, as captured: every packet is read to its last byte, as the list of the captures says and as a
second decoder reads it, and written again as it was.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pyddsi import cli, wire
from pyddsi._native import MESSAGES, spec
from tests.py import oracle
from tests.py.golden import CAPTURES, Entry, index, load

NAMES = sorted(index())

# Packets that are not as a correct sender writes them: file, number, bytes. Number 0 in three bytes is one.
LONG_FORMS = [("probes/malformed.pcap", 80, "47808000020161")]

# The packets of one file that no reading takes.
MALFORMED = [
    ("CUT", 3, "SDATA", "payload", "470002056162"),
    ("CUT", 1, "SDATA", "sn", "4780"),
    ("CUT", 1, "SDATA", "sn", "47"),
    ("LENGTH_WIDE", 3, "SDATA", "payload", "470002808004"),
    ("KIND_UNKNOWN", 10, None, None, "4700020178470102017900"),
]

# How many packets the list calls errors.
ERRORS = {
    "probes/malformed.pcap": 5,
    "probes/ping.pcap": 2,
    "probes/submode0.pcap": 2,
    "probes/unknown.pcap": 12,
}


@pytest.fixture(params=NAMES)
def entry(request: pytest.FixtureRequest) -> Entry:
    """Each file of the list in turn."""
    return index()[request.param]


def letters(kind: int, flags: int) -> str:
    """Flags as the list writes them."""
    row = spec(MESSAGES)[kind]
    if row.name == "CONDUIT":
        return ""
    return "".join(flag.letter for flag in row.flags if flags & flag.bit) or "-"


def test_all_files_are_listed() -> None:
    """A capture would lie in the folder that no test looks at, or the list name one that is not there."""
    assert sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap")) == NAMES
    assert len(NAMES) == 46
    assert {name: e.errors for name, e in index().items() if e.errors} == ERRORS


def test_packets(entry: Entry) -> None:
    """Packets or frames would be lost or made up between the file and the decoder."""
    packets = load(entry.name)
    assert len(packets) == entry.packets
    assert sum(packet.error is not None for packet in packets) == entry.errors
    if entry.largest is not None:
        assert max(len(packet.data) for packet in packets) == entry.largest


def test_total() -> None:
    """A file could be read as empty and its list changed to say so."""
    names = [name for name in NAMES if not name.startswith("probes/")]
    assert sum(len(load(name)) for name in names) == 17_724
    assert sum(len(packet.messages) for name in names for packet in load(name)) == 74_474


def test_nothing_left_over(entry: Entry) -> None:
    """Bytes of a packet would belong to no message, or to two."""
    for packet in load(entry.name):
        at = 0
        for message in packet.messages:
            assert message.at == at
            assert message.size > 0
            at += message.size
        assert at == len(packet.data) or packet.error is not None


def test_message_kinds(entry: Entry) -> None:
    """A message would be taken for one of another kind."""
    counts = Counter(message.NAME for packet in load(entry.name) for message in packet.messages)
    assert counts == entry.messages


def test_declaration_kinds(entry: Entry) -> None:
    """A declaration would be taken for another, or one of several in a message be lost."""
    counts = Counter(
        declaration.NAME
        for packet in load(entry.name)
        for message in packet.messages
        if isinstance(message, wire.Declare)
        for declaration in message.declarations
    )
    assert counts == entry.declarations


def test_flags(entry: Entry) -> None:
    """A flag would be read from a wrong bit, or a short marker as another conduit."""
    packets = load(entry.name)
    rows = wire.columns([packet.data for packet in packets])
    counts = Counter(
        f"{spec(MESSAGES)[kind].name}:{letters(kind, flags)}"
        for kind, flags in zip(rows.kind, rows.flags, strict=True)
    )
    counts += Counter(
        f"CONDUIT:{m.conduit}{'s' if not m.long and m.conduit in range(1, 5) else 'l'}"
        for packet in packets
        for m in packet.messages
        if isinstance(m, wire.Conduit)
    )
    given = {key: counts[key] for key in entry.flags}
    assert given == entry.flags


def test_errors_are_what_was_sent() -> None:
    """A bad packet of the probes would be refused for a reason that is not its own."""
    found = Counter(
        (name.removeprefix("probes/"), p.error.rule, p.error.kind, p.error.zhe)
        for name in ERRORS
        for p in load(name)
        if p.error is not None
    )
    unknown = {None: "KIND_UNKNOWN", "QUERY": "KIND_RESERVED", "SDATA DELTA": "KIND_RESERVED"}
    unknown |= {"BDATA DELTA": "KIND_RESERVED", "WDATA DELTA": "KIND_RESERVED"}
    extensions = ["BDATA", "PULL", "CONDUIT CLOSE", "FRAG", "MIGRATE", "RSPACE"]
    unknown |= dict.fromkeys(extensions, "KIND_EXTENSION")
    wanted = Counter(
        {
            ("unknown.pcap", rule, kind, "drops"): 1 + (kind is None)
            for kind, rule in unknown.items()
        }
    )
    wanted["ping.pcap", "NUMBER_WIDE", "PING", "ignores"] = 2
    wanted["submode0.pcap", "MODE", "DECLARE", "drops"] = 2
    assert {key: n for key, n in found.items() if key[0] != "malformed.pcap"} == wanted
    assert sum(n for key, n in found.items() if key[0] == "malformed.pcap") == 5


def test_malformed() -> None:
    """A number out of range, a cut message or a length over 16 bits would pass, or be blamed on another byte."""
    found = [
        (p.error.rule, p.error.at, p.error.kind, p.error.field, p.data.hex())
        for p in load("probes/malformed.pcap")
        if p.error is not None
    ]
    assert found == MALFORMED


def test_written_again(entry: Entry) -> None:
    """A message would be written otherwise than zhe writes it."""
    changed = [
        (entry.name, packet.number, packet.data.hex())
        for packet in load(entry.name)
        if packet.error is None and wire.encode(packet.messages) != packet.data
    ]
    assert changed == [known for known in LONG_FORMS if known[0] == entry.name]


def test_second_decoder_agrees(entry: Entry) -> None:
    """A field would hold another value than its bytes say, and be written back by the same mistake."""
    for packet in load(entry.name):
        try:
            wanted, fault = oracle.decode(packet.data, extensions=packet.extensions), None
        except oracle.OracleError as error:
            wanted, fault = error.done, (error.rule, error.at)
        assert [oracle.plain(message) for message in packet.messages] == wanted
        assert (packet.error and (packet.error.rule, packet.error.at)) == fault
        if fault is None and (entry.name, packet.number, packet.data.hex()) not in LONG_FORMS:
            assert oracle.encode(wanted) == packet.data


def test_correct_readings() -> None:
    """The strict reading, or zhe's own, would refuse what a real zhe sends."""
    for name in ("p2p_pubsub", "p2p_uri", "p2p_throughput", "p2p_three_peers", "mindeps_pubsub"):
        for packet in load(f"{name}.pcap"):
            assert wire.decode(packet.data, wire.STRICT) == packet.messages
            assert wire.decode(packet.data, wire.Reading("zhe", conduits=3)) == packet.messages
    lengths = {"v_seq7": 7, "v_seq28": 28, "small_pubsub": 7, "client_large_udp": 11}
    for name, bits in lengths.items():
        for packet in load(f"{name}.pcap"):
            reading = wire.Reading("zhe", seq_bits=bits)
            assert wire.decode(packet.data, reading) == packet.messages


def test_command_counts(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    """`pyddsi decode --count --json` would count otherwise than the list."""
    path = Path("captures") / entry.name
    assert cli.main(["decode", "--count", "--json", str(CAPTURES.parent / path)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == entry.messages
    assert not printed.err
