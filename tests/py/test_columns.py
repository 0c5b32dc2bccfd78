"""Many packets at once: the columns say what the messages say, whatever the packets are made of."""

from __future__ import annotations

import array
import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyddsi import wire
from pyddsi._native import columns
from tests.py.golden import distinct, index, load

SDATA = bytes.fromhex("670002023132")
BATCH = wire.BData(7, 5, [wire.Sample(b"a", rid=1), wire.Sample(b"", rid=2)], actual=True)


def rows_of(number: int, messages: list[wire.Message]) -> Iterator[tuple[int, ...]]:
    """What the columns must say of the messages of a packet, told from the messages."""
    for m in messages:
        head = wire.encode([m])[0]
        rid = getattr(m, "rid", None) or 0
        payload = getattr(m, "payload", None)
        size = 0 if payload is None else len(payload)
        at = 0 if payload is None else m.at + m.size - size
        yield (
            number,
            m.at,
            m.size,
            m.KIND,
            head & 0xE0,
            m.conduit,
            getattr(m, "sn", 0),
            2 * int(rid) + isinstance(rid, wire.SelectionId),
            at,
            size,
        )


@pytest.mark.parametrize("name", sorted(index()))
def test_columns_of_captures(name: str) -> None:
    """A column would say something else than the messages do, or stand in another row."""
    packets = load(name)
    base = [p for p in packets if not p.extensions]
    for some, reading in (
        (base, wire.Reading(extensions=False)),
        ([p for p in packets if p.extensions], wire.TOLERANT),
    ):
        found = wire.columns([p.data for p in some], reading)
        wanted = [row for i, p in enumerate(some) for row in rows_of(i, p.messages)]
        assert list(zip(*found[:-1], strict=True)) == wanted
        assert found.faults == [
            (i, p.error.rule, p.error.at) for i, p in enumerate(some) if p.error is not None
        ]


def test_columns_of_all_kinds() -> None:
    """A kind that no capture holds would get the fields of another, or of the message before it."""
    full = wire.SData(9, 8, b"payload", data_rid=7)
    others = [
        BATCH,
        wire.WData(3, "/a", b"p"),
        wire.Pull(4, 5, limit=6),
        wire.Migrate(1, 2, 3),
        wire.Migrate(1, 2, 3, rid=wire.SelectionId(4)),
        wire.ConduitClose(5),
        wire.Ping(6),
        wire.KeepAlive(b"x"),
        wire.Frag(7, fragments=8),
        wire.RSpace(9),
        wire.Conduit(65535),
    ]
    made = [message for other in others for message in (full, other)]
    read = wire.decode(wire.encode(made))
    found = wire.columns([wire.encode(made)])
    assert list(zip(*found[:-1], strict=True)) == list(rows_of(0, read))


def test_columns_types() -> None:
    """The columns would not be what numpy takes without a copy, or their items be of another size."""
    found = wire.columns([SDATA] * 1000)
    widths = {
        name: np.asarray(column).dtype.itemsize
        for name, column in found._asdict().items()
        if name != "faults"
    }
    assert widths == {
        "packet": 4,
        "at": 4,
        "size": 4,
        "kind": 1,
        "flags": 1,
        "conduit": 2,
        "sn": 8,
        "rid": 8,
        "payload_at": 4,
        "payload_size": 4,
    }
    assert np.asarray(found.packet).tolist() == list(range(1000))
    for empty in ([], [b""], [b"", b""]):
        found = wire.columns(empty)
        assert [len(column) for column in found] == [0] * 11


def test_columns_of_mixed_buffers() -> None:
    """A packet in other memory than bytes would be skipped or counted wrong; a fault hide the packets behind it."""
    packets = (
        SDATA,
        bytearray(SDATA),
        b"\0",
        memoryview(SDATA),
        b"\x0e",
        memoryview(array.array("H", SDATA)),
    )
    kinds: list[Any] = [packets, list(packets), iter(packets), type("Sub", (list,), {})(packets)]
    for given in kinds:
        found = wire.columns(given)
        assert found.packet.tolist() == [0, 1, 3, 5]
        assert found.faults == [(2, "KIND_UNKNOWN", 0), (4, "CUT", 1)]
        assert found.faults[0].rule == "KIND_UNKNOWN"


@pytest.mark.parametrize("wrong", [[7], ["text"], [None], [SDATA, 7], [[SDATA]], 7, None, SDATA])
def test_columns_of_wrong_types(wrong: Any) -> None:
    """What is no packet would be read all the same."""
    with pytest.raises(TypeError):
        wire.columns(wrong)
    with pytest.raises(BufferError):
        wire.columns([memoryview(SDATA)[::2]])


def test_columns_of_a_hostile_list() -> None:
    """A list that changes its mind while it is read would be read after its end."""

    class Changing(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            for packet in [SDATA, SDATA]:
                self.clear()
                yield packet

        def __len__(self) -> int:
            return 10**6

    assert wire.columns(Changing([SDATA] * 9)).kind.tolist() == [7, 7]


def test_bare_columns_check_their_arguments() -> None:
    """The compiled call would take any bytes for a prepared reading, and read behind them."""
    good = wire.TOLERANT.memory
    several: list[tuple[Any, ...]] = [
        (),
        ([],),
        ([], good, 1),
        ((), good),
        ([], good[:-1]),
        ([], good + b"x"),
        ([], bytearray(good)),
    ]
    for arguments in several:
        with pytest.raises(TypeError):
            columns(*arguments)


def test_columns_in_one_packet_larger_than_all_before() -> None:
    """The columns would not grow far enough for a packet of many messages."""
    packet = b"\x0e\0" * 100_000
    found = wire.columns([SDATA, packet, SDATA])
    assert len(found.kind) == 100_002
    assert found.at[-2] == 199_998
    assert found.packet[-1] == 2


def test_columns_memory() -> None:
    """Columns would hold far more than their rows, or leave a part of it behind."""
    packets = distinct()
    wire.columns(packets)
    gc.collect()
    tracemalloc.start()
    found = wire.columns(packets)
    held, _ = tracemalloc.get_traced_memory()
    rows = len(found.kind)
    del found
    gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * 40 * rows
    assert left < 10_000
