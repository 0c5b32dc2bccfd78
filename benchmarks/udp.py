"""
Reliable samples over UDP between two processes of this machine, in C: udp_core.c, compiled with the core and run.

    ./run bench udp [--rounds N] [--quick] [--json FILE]

Each load runs without loss and with 5 % of the datagrams lost both ways, beside what bare sockets do with messages of
that size in the same run (limits.c): one datagram a call, and long ones that the system cuts and joins (GSO and GRO).
Bare sockets lose what their receiver does not get to; samples arrive all and in order, or the program fails. The last
column is the rate where one thread of each session sends everything (002-82, 002-86, 002-89), as part of the usual. The table
shows the median and, in brackets, the lowest and highest; ns are of processor time for each sample. With fewer free
processors than threads (a session has two beside the program's own) the rate is the processors' time; so it is given too.
The last line says how long it takes from an open socket to a session that both sides know (002-84).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import limits

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from cbuild import COMPILER, Build, Config  # noqa: E402 - it lies in tools

MILLISECONDS = 500
QUICK_MILLISECONDS = 100
TIMEOUT_S = 120
WINDOW = 256 * 1024  # as pyddsi.open() has it
LOSS = 50
SETUPS = 50
AIMS = {(8, True): 15e6, (64, True): 6e6, (1024, True): 1e6}


@dataclass(frozen=True)
class Fast(Config):
    """The core as it is shipped."""

    @property
    def name(self) -> str:
        """A folder of its own."""
        return f"bench-{Path(self.cc).name}"

    @property
    def flags(self) -> list[str]:
        """As in pyddsi/_build.py."""
        return ["-std=gnu11", "-O3", "-fvisibility=hidden", "-Icsrc", "-Icsrc/include"]


@dataclass(frozen=True)
class Load:
    """What is put, and how many with one call."""

    size: int
    how: int

    def __str__(self) -> str:
        return f"{self.size} bytes, " + (f"{self.how} a call" if self.how > 1 else "one a call")


LOADS = [Load(8, 1), Load(64, 1), Load(1024, 1), Load(8, 512), Load(64, 512), Load(1024, 64)]


def build() -> Path:
    """The program, compiled."""
    core = Build(Fast(COMPILER), ROOT)
    return core.program("udp", [ROOT / "benchmarks" / "udp_core.c"], ["-pthread"])


def run(program: Path, *words: object) -> list[float]:
    """What one run prints."""
    command = [str(program), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return [float(word) for word in done.stdout.split()]


def short(value: float) -> str:
    """A rate with three digits."""
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g}"


def spread(values: list[float]) -> str:
    """The median, and in brackets the lowest and highest."""
    return f"{short(statistics.median(values))} ({short(min(values))}-{short(max(values))})"


def measure(
    program: Path, rounds: int, milliseconds: int
) -> dict[str, dict[str, list[list[float]]]]:
    """Everything in turn, so many times."""
    bare = limits.build()
    found: dict[str, dict[str, list[list[float]]]] = {}
    for _ in range(rounds):
        for load in LOADS:
            row = found.setdefault(str(load), {})
            for loss in (0, LOSS):
                got = run(program, "rate", load.size, load.how, milliseconds, loss, WINDOW)
                row.setdefault(f"lost {loss}", []).append(got)
            got = run(program, "rate", load.size, load.how, milliseconds, 0, WINDOW, "one")
            row.setdefault("one stream", []).append(got)
            for name in ("udp", "udp-gso-gro"):
                row.setdefault(name, []).append(run(bare, name, load.size, milliseconds))
    return found


def table(found: dict[str, dict[str, list[list[float]]]]) -> None:
    """Print it."""
    print(
        "| load | samples/s | aim | ns out + in | of bare UDP | of bare GSO | with 5 % lost | of that without | one stream |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for load in LOADS:
        row = found[str(load)]
        rates = [got[0] for got in row["lost 0"]]
        lossy = [got[0] for got in row[f"lost {LOSS}"]]
        rate = statistics.median(rates)
        out, into = (statistics.median(got[i] for got in row["lost 0"]) for i in (1, 2))
        plain, joined = (
            statistics.median(got[0] for got in row[name]) for name in ("udp", "udp-gso-gro")
        )
        aim = AIMS.get((load.size, load.how > 1))
        print(
            f"| {load} | {spread(rates)} | {short(aim) if aim else '-'} | {out:.0f} + {into:.0f}"
            f" | {rate / plain:.1f}x | {rate / joined:.2f}x | {spread(lossy)}"
            f" | {statistics.median(lossy) / rate:.0%}"
            f" | {statistics.median(got[0] for got in row['one stream']) / rate:.0%} |"
        )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Reliable samples over UDP, in C.")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each load (5)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    chosen = parser.parse_args()
    program = build()
    rounds = 1 if chosen.quick else chosen.rounds
    found = measure(program, rounds, QUICK_MILLISECONDS if chosen.quick else MILLISECONDS)
    table(found)
    median, longest = run(program, "setup", 5 if chosen.quick else SETUPS)
    print(f"\nA session begins in {median / 1000:.2f} ms (the longest: {longest / 1000:.2f} ms).")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
