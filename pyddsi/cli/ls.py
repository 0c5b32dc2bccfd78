"""`pyddsi ls`: which resources there are, with their rates."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

import pyddsi
from pyddsi.cli import _arguments as read
from pyddsi.cli import _peers
from pyddsi.cli._rates import Measured, Meters, observed, watch
from pyddsi.cli._session import add_session, opened, unheard
from pyddsi.cli._show import Live, Paint, say, size, table

DESCRIPTION = """\
List the resources that a pattern covers and that samples come of: how often, and how many bytes they bring. It subscribes
to them for --seconds, so their publishers send them here meanwhile; they are never held up by this.
"""

EXAMPLES = """\
examples:
  pyddsi ls
  pyddsi ls 'plant/**' --seconds 10
  pyddsi ls --json | jq -r .resource

The exit status is 1 if nothing came.
"""

HEADS = ("resource", "samples", "rate", "bytes/s", "mean size")
SECONDS = 2.0
LOOK = 0.25
WINDOW = 100_000


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.mixed = True
    parser.add_argument(
        "pattern",
        metavar="PATTERN",
        nargs="?",
        default="**",
        type=read.resource,
        help="a name, or a pattern (default: **, all)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=read.amount,
        default=SECONDS,
        help="how long to listen (default: 2)",
    )
    read.add_json(parser, "one JSON object a resource")
    add_session(parser)


def _shown(found: Iterable[Measured], seconds: float, paint: Paint) -> list[str]:
    rows = [
        [
            str(one.resource),
            f"{one.total:,}",
            f"{one.total / seconds:,.1f}/s",
            f"{size(one.total * one.size_mean / seconds)}/s",
            size(one.size_mean),
        ]
        for one in found
    ]
    return table(HEADS, rows, paint)


def _plain(one: Measured, seconds: float) -> dict[str, Any]:
    return {
        "resource": one.resource,
        "samples": one.total,
        "per_second": round(one.total / seconds, 3),
        "bytes_per_second": round(one.total * one.size_mean / seconds, 1),
        "size_min": one.size_min,
        "size_mean": round(one.size_mean, 1),
        "size_max": one.size_max,
    }


def _listen(options: argparse.Namespace, session: pyddsi.Session, meters: Meters) -> float:
    """Count for as long as wanted; how long that was."""
    live, paint = Live(sys.stdout), Paint(sys.stdout)
    subscribers = [observed(session, options.pattern)]
    start = shown = time.monotonic()
    try:
        for _ in watch(session, subscribers, start + options.seconds, meters):
            now = time.monotonic()
            if now - shown > LOOK and not options.json:
                shown = now
                live.show(_shown(meters.measured(), now - start, paint))
    except KeyboardInterrupt:
        live.clear()
        _say_all(options, session, meters, time.monotonic() - start)
        raise
    live.clear()
    return time.monotonic() - start


def _say_all(
    options: argparse.Namespace, session: pyddsi.Session, meters: Meters, seconds: float
) -> None:
    found = meters.measured()
    if options.json:
        for one in found:
            print(json.dumps(_plain(one, seconds)))
    elif found:
        print("\n".join(_shown(found, seconds, Paint(sys.stdout))))
    for drop in unheard(session):
        say(f"not counted: {drop}")
    if not found:
        count = len(_peers.established(session))
        why = f"{count} peers are there" if count else session.why_not(options.pattern)
        say(f"no sample came of {options.pattern!r} within {seconds:.1f} s. {why}")


def run(options: argparse.Namespace) -> int:
    """Listen, and list."""
    meters = Meters(WINDOW)
    with opened(options) as session:
        seconds = _listen(options, session, meters)
        _say_all(options, session, meters, seconds)
    return 0 if meters else 1
