"""Rows of tables for the tests: whole, and cut into ranges at any place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from pyddsi._native import lib
from pyddsi.capture import columns
from pyddsi.capture._bytes import Window, open_bytes
from pyddsi.capture._scan import Range, Request, Scan, Settings

Row = dict[str, Any]


def everything(table: str) -> tuple[str, ...]:
    """All columns of a table."""
    return tuple(column.name for column in columns(table))


def rows(
    path: Path,
    table: str,
    parts: list[Range] | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> list[Row]:
    """The rows of a file, read at once or part by part, each part by a scan of its own."""
    found: list[Row] = []
    request = Request(table, everything(table), **options)
    for i, part in enumerate(parts or [None]):
        scan = Scan(settings or Settings(), request)
        source = open_bytes(path)
        try:
            if part is None:
                scan.begin(0)
            for batch in scan.rows(source, part):
                found += pa.record_batch(batch).to_pylist()
            whole = parts is None or i == len(parts) - 1
            for batch in scan.finish(whole=whole):
                found += pa.record_batch(batch).to_pylist()
        finally:
            source.close()
    return found


def cut(path: Path, offsets: list[int], settings: Settings | None = None) -> list[Range]:
    """Ranges that begin at the first boundary at or behind each of these bytes, with the state there."""
    scan = Scan(settings or Settings())
    scan.begin(0)
    source = open_bytes(path)
    window = Window(source)
    used = scan.used
    parts: list[Range] = []
    last, snapshot, at = 0, scan.snapshot(), 0
    for offset in offsets:
        lib.pyddsi_scan_limit(scan.raw, offset)
        status = lib.PYDDSI_OK
        while status != lib.PYDDSI_END:
            status = lib.pyddsi_scan_input(scan.raw, window.pointer, window.left, used)
            assert status in {lib.PYDDSI_OK, lib.PYDDSI_END}
            window.at += used[0]
            at += used[0]
            if status == lib.PYDDSI_OK and not window.fill():
                break
        parts.append(Range(last, at, snapshot))
        last, snapshot = at, scan.snapshot()
    source.close()
    return [*parts, Range(last, None, snapshot)]


def key(row: Row) -> str:
    """To compare rows whatever their order."""
    return str(sorted(row.items()))
