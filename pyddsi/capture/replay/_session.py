"""
Replay into a session: the recorded samples are published again, with numbers and acknowledgements of their own.

    recording ─► survey: which resources there are ─► a publisher for each ─► somebody subscribes
    recording ─► samples, each once ─► schedule ─► put ─► ... ─► all is acknowledged

This is what an application sees of a replay: its own peer publishes what others published then, when they did. The times
are kept by sleeping until a moment on the clock. A thread of C does that better by some microseconds (benchmarks/replay.py
measures both), which a sample loses again on its way through a session; so there is none here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from pyddsi import Publisher, Session
from pyddsi._declared import TIMEOUT
from pyddsi._values import SECOND
from pyddsi.capture.replay._late import Lateness
from pyddsi.capture.replay._pace import Pace, Schedule
from pyddsi.capture.replay._raw import Progress, Watch
from pyddsi.capture.replay._samples import Sample, Samples
from pyddsi.capture.replay._source import Recording
from pyddsi.errors import CaptureError, ReplayError
from pyddsi.wire import Buffer

__all__ = ["Contents", "Published", "SessionReplay", "Topic", "survey"]

BATCH = 64
WATCH_SECONDS = 0.25
ALL_MATCHED_SECONDS = 0.5
"""Once somebody subscribes to something, how long the other subscriptions are waited for."""


class Topic(NamedTuple):
    """What has a publisher of its own. resource: a name, or a number where the capture tells none."""

    resource: str | int
    space: int
    reliable: bool


@dataclass
class Contents:
    """
    What there is to be published.

    topics: how many samples of each
    samples, bytes: of all
    first_ns, last_ns: the times of the first and the last
    repeats: messages that came more than once, and count once
    missing: numbers that the capture lacks
    incomplete: samples of which it lacks a piece
    """

    topics: dict[Topic, int] = field(default_factory=dict)
    samples: int = 0
    bytes: int = 0
    first_ns: int = 0
    last_ns: int = 0
    repeats: int = 0
    missing: int = 0
    incomplete: int = 0


@dataclass
class Published:
    """
    What a replay into a session did.

    samples, bytes: what was put
    seconds: that it took
    rounds: how many were begun
    subscribers: the most peers that one resource had
    late: how late each sample was put (empty if nothing was to wait)
    drift: how late the last one was, in seconds
    """

    samples: int = 0
    bytes: int = 0
    seconds: float = 0.0
    rounds: int = 0
    subscribers: int = 0
    late: Lateness = field(default_factory=Lateness)
    drift: float = 0.0


def _walk(recording: Recording, samples: Samples) -> Iterator[Sample]:
    """The samples that are wanted. What is not wanted is read all the same: it has names and numbers."""

    def wanted(found: Iterable[Sample]) -> Iterator[Sample]:
        for sample in found:
            if recording.within(sample.packet) and recording.fits(sample.packet, sample.message):
                yield sample

    broken = None
    try:
        for packet, messages in recording.heard():
            yield from wanted(samples.push(packet, messages))
    except CaptureError as error:  # what was whole before is still to come
        broken = error
    yield from wanted(samples.finish())
    if broken is not None:
        raise broken


def _topic(sample: Sample) -> Topic:
    return Topic(sample.resource, sample.space, sample.reliable)


def survey(recording: Recording) -> Contents:
    """Read it once, to know what there is. ReplayError if there is nothing."""
    if recording.once:
        raise ReplayError(
            f"{recording.name} can be read once, and a session needs to know what comes: save it in a file"
        )
    recording.check()
    found, samples = Contents(), Samples()
    broken = None
    try:
        for sample in _walk(recording, samples):
            topic = _topic(sample)
            found.topics[topic] = found.topics.get(topic, 0) + 1
            found.first_ns = found.first_ns if found.samples else sample.at_ns
            found.last_ns = sample.at_ns
            found.samples += 1
            found.bytes += len(sample.payload)
    except CaptureError as error:  # it is told when all before it has been published
        broken = error
    found.repeats, found.missing = samples.repeats, samples.missing
    found.incomplete = samples.incomplete
    if found.samples:
        return found
    if broken is not None:
        raise broken
    if recording.limited:
        raise recording.unwanted()
    raise ReplayError(
        f"{recording.name}: {recording.packets} packets of the protocol, and no sample in them, so there is nothing to publish"
    )


class SessionReplay:
    """
    Publishes the samples of a recording in a session. Used once.

    contents: what `survey` said of it
    timeout: seconds to wait for a subscriber, and for room
    """

    def __init__(
        self,
        recording: Recording,
        session: Session,
        pace: Pace | None = None,
        *,
        contents: Contents | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.recording = recording
        self.session = session
        self.pace = pace or Pace()
        self.contents = contents or survey(recording)
        self.timeout = timeout
        self.report = Published()
        self._publishers: dict[Topic, Publisher] = {}
        self._shown = 0.0
        self._begun = 0

    # ---- before ----

    def declare(self) -> None:
        """Declare a publisher for each resource."""
        for topic in self.contents.topics:
            self._publishers[topic] = self.session.publisher(
                topic.resource, space=topic.space, reliable=topic.reliable
            )

    def matched(self) -> int:
        """How many of the resources somebody subscribes to."""
        found = [len(one.matched) for one in self._publishers.values()]
        self.report.subscribers = max([self.report.subscribers, *found])
        return sum(map(bool, found))

    def wait_matched(self, timeout: float | None = None) -> int:
        """Wait until some of its resources have a subscriber, and answer how many have; TimeoutError says why not."""
        limit = self.timeout if timeout is None else timeout
        if not self.session.wait(limit, self.matched):
            first = next(iter(self.contents.topics))
            raise TimeoutError(
                f"{self.recording.name}: nobody subscribes to any of its resources after {limit:g} s. "
                + self.session.why_not(first.resource)
            )
        self.session.wait(
            min(limit, ALL_MATCHED_SECONDS), lambda: self.matched() == len(self._publishers)
        )
        return self.matched()

    # ---- publishing ----

    def run(self, watch: Watch | None = None, *, wait: bool = True) -> Published:
        """
        Publish everything; returns when all is acknowledged. What it did is in `report` as well, if something ended it.

        watch: is called some times a second, with how far it is
        wait: until somebody subscribes
        """
        self.check()
        if not self._publishers:
            self.declare()
        if wait:
            self.wait_matched()
        schedule = Schedule(self.pace)
        self._begun = time.monotonic_ns()
        try:
            for number in self.pace.rounds():
                self.report.rounds = number + 1
                for publisher, batch, due in self._batches(schedule):
                    self._put(publisher, batch, due, watch)
                schedule.next_round()
        finally:
            self.report.seconds = (time.monotonic_ns() - self._begun) / SECOND
            self.matched()
        self.settle()
        return self.report

    def check(self) -> None:
        """That the end is no hundred years away, before anybody waits for it."""
        schedule = Schedule(self.pace)
        for at_ns in (self.contents.first_ns, self.contents.last_ns):
            schedule.due(at_ns, 0)

    def _batches(self, schedule: Schedule) -> Iterator[tuple[Publisher, list[Buffer], int]]:
        """One round: samples of one publisher that have the same time, and that time."""
        batch: list[Buffer] = []
        before: tuple[Publisher, int] | None = None
        broken = None
        try:
            for sample in _walk(self.recording, Samples()):
                due = schedule.base + schedule.due(sample.at_ns, len(sample.payload))
                now = self._publishers[_topic(sample)], due
                if before is not None and (now != before or len(batch) == BATCH):
                    yield before[0], batch, before[1]
                    batch = []
                before = now
                batch.append(sample.payload)
        except CaptureError as error:  # after all that was whole
            broken = error
        if before is not None:
            yield before[0], batch, before[1]
        if broken is not None:
            raise broken

    def _put(
        self, publisher: Publisher, batch: list[Buffer], due: int, watch: Watch | None
    ) -> None:
        """Wait until it is time, and put them."""
        if not self.pace.flat_out:
            late = self._sleep(self._begun + due, watch)
            self.report.late.add(late, len(batch))
            self.report.drift = max(0, late) / SECOND
        taken = 0
        try:
            publisher.put_many(batch, timeout=self.timeout)
            taken = len(batch)
        except (TimeoutError, ValueError, KeyboardInterrupt) as error:
            taken = getattr(error, "taken", 0)
            raise
        finally:
            self.report.samples += taken
            self.report.bytes += sum(map(len, batch[:taken]))
        self._watch(watch)

    def _sleep(self, until: int, watch: Watch | None) -> int:
        """Sleep until a moment; how much later it is now."""
        while (left := until - time.monotonic_ns()) > 0:
            time.sleep(min(left / SECOND, WATCH_SECONDS))
            self._watch(watch)
        return -left

    def _watch(self, watch: Watch | None) -> None:
        if watch is None or (now := time.monotonic()) - self._shown < WATCH_SECONDS:
            return
        self._shown = now
        seconds = now - self._begun / SECOND
        done = self.report.samples
        left = None
        if self.pace.loop:
            total = self.pace.seconds(self.contents.samples, self.contents.bytes, self._length())
            if self.pace.flat_out and done:
                total = seconds * self.contents.samples * self.pace.loop / done
            left = max(0.0, total - seconds)
        watch(Progress(done, seconds, left))

    def _length(self) -> int:
        return self.contents.last_ns - self.contents.first_ns

    # ---- after ----

    def settled(self) -> bool:
        """Whether all is acknowledged."""
        windows = [one.window for one in self._publishers.values()]
        return all(one is None or not one.used_samples for one in windows)

    def settle(self) -> None:
        """Wait until all is acknowledged, at most for the timeout."""
        self.session.flush()
        with suppress(TimeoutError):
            self.session.wait(self.timeout, self.settled)
