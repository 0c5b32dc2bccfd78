"""`pyddsi ping`: round trips to other sessions."""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
import time
from typing import Any

import pyddsi
from pyddsi.cli import _arguments as read
from pyddsi.cli._arguments import UsageError
from pyddsi.cli._session import add_session, opened
from pyddsi.cli._show import Paint, duration, many, percentile, say

DESCRIPTION = """\
Measure round trips: a sample goes to every session that serves, and its bytes come back. The times are those of a program
in Python, both ways, with all that a sample goes through.
"""

EXAMPLES = """\
examples:
  pyddsi ping --serve          on the other machine, or in another terminal
  pyddsi ping
  pyddsi ping --count 1000 --interval 0 --size 8k
  pyddsi ping --interval 0 --spin --json

The exit status is 1 if nobody serves, or an answer was missing.
"""

BASE = "pyddsi/ping"
COUNT = 10
HEAD = struct.Struct("<8sQ")  # who asks, and which question
FIRST = 2**64 - 1  # the question whether somebody is there
ASK_AGAIN = 0.05
PATIENCE = 1.0  # of the side that answers
PERCENTILES = (50, 90, 99)


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.add_argument("--serve", action="store_true", help="answer others, until Ctrl-C")
    parser.add_argument(
        "--count",
        metavar="N",
        type=read.whole_number(1),
        default=COUNT,
        help=f"how many samples (default: {COUNT})",
    )
    parser.add_argument(
        "--interval",
        metavar="TIME",
        type=read.span,
        default=0.2,
        help="from one to the next; 0: when the answer is there (default: 200ms)",
    )
    parser.add_argument(
        "--size",
        metavar="BYTES",
        type=read.byte_count(HEAD.size),
        default=64,
        help="of a sample (default: 64)",
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=read.span_above_0,
        default=5.0,
        help="how long to wait for somebody who serves, and for an answer (default: 5 s)",
    )
    parser.add_argument(
        "--spin",
        action="store_true",
        help="look for samples without pause: faster, and takes a core",
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        type=read.resource,
        default=BASE,
        help=f"both sides agree on it (default: {BASE})",
    )
    read.add_json(parser, "one JSON object an answer, and one of all at the end")
    add_session(parser, metrics=True)


# ---- the side that answers ---------------------------------------------------------------------------------------


def serve(base: str, session: pyddsi.Session, *, spin: bool) -> None:
    """Send back what comes."""
    answer = session.publisher(f"{base}/answer")
    for sample in _coming(session.subscriber(f"{base}/ask"), spin=spin):
        try:
            answer.put(sample.data, timeout=PATIENCE)
        except TimeoutError as error:  # who does not take its answers does without
            say(str(error))
        session.flush()


def _coming(subscriber: pyddsi.Subscriber, *, spin: bool) -> Any:
    if not spin:
        return subscriber
    return iter(lambda: _spun(subscriber, None), None)


def _spun(subscriber: pyddsi.Subscriber, until: float | None) -> pyddsi.Sample | None:
    """The next sample, without sleeping for it."""
    while (sample := subscriber.poll()) is None:
        if until is not None and time.monotonic() > until:
            return None
    return sample


# ---- the side that asks ------------------------------------------------------------------------------------------


