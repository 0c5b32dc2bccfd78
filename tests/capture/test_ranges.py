"""Captures read in parts: any cut into ranges gives the rows of the whole."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.capture.rows import Row, cut, key, rows
from tests.capture.traffic import traffic, write
from tests.py.golden import CAPTURES, index

ORDERED = ("packets", "messages", "declarations")
WHOLE_ROWS = (*ORDERED, "events", "sessions", "resources")
CUTS = 3


def offsets(rand: random.Random, path: Path) -> list[int]:
    """Some places in a file."""
    size = path.stat().st_size
    return sorted(rand.randrange(24, size) for _ in range(rand.randrange(1, 9)))


def check(path: Path, seed: int) -> None:
    """Every table of a file, whole and in parts."""
    rand = random.Random(seed)
    whole = {table: rows(path, table) for table in (*WHOLE_ROWS, "flows", "rates", "endpoints")}
    for _ in range(CUTS):
        parts = cut(path, offsets(rand, path))
        for table in WHOLE_ROWS:
            found = rows(path, table, parts)
            if table in ORDERED:
                assert found == whole[table], table
            else:
                assert sorted(map(key, found)) == sorted(map(key, whole[table])), table
        assert added_flows(rows(path, "flows", parts)) == added_flows(whole["flows"])
        assert added(rows(path, "rates", parts), ("window", "flow", "rid", "kind")) == added(
            whole["rates"], ("window", "flow", "rid", "kind")
        )


def added(found: list[Row], keys: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, int]]:
    """Rows that stand for the same thing, added up."""
    sums: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in found:
        for name, value in row.items():
            if name not in keys and name != "file":
                sums[tuple(row[k] for k in keys)][name] += value
    return {k: dict(v) for k, v in sums.items()}


LEAST = {"first_ns", "first_usn", "gap_pkt", "repeat_pkt"}
MOST = {"last_ns", "last_usn", "outstanding_max"}
SAME = {
    "file",
    "src_ep",
    "dst_ep",
    "multicast",
    "conduit",
    "reliable",
    "seq_bits",
    "src",
    "dst",
    "flow",
    "epoch",
}


def added_flows(found: list[Row]) -> dict[tuple[int, int], dict[str, Any]]:
    """Flows are added up as the page of the tables says: least, greatest, sum."""
    sums: dict[tuple[int, int], dict[str, Any]] = {}
    for row in found:
        into = sums.setdefault((row["flow"], row["epoch"]), dict.fromkeys(row))
        for name, value in row.items():
            before = into[name]
            if value is None or before is None:
                into[name] = value if before is None else before
            elif name in LEAST:
                into[name] = min(before, value)
            elif name in MOST:
                into[name] = max(before, value)
            elif name.endswith("_hist"):
                into[name] = [a + b for a, b in zip(before, value, strict=True)]
            elif name not in SAME and name != "packets":
                into[name] = before + value
    for into in sums.values():
        del into["packets"]  # a TCP packet may be in two ranges
    return sums


@pytest.mark.parametrize("name", sorted(index()))
def test_golden(name: str) -> None:
    """A table of a capture of zhe would depend on where the file is cut, so Spark would give another answer than one reader."""
    check(CAPTURES / name, len(name))


@pytest.mark.parametrize("seed", range(12))
def test_made_up(tmp_path: Path, seed: int) -> None:
    """The same with wrap-around at every length, gaps, fills, repeats and one flow that has most of it."""
    bits = (7, 14, 28, 56)[seed % 4]
    made = traffic(
        seed, bits=bits, packets=400, loss=0.1, repeat=0.1, skew=0.9 if seed % 3 == 0 else 0.0
    )
    check(write(tmp_path / "made.pcap", made.frames), seed)


def test_books(tmp_path: Path) -> None:
    """What the core counts would not be what was put in."""
    for seed in range(8):
        made = traffic(seed, bits=(7, 14, 28, 56)[seed % 4], packets=500, loss=0.1, repeat=0.1)
        found = rows(write(tmp_path / f"{seed}.pcap", made.frames), "messages")
        data = [row for row in found if row["kind"] == 7]
        events = [row["seq_event"] for row in data]
        assert len(data) == made.samples
        assert sum(row["gap"] for row in data) == made.passed_over
        assert events.count(4) == made.filled
        assert events.count(3) + events.count(8) == made.repeated
