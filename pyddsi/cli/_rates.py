"""How often samples come, and how large they are: what `hz`, `bw` and `ls` count."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise

import pyddsi
from pyddsi.cli import _arguments as read
from pyddsi.cli._session import add_session, declaring, opened, unheard
from pyddsi.cli._show import Live, Paint, say

__all__ = ["Measured", "Meter", "add_meter", "observed", "run_meter", "watch"]

WINDOW = 10_000
DEPTH = 1 << 16
BATCH = 4096
EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of the latest samples of a resource. Times in seconds, sizes in bytes."""

    resource: str | int | None
    total: int
    samples: int
    per_second: float
    interval_min: float
    interval_mean: float
    interval_max: float
    interval_deviation: float
    bytes_per_second: float
    size_min: int
    size_mean: float
    size_max: int


class Meter:
    """The latest samples of one resource: when each came, and how large it was."""

    def __init__(self, window: int) -> None:
        self._seen: deque[tuple[int, int]] = deque(maxlen=window)
        self.total = 0

    def add(self, time_ns: int, length: int) -> None:
        """One more."""
        self._seen.append((time_ns, length))
        self.total += 1

    def measured(self, resource: str | int | None) -> Measured:
        """What can be said of them. The bytes a second are of all but the first, with whose end the time begins."""
        seen = list(self._seen)
        times = [time_ns for time_ns, _ in seen]
        sizes = [length for _, length in seen]
        gaps = [(later - earlier) / 1e9 for earlier, later in pairwise(times)]
        span = (times[-1] - times[0]) / 1e9 if gaps else 0.0
        mean = span / len(gaps) if gaps else 0.0
        spread = math.fsum((gap - mean) ** 2 for gap in gaps)
        return Measured(
            resource=resource,
            total=self.total,
            samples=len(seen),
            per_second=1 / mean if mean > 0 else 0.0,
            interval_min=min(gaps, default=0.0),
            interval_mean=mean,
            interval_max=max(gaps, default=0.0),
            interval_deviation=math.sqrt(spread / len(gaps)) if gaps else 0.0,
            bytes_per_second=sum(sizes[1:]) / span if span > 0 else 0.0,
            size_min=min(sizes, default=0),
            size_mean=sum(sizes) / len(sizes) if sizes else 0.0,
            size_max=max(sizes, default=0),
        )


class Meters(dict[str | int | None, Meter]):
    """A meter for each resource that was heard of."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self._window = window

    def __missing__(self, resource: str | int | None) -> Meter:
        meter = self[resource] = Meter(self._window)
        return meter

    def measured(self) -> list[Measured]:
        """Of each, in order."""
        return [self[key].measured(key) for key in sorted(self, key=str)]


def observed(session: pyddsi.Session, name: str | int) -> pyddsi.Subscriber:
    """A subscriber that never holds up its publishers."""
    with declaring():
        return session.subscriber(name, depth=DEPTH, on_full="drop_newest")


def watch(
    session: pyddsi.Session, subscribers: list[pyddsi.Subscriber], until: float, meters: Meters
) -> Iterator[None]:
    """Count what comes until then. Yields after each batch."""

    def some() -> list[pyddsi.Sample]:
        found: list[pyddsi.Sample] = []
        for subscriber in subscribers:
            while len(found) < BATCH and (sample := subscriber.poll()) is not None:
                found.append(sample)
        return found

    while (left := until - time.monotonic()) > 0:
        for sample in session.wait(left, some):
            meters[sample.resource].add(sample.time_ns, sample.size)
        yield


# ---- the command that two modules are ----------------------------------------------------------------------------


def add_meter(parser: read.Parser) -> None:
    """The options of `hz` and `bw`."""
    parser.mixed = True
    parser.add_argument(
        "names", metavar="NAME", nargs="+", type=read.resource, help="a name, or a pattern"
    )
    parser.add_argument(
        "--window",
        metavar="N",
        type=read.whole_number(2, 10_000_000),
        default=WINDOW,
        help=f"how many of the latest samples count (default: {WINDOW})",
    )
    parser.add_argument(
        "--every",
        metavar="TIME",
        type=read.span_above_0,
        default=EVERY,
        help="from one report to the next (default: 1s)",
    )
    parser.add_argument(
        "--count", metavar="N", type=read.whole_number(1), help="end after so many samples"
    )
    read.add_duration(parser, "end after so long (default: Ctrl-C ends)")
    read.add_json(parser, "one JSON object a resource and report")
    add_session(parser, metrics=True)


Shown = Callable[[list[Measured], Paint], list[str]]


def run_meter(options: argparse.Namespace, shown: Shown) -> int:
    """Measure, and report now and then."""
    live, paint = Live(sys.stdout), Paint(sys.stdout)
    meters = Meters(options.window)

    def report(*, last: bool) -> None:
        found = meters.measured()
        if options.json:
            for one in found:
                print(json.dumps(asdict(one)), flush=True)
        elif last or not live.on:
            live.done(shown(found, paint) if found else [])
        else:
            live.show(shown(found, paint))

    with opened(options) as session:
        subscribers = [observed(session, name) for name in dict.fromkeys(options.names)]
        try:
            _report_until_end(options, session, subscribers, meters, report)
        finally:
            report(last=True)
            live.clear()
            for drop in unheard(session):
                say(f"not counted: {drop}")
            if not meters:
                say(f"no sample came. {session.why_not(options.names[0])}")
    return 0 if meters else 1


def _report_until_end(
    options: argparse.Namespace,
    session: pyddsi.Session,
    subscribers: list[pyddsi.Subscriber],
    meters: Meters,
    report: Callable[..., None],
) -> None:
    now = time.monotonic()
    end = math.inf if options.duration is None else now + options.duration
    due = min(end, now + options.every)
    while now < end:
        for _ in watch(session, subscribers, due, meters):
            if options.count and sum(meter.total for meter in meters.values()) >= options.count:
                return
        now = due
        due = min(end, now + options.every)
        if now < end and meters:
            report(last=False)
