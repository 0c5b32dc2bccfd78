"""
The table `files`: a row for each file, read by the executors, one recording each.

Whoever reads it has every large file indexed, side by side and where the files are, so that the planner of the next query
finds indexes. A file that cannot be read is a row with a problem, and no error: this is where one looks for it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyddsi._native import lib
from pyddsi.capture import Index
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._files import series_of
from pyddsi.capture._scan import NONE, Scan, Settings
from pyddsi.errors import CaptureError
from pyddsi.spark._options import Asked
from pyddsi.spark._parts import SPLIT_LEAST, Part, Piece

__all__ = ["file_key", "read_files", "recording_key"]

FORMATS = (None, "pcap", "pcapng")
LISTED = {"file", "key", "path", "recording"}  # known without a look into the file
BAD = (lib.PYDDSI_DECODE_TRUNCATED, lib.PYDDSI_DECODE_MALFORMED, lib.PYDDSI_DECODE_UNKNOWN)


def file_key(path: str) -> int:
    """What a stream calls a file: a number of its path, since places in a list change while files come and go."""
    whole = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
    return zlib.crc32(os.fsencode(whole)) & 0x7FFFFFFF


def recording_key(path: str, chain: str) -> int:
    """What a stream calls the recording that a file is of: a number of what the names of its files share."""
    folder = str(Path(path).parent)
    shared = {"on": folder, "off": path}.get(chain) or "\n".join(series_of(path)[:2])
    return zlib.crc32(os.fsencode(shared)) & 0x7FFFFFFF


def _after(scan: Scan | None, settings: Settings) -> Scan:
    """A scan that goes on where another one ended, and counts from 0."""
    made = Scan(settings)
    if scan is not None:
        made.restore(scan.snapshot())
    return made


def _facts(scan: Scan) -> dict[str, Any]:
    """What a file adds up to, as far as it was read."""
    facts = scan.facts()
    first, last = facts.first_ns, facts.last_ns
    return {
        "format": FORMATS[facts.container],
        "link": facts.link if facts.frames else None,
        "first_ts": None if first == NONE else first // 1000,
        "first_ns": None if first == NONE else first,
        "last_ts": None if last == NONE else last // 1000,
        "last_ns": None if last == NONE else last,
        "frames": facts.frames,
        "packets": facts.packets,
        "messages": facts.messages,
        "evicted": facts.evicted,
        "malformed": sum(facts.by_decode[i] for i in BAD),
    }


def _looked_at(piece: Piece, scan: Scan) -> tuple[dict[str, Any], list[str]]:
    """What a look into a file tells, and what is wrong with it."""
    found: dict[str, Any] = {}
    wrong: list[str] = []
    try:
        found["size"] = Path(piece.path).stat().st_size
        source = open_bytes(piece.path)
    except (OSError, CaptureError) as error:
        return found, [str(error)]
    found["packed"] = source.packed or None
    try:
        scan.begin(piece.number)
        for _ in scan.rows(source):
            pass
    except CaptureError as error:
        wrong.append(str(error))
    finally:
        source.close()
    found |= _facts(scan)
    wrong += [problem.text for problem in scan.problems]
    if lack := scan.lack():
        wrong.append(lack.text)
    if source.seekable and not wrong:
        found["truncated_tail"] = 0
    elif source.seekable and scan.problems:
        found["truncated_tail"] = found["size"] - scan.facts().bytes
    return found, wrong


def _indexes(asked: Asked, pieces: tuple[Piece, ...]) -> dict[str, Index]:
    """The indexes that queries of this recording will want, by file; made now if there are none."""
    if asked.split != "index" or not asked.settings.get("keep_index", True):
        return {}
    try:
        if sum(Path(piece.path).stat().st_size for piece in pieces) <= (
            asked.split_bytes or SPLIT_LEAST
        ):
            return {}
        made = asked.open(tuple(piece.path for piece in pieces)).indexes()
    except (OSError, CaptureError):  # packed or damaged, as a look into it will tell
        return {}
    return {index.name: index for index in made}


def read_files(part: Part, schema: pa.Schema, asked: Asked, settings: Settings) -> Iterator[Any]:
    """The rows of one recording."""
    rows: list[dict[str, Any]] = []
    deep = not {name.lower() for name in schema.names} <= LISTED
    for run in part.runs:
        indexes = _indexes(asked, run.pieces) if deep else {}
        scan: Scan | None = None
        for piece in run.pieces:
            found: dict[str, Any] = {
                "file": piece.number,
                "key": file_key(piece.path),
                "path": piece.path,
                "recording": run.pieces[0].number,
            }
            if deep:
                scan = _after(scan, settings)
                looked, wrong = _looked_at(piece, scan)
                index = indexes.get(piece.path)
                wrong += [] if index is None else [one.text for one in index.problems]
                found |= looked
                found["index"] = "none" if index is None else index.origin
                found["chunks"] = None if index is None else len(index.chunks)
                found["problem"] = "; ".join(dict.fromkeys(wrong)) or None
            rows.append({name: found.get(name.lower()) for name in schema.names})
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)
