"""Tables that need no numbers are read without following any: they have the rows that following them gives."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyddsi import capture
from pyddsi._native import lib
from pyddsi.capture import _found
from pyddsi.capture._bytes import Bytes, open_bytes
from pyddsi.capture._scan import Request, Scan, Settings
from pyddsi.errors import CaptureError
from tests.capture.rows import Row, everything
from tests.capture.traffic import traffic, write
from tests.py.golden import CAPTURES, index

TABLES = ("packets", "resources", "declarations")
MUTATIONS = 6
HEADER, UDP = 24, 17


def read(path: Path, table: str, *, follow: bool) -> tuple[list[Row], dict[str, Any], str]:
    """Rows of a file, what was counted beside them, and the error that ended it. A scan that adds things up follows all of them."""
    scan = Scan(Settings(), Request(table, everything(table)), tally=follow)
    scan.begin(0)
    found: list[Row] = []
    error = ""
    source = open_bytes(path)
    try:
        for batch in scan.rows(source):
            found += pa.record_batch(batch).to_pylist()
    except CaptureError as broken:
        error = str(broken)
    finally:
        source.close()
    for batch in scan.finish():
        found += pa.record_batch(batch).to_pylist()
    facts = scan.facts()
    counts = {
        "packets": facts.packets,
        "messages": facts.messages,
        "kinds": list(facts.by_kind),
        "decode": list(facts.by_decode),
    }
    return found, counts, error


def check(path: Path) -> None:
    """Both ways give the same rows, and a datagram has as many messages as the table of messages has."""
    for table in TABLES:
        assert read(path, table, follow=False) == read(path, table, follow=True), table
    packets, _, _ = read(path, "packets", follow=False)
    messages, _, _ = read(path, "messages", follow=True)
    counted: Counter[int] = Counter()
    for row in messages:
        counted[row["pkt"]] += row["decode"] == lib.PYDDSI_DECODE_OK
    for row in packets:
        if row["transport"] == UDP:
            assert row["messages"] == counted[row["pkt"]], row


def mutated(rand: random.Random, data: bytes) -> bytes:
    """A capture whose bytes are changed here and there, behind its header."""
    out = bytearray(data)
    for _ in range(rand.randrange(1, 60)):
        at = rand.randrange(HEADER, len(out))
        out[at] = rand.choice((0, 0xFF, rand.randrange(256), out[at] ^ 1 << rand.randrange(8)))
    return bytes(out)


@pytest.mark.parametrize("name", index())
def test_golden(name: str, tmp_path: Path) -> None:
    """The captures of the reference, over UDP and TCP, as they are and damaged."""
    check(CAPTURES / name)
    rand = random.Random(name)
    data = (CAPTURES / name).read_bytes()[: 1 << 18]
    path = tmp_path / "mutated.pcap"
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(rand, data))
        check(path)


@pytest.mark.parametrize("seed", range(8))
def test_made_up(seed: int, tmp_path: Path) -> None:
    """The same with losses, repeats and numbers that wrap; packets of which nothing but the end is wrong among them."""
    made = traffic(seed, bits=(7, 14, 28, 56)[seed % 4], packets=300, loss=0.1, repeat=0.1)
    path = write(tmp_path / "made.pcap", made.frames)
    check(path)
    rand = random.Random(seed)
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(rand, path.read_bytes()))
        check(path)


def test_info_reads_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers without a name would cost a second pass, where no name was ever taken back that might have been theirs."""
    path = write(tmp_path / "made.pcap", traffic(1, packets=100).frames)
    opened: list[object] = []

    def counted(source: Any) -> Bytes:
        opened.append(source)
        return open_bytes(source)

    monkeypatch.setattr(_found, "open_bytes", counted)
    info = capture.open(path).info()
    assert [one.uri for one in info.resources] == [""] * len(info.resources)
    assert info.resources
    assert opened == [str(path)]
