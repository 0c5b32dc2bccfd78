"""`pyddsi doctor`: what is wrong with this machine's network, and what mends it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from pyddsi.cli import _arguments as read
from pyddsi.cli._checks import CHECKS
from pyddsi.cli._machine import Finding, Machine
from pyddsi.cli._session import add_session, chosen, terminable
from pyddsi.cli._show import Paint, many

DESCRIPTION = """\
Look at what a session needs of this machine: interfaces with multicast, the way to the group, buffers, shared memory,
limits, clock; and open two sessions that are to find each other. Each line is ok, warn or fail; below it stands what
mends it. Nothing is changed.
"""

EXAMPLES = """\
examples:
  pyddsi doctor
  pyddsi doctor --interface eth1 --group 239.255.0.7:7447
  pyddsi doctor --json | jq 'select(.level != "ok")'

The exit status is 1 if something failed; warnings alone leave it at 0.
"""

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.add_argument("--quiet", action="store_true", help="leave out what is ok")
    read.add_json(parser, "one JSON object a line")
    add_session(parser)


def show(finding: Finding, paint: Paint) -> None:
    """A line for what was looked at, and below it what mends it."""
    level = paint(COLOURS[finding.level], f"{finding.level:4}")
    print(f"{level}  {finding.name:14} {finding.text}")
    for line in finding.mend:
        print(f"{'':21}{paint('bold', line)}")
    sys.stdout.flush()


def run(options: argparse.Namespace) -> int:
    """Look at everything."""
    machine = Machine(chosen(options))
    paint, levels = Paint(sys.stdout), list[str]()
    with terminable():
        for check in CHECKS:
            for finding in check(machine):
                levels.append(finding.level)
                if options.quiet and finding.level == "ok":
                    continue
                if options.json:
                    print(json.dumps(asdict(finding)), flush=True)
                else:
                    show(finding, paint)
    bad, doubtful = levels.count("fail"), levels.count("warn")
    if not options.json:
        print(
            f"{many(len(levels), 'look')}: {bad or 'nothing'} failed, {many(doubtful, 'warning')}"
        )
    return 1 if bad else 0
