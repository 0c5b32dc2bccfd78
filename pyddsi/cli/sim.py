"""`pyddsi sim`: scenarios of the simulator, from many seeds or from one."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from statistics import median
from typing import Any

from pyddsi.capture import Packet
from pyddsi.cli._arguments import Parser
from pyddsi.cli._books import Books, Sum
from pyddsi.cli._seeds import Task, play
from pyddsi.cli.decode import Decoder, Lines, fault_object
from pyddsi.testing import Packet as SimPacket
from pyddsi.testing import (
    Repair,
    Report,
    check_texts,
    find_scenario,
    measure_repair,
    run_scenario,
    scenarios,
    write_pcap,
)

SEEDS = 300
REPAIR_SEEDS = 20
SHOWN_MAX = 10
PROGRESS_SECONDS = 0.2
SEED_MAX = 2**64 - 1

DESCRIPTION = """\
Play scenarios: networks of nodes in memory, which lose packets, crash, are cut apart and more, as their seed decides.
While they run, and at their end, it is checked that nothing is delivered twice or out of order, that nothing is missing
without an entry that says so, that the books balance, that memory is back at its start, and that everything arrives once
the faults have stopped. The same seed always does the same.
"""

EXAMPLES = """\
examples:
  pyddsi sim --seeds 2000
  pyddsi sim --scenario loss --scenario crash --first 1000
  pyddsi sim --scenario loss --seed 17 --trace --pcap loss17.pcap
  pyddsi sim --repair
  pyddsi sim --list

The exit status is 1 if something did not hold; then the command that plays that seed again is printed.
"""


def add(parser: Parser) -> None:
    """Its options."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="name the scenarios, and what is checked")
    what.add_argument(
        "--repair", action="store_true", help="measure how fast lost samples are repaired"
    )
    parser.add_argument(
        "--scenario",
        action="append",
        metavar="NAME",
        help="play this one (may be repeated; otherwise all take turns)",
    )
    parser.add_argument(
        "--seeds",
        type=_count,
        metavar="N",
        help=f"how many seeds to play, each by one of the scenarios in turn (default: {SEEDS})",
    )
    parser.add_argument("--first", type=_seed, metavar="S", help="the first of them (default: 1)")
    parser.add_argument("--seed", type=_seed, metavar="N", help="play this seed alone")
    parser.add_argument(
        "--trace", action="store_true", help="print the packets, as `pyddsi decode` does"
    )
    parser.add_argument("--pcap", metavar="FILE", help="write the packets as a capture")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--jobs",
        type=_count,
        metavar="N",
        default=len(os.sched_getaffinity(0)),
        help="how many processes play (default: one for each core)",
    )


def _count(word: str) -> int:
    return _number(word, 1)


def _seed(word: str) -> int:
    return _number(word, 0)


def _number(word: str, least: int) -> int:
    try:
        number = int(word)
    except ValueError:
        number = -1
    if not least <= number <= SEED_MAX:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number from {least} on")
    return number


# ---- one seed ----------------------------------------------------------------------------------------------------


def _trace_text(packets: list[SimPacket]) -> Iterator[str]:
    for packet, lines, plain, found, fault in _decoded(packets):
        ends = f"{_end(packet.source)} > {_end(packet.target)}"
        start = f"{ends:9} {packet.fate:10}"
        for line in lines.text(plain, found, str(fault) if fault else None):
            yield f"{start} {line}"


def _end(node: str | None) -> str:
    return "-" if node is None else node


def _trace_objects(packets: list[SimPacket]) -> Iterator[str]:
    for packet, lines, plain, found, fault in _decoded(packets):
        more = {"from": packet.source, "to": packet.target, "fate": packet.fate}
        for line in lines.objects(plain, found, fault_object(fault) if fault else None):
            yield json.dumps(more | json.loads(line))


def _decoded(packets: list[SimPacket]) -> Iterator[tuple[SimPacket, Lines, Packet, Any, Any]]:
    decoder = Decoder(argparse.Namespace(reading="auto", seq_bits=None))
    lines = Lines(decoder)
    lines.first_ns = 0
    for packet in packets:
        plain = Packet(
            number=packet.number + 1,
            time_ns=packet.sent_ns,
            source=packet.from_,
            destination=packet.to,
            data=packet.data,
            decode="ok",
            extensions=True,
            notes=(),
            fault_passes=True,
            stream=False,
        )
        found, fault = decoder.messages(plain.data, plain.reading)
        yield packet, lines, plain, [(message, None) for message in found], fault


