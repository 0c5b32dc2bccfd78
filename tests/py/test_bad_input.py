"""
Bytes that are no packet: numbers and lengths at their limits, packets cut at every place and with every bit flipped.
What must come out is the messages before the fault, the rule, and the byte that is wrong.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from typing import Any

import pytest

from pyddsi import wire
from pyddsi._native import ffi
from tests.py import oracle
from tests.py.golden import distinct, shapes
from tests.py.strategies import Maker

RULES = {
    label.removeprefix("PYDDSI_RULE_") for label in ffi.typeof("enum pyddsi_rule").elements.values()
}
READINGS = {
    "tolerant": wire.TOLERANT,
    "strict": wire.STRICT,
    "zhe": wire.Reading("zhe", conduits=3),
    "base": wire.Reading(extensions=False, seq_bits=14, rid_bits=16),
}


# ---- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [7, 11, 14, 28, 56])
def test_sequence_number_limits(bits: int) -> None:
    """The largest number of a length would be refused, or the first that is over it taken."""
    for strictness in ("tolerant", "strict", "zhe"):
        reading = wire.Reading(strictness, seq_bits=bits)
        most = [wire.SData(2**bits - 1, 1, b""), wire.Synch(0, count=2**bits - 1)]
        assert wire.decode(wire.encode(most), reading) == most
        over: list[tuple[wire.Message, str]] = [
            (wire.SData(2**bits, 1, b""), "sn"),
            (wire.Synch(0, count=2**bits), "count"),
            (wire.AckNack(2**64 - 1), "sn"),
        ]
        for message, name in over:
            with pytest.raises(wire.WireError) as caught:
                wire.decode(wire.encode([message]), reading)
            assert (caught.value.rule, caught.value.field) == ("SN_RANGE", name)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_id_limits(bits: int) -> None:
    """An id that fits the receiver's width would be refused, or one that does not be taken."""
    for strictness in ("tolerant", "strict", "zhe"):
        reading = wire.Reading(strictness, rid_bits=bits)
        most = wire.SData(0, 2 ** (bits - 1) - 1, b"")
        assert wire.decode(wire.encode([most]), reading) == [most]
        packet = b"\x07\0" + oracle.number(2**bits) + b"\0"
        with pytest.raises(wire.WireError) as caught:
            wire.decode(packet, reading)
        assert (caught.value.rule, caught.value.at) == ("ID_WIDE", 2)


@pytest.mark.parametrize(("bits", "most"), [(7, 2), (8, 2), (14, 3), (16, 3), (28, 5), (56, 10)])
def test_long_forms(bits: int, most: int) -> None:
    """A number in more bytes than its integer on zhe's side has would be taken, or one in fewer refused."""
    for size in range(2, 12):
        packet = b"\x0e" + bytes([0x85] + [0x80] * (size - 2) + [0])
        reading = wire.Reading(seq_bits=bits)
        if size <= most:
            assert wire.decode(packet, reading) == [wire.Synch(5)]
            with pytest.raises(wire.WireError) as caught:
                wire.decode(packet, wire.Reading("strict", seq_bits=bits))
            assert (caught.value.rule, caught.value.at) == ("NUMBER_LONG_FORM", 1)
        else:
            with pytest.raises(wire.WireError) as caught:
                wire.decode(packet, reading)
            assert (caught.value.rule, caught.value.at) == ("SN_RANGE", 1)


def test_vector_limits() -> None:
    """A vector or list of 65,535 would be refused, or one more be taken."""
    whole = wire.SData(0, 1, bytes(65535))
    assert wire.decode(wire.encode([whole])) == [whole]
    many = wire.Hello(0, [""] * 65535)
    assert wire.decode(wire.encode([many])) == [many]
    for message, name in (
        (wire.SData(0, 1, bytes(65536)), "payload"),
        (wire.Hello(0, [""] * 65536), "locators"),
        (wire.WData(0, "x" * 65536, b""), "uri"),
    ):
        with pytest.raises(wire.WireError) as caught:
            wire.encode([message])
        assert (caught.value.rule, caught.value.field) == ("LENGTH_WIDE", name)


def test_peer_id_limits() -> None:
    """A peer id of 16 bytes would be refused by the strict reading, or one of 17 taken."""
    for size in range(20):
        packet = wire.encode([wire.KeepAlive(bytes(size))])
        if 1 <= size <= 16:
            wire.decode(packet, wire.STRICT)
        else:
            with pytest.raises(wire.WireError, match="a peer id has 1 to 16 bytes"):
                wire.decode(packet, wire.STRICT)


