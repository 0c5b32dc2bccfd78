"""
A scan of captures by the core: bytes in, batches of rows, packets or datagrams out.

    Settings     what the meaning of a capture depends on, and so what an index is good for
    Request      which rows and columns are wanted
    Scan         one pass, over one file, a range of one, or several files that continue each other

The core neither opens nor reads anything; what stands between it and the file is the loop in `Scan._feed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from pyddsi._native import ffi, lib, scan_batch, scan_rows, scan_schema, text
from pyddsi.capture._bytes import BrokenBytesError, Bytes, Window
from pyddsi.capture._table import column_bits, table_number
from pyddsi.capture._where import compile_where
from pyddsi.errors import CaptureError

__all__ = ["Batch", "Early", "Problem", "Request", "Scan", "Settings"]

NONE = -(2**63)
EVER = 2**63 - 1
SECOND = 1_000_000_000
LIVE_SECONDS = 1.0
"""Rows of a stream that goes on are given out after this, whether a batch is full or not."""
MEMORY = lib.PYDDSI_SCAN_MEMORY_MIB << 20
MEMORY_RANGE = lib.PYDDSI_SCAN_MEMORY_MIB_MIN << 20, lib.PYDDSI_SCAN_MEMORY_MIB_MAX << 20
EXTENSIONS = {"announced": 0, "never": 1, "always": 2}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the meaning of a capture depends on."""

    ports: tuple[int, ...] = (7447,)
    seq_bits: int = 0
    learn: bool = True
    extensions: str = "announced"
    dedupe: bool = False
    memory: int = MEMORY
    """Bytes for the endpoints, counters, sessions and names that are followed at one time."""


@dataclass(frozen=True, slots=True)
class Request:
    """Which rows are wanted of which table."""

    table: str
    columns: tuple[str, ...] | None = None
    where: str | None = None
    start_ns: int = NONE
    stop_ns: int = EVER
    payload: int = 65535
    window_ns: int = SECOND
    rows: int = 0
    packets: bool = False
    """No rows: the filter is for those who go packet by packet."""


class Problem(NamedTuple):
    """Something about a file that a reader should know: it is cut, damaged, contradicts itself."""

    file: str
    kind: str
    """truncated_tail, damaged, capture_drop, ..."""
    text: str


class Batch:
    """
    Rows of a table. Whatever understands Arrow takes it as it is, without a copy: `pyarrow.record_batch(batch)`,
    `polars.DataFrame(batch)`. It can be taken once.
    """

    __slots__ = ("_array", "_schema")

    def __init__(self, schema: object, array: object) -> None:
        self._schema = schema
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The schema and the rows, as Arrow's capsules."""
        return self._schema, self._array


def _options(settings: Settings, request: Request | None, *, tally: bool) -> tuple[Any, list[Any]]:
    """As the core takes them, and what must be kept until it has."""
    options = ffi.new("pyddsi_scan_options *")
    kept: list[Any] = [options]
    options.seq_bits = settings.seq_bits
    options.learn = settings.learn
    options.dedupe = settings.dedupe
    options.memory_mib = settings.memory >> 20
    options.base_only = EXTENSIONS[settings.extensions]
    options.port_count = len(settings.ports)
    for i, port in enumerate(settings.ports):
        options.ports[i] = port
    options.table = lib.PYDDSI_TABLE_NONE
    options.tally = tally
    options.window_ns = SECOND if not tally else EVER
    options.from_ns, options.until_ns = NONE, EVER
    if request is None:
        return options, kept
    if not request.packets:
        options.table = table_number(request.table)
        options.columns = column_bits(request.table, request.columns)
    options.payload_max = request.payload
    options.from_ns, options.until_ns = request.start_ns, request.stop_ns
    options.window_ns = request.window_ns
    options.rows = request.rows
    if request.where:
        steps, texts = compile_where(request.table, request.where)
        options.where_count = len(steps)
        for i, step in enumerate(steps):
            options.where[i] = step
        kept.append(ffi.from_buffer(texts))
        options.texts, options.texts_size = ffi.cast("uint8_t *", kept[-1]), len(texts)
    return options, kept


@dataclass(slots=True)
class Range:
    """A part of a file: from a boundary between two frames to another one, and what is known at its start."""

    start: int = 0
    stop: int | None = None
    """None: to the end of the file, where what is not over is told."""
    snapshot: bytes | None = None


