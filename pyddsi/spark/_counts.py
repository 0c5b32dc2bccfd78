"""
The table `counts`: what each part of a capture adds up to, name by name, and what is wrong with it.

It is the report's (report.py), which adds the parts up: `pyddsi/capture/_tally.py` says which counts there are and what two of them
are together. Its rows are some dozens for each part, whatever that holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._scan import Range, Scan, Settings
from pyddsi.capture._tally import Count, counts_of
from pyddsi.errors import CaptureError
from pyddsi.spark._parts import Part, Run
from pyddsi.spark._read import _check_file, _check_home

__all__ = ["read_counts"]

Row = dict[str, Any]


def _row(file: int, count: Count, text: str | None = None) -> Row:
    file, packet = count.first or (file, None)
    return {"file": file, "name": count.name, "value": count.value, "pkt": packet, "text": text}


def _read(run: Run, part: Part, settings: Settings) -> Iterator[Row]:
    scan = Scan(settings, tally=True)
    before = None
    for piece in run.pieces:
        _check_file(piece, part.home)
        source = open_bytes(piece.path)
        try:
            scan.begin(piece.number, piece.recording)
            own = piece.range()
            if own.snapshot is not None:
                if not scan.restore(own.snapshot):
                    raise CaptureError(
                        f"{piece.path}: the state at byte {own.start} is damaged; run the query again"
                    )
                before = scan.facts()
            for _ in scan.rows(source, Range(own.start, own.stop)):
                pass
        finally:
            source.close()
    for _ in scan.finish(whole=run.whole):
        pass
    file = run.pieces[-1].number
    for count in counts_of(scan, before):
        yield _row(file, count)
    for problem in scan.problems:
        yield _row(file, Count(f"problem.{problem.kind}", 1), f"{problem.file}\n{problem.text}")


def read_counts(part: Part, schema: pa.Schema, settings: Settings) -> Iterator[pa.RecordBatch]:
    """The rows of a part."""
    _check_home(part.home)
    rows = [row for run in part.runs for row in _read(run, part, settings)]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)
