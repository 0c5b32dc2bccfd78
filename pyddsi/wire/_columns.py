"""Many packets at once: every message a row, every field an array, and no Python object in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyddsi._native import columns as native_columns
from pyddsi._native import lib, text
from pyddsi.wire._reading import TOLERANT, Reading
from pyddsi.wire._record import Buffer


class Fault(NamedTuple):
    """Where the walk over a packet ended early."""

    packet: int
    rule: str
    at: int


class Columns(NamedTuple):
    """
    The messages of many packets. Each column is a memoryview of integers (numpy.asarray takes it without a copy).

    packet: the packet that the message is in, counted from 0
    at, size: its place in that packet
    kind, flags: as in its header byte
    conduit: the conduit in force
    sn, rid: 0 where the kind has none; rid as on the wire, twice the id
    payload_at, payload_size: where in the packet the payload is
    faults: the packets that broke a rule; their messages up to the fault are rows
    """

    packet: memoryview
    at: memoryview
    size: memoryview
    kind: memoryview
    flags: memoryview
    conduit: memoryview
    sn: memoryview
    rid: memoryview
    payload_at: memoryview
    payload_size: memoryview
    faults: list[Fault]


_FORMATS: Any = "IIIBBHQQII"  # of the columns in order, as memoryview.cast has them


def columns(packets: Sequence[Buffer], reading: Reading = TOLERANT) -> Columns:
    """Decode all packets into columns. A packet that breaks a rule is listed in `faults`, never raised."""
    listed: list[Any] = packets if type(packets) is list else list(packets)
    *arrays, faults = native_columns(listed, reading.memory)
    views: list[Any] = [
        memoryview(array).cast(code) for array, code in zip(arrays, _FORMATS, strict=True)
    ]
    named = [Fault(packet, text(lib.pyddsi_rule_name(rule)), at) for packet, rule, at in faults]
    return Columns._make([*views, named])
