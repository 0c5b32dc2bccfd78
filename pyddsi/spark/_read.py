"""
What runs on an executor: a part becomes Arrow batches, filled by the core. No row is looked at in Python.

Before the first byte is decoded, what was planned is held against what is here: the version of pyddsi, and for each file that it
is there, long enough, and begins as it did. Most of what goes wrong on clusters is one of these.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from pyddsi._native import ffi, lib, text
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._capture import CaptureWarning
from pyddsi.capture._scan import Request, Scan, Settings
from pyddsi.errors import CaptureError
from pyddsi.spark._parts import Home, Part, Piece, Run, fingerprint

__all__ = ["MissingError", "read_part"]

FAILS = {"malformed", "unknown_kind", "truncated"}  # events that failfast stops at


class MissingError(CaptureError):
    """A file is not there, or is another one."""


def _check_home(home: Home) -> None:
    here = Home.here()
    if (here.version, here.layout) != (home.version, home.layout):
        raise CaptureError(
            f"{here.host} has pyddsi {here.version} (states of layout {here.layout}), and the query was planned on "
            f"{home.host} with pyddsi {home.version} (layout {home.layout}); install the same version everywhere, "
            f"`pyddsi spark doctor` shows where which is"
        )


def _check_file(piece: Piece, home: Home) -> None:
    host = platform.node()
    try:
        size = os.stat(piece.path).st_size  # noqa: PTH116 - errors are wanted, of whatever kind
        found = fingerprint(piece.path, piece.head[0])
    except OSError as error:
        if host == home.host:
            raise MissingError(
                f"{piece.path} was there when the query was planned, and cannot be read now ({error.strerror}); "
                f"was it moved, or deleted by who captures?"
            ) from None
        raise MissingError(
            f"{piece.path} is on {home.host}, where the query was planned, and cannot be read on {host}, where it is to be "
            f"read ({error.strerror}); put captures where every executor sees them under one name, such as a shared "
            f"folder; `pyddsi spark doctor PATH` shows who sees it"
        ) from None
    if found != piece.head or (size < (piece.stop or 0) and not piece.packed):
        where = "since the query was planned" if host == home.host else f"on {host}"
        raise MissingError(
            f"{piece.path} is another file {where} than it was on {home.host}: it "
            + ("begins differently" if found != piece.head else f"ends before byte {piece.stop}")
            + "; run the query again, or see that all hosts have the same file"
        )


# ---- what is bad ----


def _event_words() -> list[str]:
    words: list[str] = []
    while (word := lib.pyddsi_event_word(len(words))) != ffi.NULL:
        words.append(text(word))
    return words


def _offset_of(piece: Piece, number: int, settings: Settings) -> int | None:
    """Where a frame's record begins: slow, and for the text of an error."""
    scan = Scan(settings, Request("packets", ("offset",), where=f"pkt == {number}"))
    source = open_bytes(piece.path)
    try:
        for batches in (scan.rows(source, piece.range()), scan.finish(whole=False)):
            for batch in batches:
                found: int = pa.record_batch(batch).column(0)[0].as_py()
                return found
    finally:
        source.close()
    return None


def _fail(scan: Scan, piece: Piece) -> None:
    """With mode=failfast: raise if anything bad has come by."""
    facts = scan.facts()
    found = [
        (int(facts.event_packet[i]), word)
        for i, word in enumerate(_event_words())
        if word in FAILS and facts.event_packet[i]
    ]
    if found:
        number, word = min(found)
        raise CaptureError(
            f"{piece.path}: packet {number} at byte {_offset_of(piece, number, scan.settings)} is "
            f"{word.replace('_', ' ')}; with mode=permissive it is a row whose column decode says so"
        )
    for problem in scan.problems:
        raise CaptureError(f"{problem.text}; with mode=permissive it is read up to there")


# ---- reading ----


def _fitted(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches as Spark wants them: these columns in this order, and exactly its schema."""
    for batch in batches:
        made = pa.record_batch(batch)
        columns = [made.column(name.lower()) for name in schema.names]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_run(
    run: Run, part: Part, settings: Settings, *, failfast: bool, skip_missing: bool
) -> Iterator[Any]:
    scan = Scan(settings, part.request)
    for piece in run.pieces:
        try:
            _check_file(piece, part.home)
        except MissingError as error:
            if not skip_missing:
                raise
            warnings.warn(f"{error}; passed over (onMissing=skip)", CaptureWarning, stacklevel=2)
            continue
        try:
            source = open_bytes(piece.path)
            try:
                scan.begin(piece.number, piece.recording)
                yield from scan.rows(source, piece.range())
            finally:
                source.close()
        except CaptureError as error:
            nothing = not scan.facts().frames
            if failfast or part.whole or (part.alone and nothing):
                raise
            warnings.warn(f"{error}; it is read up to there", CaptureWarning, stacklevel=2)
        if failfast:
            _fail(scan, piece)
    yield from scan.finish(whole=run.whole)
    if failfast:
        _fail(scan, run.pieces[-1])
    if lack := scan.lack():
        warnings.warn(lack.text, CaptureWarning, stacklevel=2)


def read_part(
    part: Part, schema: pa.Schema, settings: Settings, *, failfast: bool, skip_missing: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a part."""
    _check_home(part.home)
    for run in part.runs:
        rows = _read_run(run, part, settings, failfast=failfast, skip_missing=skip_missing)
        yield from _fitted(rows, schema)