def _one(options: argparse.Namespace) -> int:
    scenario, seed = _tasks(options)[0]
    report = run_scenario(scenario, seed, keep_packets=bool(options.trace or options.pcap))
    if options.trace:
        for line in (_trace_objects if options.json else _trace_text)(report.sent):
            print(line)
    if options.pcap:
        count = write_pcap(options.pcap, report.sent)
        print(f"pyddsi: {options.pcap}: {count} packets", file=sys.stderr)
    if options.json:
        print(json.dumps(report.to_dict()))
    else:
        _print_report(report)
    return 1 if report.violations else 0


def _print_report(report: Report) -> None:
    print(
        f"{report.scenario}, seed {report.seed}: {report.time:.3f} s of {report.nodes} nodes, {report.crashes} crashes, "
        f"{report.packets} packets, {report.packets_lost} of them lost, {report.put} samples put, {report.taken} "
        f"taken ({report.owed} were owed, {report.excused} with an entry), digest {report.digest:016x}"
    )
    for line in report.violation_texts:
        print(f"VIOLATION {line}")
    more = report.violations - len(report.violation_texts)
    if report.violation_texts and more > 0:
        print(f"VIOLATION (and {more} more)")
    if not report.violations:
        print(f"{sum(report.checks.values())} checks, and all hold")


# ---- many seeds --------------------------------------------------------------------------------------------------


def _tasks(options: argparse.Namespace) -> list[Task]:
    """Which scenario plays which seed. It depends on the seed alone, so that every part of a long run can be had again."""
    played = [find_scenario(name).name for name in options.scenario or ()] or [
        scenario.name for scenario in scenarios()
    ]
    first = 1 if options.first is None else options.first
    seeds = SEEDS if options.seeds is None else options.seeds
    if options.seed is not None:
        first, seeds = options.seed, 1
    return [(played[(seed - 1) % len(played)], seed) for seed in range(first, first + seeds)]


def _many(options: argparse.Namespace) -> int:
    tasks = _tasks(options)
    books, start = Books(), time.monotonic()
    shown = start
    progress = sys.stderr.isatty() and not options.json
    try:
        with closing(play(tasks, options.jobs)) as outcomes:
            for number, outcome in enumerate(outcomes, 1):
                books.add(outcome)
                if progress and time.monotonic() - shown > PROGRESS_SECONDS:
                    shown = time.monotonic()
                    _show_progress(number, len(tasks), len(books.bad))
    finally:
        if progress:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    books.seconds = time.monotonic() - start
    books.bad.sort(key=lambda bad: bad.seed)
    if options.json:
        _print_json(books)
    else:
        _print_tables(books)
    return 1 if books.bad else 0


def _show_progress(done: int, total: int, bad: int) -> None:
    line = f"{done} of {total} seeds" + (f", {bad} with violations" if bad else "")
    print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _print_json(books: Books) -> None:
    plain = {
        "scenarios": {name: asdict(one) for name, one in books.sums.items()},
        "total": asdict(books.total),
        "checks": books.checks,
        "violations": [asdict(bad) | {"command": bad.command} for bad in books.bad],
        "seconds": round(books.seconds, 3),
        "seeds_per_minute": round(books.per_minute, 1),
    }
    print(json.dumps(plain))


def _row(name: str, one: Sum) -> str:
    loss = 100 * one.packets_lost / one.packets if one.packets else 0.0
    return (
        f"{name:11} {one.seeds:7d} {one.put:9d} {one.taken:10d} {one.excused:8d} {one.packets:10d} {loss:5.1f} % "
        f"{one.checks:12d} {one.violations:10d}"
    )