class Asker:
    """Asks, and takes the answers that are its own."""

    def __init__(self, session: pyddsi.Session, base: str, size: int, *, spin: bool) -> None:
        self._session = session
        self._ask = session.publisher(f"{base}/ask")
        self._answers = session.subscriber(f"{base}/answer")
        self._me = os.urandom(8)
        self._question = bytearray((bytes(range(256)) * (size // 256 + 1))[:size])
        self._spin = spin

    def reach(self, timeout: float) -> int:
        """Wait until somebody answers, and everybody who subscribes; how many do."""
        until = time.monotonic() + timeout
        found: set[str | None] = set()
        while time.monotonic() < until and len(found) < max(1, len(self._ask.matched)):
            self.put(FIRST)
            pause = time.monotonic() + ASK_AGAIN
            while sample := self.answer(FIRST, pause):
                found.add(sample.source)
                if len(found) >= len(self._ask.matched):
                    break
        return len(found)

    def close(self) -> None:
        """Ask no more."""
        self._ask.close()
        self._answers.close()

    def why_not(self) -> str:
        """Why nobody is reached."""
        return self._session.why_not(self._ask.name)

    def put(self, number: int) -> int:
        """Ask; when that was."""
        HEAD.pack_into(self._question, 0, self._me, number)
        now = time.perf_counter_ns()
        self._ask.put(self._question)
        self._session.flush()
        return now

    def answer(self, number: int, until: float) -> pyddsi.Sample | None:
        """An answer to this question, or None when the time is over."""
        while True:
            sample = self._next(until)
            if sample is None:
                return None
            data = sample.data
            if len(data) >= HEAD.size and HEAD.unpack_from(data) == (self._me, number):
                return sample

    def _next(self, until: float) -> pyddsi.Sample | None:
        if self._spin:
            return _spun(self._answers, until)
        try:
            return self._answers.recv(timeout=max(0.0, min(0.4, until - time.monotonic())))
        except TimeoutError:
            return None if time.monotonic() >= until else self._next_again(until)

    def _next_again(self, until: float) -> pyddsi.Sample | None:
        found: pyddsi.Sample | None = self._session.wait(
            max(0.0, until - time.monotonic()), self._answers.poll
        )
        return found


def summary(times: list[float]) -> dict[str, float]:
    """Seconds by the names of their percentiles."""
    ordered = sorted(times)
    found = {"min": ordered[0] if ordered else 0.0}
    found |= {f"p{percent}": percentile(ordered, percent) for percent in PERCENTILES}
    return found | {"max": ordered[-1] if ordered else 0.0}


def _measure(options: argparse.Namespace, asker: Asker, servers: int, times: list[float]) -> int:
    """Ask as often as wanted; how often in all, as the answers are to be."""
    paint, asked = Paint(sys.stdout), 0
    quiet = options.interval == 0 and not options.json
    for number in range(options.count):
        start = asker.put(number)
        asked += servers
        until = time.monotonic() + options.timeout
        for _ in range(servers):
            sample = asker.answer(number, until)
            if sample is None:
                say(f"no answer to number {number} within {options.timeout:g} s")
                break
            seconds = (time.perf_counter_ns() - start) / 1e9
            times.append(seconds)
            if options.json:
                plain = {"source": sample.source, "number": number, "size": sample.size}
                print(json.dumps(plain | {"seconds": seconds}), flush=True)
            elif not quiet:
                who = paint("cyan", str(sample.source))
                print(f"{sample.size} bytes from {who}: {number}  {duration(seconds)}", flush=True)
        left = options.interval - (time.perf_counter_ns() - start) / 1e9
        if left > 0 and number + 1 < options.count:
            time.sleep(left)
    return asked


def _say_all(options: argparse.Namespace, times: list[float], asked: int) -> None:
    found = summary(times)
    if options.json:
        plain = {"asked": asked, "answered": len(times), "size": options.size, "seconds": found}
        print(json.dumps(plain))
        return
    print(f"{many(len(times), 'answer')}, {asked - len(times)} missing")
    if times:
        print("round trip: " + ", ".join(f"{name} {duration(t)}" for name, t in found.items()))


def run(options: argparse.Namespace) -> int:
    """Serve, or measure."""
    if isinstance(options.name, int):
        raise UsageError("ping: --name is a name; what it measures with is made of it")
    with opened(options) as session:
        if options.serve:
            say(f"answering as {session.name}; `pyddsi ping` on the other side, Ctrl-C ends")
            serve(options.name, session, spin=options.spin)
            return 0
        asker = Asker(session, options.name, options.size, spin=options.spin)
        servers = asker.reach(options.timeout)
        if not servers:
            why = asker.why_not()
            say(f"nobody answers; start `pyddsi ping --serve` on the other side. {why}")
            return 1
        times: list[float] = []
        asked = 0
        try:
            asked = _measure(options, asker, servers, times)
        finally:
            _say_all(options, times, max(asked, len(times)))
        return 0 if len(times) == asked else 1
