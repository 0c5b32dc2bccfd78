"""
The columns of the core's table of messages, held against what the page in plain Python says of the same packets.

    compare(path, packets)      every column of every message that is read; both ways, nothing left out

The two are written apart: the one in C over tables of fixed size, the other over dictionaries. They differ in one thing only, and
docs/inside/capture.md says which: the core forgets sooner when a number first came. `_Memory` says when it may.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyddsi import capture
from pyddsi.capture.flows import Columns
from tests.py.golden import Packet
from tests.py.tshark import followed

Row = dict[str, Any]

COLUMNS = (
    "kind",
    "solicit",
    "reliable",
    "conduit",
    "sn",
    "rid",
    "uri",
    "payload_len",
    "outstanding",
    "nack_mask",
    "nacked",
    "flow",
    "epoch",
    "usn",
    "seq_event",
    "gap",
    "since_first_us",
    "ack_usn",
    "answer_us",
    "delivery_us",
)
# What is 0 or false in the table where the page says nothing.
PLAIN = ("solicit", "reliable", "conduit", "payload_len", "nacked", "epoch", "gap")
FORGOTTEN = ("since_first_us", "delivery_us")
ALONE = 1024  # numbers whose times the core remembers of a flow that nobody acknowledges


@dataclass
class _Flow:
    acked: int | None = None  # somebody has everything below
    forgotten: int | None = None  # at least so many were too many, before somebody acknowledged
    highest: int | None = None


class _Memory:
    """What the core may have forgotten of each flow: what is acknowledged, and all but the last of one that nobody acknowledges."""

    def __init__(self) -> None:
        self.flows: dict[str, _Flow] = {}

    def see(self, columns: Columns) -> None:
        """A message that is behind us."""
        flow = self.flows.setdefault(columns.get("flow", ""), _Flow())
        if columns.get("seq_event") in {1, 6}:
            flow.acked = flow.forgotten = flow.highest = None
        if "usn" in columns:
            flow.highest = max(columns["usn"], flow.highest or columns["usn"])
            if flow.acked is None:
                flow.forgotten = flow.highest - ALONE
        if "ack_usn" in columns:
            flow.acked = max(columns["ack_usn"], flow.acked or columns["ack_usn"])

    def may_lack(self, columns: Columns) -> bool:
        """Whether the time that this message is about may be gone."""
        flow = self.flows.get(columns["flow"], _Flow())
        if "usn" in columns:
            number = columns["usn"]
            return (flow.acked is not None and number < flow.acked) or self._long_ago(flow, number)
        highest = columns["ack_usn"] if flow.highest is None else flow.highest + 1
        return self._long_ago(flow, min(columns["ack_usn"], highest) - 1)

    @staticmethod
    def _long_ago(flow: _Flow, number: int) -> bool:
        return flow.forgotten is not None and number <= flow.forgotten


def compare(path: Path, packets: list[Packet], seq_bits: int | None = None) -> dict[str, int]:
    """Every column of every message; answers how often each of those was forgotten that may be."""
    table = capture.open(path, seq_bits=seq_bits, keep_index=False).table(
        "messages", columns=["pkt", "decode", *COLUMNS]
    )
    rows = [row for row in table.to_pylist() if row["decode"] == 0]
    wanted = [
        (packet.number, row) for packet, found in followed(packets, seq_bits) for row in found
    ]
    assert [row["pkt"] for row in rows] == [number for number, _ in wanted]
    memory, lacks = _Memory(), dict.fromkeys(FORGOTTEN, 0)
    names: dict[int, str] = {}
    for row, (number, said) in zip(rows, wanted, strict=True):
        if said.get("flow") is not None:
            assert names.setdefault(row["flow"], said["flow"]) == said["flow"], (path.name, number)
        for column in FORGOTTEN:
            if row[column] is None and column in said and memory.may_lack(said):
                lacks[column] += 1
                row[column] = said[column]
        got = {column: row[column] for column in COLUMNS}
        assert got == {column: _as_row(column, said, row) for column in COLUMNS}, (path, number)
        memory.see(said)
    assert len(set(names.values())) == len(names), path
    return lacks


def _as_row(column: str, said: Columns, row: Row) -> Any:
    """A column of the page as the table has it."""
    value = said.get(column)
    if column == "flow" and value is not None:
        return row["flow"]  # a number there, a text here: held against each other above
    if column == "uri" and value is not None:
        data = value.encode("utf-8", "surrogateescape")
        return "".join(chr(byte) if 0x20 <= byte < 0x7F else "?" for byte in data)
    if value is None and column in PLAIN:
        return type(row[column])(0)
    if isinstance(value, int) and value >= 1 << 63:
        return value - (1 << 64) if value > 1 << 63 else None
    return value
