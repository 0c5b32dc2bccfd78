"""`pyddsi perf`: throughput and latency, with percentiles."""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import pyddsi
from pyddsi.cli import _arguments as read
from pyddsi.cli._arguments import UsageError
from pyddsi.cli._session import add_session, opened
from pyddsi.cli._show import Live, Paint, duration, say, size, table
from pyddsi.cli.ping import Asker, summary

DESCRIPTION = """\
Measure what goes through: for each size first samples one after the other as fast as they are taken, counted where they
arrive, then round trips. The times are those of programs in Python, with one call for a sample unless --batch says more.
"""

EXAMPLES = """\
examples:
  pyddsi perf --serve            on the other machine, or in another terminal
  pyddsi perf
  pyddsi perf --size 8,1k --batch 64
  pyddsi perf --size 64k --loan --duration 3s
  pyddsi perf --no-shared --json

--serve needs no options: it does as the other side says. The exit status is 1 if nobody serves, or a sample was lost.
"""

BASE = "pyddsi/perf"
SIZES = (8, 64, 1024, 8192, 65536)
HEAD = struct.Struct("<II")  # which run; room for 8 bytes
LEAST = 16  # of a round trip
TAKEN = 4096
LOOK = 64  # puts between two looks at the clock
QUIET = 0.5  # after which a best-effort run has ended
PATIENCE = 10.0
RUNS_MAX = 64


def _sizes(word: str) -> list[int]:
    one = read.byte_count(HEAD.size)
    return [one(part) for part in word.split(",")]


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.add_argument("--serve", action="store_true", help="the receiving side, until Ctrl-C")
    parser.add_argument(
        "--size",
        metavar="BYTES,...",
        type=_sizes,
        default=list(SIZES),
        help=f"of the samples (default: {','.join(map(str, SIZES))})",
    )
    read.add_duration(parser, "for each size (default: 1s)", 1.0)
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--batch", metavar="N", type=read.whole_number(1, 65536), help="samples for each call"
    )
    how.add_argument("--loan", action="store_true", help="write samples in place")
    parser.add_argument(
        "--best-effort", action="store_true", help="what is lost on the way is not sent again"
    )
    parser.add_argument(
        "--spin", action="store_true", help="round trips without sleeping: faster, and takes a core"
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=read.span_above_0,
        default=5.0,
        help="how long to wait for the other side (default: 5 s)",
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        type=read.resource,
        default=BASE,
        help=f"both sides agree on it (default: {BASE})",
    )
    read.add_json(parser, "one JSON object a size")
    add_session(parser, metrics=True)


# ---- the receiving side ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Counted:
    """What came of a run."""

    run: int
    samples: int = 0
    bytes: int = 0
    first_ns: int = 0
    last_ns: int = 0
    cpu: float = field(default_factory=time.process_time)


