"""
What the next batch of a stream is: which files are new, or have more than was read of them, and what is known where that begins.

A file is looked for by its first frame, and by the bytes before the place up to which it was read:

    under its name           it may have grown
    elsewhere, not there     it was renamed, or packed
    elsewhere, and there     it is a copy, which is told and not read
    nowhere                  it is new; unless it begins no later than one that was forgotten, for it might be that one

What cannot be read is told once, and set aside until it changes.
"""

from __future__ import annotations

import os
import time
import warnings
import zlib
from pathlib import Path

from pyddsi.capture._capture import CaptureWarning
from pyddsi.capture._files import order_of
from pyddsi.errors import CaptureError
from pyddsi.spark._files import file_key
from pyddsi.spark._folder import Folder, Look, Seen, Stat
from pyddsi.spark._memory import GONE_MAX, Known, Memory, Plan, Planned
from pyddsi.spark._options import Asked
from pyddsi.spark._parts import SPLIT_LEAST, usual_split
from pyddsi.spark._walk import Walk, first_of, mark_of, state_at, steps, walk

__all__ = ["Planner"]

GOES_ON = -1  # with what the range before it ends with
NOT_YET: Stat = (-1, 0, 0)  # of no file: something is to be looked at again
NUMBERS_MAX = 10_000  # between two files; more are no numbers of files but times


def _is_that(path: str, known: Known, folder: Folder) -> bool:
    """Whether a file is this one, as far as it was read."""
    try:
        first = first_of(path, folder.settings)
        return (
            first is not None
            and first.identity == known.identity
            and mark_of(path, known.read) == known.mark
        )
    except CaptureError:
        return False


def _may_be(seen: Seen, known: Known) -> bool:
    """Whether a file that is shorter than what was read of another may be that one."""
    common = steps(0, seen.stat[0])[: len(known.marks)]
    return (
        seen.first.packed
        or not common
        or mark_of(seen.path, common[-1]) == known.marks[len(common) - 1]
    )


