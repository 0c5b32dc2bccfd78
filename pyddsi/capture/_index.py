"""
The index of a capture: where chunks of it begin, when they are, and the state at their start.

    file      │ chunk 0 │ chunk 1 │ chunk 2 │ ...        every 8 MiB, at a boundary between two frames
    index     offset, first frame, earliest and latest time, and a snapshot for each

With it a file is read by many at once, each from its own place, and each gives the rows that one reader of the whole would
have given there. It is made in one walk over the file, and kept beside it (or in a cache folder where that cannot be written),
for the next time.

Nothing is believed of a kept index: it must have been made by this version, with these settings, for a file that has the same
first bytes and the same last record; checksums cover all of it. Otherwise it is made anew, and replaced in one step. If the
file has only grown, the walk goes on from the last chunk.

Layout: a line of JSON, which names the sizes and checksums of what follows it; then the snapshots, each packed by zlib.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyddsi
from pyddsi._native import lib
from pyddsi.capture._bytes import Bytes, Window, open_bytes
from pyddsi.capture._scan import NONE, Problem, Range, Scan, Settings
from pyddsi.errors import CaptureError

__all__ = ["CHUNK_BYTES", "Chunk", "Index", "index_of"]

STATE_SMALL, STATE_SHARE = 1 << 20, 4  # bytes of the file for each that a state is larger
CHUNK_BYTES = 8 * 1024 * 1024
FORMAT = 1
MAGIC = "pyddsi capture index"
SUFFIX = ".pyddsi-index"
HEAD_BYTES = 4096
TAIL_BYTES = 4096
LINE_MAX = 64 * 1024 * 1024


class Chunk(NamedTuple):
    """A part of a file between two frames."""

    offset: int
    frames_before: int
    first_ns: int
    """The earliest time in it; none has any: -2**63."""
    last_ns: int


class States:
    """What is known at the start of each chunk, packed: a large file has thousands of chunks, and a query needs a few."""

    __slots__ = ("packed",)

    def __init__(self, packed: Iterable[bytes] = ()) -> None:
        self.packed = list(packed)

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, at: int) -> bytes:
        try:
            return zlib.decompress(self.packed[at])
        except zlib.error:
            raise CaptureError(
                "an index has a state that is none; it is made anew if you delete it"
            ) from None

    def append(self, state: bytes) -> None:
        """Of the next chunk."""
        self.packed.append(zlib.compress(state, 1))


@dataclass
class Index:
    """
    What is known of a file.

    name: the file
    file_size: of the file when the index was made
    size: how much of it is indexed; the rest is an incomplete record
    chunks, snapshots: where each begins, and the state there
    end: the state at the end, from which the next file goes on
    """

    name: str
    file_size: int = 0
    size: int = 0
    frames: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    snapshots: States = field(default_factory=States)
    end: bytes = b""
    problems: list[Problem] = field(default_factory=list)
    origin: str = "built"
    """How it came about: built, read, or extended; rebuilt if one was there and did not fit."""

    def ranges(
        self, bytes_each: int, start_ns: int = NONE, stop_ns: int = 2**63 - 1
    ) -> list[Range]:
        """Parts of about this size that cover all chunks with frames in a time range. The last one ends the file."""
        parts: list[Range] = []
        last = len(self.chunks) - 1
        for i, chunk in enumerate(self.chunks):
            outside = chunk.last_ns < start_ns or chunk.first_ns >= stop_ns
            if outside and chunk.last_ns != NONE:
                continue
            stop = self.chunks[i + 1].offset if i < last else None
            if (
                parts
                and parts[-1].stop == chunk.offset
                and chunk.offset - parts[-1].start < bytes_each
            ):
                parts[-1].stop = stop
            else:
                parts.append(Range(chunk.offset, stop, self.snapshots[i]))
        return parts


# ---- making one ----


def _walk(source: Bytes, scan: Scan, index: Index, progress: Callable[[int], None] | None) -> None:
    """Advance over what is not indexed yet, with a stop at each chunk."""
    scan.name = source.name
    raw, used = scan.raw, scan.used
    window = Window(source)
    at = index.chunks[-1].offset
    next_at = at + CHUNK_BYTES
    lib.pyddsi_scan_limit(raw, next_at)
    before = index.chunks[-1].frames_before
    while True:
        status = lib.pyddsi_scan_input(raw, window.pointer, window.left, used)
        window.at += used[0]
        at += used[0]
        if status == lib.PYDDSI_END:
            facts = scan.facts()
            index.chunks[-1] = index.chunks[-1]._replace(
                first_ns=facts.range_first_ns, last_ns=facts.range_last_ns
            )
            index.chunks.append(Chunk(at, before + facts.frames, NONE, NONE))
            state = scan.snapshot()
            index.snapshots.append(state)
            # where thousands are followed a state is large: the index stays a small part of its file
            next_at = at + CHUNK_BYTES + STATE_SHARE * max(0, len(state) - STATE_SMALL)
            lib.pyddsi_scan_limit(raw, next_at)
            if progress is not None:
                progress(at)
        elif status != lib.PYDDSI_OK:
            raise scan.damaged(source)
        elif not scan.fill(window):
            scan.tail(source, window)
            break
    facts = scan.facts()
    index.chunks[-1] = index.chunks[-1]._replace(
        first_ns=facts.range_first_ns, last_ns=facts.range_last_ns
    )
    index.size = at
    index.file_size = at + window.left
    index.frames = before + facts.frames
    index.end = scan.snapshot()
    index.problems = list(scan.problems)
    if lack := scan.lack():
        index.problems.append(lack)


def _build(
    source: Bytes,
    settings: Settings,
    begin: bytes | None,
    known: Index | None,
    progress: Callable[[int], None] | None,
) -> Index:
    scan = Scan(settings)
    if known is not None and scan.restore(known.snapshots[-1]):
        index = Index(
            source.name,
            chunks=known.chunks[:],
            snapshots=States(known.snapshots.packed),
            origin="extended",
        )
        source.seek(index.chunks[-1].offset)
    else:
        scan = Scan(settings)
        if begin is not None and not scan.restore(begin):
            raise CaptureError(f"{source.name}: the state of the file before it cannot be read")
        scan.begin(0)
        index = Index(source.name, chunks=[Chunk(0, 0, NONE, NONE)])
        index.snapshots.append(scan.snapshot())
        if source.size is not None:
            source.seek(0)
    _walk(source, scan, index, progress)
    return index


# ---- keeping one ----


def _crc(path: str, offset: int, size: int) -> int:
    with Path(path).open("rb") as file:
        file.seek(offset)
        return zlib.crc32(file.read(size))


def _identity(path: str, indexed: int) -> dict[str, int]:
    """What a file is known by: its first bytes, and the last ones that are indexed."""
    tail = max(0, indexed - TAIL_BYTES)
    return {
        "head_crc": _crc(path, 0, min(HEAD_BYTES, indexed)),
        "tail_crc": _crc(path, tail, indexed - tail),
        "indexed": indexed,
    }


def _places(path: str, folder: str | None) -> list[Path]:
    if folder is not None:
        digest = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:16]
        return [Path(folder) / f"{Path(path).name}-{digest}{SUFFIX}"]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    digest = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:16]
    return [
        Path(path + SUFFIX),
        Path(cache) / "pyddsi" / f"{Path(path).name}-{digest}{SUFFIX}",
    ]


def _save(
    path: str, settings: Settings, begin: bytes | None, index: Index, folder: str | None
) -> None:
    """Beside the file, else in the cache; where neither can be written it is made anew next time."""
    packed = [*index.snapshots.packed, zlib.compress(index.end, 1)]
    head: dict[str, Any] = {
        "magic": MAGIC,
        "format": FORMAT,
        "version": pyddsi.__version__,
        "layout": lib.PYDDSI_SNAPSHOT_LAYOUT,
        "settings": asdict(settings) | {"ports": list(settings.ports)},
        "begin": zlib.crc32(begin) if begin is not None else None,
        "file": _identity(path, index.size) | {"size": index.file_size},
        "frames": index.frames,
        "problems": [list(problem[1:]) for problem in index.problems],
        "chunks": [list(chunk) for chunk in index.chunks],
        "states": [[len(state), zlib.crc32(state)] for state in packed],
    }
    line = json.dumps(head, separators=(",", ":")).encode()
    data = b"%d %08x\n%b\n" % (len(line), zlib.crc32(line), line)
    for place in _places(path, folder):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                dir=place.parent, prefix=place.name, delete=False
            ) as file:
                try:
                    file.write(data)
                    file.writelines(packed)
                    file.close()
                    Path(file.name).replace(place)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError:
            continue
        return


def _read(place: Path) -> tuple[dict[str, Any], list[bytes]] | None:
    """A kept index, if it is one and whole; its states packed."""
    try:
        with place.open("rb") as file:
            size, _, crc = file.readline(64).decode("ascii").strip().partition(" ")
            length = int(size)
            if not 0 < length <= LINE_MAX:
                return None
            line = file.read(length + 1)[:length]
            if len(line) != length or zlib.crc32(line) != int(crc, 16):
                return None
            head = json.loads(line)
            states = []
            for count, sum_ in head["states"]:
                state = file.read(count)
                if len(state) != count or zlib.crc32(state) != sum_:
                    return None
                states.append(state)
    except (OSError, ValueError, KeyError, TypeError, MemoryError):
        return None
    return head, states


def _load(
    path: str, settings: Settings, begin: bytes | None, folder: str | None, *, as_kept: bool
) -> tuple[Index | None, str]:
    """The kept index of a file as it is now; or one that covers its beginning; or why there is none."""
    place = next((place for place in _places(path, folder) if place.is_file()), None)
    if place is None:
        return None, ""
    found = _read(place)
    if found is None:
        return None, f"the index {place} is damaged"
    head, states = found
    wanted = asdict(settings) | {"ports": list(settings.ports)}
    try:
        same = (
            head["magic"] == MAGIC
            and head["format"] == FORMAT
            and head["version"] == pyddsi.__version__
            and head["layout"] == lib.PYDDSI_SNAPSHOT_LAYOUT
            and head["settings"] == wanted
            and (as_kept or head["begin"] == (zlib.crc32(begin) if begin is not None else None))
        )
        indexed = int(head["file"]["indexed"])
        chunks = [Chunk(*map(int, chunk)) for chunk in head["chunks"]]
        if not same or len(states) != len(chunks) + 1 or not chunks:
            return None, f"the index {place} was made by another version or with other settings"
        size = int(head["file"]["size"])
        if (
            Path(path).stat().st_size < size
            or _identity(path, indexed) | {"size": size} != head["file"]
        ):
            return (
                None,
                f"the index {place} is of another file, or of this one before it was changed",
            )
        index = Index(
            path,
            size,
            indexed,
            int(head["frames"]),
            chunks,
            States(states[:-1]),
            zlib.decompress(states[-1]),
            [Problem(path, str(kind), str(words)) for kind, words in head["problems"]],
            "read",
        )
    except (KeyError, TypeError, ValueError, OSError, zlib.error):
        return None, f"the index {place} is damaged"
    return index, ""


def index_of(
    path: str,
    settings: Settings,
    *,
    begin: bytes | None = None,
    keep: bool = True,
    folder: str | None = None,
    progress: Callable[[int], None] | None = None,
    as_kept: bool = False,
) -> Index:
    """
    The index of a file: the kept one if it is good, else a new one.

    begin: the state that the file before it ended with, if this one continues it
    keep: whether it may be read from and written to a file
    folder: where such files lie; None: beside the capture, else in the user's cache
    progress: told how many bytes are done
    as_kept: a kept index is good whatever it began with: the file before may be gone, and what was known then is known still
    """
    known, why = _load(path, settings, begin, folder, as_kept=as_kept) if keep else (None, "")
    if known is not None and Path(path).stat().st_size == known.file_size:
        return known
    source = open_bytes(path)
    try:
        if not source.seekable:
            raise CaptureError(
                f"{path} is packed ({source.packed or 'a stream'}), so it is read from its beginning and has no index; "
                f"unpack it, or read it with split='file'"
            )
        index = _build(source, settings, begin, known, progress)
    finally:
        source.close()
    if why:
        index.origin = "rebuilt"
        index.problems.append(Problem(path, "index_rebuilt", f"{why}; it was made anew"))
    if keep:
        _save(path, settings, begin, index, folder)
    return index
