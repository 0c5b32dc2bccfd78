"""`pyddsi ls`: which resources there are."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyddsi
from pyddsi import names
from pyddsi.cli import _arguments as read
from pyddsi.cli import _peers
from pyddsi.cli._rates import Measured, Meters, observed, watch
from pyddsi.cli._session import add_session, opened, unheard
from pyddsi.cli._show import Live, Paint, say, size, table

DESCRIPTION = """\
List the resources that a pattern covers: those that peers have declared, with the sessions that publish and those that
subscribe to each. Peers do not say what they publish: a session that has declared a resource and does not subscribe to it
counts as its publisher, and one that does both as its subscriber. With --rates it subscribes to them meanwhile, and says how often samples come and how many bytes they bring; their
publishers send them here for that time, and are never held up.
"""

EXAMPLES = """\
examples:
  pyddsi ls
  pyddsi ls 'plant/**' --rates --duration 10s
  pyddsi ls --json | jq -r .resource

A number stands for what has no name. The exit status is 1 if there is nothing.
"""

HEADS = ("resource", "publishers", "subscribers")
RATES = ("samples", "rate", "bytes/s", "mean size")
SECONDS = 1.5
LOOK = 0.25
WINDOW = 100_000
EVERYTHING = "**"
NAME_SHOWN, NAMES_SHOWN = 8, 2


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.mixed = True
    parser.add_argument(
        "pattern",
        metavar="PATTERN",
        nargs="?",
        default=EVERYTHING,
        type=read.resource,
        help="a name, or a pattern (default: **, all)",
    )
    parser.add_argument("--rates", action="store_true", help="count samples, too")
    read.add_duration(
        parser, f"how long to wait for answers, and to count (default: {SECONDS}s)", SECONDS
    )
    read.add_json(parser, "one JSON object a resource")
    add_session(parser)


@dataclass(slots=True)
class _Row:
    """A resource, and the sessions that have to do with it."""

    resource: str | int | None
    declared: set[str] = field(default_factory=set)
    subscribed: set[str] = field(default_factory=set)
    measured: Measured | None = None


def _sessions(names: set[str]) -> str:
    """How many there are, and the first of them, by the beginnings of their names."""
    shown = sorted(name[:NAME_SHOWN] for name in names)
    more = ["..."] if len(shown) > NAMES_SHOWN else []
    return " ".join([str(len(names)), *shown[:NAMES_SHOWN], *more])


def _covers(pattern: str | int, name: str | int) -> bool:
    if isinstance(pattern, int) or isinstance(name, int):
        return pattern in {EVERYTHING, name}
    return names.intersect(pattern.partition("?{")[0], name.partition("?{")[0])


def _rows(session: pyddsi.Session, pattern: str | int, meters: Meters) -> list[_Row]:
    found: dict[str, _Row] = {}
    for known in session.resources():
        if _covers(pattern, known.name):
            row = found.setdefault(str(known.name), _Row(known.name))
            (row.subscribed if known.kind == "subscription" else row.declared).add(known.peer)
    for one in meters.measured():
        found.setdefault(str(one.resource), _Row(one.resource)).measured = one
    return [found[key] for key in sorted(found)]


def _shown(rows: Iterable[_Row], seconds: float, paint: Paint, *, rates: bool) -> list[str]:
    lines = []
    for row in rows:
        line = [
            str(row.resource),
            _sessions(row.declared - row.subscribed),
            _sessions(row.subscribed),
        ]
        if rates:
            plain = _rate(row, seconds)
            line += [
                f"{plain['samples']:,}",
                f"{plain['per_second']:,.1f}/s",
                f"{size(plain['bytes_per_second'])}/s",
                size(plain["size_mean"]),
            ]
        lines.append(line)
    return table(HEADS + RATES if rates else HEADS, lines, paint, left=(0, 1, 2))


def _rate(row: _Row, seconds: float) -> dict[str, Any]:
    one = row.measured
    if one is None:
        return {"samples": 0, "per_second": 0.0, "bytes_per_second": 0.0, "size_mean": 0.0}
    return {
        "samples": one.total,
        "per_second": round(one.total / seconds, 3),
        "bytes_per_second": round(one.total * one.size_mean / seconds, 1),
        "size_mean": round(one.size_mean, 1),
    }


def _plain(row: _Row, seconds: float, *, rates: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "resource": row.resource,
        "declared": sorted(row.declared),
        "published": sorted(row.declared - row.subscribed),
        "subscribed": sorted(row.subscribed),
    }
    return found | _rate(row, seconds) if rates else found


def _listen(
    options: argparse.Namespace, session: pyddsi.Session, meters: Meters, start: float
) -> None:
    """Wait as long as wanted, and count meanwhile if that is wanted."""
    subscribers = [observed(session, options.pattern)] if options.rates else []
    live, paint = Live(sys.stdout), Paint(sys.stdout)
    end = start + options.duration
    try:
        while (now := time.monotonic()) < end:
            for _ in watch(session, subscribers, min(end, now + LOOK), meters):
                pass
            if not options.json:
                rows = _rows(session, options.pattern, meters)
                spent = time.monotonic() - start
                live.show(_shown(rows, spent, paint, rates=options.rates) if rows else [])
    finally:
        live.clear()


def _say_all(
    options: argparse.Namespace, session: pyddsi.Session, rows: list[_Row], seconds: float
) -> None:
    if options.json:
        for row in rows:
            print(json.dumps(_plain(row, seconds, rates=options.rates)))
    elif rows:
        print("\n".join(_shown(rows, seconds, Paint(sys.stdout), rates=options.rates)))
    for drop in unheard(session):
        say(f"not counted: {drop}")
    if not rows:
        count = len(_peers.established(session))
        why = f"peers that answered: {count}" if count else session.why_not(options.pattern)
        say(f"nothing like {options.pattern!r} within {seconds:.1f} s. {why}")


def run(options: argparse.Namespace) -> int:
    """Look, and list."""
    meters = Meters(WINDOW)
    with opened(options) as session:
        start = time.monotonic()
        rows: list[_Row] = []
        try:
            _listen(options, session, meters, start)
        finally:
            rows = _rows(session, options.pattern, meters)
            _say_all(options, session, rows, time.monotonic() - start)
    return 0 if rows else 1