def _print_tables(books: Books) -> None:
    print(
        "scenario      seeds       put      taken  excused    packets    lost       checks violations"
    )
    for scenario in scenarios():
        if scenario.name in books.sums:
            print(_row(scenario.name, books.sums[scenario.name]))
    if len(books.sums) > 1:
        print(_row("all", books.total))
    print("\nchecked:")
    for name, what in check_texts().items():
        print(f"{books.checks.get(name, 0):12d}  {name:9} {what}")
    print(f"\n{books.total.seeds} seeds in {books.seconds:.1f} s: {books.per_minute:.0f} a minute")
    if not books.bad:
        print("no violation")
        return
    print(f"{len(books.bad)} seeds with violations:")
    for bad in books.bad[:SHOWN_MAX]:
        print(f"  {bad.scenario}, seed {bad.seed}: {bad.text}\n    {bad.command}")
    if len(books.bad) > SHOWN_MAX:
        print(f"  and {len(books.bad) - SHOWN_MAX} more; --json lists all")


# ---- the other two -----------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> int:
    if options.json:
        plain = {
            "scenarios": {scenario.name: scenario.text for scenario in scenarios()},
            "checks": check_texts(),
        }
        print(json.dumps(plain))
        return 0
    print("scenarios:")
    for scenario in scenarios():
        print(f"  {scenario.name:11} {scenario.text}")
    print("\nwhat is checked in all of them:")
    for name, what in check_texts().items():
        print(f"  {name:11} {what}")
    return 0


def _repair(options: argparse.Namespace) -> int:
    first = 1 if options.first is None else options.first
    seeds = REPAIR_SEEDS if options.seeds is None else options.seeds
    if options.seed is not None:
        first, seeds = options.seed, 1
    found = {
        way: [
            measure_repair(seed, multicast=way == "multicast")
            for seed in range(first, first + seeds)
        ]
        for way in ("unicast", "multicast")
    }
    rows = {way: _repair_row(runs) for way, runs in found.items()}
    if options.json:
        print(json.dumps({"seeds": seeds, **rows}))
    else:
        print(
            f"5 % of all packets lost, 1000 samples/s, 1 ms one way, {seeds} seeds of 2000 samples; from when the lost\n"
            "packet would have arrived to the delivery of its sample:\n"
        )
        print("             lost   median      p99      max   sent again for each that was lost")
        for way, row in rows.items():
            print(
                f"{way:10} {row['lost']:6d} {row['median_ms']:5.2f} ms {row['p99_ms']:5.2f} ms {row['max_ms']:5.2f} ms "
                f"  {row['resent_per_lost']:.3f}"
            )
    complete = all(run.delivered == run.put for runs in found.values() for run in runs)
    if not complete:
        print("pyddsi: not all samples were delivered", file=sys.stderr)
    return 0 if complete else 1


def _repair_row(runs: list[Repair]) -> dict[str, Any]:
    lost = sum(run.lost for run in runs)
    return {
        "put": sum(run.put for run in runs),
        "delivered": sum(run.delivered for run in runs),
        "lost": lost,
        "median_ms": round(median(run.median for run in runs) * 1e3, 3),
        "p99_ms": round(median(run.p99 for run in runs) * 1e3, 3),
        "max_ms": round(max(run.max for run in runs) * 1e3, 3),
        "resent_per_lost": round(sum(run.resent for run in runs) / lost, 3) if lost else 0.0,
    }


def _fault(options: argparse.Namespace) -> str | None:
    """What is wrong with the arguments together, and what would be right."""
    one = options.seed is not None
    if one and (options.seeds is not None or options.first is not None):
        return "--seed plays one seed alone; leave out --seeds and --first, or take --first S --seeds N"
    if (options.trace or options.pcap) and not one:
        return "--trace and --pcap show one run; say which with --scenario NAME --seed N"
    if options.repair and (options.trace or options.pcap or options.scenario):
        return "--repair plays a run of its own; leave out --scenario, --trace and --pcap"
    if one and len(options.scenario or ()) > 1:
        return "--seed plays one scenario; name one, or none for the one whose turn it is"
    try:
        _tasks(options)
    except ValueError as error:
        return f"--scenario: {error}"
    return None


def run(options: argparse.Namespace) -> int:
    """Play what is asked for."""
    if fault := _fault(options):
        print(f"pyddsi: {fault}", file=sys.stderr)
        return 2
    if options.list:
        return _list(options)
    if options.repair:
        return _repair(options)
    if options.seed is not None:
        return _one(options)
    return _many(options)
