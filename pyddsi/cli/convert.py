"""`pyddsi convert`: captures into Parquet, Arrow, or another capture: cut, merged, sorted."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyddsi.cli._arguments import Parser, UsageError, add_json, amount
from pyddsi.cli._captures import add_files, add_part, add_reading, moment, opened, warned

DESCRIPTION = """\
Write captures as something else, by the ending of the name:

  .parquet  .arrow    a table (--table), for pandas, DuckDB, Spark and the like
  a folder            the same as Parquet, one file for each hour: date=2026-11-18/12.parquet
  .pcapng   .pcap     a capture: what --from, --to, --where and --ours leave of it; several files are merged by time
"""

EXAMPLES = """\
examples:
  pyddsi convert run.pcapng -o run.parquet
  pyddsi convert 'captures/*.pcapng' -o events/ --table events
  pyddsi convert run.pcap -o cut.pcapng --from 2026-11-18T12:00:00 --to 2026-11-18T12:05:00
  pyddsi convert a.pcap b.pcapng -o both.pcapng
  pyddsi convert mixed.pcap -o ours.pcapng --ours --sort

--where takes columns of the table that is written; of captures, of the table of packets.
"""

DEFAULTS = {"table": "messages", "window": 1.0, "ours": False, "sort": False}
CAPTURES = (".pcap", ".cap", ".pcapng")


def add(parser: Parser) -> None:
    """Its options."""
    add_files(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="what is written")
    parser.add_argument("--table", default="messages", help="which table (default: messages)")
    parser.add_argument(
        "--columns",
        metavar="NAMES",
        help="which columns, with commas between (default: all but the dear ones)",
    )
    parser.add_argument(
        "--window",
        type=amount,
        default=1.0,
        metavar="SECONDS",
        help="of the table rates (default: 1)",
    )
    parser.add_argument(
        "--where", metavar="CONDITION", help="only rows, or frames, for which it holds"
    )
    parser.add_argument("--ours", action="store_true", help="only frames of the protocol")
    parser.add_argument("--sort", action="store_true", help="put frames in order of time")
    add_part(parser)
    add_reading(parser)
    add_json(parser, "what was written as one JSON object")


def _only(options: argparse.Namespace, names: tuple[str, ...], what: str) -> None:
    given = [f"--{name}" for name in names if getattr(options, name) != DEFAULTS.get(name)]
    if given:
        raise UsageError(f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for {what}")


def run(options: argparse.Namespace) -> int:
    """Read and write."""
    capture = opened(options)
    part = {"where": options.where, "start": moment(options.start), "stop": moment(options.stop)}
    ending = Path(options.output).suffix.lower()
    try:
        with warned():
            if ending in CAPTURES:
                _only(options, ("table", "columns", "window"), "tables; a capture is written")
                done = capture.copy(options.output, ours=options.ours, sort=options.sort, **part)
                said = {
                    "output": options.output,
                    "frames": done.frames,
                    "left_out": done.left_out,
                    "disordered": done.disordered,
                }
                text = f"{done.frames:,} frames in {options.output}, {done.left_out:,} left out"
                if done.disordered:
                    text += f"; {done.disordered:,} are out of order by more than can be mended"
            else:
                _only(options, ("ours", "sort"), "captures; a table is written")
                columns = options.columns.split(",") if options.columns else None
                rows = capture.write(
                    options.output, options.table, columns, window=options.window, **part
                )
                said = {"output": options.output, "table": options.table, "rows": rows}
                text = f"{rows:,} rows of {options.table} in {options.output}"
    except (ValueError, ModuleNotFoundError) as error:
        raise UsageError(str(error)) from None
    print(json.dumps(said) if options.json else text)
    return 0
