"""`pyddsi pub`: samples from arguments, files, standard input, or made up."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain, count, cycle, islice, repeat
from pathlib import Path

import pyddsi
from pyddsi.cli import _arguments as read
from pyddsi.cli._arguments import UsageError
from pyddsi.cli._session import add_session, declaring, opened, unsent
from pyddsi.cli._show import Live, duration, many, say, size

DESCRIPTION = """\
Publish samples of a resource: each DATA is one, or each file, or each line of standard input. Waits first until a
subscriber has been found and no further one follows at once (with --wait N: until N have), and at the end until everything
has been acknowledged; then says what happened.
"""

EXAMPLES = """\
examples:
  pyddsi pub plant/robot/7/pose hello
  pyddsi pub plant/robot/7/pose --wait 3 hello
  pyddsi pub plant/robot/7/pose --rate 10 --count 100 hello
  tail -f log.txt | pyddsi pub plant/log
  pyddsi pub plant/map --file map.png
  pyddsi pub plant/load --size 1k --count 100000

A NAME of digits alone is a plain number, for peers that declare no names. The exit status is 1 if too few subscribed in
time, or if a sample was dropped.
"""

BATCH = 64
BATCH_BYTES = 1 << 20
PATIENCE = 10.0
PROGRESS_SECONDS = 0.25
HURRY = 1.0
"""How long the end may take when not all is acknowledged after --timeout, or when Ctrl-C was pressed."""
HINT_SECONDS = 0.5
TOGETHER = 0.2
"""Subscribers that run already are found within this of each other: each answers the same SCOUT."""


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.mixed = True
    parser.add_argument("name", metavar="NAME", type=read.resource, help="of the resource")
    parser.add_argument("data", metavar="DATA", nargs="*", help="a sample (none: standard input)")
    parser.add_argument(
        "--file", metavar="FILE", action="append", help="a file is a sample (may be repeated)"
    )
    parser.add_argument(
        "--size", metavar="BYTES", type=read.byte_count(0), help="make up samples of this size"
    )
    parser.add_argument(
        "--count",
        metavar="N",
        type=read.whole_number(1),
        help="how many samples; DATA and files are repeated (default: each once; made-up ones: until Ctrl-C)",
    )
    parser.add_argument("--rate", metavar="R", type=read.amount, help="so many samples a second")
    first = parser.add_mutually_exclusive_group()
    first.add_argument(
        "-w",
        "--wait",
        metavar="N",
        type=read.whole_number(1),
        help="publish when so many sessions subscribe (default: those that are found together with the first)",
    )
    first.add_argument(
        "--no-wait", action="store_true", help="publish at once, whether anything subscribes or not"
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=read.span,
        default=PATIENCE,
        help="how long to wait for subscribers, and for room (default: 10s)",
    )
    parser.add_argument(
        "--best-effort", action="store_true", help="what is lost on the way is not sent again"
    )
    read.add_json(parser, "say what happened as a JSON object")
    add_session(parser, metrics=True)


# ---- what is published -------------------------------------------------------------------------------------------


def _file(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


def _lines() -> Iterator[bytes]:
    if sys.stdin.isatty():
        say("each line that you type is a sample; Ctrl-D ends")
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _made_up(length: int) -> Iterator[bytes]:
    """Each begins with its number, as far as that has room."""
    rest = (bytes(range(256)) * (length // 256 + 1))[8:length]
    for number in count():
        yield (number.to_bytes(8, "little") + rest)[:length]


def _samples(options: argparse.Namespace) -> Iterator[bytes]:
    if options.size is not None:
        endless = _made_up(options.size)
        return endless if options.count is None else islice(endless, options.count)
    given = [os.fsencode(word) for word in options.data] + [_file(f) for f in options.file or ()]
    if not given:
        return _lines() if options.count is None else islice(_lines(), options.count)
    return iter(given) if options.count is None else islice(cycle(given), options.count)


# ---- publishing --------------------------------------------------------------------------------------------------


class _Run:
    """What has been published so far."""

    def __init__(self, options: argparse.Namespace, publisher: pyddsi.Publisher) -> None:
        self._options = options
        self._publisher = publisher
        self._live = Live(sys.stderr)
        self._shown = 0.0
        self.samples = self.bytes = 0
        self._start = time.monotonic()
        self.seconds = 0.0

    def publish(self) -> None:
        """All there is."""
        samples = _samples(self._options)
        try:
            if self._options.size is None or self._options.rate is not None:
                self._one_by_one(samples)  # a line of standard input does not wait for the next
            else:
                most = max(1, min(BATCH, BATCH_BYTES // max(self._options.size, 1)))
                while batch := list(islice(samples, most)):
                    self._put_many(batch)
        finally:
            self.seconds = time.monotonic() - self._start
            self._live.clear()

    def _one_by_one(self, samples: Iterator[bytes]) -> None:
        rate = self._options.rate
        pauses = repeat(0.0) if rate is None else chain([0.0], repeat(1 / rate))
        due = time.monotonic()
        for sample, pause in zip(samples, pauses, strict=False):
            due += pause
            if rate is not None and (left := due - time.monotonic()) > 0:
                time.sleep(left)
            self._publisher.put(sample, timeout=self._options.timeout)
            self._count([sample])

    def _put_many(self, batch: list[bytes]) -> None:
        try:
            self._publisher.put_many(batch, timeout=self._options.timeout)
        except BaseException as error:
            self._count(batch[: getattr(error, "taken", 0)])
            raise
        self._count(batch)

    def _count(self, batch: list[bytes]) -> None:
        self.samples += len(batch)
        self.bytes += sum(map(len, batch))
        now = time.monotonic()
        if now - self._shown > PROGRESS_SECONDS:
            self._shown = now
            rate = self.samples / max(now - self._start, 1e-9)
            self._live.show([f"{many(self.samples, 'sample')}, {rate:,.0f} a second"])


def _found_subscribers(options: argparse.Namespace, publisher: pyddsi.Publisher) -> bool:
    """Whether there are as many in time as are wanted; says what it waits for when that takes long."""
    session, wanted = publisher.session, options.wait or 1
    hint = min(HINT_SECONDS, options.timeout)
    if not session.wait(hint, lambda: len(publisher.matched) >= wanted):
        whom = "a subscriber" if wanted == 1 else f"{wanted} subscribers"
        say(f"waiting for {whom} of {options.name!r} (--no-wait does not)")
    try:
        publisher.wait_matched(wanted, timeout=options.timeout)
    except TimeoutError as error:
        say(str(error))
        return False
    if options.wait is None:
        found = 0

        def another() -> bool:
            return len(publisher.matched) > found

        while another():  # ends when no further one follows
            found = len(publisher.matched)
            session.wait(TOGETHER, another)
    return True


def _say_all(
    options: argparse.Namespace, session: pyddsi.Session, run: _Run, subscribers: int
) -> None:
    """What became of it, once the session is closed."""
    stats, drops = session.stats(), unsent(session)
    if options.json:
        plain = {
            "resource": options.name,
            "samples": run.samples,
            "bytes": run.bytes,
            "seconds": round(run.seconds, 6),
            "subscribers": subscribers,
            "unmatched": stats.unmatched,
            "filtered": stats.filtered,
            "resent": stats.resent,
            "dropped": [asdict(drop) for drop in drops],
        }
        print(json.dumps(plain))
        return
    quick = run.samples <= BATCH or run.seconds <= 0
    rate = "" if quick else f", {run.samples / run.seconds:,.0f} a second"
    print(
        f"{many(run.samples, 'sample')} ({size(run.bytes)}) to {many(subscribers, 'peer')} "
        f"in {duration(run.seconds)}{rate}"
    )
    if stats.unmatched:
        print(f"{stats.unmatched:,} of them while nobody subscribed")
    if stats.filtered:
        print(f"{stats.filtered:,} of them did not meet what any subscriber asks for")
    for drop in drops:
        print(f"dropped: {drop}")


def _acknowledged(publisher: pyddsi.Publisher) -> bool:
    window = publisher.window
    return window is None or not window.used_samples


def _fault(options: argparse.Namespace) -> None:
    if options.size is not None and (options.data or options.file):
        raise UsageError("pub: --size makes samples up; leave out DATA and --file, or --size")


def run(options: argparse.Namespace) -> int:
    """Publish, and say what became of it."""
    _fault(options)
    for name in options.file or ():
        if name != "-" and not Path(name).is_file():
            raise UsageError(f"pub: --file {name}: there is no such file")
    with opened(options) as session:
        with declaring():
            reliable = False if options.best_effort else None
            publisher = session.publisher(options.name, reliable=reliable)
        if not options.no_wait and not _found_subscribers(options, publisher):
            return 1
        one = _Run(options, publisher)
        status, most = 0, len(publisher.matched)
        try:
            one.publish()
            # close() would wait, too, but without an ear for Ctrl-C; what lies in shared memory is read without us
            session.wait(options.timeout, lambda: _acknowledged(publisher))
        except TimeoutError as error:
            say(str(error))
            status = 1
        except ValueError as error:  # a sample that can never be sent
            raise UsageError(f"{error} (as PYDDSI_WINDOW_BYTES=...)") from None
        finally:
            most = max(most, len(publisher.matched))
            session.close(HURRY)
            _say_all(options, session, one, most)
        return 1 if unsent(session) else status