class Early:
    """
    Packets before a time, which the core passes over, some million a second. One is used for all files of a recording.

    line: where it is on the recording's line of time
    over: one was found that is not before it
    """

    def __init__(self, from_ns: int, *, absolute: bool, back_ns: int, ahead_ns: int) -> None:
        self.line = ffi.new("pyddsi_line *", {"back_ns": back_ns, "ahead_ns": ahead_ns})
        self.over = False
        self._from = from_ns, absolute

    def take(self, scan: Any, data: Any, size: int, used: Any, packet: Any) -> int:
        """As pyddsi_scan_packet."""
        status = lib.pyddsi_scan_packet_from(scan, data, size, used, packet, self.line, *self._from)
        self.over = status == lib.PYDDSI_OK and packet.number != 0
        return int(status)


@dataclass
class Scan:
    """One pass."""

    settings: Settings
    request: Request | None = None
    tally: bool = False
    problems: list[Problem] = field(default_factory=list)
    plain: list[tuple[Any, ...]] | None = None
    """If it is a list, rows go there as tuples, and there are no batches."""

    def __post_init__(self) -> None:
        options, self._kept = _options(self.settings, self.request, tally=self.tally)
        status = ffi.new("int *")
        raw = lib.pyddsi_scan_open(options, status)
        if raw == ffi.NULL:
            if status[0] == lib.PYDDSI_NO_SPACE:
                raise MemoryError("there is no memory for reading a capture")
            raise ValueError("the core does not take these settings of a scan")
        self.raw: Any = ffi.gc(raw, lib.pyddsi_scan_close)
        self.address = int(ffi.cast("uintptr_t", raw))
        self.used = ffi.new("size_t *")
        self.files = 0
        self.name = ""

    # ---- what is known ----

    def facts(self) -> Any:
        """What it adds up to so far, as the core has it."""
        facts = ffi.new("pyddsi_scan_facts *")
        lib.pyddsi_scan_look(self.raw, facts)
        return facts

    def strangers(self) -> Counter[str]:
        """Frames that hold neither UDP nor TCP that could be reached, by reason."""
        found: Counter[str] = Counter()
        out = ffi.new("char[]", 64)
        for one in self.facts().strangers:
            if one.count:
                lib.pyddsi_other_print(one.other, one.detail, out, 64)
                found[text(out)] += one.count
        if self.facts().tcp_late:
            found["TCP after the end"] = self.facts().tcp_late
        return found

    def snapshot(self) -> bytes:
        """The state between two frames."""
        size = lib.pyddsi_scan_snapshot(self.raw, ffi.NULL, 0)
        out = ffi.new("uint8_t[]", size)
        lib.pyddsi_scan_snapshot(self.raw, out, size)
        return bytes(ffi.buffer(out, size))

    def restore(self, snapshot: bytes) -> bool:
        """Go on from there; False: it is none."""
        return bool(
            lib.pyddsi_scan_restore(self.raw, ffi.from_buffer(snapshot), len(snapshot))
            == lib.PYDDSI_OK
        )

    def __arrow_c_schema__(self) -> object:
        """The schema of its batches, as Arrow's capsule."""
        return scan_schema(self.address)

    def lack(self) -> Problem | None:
        """What could not be followed for want of memory."""
        evicted = self.facts().evicted
        if not evicted:
            return None
        return Problem(
            self.name,
            "evicted",
            f"{self.name} has more endpoints, counters, sessions and names at one time than {self.settings.memory >> 20} MiB hold: "
            f"{evicted:,} were given up, and what is told of them from there on is wrong (a first number again, no gap, no name); "
            f"read it again with more memory (--memory, memory=)",
        )

    # ---- rows ----

    def _batch(self) -> Iterator[Batch]:
        if self.plain is not None:
            self.plain += scan_rows(self.address)
            return
        array = scan_batch(self.address)
        if array is not None:
            yield Batch(self.__arrow_c_schema__(), array)

    def begin(self, number: int, recording: int | None = None) -> None:
        """Another file comes, with this number, of a recording with this one; None: it begins one. What is known of sessions stays."""
        lib.pyddsi_scan_file(self.raw, number, number if recording is None else recording)
        self.files += 1

    def rows(self, source: Bytes, part: Range | None = None) -> Iterator[Batch]:
        """
        The batches of a file, or of a part of it, as they fill, and of what is live each second with what there is. What is left
        over comes with `finish`.
        """
        part = part or Range()
        self.name = source.name
        if part.start or part.snapshot is not None:
            source.seek(part.start)
        if part.snapshot is not None and not self.restore(part.snapshot):
            raise CaptureError(
                f"{source.name}: its index is damaged; it is made anew if you delete it"
            )
        lib.pyddsi_scan_limit(self.raw, 2**64 - 1 if part.stop is None else part.stop)
        # Not a byte of what is behind it: blocks without a packet are passed over on the way to the next frame.
        window = Window(source, None if part.stop is None else part.stop - part.start)
        ended, last = False, monotonic()
        live = source.size is None and self.plain is None
        while not ended:
            status = lib.pyddsi_scan_input(self.raw, window.pointer, window.left, self.used)
            window.at += self.used[0]
            full = status == lib.PYDDSI_AGAIN
            if full or (live and monotonic() - last >= LIVE_SECONDS):
                yield from self._batch()
                last = monotonic()
            if full:
                continue
            if status == lib.PYDDSI_END:
                ended = True
            elif status != lib.PYDDSI_OK:
                raise self.damaged(source)
            elif self._fill_now(window) is False:
                ended = True
                if part.stop is None or window.left or window.most:
                    self.tail(source, window, part.stop)

    def finish(self, *, whole: bool = True) -> Iterator[Batch]:
        """What is left: the rows that are not full a batch, and of what was not over."""
        while lib.pyddsi_scan_finish(self.raw, whole) == lib.PYDDSI_AGAIN:
            yield from self._batch()
        yield from self._batch()
        if lack := self.lack():
            self.problems.append(lack)

    def tell(self, table: str, wanted: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """After `finish`, of a scan without a table: the rows of one that tells what has been added up, as tuples."""
        status = lib.pyddsi_scan_tell(self.raw, table_number(table), column_bits(table, wanted))
        assert status == lib.PYDDSI_OK, table  # noqa: S101 - only of these tables
        rows: list[tuple[Any, ...]] = []
        while lib.pyddsi_scan_finish(self.raw, True) == lib.PYDDSI_AGAIN:  # noqa: FBT003 - C has no names
            rows += scan_rows(self.address)
        return rows + scan_rows(self.address)

    # ---- packets and datagrams ----

    def items(self, source: Bytes, kind: str, early: Early | None = None) -> Iterator[Any]:
        """
        Each packet of the protocol (`packet`), or datagram and TCP part (`item`), as the core has it, good until the next.

        early: which packets the core is to pass over first
        """
        window = Window(source)
        take = getattr(lib, f"pyddsi_scan_{kind}")
        item = ffi.new(f"pyddsi_{kind} *")
        broken: CaptureError | None = None
        ended = False
        while True:
            place = self.raw, window.pointer, window.left, self.used, item
            status = take(*place) if early is None or early.over else early.take(*place)
            found = status == lib.PYDDSI_OK and item.number
            if found:
                yield item
            window.at += self.used[0]
            if found:
                continue
            if ended:
                break
            if status < 0:
                broken = self.damaged(source)
            elif self.fill(window):
                continue
            else:
                self.tail(source, window)
            # what waits for a missing piece is still whole: it goes before the error
            window.at = window.have
            ended = True
            lib.pyddsi_scan_end(self.raw)
        if broken is not None:
            raise broken

    # ---- what is wrong ----

    def fill(self, window: Window) -> bool:
        """Read on; whether there was anything."""
        more = self._fill_now(window)
        while more is None:
            more = self._fill_now(window)
        return more

    def _fill_now(self, window: Window) -> bool | None:
        """The same; None: what is live has nothing at the moment."""
        try:
            return window.fill_now()
        except BrokenBytesError as error:
            facts, packed = self.facts(), " (unpacked)" if window.source.packed else ""
            raise CaptureError(
                f"{window.source.name} cannot be read on: {error}; {facts.frames} packets were read, up to byte "
                f"{facts.at + window.left}{packed}; copy the file again"
            ) from error

    def damaged(self, source: Bytes) -> CaptureError:
        """The error that the core stopped with."""
        facts = self.facts()
        packed = " (unpacked)" if source.packed else ""
        return CaptureError(
            f"{source.name} is damaged at byte {facts.damage_at}{packed}, before packet {facts.frames + 1} is whole: "
            f"{self.damage()}; the {facts.frames} packets before it are good"
        )

    def damage(self) -> str:
        """What the core stopped at."""
        why = ffi.new("char[]", 160)
        lib.pyddsi_scan_damage(self.raw, why, 160)
        return text(why)

    def tail(self, source: Bytes, window: Window, stop: int | None = None) -> None:
        """The file has ended: whether it should have, and what is left over."""
        facts = self.facts()
        packed = "(unpacked) " if source.packed else ""
        cut = (
            f"{source.name} is cut off: {facts.frames} packets were read, then it ends at byte {facts.at + window.left} {packed}"
            f"with {window.left} bytes of the next one; copy it again, or let its writer finish"
        )
        if not facts.container:
            raise CaptureError(cut)
        if stop is not None:
            raise CaptureError(
                f"{source.name} has become shorter while it was read: it ends before byte {stop}; read it again"
            )
        if window.left or facts.inside:
            self.problems.append(Problem(source.name, "truncated_tail", cut))