class _Server:
    """Counts streams and echoes questions."""

    def __init__(self, session: pyddsi.Session, base: str) -> None:
        self._session = session
        self._data = session.subscriber(f"{base}/data", depth=TAKEN)
        self._ask = session.subscriber(f"{base}/ask")
        self._end = session.subscriber(f"{base}/end")
        self._echo = session.publisher(f"{base}/answer")
        self._result = session.publisher(f"{base}/result")
        self._counts: dict[int, _Counted] = {}
        self._ends: dict[int, tuple[int, float]] = {}

    def serve(self) -> None:
        """Until Ctrl-C."""
        while True:
            self._session.wait(QUIET if self._ends else None, self._some)
            now = time.monotonic()
            for run, (wanted, until) in list(self._ends.items()):
                count = self._counts.setdefault(run, _Counted(run))
                if count.samples >= wanted or now > until:
                    del self._ends[run]
                    self._tell(count)

    def _some(self) -> bool:
        """Take what is there; whether there was something."""
        found = False
        while (sample := self._ask.poll()) is not None:
            found = True
            self._send(self._echo, sample.data)
        while (sample := self._end.poll()) is not None:
            found = True
            run, wanted = struct.unpack("<IQ", bytes(sample)[:12])
            self._ends[run] = wanted, time.monotonic() + QUIET
        if (sample := self._data.poll()) is not None:
            found = True
            batch = [sample]
            with suppress(TimeoutError):
                batch += self._data.recv_many(TAKEN, timeout=0)
            self._count(batch)
        return found

    def _count(self, batch: list[pyddsi.Sample]) -> None:
        runs = {HEAD.unpack_from(batch[i].data)[0] for i in (0, -1)}
        for run in runs:  # nearly always one
            mine = (
                batch
                if len(runs) == 1
                else [s for s in batch if HEAD.unpack_from(s.data)[0] == run]
            )
            if run not in self._counts and len(self._counts) >= RUNS_MAX:
                del self._counts[next(iter(self._counts))]
            count = self._counts.setdefault(run, _Counted(run))
            count.first_ns = count.first_ns or mine[0].time_ns
            count.last_ns = mine[-1].time_ns
            count.samples += len(mine)
            count.bytes += sum(map(len, mine))
            if run in self._ends:
                self._ends[run] = self._ends[run][0], time.monotonic() + QUIET

    def _tell(self, count: _Counted) -> None:
        count.cpu = time.process_time() - count.cpu
        self._send(self._result, json.dumps(asdict(count)).encode())

    def _send(self, publisher: pyddsi.Publisher, data: Any) -> None:
        try:
            publisher.put(data, timeout=1.0)
        except (TimeoutError, ValueError) as error:  # no room now, or never
            say(str(error))
        self._session.flush()


# ---- the sending side --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Row:
    """What was measured with one size. Times are in seconds, `cpu` is for a million samples."""

    size: int
    sent: int
    received: int
    lost: int
    samples_per_second: float
    bytes_per_second: float
    cpu_sender: float
    cpu_receiver: float
    round_trip: dict[str, float]
    source: str | None


