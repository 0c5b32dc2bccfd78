"""`Capture`: one or many files as tables of rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from pyddsi._values import closest, whole
from pyddsi.capture._bytes import Bytes, open_bytes
from pyddsi.capture._files import Member, Path_, Time, in_order, members, moment, sources_of
from pyddsi.capture._index import Index, index_of
from pyddsi.capture._packet import Packet, Packets
from pyddsi.capture._runs import runs_of
from pyddsi.capture._scan import (
    EXTENSIONS,
    MEMORY,
    MEMORY_RANGE,
    NONE,
    Batch,
    Problem,
    Request,
    Scan,
    Settings,
)
from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    import pyarrow as pa

    from pyddsi.capture._copy import Copied
    from pyddsi.capture.info import Info

__all__ = ["Capture", "CaptureWarning", "open"]

SECOND = 1_000_000_000


class CaptureWarning(UserWarning):
    """A capture could be read, and something about it is not as it should be."""


class Capture:
    """
    Files that were captured, as tables. Made by `pyddsi.capture.open`.

    files: their names, in the order in which they are read
    problems: what is wrong with them, as far as they have been read
    """

    def __init__(
        self,
        members: tuple[Member, ...],
        settings: Settings,
        *,
        strict: bool,
        index: str | None,
        keep: bool,
    ) -> None:
        self.members = members
        self.settings = settings
        self._strict = strict
        self._folder = index
        self._keep = keep
        self.problems: list[Problem] = []

    @property
    def files(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(
            member.source
            if isinstance(member.source, str)
            else str(getattr(member.source, "name", "a stream"))
            for member in self.members
        )

    def __repr__(self) -> str:
        return f"<Capture {', '.join(self.files[:3])}{' ...' if len(self.files) > 3 else ''}>"

    # ---- rows ----

    def batches(
        self,
        table: str = "messages",
        columns: Iterable[str] | None = None,
        *,
        where: str | None = None,
        start: Time = None,
        stop: Time = None,
        payload: int | None = None,
        window: float = 1.0,
    ) -> Iterator[Batch]:
        """
        The rows of a table, some ten thousand at a time, as whatever takes Arrow's capsules takes them.

        table: packets, messages, events, flows, sessions, rates, resources, declarations or endpoints
        columns: names; None: all but those that cost much (texts and payloads)
        where: which rows: "kind == SDATA and rid == 7" (see docs/guide/captures.md)
        start, stop: times: "2026-11-18T12:00:00", seconds from the beginning (a float), nanoseconds since 1970 (an int); of
            the packets and messages of large files only what is needed is read, see `indexes`
        payload: bytes of each payload in the column `payload`; None: all
        window: of the table rates, in seconds
        """
        request = self._request(table, columns, where, payload, window)
        return self._batches(self._within(request, start, stop))

    def _batches(self, request: Request) -> Iterator[Batch]:
        for run in runs_of(self.members, request, self.indexes if self._keep else None):
            scan = Scan(self.settings, request)
            for member, part in run.pieces:
                scan.begin(member.number, member.recording)
                with _opened(member) as source:
                    yield from scan.rows(source, part)
            yield from scan.finish(whole=run.whole)
            self.note(scan.problems)

    def reader(
        self, table: str = "messages", columns: Iterable[str] | None = None, **options: Any
    ) -> pa.RecordBatchReader:
        """The same as a pyarrow.RecordBatchReader, which DuckDB, polars and pandas read from, too."""
        pa = _pyarrow()
        request = self._request(
            table, columns, options.get("where"), options.get("payload"), options.get("window", 1.0)
        )
        schema = pa.schema(Scan(self.settings, request))
        wanted = None if columns is None else tuple(columns)
        rows = self.batches(table, wanted, **options)
        return pa.RecordBatchReader.from_batches(schema, (pa.record_batch(batch) for batch in rows))

    def table(
        self, table: str = "messages", columns: Iterable[str] | None = None, **options: Any
    ) -> pa.Table:
        """All rows at once, as a pyarrow.Table; its to_pandas() makes a DataFrame. For what fits memory."""
        return self.reader(table, columns, **options).read_all()

    # ---- packets ----

    def packets(
        self, *, where: str | None = None, start: Time = None, stop: Time = None
    ) -> Iterator[Packet]:
        """
        The protocol's packets, one by one: a thousandth of the speed of tables, for those who want to look closely.

        where: a filter over the table of messages; packets without a message that passes are left out
        """
        for _, packets in self.packets_of_files(where=where, start=start, stop=stop):
            for packet in packets:
                if (
                    where is None
                    or packet.fault_passes
                    or any(note.passes for note in packet.notes)
                ):
                    yield packet

    def packets_of_files(
        self, *, where: str | None = None, start: Time = None, stop: Time = None
    ) -> Iterator[tuple[str, Packets]]:
        """Each file and its packets, which can be asked for names while they are read."""
        begin = (
            self._begin()
            if isinstance(start, (float, str)) or isinstance(stop, (float, str))
            else None
        )
        from_ns, until_ns = moment("start", start, begin), moment("stop", stop, begin)
        in_order(start, from_ns, stop, until_ns)
        for member, name in zip(self.members, self.files, strict=True):
            with _opened(member) as source:
                packets = Packets(source, self.settings, where, from_ns, until_ns)
                yield name, packets
                self.note(packets.scan.problems)

    # ---- what it holds ----

    def info(self, *, progress: Callable[[int, int], None] | None = None) -> Info:
        """What the capture holds, in one pass: times, peers, sessions, resources with rates, repeats, gaps, and findings."""
        from pyddsi.capture._found import collect  # noqa: PLC0415 - it builds on this

        return collect(self, progress)

    # ---- other files ----

    def copy(
        self,
        path: Path_,
        *,
        where: str | None = None,
        start: Time = None,
        stop: Time = None,
        ours: bool = False,
        sort: bool = False,
    ) -> Copied:
        """
        Write the frames into one pcapng or pcap file: cut by time, by a filter over the table of packets, or to those of the
        protocol; several files are merged by time.

        sort: put frames in order that are not
        """
        from pyddsi.capture._copy import Secrets, copy  # noqa: PLC0415 - only then

        request = self._within(Request("packets", ("pkt",), where), start, stop)
        return copy(self, path, request=request, secrets=Secrets(ours=ours), sort=sort)

    def write(
        self,
        path: Path_,
        table: str = "messages",
        columns: Iterable[str] | None = None,
        **options: Any,
    ) -> int:
        """
        Write a table as a Parquet or Arrow file, by its ending; into a folder as Parquet, one file for each hour. Options as
        those of `batches`. Answers how many rows there were.
        """
        from pyddsi.capture._write import write_rows  # noqa: PLC0415 - only then

        return write_rows(path, self.reader(table, columns, **options))

    def anonymize(
        self,
        path: Path_,
        *,
        names: bool = False,
        key: bytes | None = None,
        start: Time = None,
        stop: Time = None,
    ) -> Copied:
        """
        Write the protocol's packets without their secrets: addresses are mapped so that networks stay networks, payloads are
        zeros, ids are others; kinds, numbers, lengths and times stay.

        names: hide the names of resources as well
        key: 16 bytes; the same key maps the same way. None: a new one, which nobody knows
        """
        from pyddsi.capture._copy import Secrets, copy  # noqa: PLC0415 - only then

        if key is not None and len(key) != 16:
            raise ValueError(f"key has 16 bytes, not {len(key)}")
        request = self._within(Request("packets", ("pkt", "messages")), start, stop)
        secrets = Secrets(
            ours=True, hide=True, names=names, key=os.urandom(16) if key is None else key
        )
        return copy(self, path, request=request, secrets=secrets)

    # ---- parts ----

    def indexes(self, *, progress: Callable[[int], None] | None = None) -> list[Index]:
        """
        The index of each file, made if there is none that fits: where chunks begin, when, and the state there.

        Whoever asks for a time in 64 MiB or more asks for these too; the first time takes as long as reading everything.
        """
        found: list[Index] = []
        for member in self.members:
            if not isinstance(member.source, str) or member.source == "-":
                raise CaptureError("a stream has no index; save it as a file first")
            begin = found[-1].end if member.continues and found else None
            found.append(
                index_of(
                    member.source,
                    self.settings,
                    begin=begin,
                    keep=self._keep,
                    folder=self._folder,
                    progress=progress,
                )
            )
        return found

    # ---- inside ----

    def _request(
        self,
        table: str,
        columns: Iterable[str] | None,
        where: str | None,
        payload: int | None,
        window: float,
    ) -> Request:
        if isinstance(columns, str):
            raise TypeError(f"columns is a list of names: [{columns!r}]")
        if payload is not None:
            whole("payload", payload, 0, 65535)
        if not 0.000001 <= window <= 1e9:
            raise ValueError(f"window is from 0.000001 to 1e9 seconds, not {window!r}")
        return Request(
            table,
            None if columns is None else tuple(columns),
            where,
            payload=65535 if payload is None else payload,
            window_ns=round(window * SECOND),
        )

    def _within(self, request: Request, start: Time, stop: Time) -> Request:
        begin = (
            self._begin()
            if isinstance(start, (float, str)) or isinstance(stop, (float, str))
            else None
        )
        from_ns, until_ns = moment("start", start, begin), moment("stop", stop, begin)
        in_order(start, from_ns, stop, until_ns)
        if from_ns is not None:
            request = replace(request, start_ns=from_ns)
        if until_ns is not None:
            request = replace(request, stop_ns=until_ns)
        return request

    def _begin(self) -> int | None:
        """The time of the first frame that has one."""
        for member in self.members:
            with _opened(member) as source:
                scan = Scan(self.settings)
                for item in scan.items(source, "item"):
                    return None if item.time_ns == NONE else int(item.time_ns)
        return None

    def note(self, problems: list[Problem]) -> None:
        """Remember what is wrong, and say it: as a warning, or with strict as an error."""
        for problem in problems:
            if problem not in self.problems:
                self.problems.append(problem)
                if self._strict:
                    raise CaptureError(problem.text)
                warnings.warn(problem.text, CaptureWarning, stacklevel=4)


class _opened:  # noqa: N801 - used as a function
    """A member's bytes, for a with block."""

    def __init__(self, member: Member) -> None:
        self._source = open_bytes(member.source)

    def __enter__(self) -> Bytes:
        return self._source

    def __exit__(self, *_error: object) -> None:
        self._source.close()


