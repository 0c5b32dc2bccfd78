"""
The tables of peers.py, as Markdown: first what each contender reached, then pyddsi against the best rival.

The best rival of a cell is the one with the best median among those that lost nothing; what is in the tables for
orientation alone does not count. Who asks again and again (spins) is compared with its like where waiting is what is
measured: in the round trip. The aims are ratios to that rival in the same run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from _peers_contenders import Contender

Values = dict[str, float]
Results = dict[str, dict[str, dict[str, list[Values]]]]
Kinds = dict[str, type[Contender]]

THIN = "\u2009"  # between a number and its unit
# From where on a unit is used, what it is, its decimals, its name.
UNITS = (
    (999.5e6, 1e9, 2, "G"),
    (9.995e6, 1e6, 1, "M"),
    (999.5e3, 1e6, 2, "M"),
    (9.995e3, 1e3, 0, "k"),
    (999.5, 1e3, 1, "k"),
)


def amount(value: float) -> str:
    """A rate or a time in three digits or so: 1.05 M, 894 k, 40.9."""
    for least, unit, digits, name in UNITS:
        if value >= least:
            return f"{value / unit:.{digits}f}{THIN}{name}"
    return f"{value:.3g}"


def spread(values: list[float]) -> str:
    """The median with the lowest and the highest."""
    text = amount(statistics.median(values))
    if len(values) == 1:
        return text
    return f"{text} ({amount(min(values))}–{amount(max(values))})"


def markdown(heading: str, titles: list[str], rows: Iterable[list[str]]) -> str:
    """One table."""
    body = [titles, ["---"] * len(titles), *rows]
    lines = ["| " + " | ".join(row) + " |" for row in body]
    lines[1] = "|" + "---|" * len(titles)
    return "\n".join(["", heading, "", *lines])


@dataclass(frozen=True)
class View:
    """A table: its heading, and for each column what stands above it, where it comes from, and how it is written."""

    heading: str
    table: str
    columns: list[tuple[str, str, str]]  # title, column of the results, name of the value
    write: Callable[[list[float]], str] = spread


def middle(values: list[float]) -> str:
    """The median alone."""
    return amount(statistics.median(values))


def views(results: Results) -> list[View]:
    """All tables that have something in them."""

    def each(table: str, value: str) -> list[tuple[str, str, str]]:
        return [(column, column, value) for column in results.get(table, {})]

    memory = [
        (f"{state} {side} {kind}", "all", f"{state}_{short}_{kind}")
        for state in ("idle", "loaded")
        for side, short in (("publisher", "pub"), ("subscriber", "sub"))
        for kind in ("rss", "shm")
    ]
    idle = [("publisher", "all", "idle_pub_cpu"), ("subscriber", "all", "idle_sub_cpu")]
    trips = [
        (f"{size} B {name}", f"{place} {size}", value)
        for place in ("two", "one")
        for size in dict.fromkeys(column.split()[1] for column in results.get("round-trip", {}))
        for name, value in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"))
    ]
    half = len(trips) // 2
    fan = [("delivered/s", "4", "rate"), ("lost, %", "4", "lost")]
    fan += [("CPU s per million", "4", "cpu"), ("publisher MiB", "4", "pub_rss")]
    every = [
        View(
            "One way, samples per second at the receiver, by payload bytes:",
            "one-way",
            each("one-way", "rate"),
        ),
        View("Lost, per cent:", "one-way", each("one-way", "lost"), middle),
        View(
            "CPU seconds per million samples, both processes:",
            "one-way",
            each("one-way", "cpu"),
            middle,
        ),
        View(
            "Breaks in the order, or losses that were seen:",
            "one-way",
            [one for one in each("one-way", "gaps") if broken(results["one-way"][one[0]])],
            middle,
        ),
        View("One way in batches, one call for 64 samples:", "batch", each("batch", "rate")),
        View("One way, memory loaned and not written to:", "loaned", each("loaned", "rate")),
        View(
            "Round trip in µs, each process on a processor of its own:",
            "round-trip",
            trips[:half],
            middle,
        ),
        View(
            "Round trip in µs, both processes on one processor:", "round-trip", trips[half:], middle
        ),
        View("Fan-out, one to four subscribers, 1 KiB:", "fan-out", fan),
        View(
            "Milliseconds from the start of a process to the first sample (cold: both start; join: the publisher is there):",
            "start",
            each("start", "ms"),
        ),
        View("Memory in MiB (shm: the shared part of rss):", "memory", memory, middle),
        View("CPU of a process that waits, per cent:", "memory", idle, middle),
        View(
            "Import in ms, and with what is loaded when it is first used:",
            "import",
            [("import", "ms", "ms"), ("complete", "ms", "complete")],
        ),
    ]
    return [view for view in every if results.get(view.table) and view.columns]


def broken(column: dict[str, list[Values]]) -> bool:
    """Whether any contender was seen to lose something, or to mix the order up."""
    return any(one["gaps"] for values in column.values() for one in values)


def contender_table(view: View, results: Results, names: Iterable[str]) -> str:
    """A table with a row for each contender that has anything in it."""
    rows = []
    for name in names:
        cells = []
        for _, column, value in view.columns:
            found = results[view.table].get(column, {}).get(name)
            cells.append(view.write([one[value] for one in found]) if found else "–")
        if any(cell != "–" for cell in cells):
            rows.append([name, *cells])
    return markdown(view.heading, ["", *(title for title, _, _ in view.columns)], rows)


def limit_table(limits: dict[str, dict[str, list[Values]]]) -> str:
    """What the machine can do; the name of each limit ends with its unit."""
    rows = []
    for what, sizes in limits.items():
        for size, values in sizes.items():
            lost = [one["lost"] for one in values if "lost" in one]
            measured = spread([one["value"] for one in values])
            rows.append([what, size, measured, middle(lost) if lost else "–"])
    return markdown("Limits of this machine, in C:", ["", "bytes", "", "lost, %"], rows)


# ---- against the best rival ----------------------------------------------------------------------


@dataclass(frozen=True)
class Aim:
    """What pyddsi should reach in a cell, as a ratio to the best rival there."""

    what: str
    table: str
    column: str
    value: str
    aim: float
    ours: str = "pyddsi"
    against: str = ""  # the table of the rivals, if another
    least: bool = False  # less is better
    among: Callable[[type[Contender]], bool] = lambda _kind: True


def spinning(kind: type[Contender]) -> bool:
    """Asks again and again."""
    return kind.spins


def waiting(kind: type[Contender]) -> bool:
    """Sleeps."""
    return not kind.spins


def is_zmq(kind: type[Contender]) -> bool:
    """What the aim for memory names."""
    return kind.package == "pyzmq"


def is_cyclone_raw(kind: type[Contender]) -> bool:
    """What the aim for UDP alone names."""
    return kind.name == "cyclonedds-raw"


ONE_WAY = {"8": 4.0, "64": 4.0, "1024": 6.0, "8192": 4.0, "1048576": 1.1}
CPU = ("8", "64", "1024", "8192")
AIMS = [
    *(Aim(f"one way, {size} B", "one-way", size, "rate", aim) for size, aim in ONE_WAY.items()),
    *(
        Aim(f"batch calls, {size} B", "batch", size, "rate", 8.0, against="one-way")
        for size in ("8", "64")
    ),
    Aim("loaned, 65536 B", "loaned", "65536", "rate", 3.0),
    Aim("loaned, 1048576 B", "loaned", "1048576", "rate", 5.0),
    Aim("UDP alone, 64 B", "one-way", "64", "rate", 10.0, "pyddsi-udp", among=is_cyclone_raw),
    Aim("fan-out, 1024 B", "fan-out", "4", "rate", 3.5),
    *(Aim(f"CPU a sample, {size} B", "one-way", size, "cpu", 0.3, least=True) for size in CPU),
    *(
        Aim(
            f"round trip spinning, {size} B",
            "round-trip",
            f"two {size}",
            "p50",
            0.2,
            "pyddsi-spin",
            least=True,
            among=spinning,
        )
        for size in ("64", "8192")
    ),
    *(
        Aim(
            f"round trip, processors: {place}, {size} B",
            "round-trip",
            f"{place} {size}",
            "p50",
            aim,
            least=True,
            among=waiting,
        )
        for place, aim in (("two", 1.0), ("one", 0.5))
        for size in ("64", "8192")
    ),
    Aim("cold start", "start", "cold", "ms", 1.0, least=True),
    Aim(
        "idle subscriber's memory, to pyzmq's",
        "memory",
        "all",
        "idle_sub_rss",
        1.0,
        least=True,
        among=is_zmq,
    ),
    Aim(
        "idle publisher's memory, to pyzmq's",
        "memory",
        "all",
        "idle_pub_rss",
        1.0,
        least=True,
        among=is_zmq,
    ),
]
# What is no ratio: what it is, the table, the column, the value, the most, the unit.
ABSOLUTE = (
    ("import", "import", "ms", "ms", 5.0, "ms"),
    ("CPU of an idle subscriber", "memory", "all", "idle_sub_cpu", 0.1, "%"),
    ("CPU of an idle publisher", "memory", "all", "idle_pub_cpu", 0.1, "%"),
)


def whole(values: list[Values]) -> bool:
    """Nothing was lost, and all came in order."""
    return all(one.get("lost", 0.0) == 0.0 and one.get("gaps", 0.0) == 0.0 for one in values)


def median_of(values: list[Values], name: str) -> float:
    """The median of one of the values."""
    return statistics.median(one[name] for one in values)


def comparison(results: Results, kinds: Kinds) -> str:
    """The ratio of pyddsi to the best rival, for each aim whose cell was measured."""
    rows = []
    for aim in AIMS:
        ours = results.get(aim.table, {}).get(aim.column, {}).get(aim.ours, [])
        column = results.get(aim.against or aim.table, {}).get(aim.column, {})
        rivals = {
            name: median_of(values, aim.value)
            for name, values in column.items()
            if name in kinds and counts(kinds[name]) and aim.among(kinds[name]) and whole(values)
        }
        if not ours or not rivals:
            continue
        best = (min if aim.least else max)(rivals, key=lambda name: rivals[name])
        reached = median_of(ours, aim.value)
        ratio = reached / rivals[best] if rivals[best] else float("inf")
        met = ratio <= aim.aim if aim.least else ratio >= aim.aim
        rows.append(
            [
                aim.what,
                amount(reached),
                f"{amount(rivals[best])} ({best})",
                f"{ratio:.2f}x",
                f"{'≤' if aim.least else '≥'} {aim.aim}x",
                verdict(ours, met=met),
            ]
        )
    for what, table, at, value, most, unit in ABSOLUTE:
        ours = results.get(table, {}).get(at, {}).get("pyddsi", [])
        if ours:
            reached = median_of(ours, value)
            word = verdict(ours, met=reached <= most)
            rows.append([what, f"{amount(reached)} {unit}", "", "", f"≤ {most} {unit}", word])
    if not rows:
        return ""
    titles = ["", "pyddsi", "best rival", "ratio", "aim", ""]
    return markdown("pyddsi against the best rival that loses nothing, medians:", titles, rows)


def counts(kind: type[Contender]) -> bool:
    """Is compared with."""
    return kind.rival and not kind.ours


def verdict(ours: list[Values], *, met: bool) -> str:
    """One word, or two."""
    if not whole(ours):
        return "lost samples"
    return "met" if met else "missed"


def preface(facts: dict[str, Any]) -> str:
    """Where and with what this was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    load = f"{facts['load_before']:.1f} before and {facts.get('load_after', 0.0):.1f} after"
    return (
        f"{facts['date']}, {facts['processors']} processors ({facts['processor']}), Linux {facts['kernel']}, Python"
        f" {facts['python']}; {facts['rounds']} rounds of {facts['seconds']} s; load average {load}.\n{versions}."
    )


def tables(results: Results, facts: dict[str, Any], kinds: Kinds) -> str:
    """All of it."""
    parts = [preface(facts)]
    parts += [contender_table(view, results, kinds) for view in views(results)]
    if results.get("limits"):
        parts.append(limit_table(results["limits"]))
    parts.append(comparison(results, kinds))
    return "\n".join(part for part in parts if part)
