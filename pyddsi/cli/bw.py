"""`pyddsi bw`: how many bytes the samples of a resource take."""

from __future__ import annotations

import argparse

from pyddsi.cli._arguments import Parser
from pyddsi.cli._rates import Measured, add_meter, run_meter
from pyddsi.cli._show import Paint, size, table

DESCRIPTION = """\
Measure how many bytes samples of a resource bring in a second, and how large they are: least, mean, most, over the latest
--window samples. What packets add to them is not counted. Publishers are never held up by this.
"""

EXAMPLES = """\
examples:
  pyddsi bw plant/camera
  pyddsi bw 'plant/**' --every 5s
  pyddsi bw plant/camera --duration 10s --json | tail -1 | jq .bytes_per_second

On a terminal the table changes in its place; otherwise there is a report every --every. The exit status is 1 if
nothing came.
"""

HEADS = ("resource", "bytes/s", "samples/s", "least", "mean", "most", "of")


def add(parser: Parser) -> None:
    """Its options."""
    add_meter(parser)


def _shown(found: list[Measured], paint: Paint) -> list[str]:
    rows = [
        [
            str(one.resource),
            f"{size(one.bytes_per_second)}/s",
            f"{one.per_second:,.1f}",
            size(one.size_min),
            size(one.size_mean),
            size(one.size_max),
            f"{one.samples:,}",
        ]
        for one in found
    ]
    return table(HEADS, rows, paint)


def run(options: argparse.Namespace) -> int:
    """Measure."""
    return run_meter(options, _shown)
