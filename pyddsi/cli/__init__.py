"""
The program `pyddsi`.

Each subcommand is a module with `add(subparsers)`, which describes it, and `run(arguments)`, which does it and returns
the exit status: 0 all went well, 1 what was asked is not so, 2 it could not be done, and standard error says why.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

import pyddsi
from pyddsi.cli import decode, demo, sim
from pyddsi.errors import PyddsiError

COMMANDS = (decode, demo, sim)


class _Version(argparse.Action):
    """Prints the version; it is looked up only when somebody asks."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"pyddsi {pyddsi.__version__}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="pyddsi",
        description="Publish and subscribe without a broker, and look at the traffic of those who do.",
        epilog="`pyddsi COMMAND --help` tells more about a command.",
    )
    top.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    commands = top.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for command in COMMANDS:
        command.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without arrows still gets its lines
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except PyddsiError as error:
        print(f"pyddsi: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return status