class Planner:
    """One process's view of a stream."""

    def __init__(self, asked: Asked, folder: Folder) -> None:
        self.asked = asked
        self.folder = folder
        self.memory = Memory()
        self._told: dict[str, str] = {}  # what was said of a file last
        self._idle: dict[str, Stat] = {}  # files that were never begun, and have nothing to read
        self._quiet: Look | None = None  # of this one nothing is left to be read
        self._there: dict[str, str] = {}  # what stood there last
        self._left: dict[str, str] = {}  # files of which something was, by what they are known

    # ---- what is said ----

    def missing(self, text: str) -> None:
        """Something is lost."""
        if not self.asked.skip_missing:
            raise CaptureError(
                f"{text}; with onMissing=skip the stream goes on without it, or keep files longer than the stream needs"
            )
        warnings.warn(f"{text}; passed over (onMissing=skip)", CaptureWarning, stacklevel=2)

    def _tell(self, path: str, text: str, *, bad: bool = False) -> None:
        """Once, until something else has to be said of the file."""
        if self._told.get(path) == text:
            return
        if bad and self.asked.bad_fails:
            raise CaptureError(f"{text}; with onBad=skip the stream goes on without it")
        self._told[path] = text
        self.memory.told += 1
        warnings.warn(text, CaptureWarning, stacklevel=2)

    # ---- the next batch ----

    def plan(self, look: Look, files_max: float, bytes_max: float) -> Plan | None:
        """The batch after what is known, of no more files and bytes than that, but of one file at least; None: there is nothing to read."""
        if look is self._quiet:
            return None
        memory = self.memory
        plan = Plan(memory.batch + 1)
        self._gone(look)
        waits = False
        for path, (stat, text) in look.odd.items():
            if self.folder.settled(path, stat):
                self._tell(path, text, bad=True)
            else:
                waits = True
        there = {seen.path: seen.first.identity for seen in look.files}
        self._left = {}
        taken = size = 0
        for seen in look.files:
            if self._idle.get(seen.path) == seen.stat:
                continue
            settled = self.folder.settled(seen.path, seen.stat)
            known, wanted = self._match(seen, there, settled=settled)
            if not wanted:
                waits |= not settled
                continue
            if known is not None and known.is_as(seen):
                continue
            ready = settled or seen.goes_on or (self.asked.tail and not seen.first.packed)
            if ready and taken < files_max and size < bytes_max:
                more = self._read(plan, look, seen, known, settled=settled)
                taken, size = taken + (more > 0), size + more
                known = memory.files.get(memory.paths.get(seen.path, -1))
                if self._idle.get(seen.path) == seen.stat or (known and known.is_as(seen)):
                    continue
            waits = True
            self._left[seen.path] = seen.first.identity
        if not plan.runs:
            self._quiet = None if waits else look
            return None
        self._finish(plan)
        return plan

    def _finish(self, plan: Plan) -> None:
        """Forget what is long gone, and note all that has changed."""
        memory = self.memory
        now = time.time()
        gone = sorted((known.gone, known.id) for known in memory.files.values() if known.gone)
        for i, (since, id_) in enumerate(gone):
            if now - since >= self.asked.file_age or len(gone) - i > GONE_MAX:
                memory.horizon = max(memory.horizon, memory.files[id_].time_ns)
                memory.drop(id_)
                plan.forgotten.append(id_)
        memory.changed.update(one.id for run in plan.runs for one in run)
        plan.files = [memory.files[id_] for id_ in sorted(memory.changed)]
        plan.ends = {id_: memory.ends[id_] for id_ in plan.ends if id_ in memory.ends}
        memory.changed.clear()
        memory.batch = plan.batch
        plan.total, plan.told, plan.horizon = memory.total, memory.told, memory.horizon

    def _gone(self, look: Look) -> None:
        """Note which files are no longer there, and what is lost with them."""
        there = {seen.path: seen.first.identity for seen in look.files}
        fresh = {identity for path, identity in there.items() if self._there.get(path) != identity}
        self._there = there
        for path, identity in self._left.items():
            if there.get(path) != identity and identity not in fresh:
                known = self.memory.files.get(self.memory.paths.get(path, -1))
                read = known.read if known is not None and known.identity == identity else 0
                if known is not None and read:
                    known.live = False
                self.missing(f"{path} is gone, and was read to byte {read} only")
        self._left = {}
        for known in list(self.memory.files.values()):
            if known.gone or there.get(known.path) == known.identity or known.identity in fresh:
                continue
            known.gone = time.time()
            if self.memory.paths.get(known.path) == known.id:
                del self.memory.paths[known.path]
            self.memory.changed.add(known.id)
            if known.live:
                self.missing(
                    f"{known.path} is gone, and was read to byte {known.read} only: it was still growing then"
                )
                known.live = False

    # ---- which file it is ----

    def _match(
        self, seen: Seen, there: dict[str, str], *, settled: bool
    ) -> tuple[Known | None, bool]:
        """What is known of a file, if it is not new; and whether it is to be read."""
        memory = self.memory
        known = memory.files.get(memory.paths.get(seen.path, -1))
        if known is not None and known.identity == seen.first.identity and known.stat == seen.stat:
            return known, True
        alike = memory.alike(seen.first.identity)
        alike.sort(key=lambda one: one is not known)
        further: Known | None = None
        for one in alike:
            try:
                mark = mark_of(seen.path, one.read)
                shorter = mark is None and _may_be(seen, one)
            except CaptureError:
                return None, False
            if mark is None:
                further = one if shorter else further
            elif mark != one.mark:
                if one is known:
                    self._tell(
                        seen.path,
                        f"{seen.path} has changed before byte {one.read}, up to which it was read; it is not read on",
                        bad=True,
                    )
                    return None, False
            elif one.path != seen.path and there.get(one.path) == one.identity:
                self._tell(seen.path, f"{seen.path} is a copy of {one.path}, and is not read")
                return None, False
            else:
                memory.move(one, seen.path)
                return one, True
        if further is not None:
            if settled:
                self._tell(
                    seen.path,
                    f"{seen.path} begins as {further.path}, of which {further.read} bytes were read, and is shorter; it is not read",
                )
            return None, False
        return None, True

    def where(self, known: Known) -> str | None:
        """Where a file is now that was planned to be read; None: it is gone."""
        try:
            found = os.stat(known.path)  # noqa: PTH116 - of thousands
            if (found.st_size, found.st_mtime_ns, found.st_ino) == known.stat:
                return known.path
        except OSError:
            pass
        if _is_that(known.path, known, self.folder):
            return known.path
        for seen in self.folder.look().files:
            if seen.first.identity == known.identity and _is_that(seen.path, known, self.folder):
                return seen.path
        return None

    # ---- what there is to read of it ----

    def _state(self, known: Known, path: str) -> bytes | None:
        """What is known where a file was read up to: it was kept, or is found in the file alone."""
        kept = self.memory.ends.get(known.id)
        if kept is not None:
            return zlib.decompress(kept)
        if known.gone or not _is_that(path, known, self.folder):
            return None
        return state_at(path, self.folder.settings, known.read)

    def _read(
        self, plan: Plan, look: Look, seen: Seen, known: Known | None, *, settled: bool
    ) -> int:
        """Put what there is of a file into the batch: so many bytes."""
        memory = self.memory
        before = None
        start = 0
        if known is None:
            if seen.first.time_ns <= memory.horizon:
                self._idle[seen.path] = seen.stat
                self._tell(
                    seen.path,
                    f"{seen.path} comes too late: files that begin no later have been forgotten (maxFileAge), and it may be "
                    f"one of them; it is not read",
                )
                return 0
            before = memory.before(seen)
            state = None if before is None else self._state(before, before.path)
        else:
            start = known.read
            state = self._state(known, seen.path)
        found = self._walked(seen, start, state)
        if found is None:
            return 0
        if found.wrong and settled:
            self._tell(seen.path, found.wrong, bad=True)
        looked = settled or not found.wrong
        more = found.stop - start
        if known is None and more > 0:
            self._numbers(look, seen)
            known = memory.new(seen, order_of(Path(seen.path).name), file_key(seen.path))
        if known is None:
            if looked:
                self._idle[seen.path] = seen.stat
            return 0
        memory.changed.add(known.id)
        known.stat = seen.stat if looked else NOT_YET
        known.live = not (settled or seen.goes_on)
        if more > 0:
            self._put(plan, known, before, found)
            known.read, known.mark = found.stop, found.mark
            if len(known.marks) == len(steps(0, start)):
                known.marks = [*known.marks, *found.marks]
            memory.end(known.id, zlib.compress(found.end, 1))
            plan.ends[known.id] = b""
        return more

    def _walked(self, seen: Seen, start: int, state: bytes | None) -> Walk | None:
        """How far it can be read; None: it is no longer what it was."""
        try:
            found = walk(seen.path, self.folder.settings, start, state)
            first = first_of(seen.path, self.folder.settings)
            mark = mark_of(seen.path, found.stop)
            places = [] if found.packed else steps(start, found.stop)
            found.marks = [mark_of(seen.path, place) or 0 for place in places]
        except CaptureError as error:
            self.folder.forget(seen.path)
            if Path(seen.path).exists():
                self._tell(seen.path, str(error), bad=True)
            return None
        if first is None or first.identity != seen.first.identity or mark is None:
            self.folder.forget(seen.path)
            return None
        found.mark = mark
        return found

    def _put(self, plan: Plan, known: Known, before: Known | None, found: Walk) -> None:
        """Its ranges: behind the one that it goes on from, as long as they are small, else with what is known at their start."""
        start = found.start
        split = self.asked.split_bytes or usual_split(found.stop - start)
        last = plan.runs[-1] if plan.runs else []
        small = sum(one.stop - one.start for one in last) + found.stop <= max(split, SPLIT_LEAST)
        if last and before is not None and last[-1].id == before.id and start == 0 and small:
            last.append(Planned(known.id, 0, found.stop, GOES_ON))
            return
        ranges = [(start, found.begin)]
        for cut in found.cuts:
            if cut[0] - ranges[-1][0] >= split and not found.packed:
                ranges.append(cut)
        for i, (at, held) in enumerate(ranges):
            stop = ranges[i + 1][0] if i + 1 < len(ranges) else found.stop
            plan.states.append(zlib.compress(held, 1))
            plan.runs.append([Planned(known.id, at, stop, len(plan.states) - 1)])

    def _numbers(self, look: Look, seen: Seen) -> None:
        """Tell of files between this one and the last of its recording that never were there, where they are counted one by one."""
        if seen.number is None:
            return
        known = self.memory.numbers(seen.recording)
        if seen.number - 1 in known or not known:
            return
        last = max((number for number in known if number < seen.number), default=None)
        if last is None or last - 1 not in known:
            return
        there = {one.number or 0 for one in look.files if one.recording == seen.recording}
        never = seen.number - last - 1 - sum(last < number < seen.number for number in there)
        if 0 < never < NUMBERS_MAX:
            self._tell(
                seen.path,
                f"{seen.path} follows number {last} of its recording, and {never} files between them were never seen "
                f"here: they were removed before, or come later",
            )
