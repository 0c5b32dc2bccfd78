"""
pyddsi and its rivals side by side: from Python, in separate processes, interleaved, with losses counted.

    ./run bench peers [--rounds N] [--seconds S] [--only NAMES] [--skip NAMES] [--tables NAMES] [--sizes SIZES]
                      [--json FILE]
    ./run bench peers --quick         some of it in less than a minute, to see that all works
    ./run bench peers --from FILE     the tables of an earlier run

In each round every cell of every table is measured once, contender after contender, in fresh processes; so what else the
machine does meanwhile falls on all alike. A cell shows the median and, in brackets, the lowest and the highest; the last
table compares pyddsi with the best rival of the same run. Which calls of a library are used is said in
_peers_contenders.py and _peers_rivals.py, how a rate is counted in _peers_child.py: at the receiver, from the first
batch to the last, and what did not come is `lost`.

    one-way      samples/s by payload bytes, one call for each sample, reliable; losses; CPU of both processes
    batch        the same with one call for 64 samples, where there is such a call
    loaned       memory is borrowed and sent without being written to, where that can be done
    round-trip   microseconds there and back, on two processors and with both processes on one
    fan-out      one publisher, four subscribers, 1 KiB: samples/s at all four together
    start        milliseconds from the start of a process to its first sample: both start; the publisher is there
    memory       MiB and CPU of processes that have met and wait, and MiB under load
    import       milliseconds, and with what is loaded when it is first used
    limits       what the machine can do at all; see limits.py
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import _peers_process as run
import limits
from _peers_child import MARK
from _peers_contenders import Contender, contenders
from _peers_tables import tables

SIZES = (8, 64, 1024, 8192, 65536, 1048576)
BATCH_SIZES = (8, 64, 1024, 8192)
LOAN_SIZES = (65536, 1048576)
TRIP_SIZES = (64, 8192)
FAN_SIZE = 1024
FAN = 4
MEMORY_SIZE = 1024
IDLE_S = 2.0
QUICK_IDLE_S = 0.3
TABLES = (
    "one-way",
    "batch",
    "loaned",
    "round-trip",
    "fan-out",
    "start",
    "memory",
    "import",
    "limits",
)

Results = dict[str, dict[str, dict[str, list[run.Values]]]]  # table, column, contender


def anyone(_kind: type[Contender]) -> bool:
    """Can do this."""
    return True


def batching(kind: type[Contender]) -> bool:
    """Has a call for many samples."""
    return kind.batches


def lending(kind: type[Contender]) -> bool:
    """Lends memory."""
    return kind.loans


def sleeping(kind: type[Contender]) -> bool:
    """Can share a processor, because it sleeps while it waits."""
    return not kind.spins


@dataclass(frozen=True)
class Cell:
    """One thing to measure of each contender."""

    table: str
    column: str
    call: Callable[[str], run.Values]
    fits: Callable[[type[Contender]], bool] = anyone


@dataclass
class Book:
    """All that was measured, and what went wrong."""

    results: Results = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, cell: Cell, name: str, values: run.Values) -> None:
        """Write one measurement down."""
        column = self.results.setdefault(cell.table, {}).setdefault(cell.column, {})
        column.setdefault(name, []).append(values)


def cells(chosen: argparse.Namespace) -> Iterator[Cell]:
    """All cells, of the sizes that were asked for."""
    seconds = chosen.seconds
    ways = (
        ("one-way", "put", chosen.sizes, anyone),
        ("batch", "many", BATCH_SIZES, batching),
        ("loaned", "loan", LOAN_SIZES, lending),
    )
    for table, mode, sizes, fits in ways:
        for size in sizes:
            if size in chosen.sizes:
                call = partial(run.one_way, mode=mode, size=size, seconds=seconds)
                yield Cell(table, str(size), call, fits)
    two = sorted(os.sched_getaffinity(0))[:2]
    for place, cpus, fits in (("two", two, anyone), ("one", two[:1], sleeping)):
        for size in TRIP_SIZES[: 1 if chosen.quick else None]:
            call = partial(run.round_trip, size=size, seconds=seconds, cpus=cpus)
            yield Cell("round-trip", f"{place} {size}", call, fits)
    call = partial(run.one_way, mode="put", size=FAN_SIZE, seconds=seconds, subscribers=FAN)
    yield Cell("fan-out", str(FAN), call)
    yield Cell("start", "cold", run.cold)
    yield Cell("start", "join", run.join)
    idle_s = QUICK_IDLE_S if chosen.quick else IDLE_S
    call = partial(run.idle_then_loaded, size=MEMORY_SIZE, seconds=seconds, idle_s=idle_s)
    yield Cell("memory", "all", call)
    yield Cell("import", "ms", run.importing)


def present(names: list[str], book: Book) -> list[str]:
    """Those that can be imported; this fills the file caches too."""
    there = []
    for name in names:
        try:
            run.importing(name)
            there.append(name)
        except run.PeerError as failure:
            book.failures[name] = str(failure)
            note(f"left out: {failure}")
    return there


def measure(chosen: argparse.Namespace, book: Book) -> None:
    """All rounds."""
    kinds = contenders()
    names = present([name for name in kinds if name in chosen.only], book)
    wanted = [cell for cell in cells(chosen) if cell.table in chosen.tables]
    for turn in range(chosen.rounds):
        for cell in wanted:
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                key = f"{cell.table} {cell.column} {name}"
                if key in book.failures or not cell.fits(kinds[name]):
                    continue
                note(f"round {turn + 1} of {chosen.rounds}: {key}", passing=True)
                try:
                    book.add(cell, name, cell.call(name))
                except run.PeerError as failure:
                    book.failures[key] = str(failure)
                    note(f"{cell.table} {cell.column}: {failure}")
        if "limits" in chosen.tables:
            note(f"round {turn + 1} of {chosen.rounds}: limits", passing=True)
            limits.add(book.results.setdefault("limits", {}), quick=chosen.quick)
    note("", passing=True)


def note(text: str, *, passing: bool = False) -> None:
    """Say where we are: on a terminal, in a line that the next one overwrites."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}" + ("" if passing else "\n"))
        sys.stderr.flush()
    elif not passing:
        sys.stderr.write(f"{text}\n")


