"""
Messages at random: what is written is read as it was, by the core, by the second decoder and by the scapy layers.

PYDDSI_EXAMPLES counts lists of messages, 1,000 by default. hypothesis spends more time on an example than the codec on
a list, so one example is a batch of LISTS of them, cut from one run of random bytes: for 100,000 lists hypothesis makes
2,500 examples. Each test takes that many lists. What fails is shrunk as ever: the bytes of the other lists become zeros.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyddsi import wire
from pyddsi.scapy import PyddsiPacket
from pyddsi.wire import *  # noqa: F403 - a message's repr names its class
from tests.py import oracle
from tests.py.strategies import DECLARED, KINDS, ROWS, WIDTHS, Kind, Maker
from tests.py.test_scapy import check, layer

LISTS = 40
BYTES = 48  # choices for a list
EXAMPLES = int(os.environ.get("PYDDSI_EXAMPLES", "1000"))

batches = st.binary(min_size=LISTS * BYTES, max_size=LISTS * BYTES)
many = settings(
    max_examples=-(-EXAMPLES // LISTS),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def lists(choices: bytes, kind: Kind = "tolerant") -> list[list[wire.Message]]:
    """The lists of one batch."""
    return [
        Maker(choices[at : at + BYTES], kind).messages() for at in range(0, len(choices), BYTES)
    ]


@many
@given(batches)
def test_round_trip(choices: bytes) -> None:
    """A message would not come back as it was written, or the bytes hold what was never said."""
    made = lists(choices)
    packets = [wire.encode(messages) for messages in made]
    for messages, packet in zip(made, packets, strict=True):
        read = wire.decode(packet)
        assert read == messages
        assert wire.encode(read) == packet
        wanted = oracle.decode(packet)
        assert [oracle.plain(message) for message in read] == wanted
        assert oracle.encode(wanted) == packet
    rows = wire.columns(packets)
    assert not rows.faults
    assert rows.kind.tolist() == [message.KIND for messages in made for message in messages]


@many
@given(batches)
def test_correct_senders(choices: bytes) -> None:
    """What a correct sender writes would be refused by the strict reading, or by zhe though it is base protocol."""
    for messages in lists(choices, "strict"):
        packet = wire.encode(messages)
        assert wire.decode(packet, wire.STRICT) == messages
    for messages in lists(choices[: len(choices) // 4], "zhe"):
        packet = wire.encode(messages)
        assert wire.decode(packet, wire.ZHE) == messages
        assert wire.decode(packet, wire.STRICT) == messages


@many
@given(batches)
def test_scapy_layers(choices: bytes) -> None:
    """The scapy layers would craft other bytes than the core writes, or find another message in them."""
    for messages in lists(choices):
        packet = wire.encode(messages)
        assert bytes(PyddsiPacket(messages=[layer(message) for message in messages])) == packet
        assert not check(packet).payload


@settings(many, max_examples=-(-EXAMPLES // LISTS // 5))
@given(batches)
def test_text_forms(choices: bytes) -> None:
    """A message's repr would not be the call that makes it, or its line not be one line of text."""
    for messages in lists(choices):
        for message in messages:
            shown = repr(message)
            if len(shown) < 10_000:
                assert eval(shown) == message  # noqa: S307 - that is what a repr is for
            line = str(message)
            assert line.isascii()
            assert line.isprintable()
            assert line.startswith(message.NAME)


def test_everything_is_made() -> None:
    """The random lists would leave out a kind, a declaration, an absent or a present field, or a limit of a number."""
    source = random.Random(0)
    made: Counter[tuple[Kind, str]] = Counter()
    seen: defaultdict[tuple[str, str], set[Any]] = defaultdict(set)
    for kind in KINDS:
        for _ in range(12_000):
            for message in Maker(source.randbytes(BYTES), kind).messages():
                records = [message, *getattr(message, "declarations", ())]
                made.update((kind, record.NAME) for record in records)
                for record in records:
                    for name in record.FIELDS:
                        value = getattr(record, name)
                        seen[record.NAME, name].add(value if isinstance(value, int | None) else "")
    for row in [*ROWS, *DECLARED]:
        assert made["tolerant", row.name]
        assert made["strict", row.name]
        assert made["zhe", row.name] or row.part == "B" or row.marker
        for field in row.fields:
            values = seen[row.name, field.name]
            assert (None in values) == field.optional
            if field.type in WIDTHS:
                assert {0, 2 ** WIDTHS[field.type] - 1} <= values
        for flag in row.flags:
            if flag.name:
                assert seen[row.name, flag.name] == {False, True}


@pytest.mark.parametrize("kind", KINDS)
def test_simplest(kind: Kind) -> None:
    """The list that hypothesis shrinks to would not be a list of one small message."""
    assert [type(message) for message in Maker(b"", kind).messages()] == [wire.Scout]
