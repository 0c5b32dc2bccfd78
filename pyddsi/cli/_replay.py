"""What `pyddsi replay` shows: how far it is, and what it did."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pyddsi
from pyddsi.capture.replay import CoreReplay, Lateness, Progress, Sent, SessionReplay
from pyddsi.cli._samples import content, shown
from pyddsi.cli._session import unsent
from pyddsi.cli._show import Live, Paint, duration, many, size
from pyddsi.wire import SelectionId

__all__ = ["show_deliveries", "show_progress", "show_published", "show_sent"]

SENDERS_SHOWN = 8
BAR = 40
PERCENTS = (50, 90, 99, 99.9)


class Watching:
    """The line about how far it is."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._live = Live(sys.stderr)

    def __call__(self, progress: Progress) -> None:
        left = "" if progress.left is None else f", {duration(progress.left)} left"
        self._live.show(
            [f"{many(progress.count, self._word)} in {duration(progress.seconds)}{left}"]
        )

    def clear(self) -> None:
        """Take it away."""
        self._live.clear()


@contextmanager
def show_progress(word: str) -> Iterator[Watching]:
    """Shows on a terminal how far it is."""
    watch = Watching(word)
    try:
        yield watch
    finally:
        watch.clear()


# ---- lateness ----


def _lateness(late: Lateness, drift: float) -> Iterator[str]:
    if not late:
        return
    values = [f"p{percent:g} {duration(late.percentile(percent) / 1e9)}" for percent in PERCENTS]
    yield f"late: {', '.join(values)}, max {duration(late.max_ns / 1e9)}; the last one {duration(drift)}"
    most = max(count for _, count in late.rows())
    for below, count in late.rows():
        if count:
            name = "later" if below is None else f"below {duration(below / 1e9)}"
            yield f"  {name:>15} {count:>12,}  {'#' * max(1, BAR * count // most)}"


def _plain_lateness(late: Lateness) -> dict[str, Any]:
    if not late:
        return {}
    found: dict[str, Any] = {
        f"p{percent:g}": late.percentile(percent) / 1e9 for percent in PERCENTS
    }
    found["max"] = late.max_ns / 1e9
    found["below"] = [
        {"seconds": None if below is None else below / 1e9, "count": count}
        for below, count in late.rows()
    ]
    return found


# ---- the three modes ----


def show_sent(options: argparse.Namespace, report: Sent) -> None:
    """What was sent, or written."""
    if options.json:
        plain = asdict(report) | {"late": _plain_lateness(report.late)}
        print(json.dumps({"mode": "raw", **plain}))
        return
    what = f"{many(report.packets, 'packet')} ({size(report.bytes)})"
    if options.as_file is not None:
        print(f"{what} in {options.as_file}, which last {duration(report.seconds)}")
    else:
        rate = f", {report.packets / report.seconds:,.0f} a second" if report.seconds else ""
        print(
            f"{what} from {many(len(report.senders), 'sender')} in {duration(report.seconds)}{rate}"
        )
    for recorded, now in list(report.senders.items())[:SENDERS_SHOWN]:
        print(f"  {recorded} sent from {now}")
    if len(report.senders) > SENDERS_SHOWN:
        print(f"  and {len(report.senders) - SENDERS_SHOWN} more (--json has them all)")
    for line in _lateness(report.late, report.drift):
        print(line)
    for count, text in (
        (report.full, "found no room in the system, and were lost"),
        (report.refused, "were refused by the system (a firewall, or no way)"),
        (
            report.streams,
            "came by TCP connections, and were left out: --mode session and core play them",
        ),
    ):
        if count:
            print(f"{many(count, 'packet')} {text}")
    _say_rest(report.broken, report.steps)
    if report.starved:
        print(f"reading was behind sending {many(report.starved, 'time')}")


def _say_rest(broken: int, steps: int) -> None:
    if broken:
        print(f"{many(broken, 'part')} of TCP connections could not be read")
    if steps:
        print(f"the recording's clock was set {many(steps, 'time')}; no pause was made of that")


def show_published(
    options: argparse.Namespace, one: SessionReplay, session: pyddsi.Session
) -> None:
    """What became of the samples, once the session is closed."""
    report, contents = one.report, one.contents
    stats, drops = session.stats(), unsent(session)
    if options.json:
        plain = asdict(report) | {
            "late": _plain_lateness(report.late),
            "resources": len(contents.topics),
            "repeats": contents.repeats,
            "missing": contents.missing,
            "incomplete": contents.incomplete,
            "unmatched": stats.unmatched,
            "filtered": stats.filtered,
            "resent": stats.resent,
            "dropped": [asdict(drop) for drop in drops],
        }
        print(json.dumps({"mode": "session", **plain}))
        return
    print(
        f"{many(report.samples, 'sample')} ({size(report.bytes)}) of {many(len(contents.topics), 'resource')} to "
        f"{many(report.subscribers, 'peer')} in {duration(report.seconds)}"
    )
    for line in _lateness(report.late, report.drift):
        print(line)
    for count, text in (
        (contents.repeats, "messages of the capture came more than once, and count once"),
        (one.recording.malformed, "packets of the capture break a rule, and are read up to there"),
        (contents.missing, "messages are missing in the capture"),
        (contents.incomplete, "samples are not whole in the capture, and were left out"),
        (stats.unmatched, "of them while nobody subscribed"),
        (stats.filtered, "of them did not meet what any subscriber asks for"),
    ):
        if count:
            print(f"{count:,} {text}")
    _say_rest(one.recording.broken, one.recording.steps)
    for drop in drops:
        print(f"dropped: {drop}")


def show_deliveries(options: argparse.Namespace, one: CoreReplay, *, quiet: bool) -> None:
    """What the node delivered, as it does so; quiet: only what it comes to."""
    paint = Paint(sys.stdout)
    count = 0
    for made in one.deliveries():
        count += 1
        if quiet:
            continue
        if options.json:
            plain = {
                "side": str(one.side),
                "time": made.at_ns / 1e9,
                "reader": str(made.reader) if isinstance(made.reader, SelectionId) else made.reader,
                "resource": made.resource,
                "source": made.source,
                "conduit": made.conduit,
                "number": made.number,
                "reliable": made.reliable,
                "size": len(made.data),
            }
            print(json.dumps(plain | content(made.data)))
            continue
        name = shown(str(made.resource).encode(), whole=True)
        print(
            f"{paint('dim', f'{made.at_ns / 1e9:12.6f}')}  c{made.conduit} {made.number:<6} {paint('cyan', name)}  "
            f"{shown(made.data)}"
        )
    if options.json:
        drops = [asdict(drop) for drop in one.drops]
        side = {"mode": "core", "side": str(one.side), "deliveries": count}
        print(json.dumps(side | {"digest": one.digest, "dropped": drops}))
        return
    print(f"{one.side}: {many(count, 'sample')} delivered, digest {one.digest}")
    for drop in one.drops if not quiet else ():
        print(f"dropped: {drop}")