def facts(chosen: argparse.Namespace) -> dict[str, Any]:
    """What one has to know beside the figures."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    packages = sorted({kind.package for kind in contenders().values() if kind.package})
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": versions,
        "rounds": chosen.rounds,
        "seconds": chosen.seconds,
        "load_before": os.getloadavg()[0],
    }


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = ",".join(contenders())

    def names(all_names: str) -> Callable[[str], list[str]]:
        def chosen(text: str) -> list[str]:
            found = [name.strip() for name in text.split(",") if name.strip()]
            if unknown := set(found) - set(all_names.split(",")):
                raise argparse.ArgumentTypeError(
                    f"no such name: {', '.join(sorted(unknown))}; there are {all_names}"
                )
            return found

        return chosen

    def sizes(text: str) -> list[int]:
        try:
            found = [int(size) for size in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError("sizes are numbers of bytes, as in 8,1024") from None
        if any(size < 8 or size == MARK for size in found):
            raise argparse.ArgumentTypeError(f"a size is at least 8 and not {MARK}")
        return found

    number = parser.add_argument
    number("--rounds", type=int, help="measurements of each cell (4)")
    number("--seconds", type=float, help="that samples flow in one (1.2)")
    number("--only", type=names(every), help=f"of {every}")
    number("--skip", type=names(every), default=[], help="all but these")
    number("--tables", type=names(",".join(TABLES)), default=list(TABLES), help=",".join(TABLES))
    number("--sizes", type=sizes, help="payload bytes of the one-way tables")
    number("--json", type=Path, metavar="FILE", help="write everything there")
    number("--from", dest="old", type=Path, metavar="FILE", help="show such a file")
    number("--quick", action="store_true", help="some contenders, one short round")
    chosen = parser.parse_args()
    quick = chosen.quick
    chosen.rounds = chosen.rounds or (1 if quick else 4)
    chosen.seconds = chosen.seconds or (0.3 if quick else 1.2)
    chosen.sizes = chosen.sizes or ([64, 65536] if quick else list(SIZES))
    if chosen.only is None:
        chosen.only = [name for name, kind in contenders().items() if kind.quick or not quick]
    chosen.only = [name for name in chosen.only if name not in chosen.skip]
    return chosen


def main() -> int:
    """Measure, print, record."""
    chosen = arguments()
    if chosen.old is not None:
        kept = json.loads(chosen.old.read_text(encoding="utf-8"))
        book = Book(kept["results"], kept["failures"], kept["facts"])
        print(tables(book.results, book.facts, contenders()))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    book = Book(facts=facts(chosen))
    stopped = False
    try:
        measure(chosen, book)
    except KeyboardInterrupt:
        stopped = True
        note("stopped; this is what there is")
    book.facts["load_after"] = os.getloadavg()[0]
    print(tables(book.results, book.facts, contenders()))
    for failure in book.failures.values():
        print(f"failed: {failure}")
    print(f"\n{time.monotonic() - start:.0f} s")
    if chosen.json is not None:
        kept = {"facts": book.facts, "failures": book.failures, "results": book.results}
        chosen.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if stopped:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