def test_overflow_before_the_end() -> None:
    """A number that is over its field already would be called cut, and a stream wait for the rest of it."""
    for packet, bits in (("0e8090", 11), ("0effffc0", 20), ("0e808080f0", 27)):
        with pytest.raises(wire.WireError) as caught:
            wire.decode(bytes.fromhex(packet), wire.Reading(seq_bits=bits))
        assert (caught.value.rule, caught.value.at) == ("SN_RANGE", 1)


# ---- damage -------------------------------------------------------------------------------------------------------


def made(count: int, seed: int) -> list[bytes]:
    """Packets with messages of all kinds, also of those that no capture holds."""
    source = random.Random(seed)
    found: list[bytes] = []
    while len(found) < count:
        packet = wire.encode(Maker(source.randbytes(64)).messages())
        if len(packet) <= 100:
            found.append(packet)
    return found


def check_prefixes(data: bytes) -> None:
    """Every beginning of a whole packet gives the messages before the cut, and the field that does not fit."""
    reader = oracle.Reader(data)
    ends = [m["place"][0] + m["place"][1] for m in oracle.decode(data, reader=reader)]
    starts = [0, *ends]
    rows = wire.columns([data[:cut] for cut in range(len(data))])
    counts = [0] * len(data)
    for packet in rows.packet:
        counts[packet] += 1
    assert counts == [bisect_right(ends, cut) for cut in range(len(data))]
    wanted = [
        (cut, "CUT", reader.starts[bisect_right(reader.starts, cut) - 1])
        for cut in range(len(data))
        if cut not in starts
    ]
    assert rows.faults == wanted


def test_every_truncation() -> None:
    """A packet that was cut would lose more than its last message, or be blamed on a field that is whole."""
    for data in distinct():
        if len(data) <= 200:
            check_prefixes(data)
    for data in shapes(each=8) + made(500, seed=1):
        check_prefixes(data)


def flips(data: bytes) -> list[bytes]:
    """The packet with each bit flipped."""
    number = int.from_bytes(data, "big")
    return [(number ^ 1 << bit).to_bytes(len(data), "big") for bit in range(8 * len(data))]


def oracle_answer(data: bytes, *, extensions: bool) -> tuple[list[Any], tuple[str, int] | None]:
    """What the second decoder makes of it."""
    try:
        return oracle.decode(data, extensions=extensions), None
    except oracle.OracleError as error:
        return error.done, (error.rule, error.at)


def answer(data: bytes, reading: wire.Reading) -> tuple[list[wire.Message], tuple[str, int] | None]:
    """What the core makes of it, as whole as it goes."""
    try:
        return wire.decode(data, reading), None
    except wire.WireError as error:
        assert error.rule in RULES
        assert 0 <= error.at <= len(data)
        assert error.zhe
        return error.messages, (error.rule, error.at)


def test_every_flip_is_read_alike() -> None:
    """A damaged packet would be read as something that its bytes do not say, or the fault be seen elsewhere."""
    for data in shapes(each=3) + made(60, seed=2):
        for damaged in flips(data):
            messages, fault = answer(damaged, wire.TOLERANT)
            wanted = oracle_answer(damaged, extensions=True)
            assert ([oracle.plain(message) for message in messages], fault) == wanted
            again = wire.encode(messages)
            assert wire.decode(again) == messages


def test_every_flip_in_every_reading() -> None:
    """A damaged packet would be read outside its bytes; or a strict reading take what the tolerant one refuses."""
    for data in shapes(each=3) + made(60, seed=3):
        damaged = flips(data)
        rows = {name: wire.columns(damaged, reading) for name, reading in READINGS.items()}
        faulty = {name: {fault.packet for fault in r.faults} for name, r in rows.items()}
        for name, found in rows.items():
            for fault in found.faults:
                assert fault.rule in RULES
                assert fault.at <= len(data)
            assert len(faulty[name]) == len(found.faults)
            assert all(
                at + size <= len(data)
                for at, size in zip(found.payload_at, found.payload_size, strict=True)
            )
            assert faulty[name] >= faulty["tolerant"] or name == "zhe"  # zhe takes a wide PING
        for i in set(range(len(damaged))) - faulty["strict"]:
            assert wire.encode(wire.decode(damaged[i], wire.STRICT)) == damaged[i]


def test_random_bytes() -> None:
    """Bytes without any sense would be read differently by the two decoders."""
    source = random.Random(4)
    heads = [k for k in range(256) if k % 32 in oracle.KINDS]
    for _ in range(20_000):
        data = bytes([source.choice(heads)]) + source.randbytes(source.randrange(12))
        messages, fault = answer(data, wire.TOLERANT)
        wanted = oracle_answer(data, extensions=True)
        assert ([oracle.plain(message) for message in messages], fault) == wanted
