"""`pyddsi sub`: samples as they come."""

from __future__ import annotations

import argparse
import json
import sys
import time

import pyddsi
from pyddsi._why import missing, rejections
from pyddsi.cli import _arguments as read
from pyddsi.cli._samples import line, plain
from pyddsi.cli._session import add_session, declaring, opened, unheard
from pyddsi.cli._show import Paint, duration, many, say, size

DESCRIPTION = """\
Print the samples of one or more resources, or of all that a pattern covers, one line each:

  time, resource, the bytes: as text if they are printable, else the first of them in hexadecimal digits

Ends with Ctrl-C, after --count samples, or when none came for --timeout.
"""

EXAMPLES = """\
examples:
  pyddsi sub plant/robot/7/pose
  pyddsi sub 'plant/**' --count 10
  pyddsi sub 'plant/*/light' --where 'lum > 50'
  pyddsi sub --json 'plant/**' | jq .text
  pyddsi sub --raw --count 1 plant/map > map.png

A NAME of digits alone is a plain number. The exit status is 1 if fewer than --count samples came before --timeout.
"""

BATCH = 256
HINT_SECONDS = 1.0
"""Where no sample has come for so long, the program says what it knows of that, and goes on."""


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.mixed = True
    parser.add_argument(
        "names", metavar="NAME", nargs="+", type=read.resource, help="a name, or a pattern"
    )
    how = parser.add_mutually_exclusive_group()
    read.add_json(how, "one JSON object a sample")  # type: ignore[arg-type]
    how.add_argument("--raw", action="store_true", help="the bytes alone, with nothing between")
    how.add_argument(
        "--lines", action="store_true", help="the bytes alone, each ended by a newline"
    )
    parser.add_argument("--whole", action="store_true", help="do not shorten long samples")
    parser.add_argument(
        "--count", metavar="N", type=read.whole_number(1), help="end after so many samples"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", type=read.span, help="end when none came for so long: 5s"
    )
    parser.add_argument(
        "--where",
        metavar="PREDICATE",
        help="only samples for which this holds, such as 'lum > 0 and $size < 100'; publishers look at it before they "
        "send",
    )
    parser.add_argument(
        "--depth",
        metavar="N",
        type=read.whole_number(1, 1 << 16),
        default=1024,
        help="how many samples may wait to be printed (default: 1024)",
    )
    parser.add_argument(
        "--on-full",
        choices=["wait", "drop_oldest", "drop_newest"],
        default="wait",
        help="what happens to the next one then; wait: its publisher has to (default)",
    )
    parser.add_argument("--quiet", action="store_true", help="no summary at the end")
    add_session(parser, metrics=True)


class _Output:
    """Writes samples, and counts them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._paint = Paint(sys.stdout)
        self.samples = self.bytes = 0
        self.start = time.monotonic()

    def write(self, samples: list[pyddsi.Sample]) -> None:
        """All of them, at once."""
        for sample in samples:
            self.samples += 1
            self.bytes += sample.size
            self._write(sample)
        sys.stdout.flush()

    def _write(self, sample: pyddsi.Sample) -> None:
        options = self._options
        if options.raw or options.lines:
            sys.stdout.buffer.write(sample)
            if options.lines:
                sys.stdout.buffer.write(b"\n")
        elif options.json:
            print(json.dumps(plain(sample)))
        else:
            print(line(sample, self._paint, whole=options.whole))


def _read(
    options: argparse.Namespace,
    session: pyddsi.Session,
    subscribers: list[pyddsi.Subscriber],
    output: _Output,
) -> bool:
    """Until the end; whether all came that were asked for."""
    waits = options.timeout
    refused: set[str] = set()
    asked = -HINT_SECONDS

    def some() -> list[pyddsi.Sample]:
        nonlocal asked
        most = BATCH if options.count is None else min(BATCH, options.count - output.samples)
        found: list[pyddsi.Sample] = []
        for subscriber in subscribers:
            while len(found) < most and (sample := subscriber.poll()) is not None:
                found.append(sample)
        now = time.monotonic()
        if not found or now - asked >= HINT_SECONDS:  # not for each batch of a stream
            asked = now
            for why in rejections(session, subscribers):
                if why not in refused:
                    refused.add(why)
                    say(why)
        return found

    if waits is None or waits > HINT_SECONDS:
        samples = session.wait(HINT_SECONDS, some)
        output.write(samples)
        if not samples:
            for sentence in missing(session, subscribers):
                say(sentence)
    while options.count is None or output.samples < options.count:
        samples = session.wait(waits, some)
        if not samples:
            why = "" if output.samples else ". " + session.why_not(options.names[0])
            say(f"no sample came within {waits:g} s{why}")
            return options.count is None and output.samples > 0
        output.write(samples)
    return True


def _say_all(options: argparse.Namespace, session: pyddsi.Session, output: _Output) -> None:
    if options.quiet:
        return
    seconds = time.monotonic() - output.start
    say(f"{many(output.samples, 'sample')}, {size(output.bytes)} in {duration(seconds)}")
    for drop in unheard(session):
        say(f"dropped: {drop}")


def run(options: argparse.Namespace) -> int:
    """Print what comes."""
    with opened(options) as session:
        with declaring():
            subscribers = [
                session.subscriber(
                    name, where=options.where, depth=options.depth, on_full=options.on_full
                )
                for name in dict.fromkeys(options.names)
            ]
        output = _Output(options)
        try:
            complete = _read(options, session, subscribers, output)
        finally:
            _say_all(options, session, output)
        return 0 if complete else 1