class _Client:
    """Sends, and asks what has arrived."""

    def __init__(self, options: argparse.Namespace, session: pyddsi.Session) -> None:
        base = options.name
        self._options = options
        self._session = session
        self._data = session.publisher(
            f"{base}/data", reliable=False if options.best_effort else None
        )
        self._end = session.publisher(f"{base}/end")
        self._results = session.subscriber(f"{base}/result")
        self._run = int.from_bytes(os.urandom(3), "little") << 8

    def reach(self) -> str | None:
        """Wait for somebody who serves; why not, if there is nobody."""
        asker = Asker(self._session, self._options.name, LEAST, spin=False)
        try:
            if not asker.reach(self._options.timeout):
                return asker.why_not()
            self._data.wait_matched(timeout=self._options.timeout)
            self._end.wait_matched(timeout=self._options.timeout)
        except TimeoutError as error:
            return str(error)
        finally:
            asker.close()
        return None

    def measure(self, length: int, note: Callable[[str], None]) -> Row:
        """One size: throughput, then round trips."""
        self._run += 1
        note(f"{size(length)}: sending")
        cpu = time.process_time()
        try:
            sent = self._stream(length)
        except ValueError as error:
            raise UsageError(f"{error} (as PYDDSI_WINDOW_BYTES=...)") from None
        cpu = time.process_time() - cpu
        got, source = self._result(sent)
        note(f"{size(length)}: round trips")
        times = self._round_trips(max(length, LEAST))
        seconds = max((got["last_ns"] - got["first_ns"]) / 1e9, 1e-9)
        million = 1e6 / max(1, got["samples"])
        return Row(
            size=length,
            sent=sent,
            received=got["samples"],
            lost=sent - got["samples"],
            samples_per_second=round(got["samples"] / seconds, 1),
            bytes_per_second=round(got["bytes"] / seconds, 1),
            cpu_sender=round(cpu * million, 3),
            cpu_receiver=round(got["cpu"] * million, 3),
            round_trip=summary(times),
            source=source,
        )

    def _stream(self, length: int) -> int:
        put = self._putter(length)
        until, sent = time.monotonic() + self._options.duration, 0
        while time.monotonic() < until:
            sent += put()
        self._session.flush()
        return sent

    def _putter(self, length: int) -> Callable[[], int]:
        """What puts some samples, and answers how many."""
        head = HEAD.pack(self._run, 0)
        sample = head + bytes(length - len(head))
        publisher, options = self._data, self._options
        if options.batch:
            samples = [sample] * options.batch
            return lambda: publisher.put_many(samples)

        def loans() -> int:
            for _ in range(LOOK):
                with publisher.loan(length) as memory:
                    memory[: len(head)] = head
            return LOOK

        def puts() -> int:
            for _ in range(LOOK):
                publisher.put(sample)
            return LOOK

        return loans if options.loan else puts

    def _result(self, sent: int) -> tuple[dict[str, Any], str | None]:
        """What the other side has counted."""
        self._end.put(struct.pack("<IQ", self._run, sent))
        self._session.flush()
        until = time.monotonic() + PATIENCE
        while True:
            sample = self._results.recv(timeout=max(0.0, until - time.monotonic()))
            got: dict[str, Any] = json.loads(bytes(sample))
            if got["run"] == self._run:
                return got, sample.source

    def _round_trips(self, length: int) -> list[float]:
        asker = Asker(self._session, self._options.name, length, spin=self._options.spin)
        try:
            return list(self._timed(asker))
        finally:
            asker.close()

    def _timed(self, asker: Asker) -> Iterator[float]:
        asker.reach(self._options.timeout)
        until = time.monotonic() + self._options.duration / 2
        number = 0
        while number == 0 or time.monotonic() < until:
            start = asker.put(number)
            if asker.answer(number, time.monotonic() + self._options.timeout) is not None:
                yield (time.perf_counter_ns() - start) / 1e9
            number += 1


HEADS = (
    "size",
    "samples/s",
    "bytes/s",
    "lost",
    "CPU s per million",
    "round trip: p50",
    "p99",
    "max",
)


def _cells(row: Row) -> list[str]:
    trip = row.round_trip
    return [
        size(row.size),
        f"{row.samples_per_second:,.0f}",
        size(row.bytes_per_second),
        str(row.lost),
        f"{row.cpu_sender:.2f} + {row.cpu_receiver:.2f}",
        *(duration(trip[name]) for name in ("p50", "p99", "max")),
    ]


def _measure_all(options: argparse.Namespace, client: _Client) -> list[Row]:
    rows: list[Row] = []
    live, paint = Live(sys.stdout), Paint(sys.stdout)

    def shown() -> list[str]:
        return table(HEADS, map(_cells, rows), paint, left=())

    def note(text: str) -> None:
        if not options.json:
            live.show([*shown(), paint("dim", text)])

    try:
        for length in options.size:
            rows.append(client.measure(length, note))
            if options.json:
                print(json.dumps(asdict(rows[-1])), flush=True)
    finally:
        if not options.json and rows:
            live.done(shown())
        live.clear()
    return rows


def run(options: argparse.Namespace) -> int:
    """Serve, or measure."""
    if isinstance(options.name, int):
        raise UsageError("perf: --name is a name; what it measures with is made of it")
    with opened(options) as session:
        if options.serve:
            say(f"serving as {session.name}; `pyddsi perf` on the other side, Ctrl-C ends")
            _Server(session, options.name).serve()
        client = _Client(options, session)
        if why := client.reach():
            say(f"nobody answers; start `pyddsi perf --serve` on the other side. {why}")
            return 1
        try:
            rows = _measure_all(options, client)
        except TimeoutError as error:
            say(str(error))
            return 1
        return 1 if any(row.lost for row in rows) else 0
