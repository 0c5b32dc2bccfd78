"""`pyddsi analyse`: a report on captures, as a page or as numbers, and a gate for continuous integration."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyddsi.cli._arguments import Parser, UsageError, add_json
from pyddsi.cli._captures import add_files, add_reading, opened, progress, warned
from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    from pyddsi.capture.info import Info

DESCRIPTION = """\
Write a report on captures: one page, with nothing outside it, that opens with sentences and shows beneath them rates by
resource, losses over time, how long acknowledgements took, sessions with the margins of their leases, and the worst conduits.
Each finding has its frame number and a filter for tshark.

One process reads captures of many gigabytes in a minute; --engine spark does it on a cluster, and gives the same answers.
"""

EXAMPLES = """\
examples:
  pyddsi analyse run.pcapng -o report.html
  pyddsi analyse 'captures/*.pcapng' --json | jq .repeats
  pyddsi analyse run.pcapng --fail-if 'repeats>1%' --fail-if 'expiries>0'
  pyddsi analyse /shared/captures --engine spark --master spark://host:7077 -o report.html

--fail-if takes repeats, pre_sync, gaps, fills, missing, expiries, malformed, errors, warnings or messages; with %, as a share
of the messages. exit status: 0; 1 if a condition of --fail-if holds; 2 for a file that cannot be read
"""

VALUES = ("repeats", "pre_sync", "gaps", "fills", "missing", "expiries", "malformed", "messages")
COMPARE = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
}


def condition(word: str) -> tuple[str, str, float, bool]:
    """Reads a condition: a value, how it is compared, with what, and whether that is a share."""
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|==|>|<)\s*([0-9.]+)\s*(%?)\s*", word)
    known = (*VALUES, "errors", "warnings")
    if match is None or match[1] not in known:
        raise argparse.ArgumentTypeError(
            f"{word!r} is no condition; write it as 'repeats>1%' or 'expiries>0', with one of {', '.join(known)}"
        )
    try:
        return match[1], match[2], float(match[3]), bool(match[4])
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r}: {match[3]!r} is no number") from None


def add(parser: Parser) -> None:
    """Its options."""
    add_files(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where the page goes (default: no page, only sentences)",
    )
    parser.add_argument(
        "--fail-if",
        type=condition,
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit status 1 if this holds; may be repeated",
    )
    parser.add_argument(
        "--engine",
        choices=["local", "spark"],
        help="who adds up (default: this process; with --master: Spark)",
    )
    parser.add_argument(
        "--master", metavar="URL", help="of Spark, such as local[4] or spark://host:7077"
    )
    add_reading(parser)
    add_json(parser, "all of it as one JSON object, on standard output")


def _value(info: Info, name: str) -> int:
    if name in {"errors", "warnings"}:
        return sum(finding.severity == name.removesuffix("s") for finding in info.findings)
    return int(getattr(info, name))


def _failed(info: Info, wanted: tuple[str, str, float, bool]) -> str | None:
    name, sign, limit, share = wanted
    value: float = _value(info, name)
    shown = f"{value:,.0f}"
    if share:
        value = 100 * value / max(1, info.messages)
        shown = f"{value:.3g}% of the messages"
    if not COMPARE[sign](value, limit):
        return None
    return f"{name} is {shown}, and --fail-if says {name}{sign}{limit:g}{'%' if share else ''}"


def _collect(options: argparse.Namespace) -> Any:
    try:
        if options.engine == "spark" or (options.master and options.engine is None):
            from pyddsi.spark.report import collect  # noqa: PLC0415 - a heavy import

            return collect(opened(options), options.master)
        if options.master:
            raise UsageError("--master is of Spark; leave out --engine local")
        from pyddsi.capture import report  # noqa: PLC0415 - as above

        return report.collect(opened(options), progress=progress("reading"))
    except ModuleNotFoundError as error:
        extra = "spark" if error.name == "pyspark" else "capture"
        raise UsageError(
            f"{error.name} is needed for this: `pip install 'pyddsi[{extra}]'`"
        ) from None


def _write(path: str, page: str) -> None:
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise CaptureError(f"{path} cannot be written: {error.strerror}") from error


def run(options: argparse.Namespace) -> int:
    """Read, write, judge."""
    with warned():
        picture = _collect(options)
    info = picture.info
    if options.output:
        from pyddsi.capture.report import render  # noqa: PLC0415 - only then

        _write(options.output, render(picture))
    if options.json:
        found = info.to_dict()
        found["window_ns"] = picture.window_ns
        found["rates"] = [{"name": one.name, "points": one.points} for one in picture.rates]
        listed = zip(info.resources, picture.jitters, strict=False)
        found["jitters_us"] = [
            {"name": one.uri, "rid": one.rid, "us": jitter} for one, jitter in listed
        ]
        found["losses"] = [loss._asdict() for loss in picture.losses]
        found["times"] = [time._asdict() for time in picture.times]
        print(json.dumps(found, ensure_ascii=False))
    else:
        print("\n".join(info.lines()))
        if options.output:
            print(f"{'page':10} {options.output}")
    said = [text for text in (_failed(info, wanted) for wanted in options.fail_if) if text]
    for text in said:
        print(f"pyddsi: analyse: {text}", file=sys.stderr)
    return 1 if said else 0
