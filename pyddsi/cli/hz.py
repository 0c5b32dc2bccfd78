"""`pyddsi hz`: how often samples come, and how evenly."""

from __future__ import annotations

import argparse

from pyddsi.cli._arguments import Parser
from pyddsi.cli._rates import Measured, add_meter, run_meter
from pyddsi.cli._show import Paint, duration, table

DESCRIPTION = """\
Measure how often samples of a resource come: the rate, and the time from one to the next: least, mean, most, and standard
deviation, over the latest --window samples. Publishers are never held up by this.
"""

EXAMPLES = """\
examples:
  pyddsi hz plant/robot/7/pose
  pyddsi hz 'plant/**' --every 5s
  pyddsi hz plant/robot/7/pose --duration 10s --json | tail -1 | jq .per_second

On a terminal the table changes in its place; otherwise there is a report every --every. The exit status is 1 if
nothing came.
"""

HEADS = ("resource", "rate", "least", "mean", "most", "stdev", "of")


def add(parser: Parser) -> None:
    """Its options."""
    add_meter(parser)


def _shown(found: list[Measured], paint: Paint) -> list[str]:
    rows = [
        [
            str(one.resource),
            f"{one.per_second:,.{1 if one.per_second >= 1000 else 3}f}/s",
            duration(one.interval_min),
            duration(one.interval_mean),
            duration(one.interval_max),
            duration(one.interval_deviation),
            f"{one.samples:,}",
        ]
        for one in found
    ]
    return table(HEADS, rows, paint)


def run(options: argparse.Namespace) -> int:
    """Measure."""
    return run_meter(options, _shown)
