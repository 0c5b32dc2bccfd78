"""
Many seeds, on all cores: each worker is a process that plays its share and sends a report after each.

A seed may bring its process down (a check of the core stops it). So each worker notes what it plays in memory that both
see; from there the parent knows which seed it was, and starts a new worker for the rest.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from pyddsi.testing import Report, run_scenario

Task = tuple[str, int]  # scenario, seed
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Death:
    """A run that ended its process."""

    scenario: str
    seed: int
    text: str


class _Worker:
    """A process and its share of the tasks."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self._at: Any = _FORK.RawValue("Q", 0)
        self.reports, theirs = _FORK.Pipe(duplex=False)
        self.process = _FORK.Process(target=_work, args=(tasks, self._at, theirs), daemon=True)
        # A child is born deaf to Ctrl-C and stays so, as the parent ends it: it comes to all of a terminal's processes.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def close(self) -> None:
        """End it, wherever it is."""
        self.reports.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()

    def death(self) -> Death | None:
        """Why its reports have ended, if not because all is done."""
        self.process.join()
        code = self.process.exitcode
        if not code:
            return None
        scenario, seed = self.tasks[self._at.value]
        how = signal.Signals(-code).name if code < 0 else f"status {code}"
        return Death(scenario, seed, f"the run ended its process with {how}")

    @property
    def rest(self) -> Sequence[Task]:
        """What is left when the current task is left out."""
        return self.tasks[self._at.value + 1 :]


def _work(tasks: Sequence[Task], at: Any, reports: Connection) -> None:
    for number, (scenario, seed) in enumerate(tasks):
        at.value = number
        reports.send(run_scenario(scenario, seed))
    reports.close()


def play(tasks: Sequence[Task], jobs: int) -> Generator[Report | Death]:
    """Play all tasks on so many processes; what comes of each, in the order in which they are done."""
    shares = [tasks[i::jobs] for i in range(min(jobs, len(tasks)))]
    workers = {}
    try:
        for share in shares:
            worker = _Worker(share)
            workers[worker.reports] = worker
        while workers:
            for ready in wait(list(workers)):
                yield from _next(workers, ready)
    finally:
        for worker in workers.values():
            worker.close()


def _next(workers: dict[Any, _Worker], ready: Any) -> Iterator[Report | Death]:
    worker = workers[ready]
    try:
        yield ready.recv()
    except EOFError:
        del workers[ready]
        death = worker.death()
        worker.close()
        if death is None:
            return
        if worker.rest:
            other = _Worker(worker.rest)
            workers[other.reports] = other
        yield death