def _pyarrow() -> Any:
    try:
        import pyarrow  # noqa: ICN001, PLC0415 - only for those who have it
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "pyarrow is needed for tables of captures: `pip install 'pyddsi[capture]'`",
            name="pyarrow",
        ) from None
    return pyarrow


def open(  # noqa: A001 - as pyddsi.capture.open, it shadows nothing
    path: Path_ | BinaryIO | Iterable[Path_],
    *,
    ports: Iterable[int] = (7447,),
    seq_bits: int | None = None,
    learn: bool = True,
    extensions: str = "announced",
    dedupe: bool = False,
    memory: int = MEMORY,
    chain: str = "auto",
    strict: bool = False,
    index: str | None = None,
    keep_index: bool = True,
) -> Capture:
    """
    Open captures: a file, '-' for standard input, a folder, a pattern such as "captures/*.pcapng", or a list of these.

    ports: well-known ports of the protocol; who speaks it on others is learnt from its handshakes (learn=False: is not)
    seq_bits: length of sequence numbers; None: as the sessions announce
    extensions: whether messages beyond zhe are read: "announced" by their sender, "always", "never"
    dedupe: pass over a datagram that was captured a moment ago on another interface, or with the same IP identity
    memory: bytes for the endpoints, counters, sessions and names that are followed at one time, taken as they come (256 MiB, which is
        some ten thousand endpoints); where it is not enough the idle half is given up, with a warning
    chain: whether a file goes on where the one before it ends: "auto" for run_00001.pcapng, run_00002.pcapng ...; "on", "off"
    strict: raise CaptureError for what is a warning otherwise, such as a file that is cut off
    index: folder for index files; None: beside the captures, else in the user's cache. keep_index=False: nowhere

    Raises CaptureError if there is no such file. What is in the files is looked at when they are read.
    """
    if extensions not in EXTENSIONS:
        raise ValueError(f"extensions cannot be {extensions!r}; {closest(extensions, EXTENSIONS)}")
    if chain not in {"auto", "on", "off"}:
        raise ValueError(f"chain cannot be {chain!r}; {closest(chain, ('auto', 'on', 'off'))}")
    numbers = tuple(whole("a port", port, 1, 65535) for port in ports)
    if not 1 <= len(numbers) <= 16:
        raise ValueError("ports has 1 to 16 ports")
    if seq_bits is not None:
        whole("seq_bits", seq_bits, 7, 56)
    whole("memory", memory, *MEMORY_RANGE)
    settings = Settings(numbers, seq_bits or 0, learn, extensions, dedupe, memory)
    sources, empty = sources_of(path)
    made = Capture(members(sources, chain), settings, strict=strict, index=index, keep=keep_index)
    made.note([Problem(name, "empty", f"{name} is empty, and left out") for name in empty])
    return made
