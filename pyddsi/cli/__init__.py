"""
The program `pyddsi`.

Each command is a module with DESCRIPTION, EXAMPLES, `add(parser)`, which adds its options, and `run(options)`, which
does it and returns the exit status: 0 all went well, 1 what was asked is not so, 2 it could not be done, and standard
error says why; 130 and 143 when Ctrl-C or SIGTERM ended it. Only the module of the command that is asked for is loaded.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TextIO

import pyddsi
from pyddsi.cli._arguments import Parser, UsageError
from pyddsi.errors import PyddsiError

COMMANDS = {
    "pub": "publish arguments, files, lines of standard input, or made-up samples",
    "sub": "print samples as they come",
    "ping": "measure round trips to other sessions",
    "perf": "measure throughput and latency between two machines, or two processes",
    "scout": "say who is there, what they can do, and how far they are",
    "ls": "list the resources that are published, with their rates",
    "ps": "list the processes on this machine that have sessions",
    "hz": "measure how often samples of a resource come, and how evenly",
    "bw": "measure how many bytes samples of a resource take",
    "doctor": "find what is wrong with this machine's network, and say what mends it",
    "demo": "show what pyddsi does, with three processes",
    "record": "write what a session hears, or what goes by on an interface, into capture files",
    "info": "say what captures hold, and what looks wrong in them",
    "analyse": "write a report on captures, or judge them",
    "decode": "print the messages of captures",
    "convert": "write captures as Parquet, Arrow, or another capture: cut, merged, sorted",
    "anonymize": "write a capture that can be given away",
    "replay": "play a capture again: into a session, as datagrams, or into a node",
    "spark": "say whether a Spark can read captures, and how it gets what it needs",
    "sim": "play scenarios in the simulator and check them",
    "completion": "print what makes bash, zsh or fish complete commands and options",
}


def parser(arguments: Sequence[str] = ()) -> Parser:
    """The command line, of which one command has its options: the one that these arguments ask for."""
    top = Parser(
        prog="pyddsi",
        description="Publish and subscribe without a broker, and look at the traffic of those who do.",
        epilog="`pyddsi COMMAND --help` tells more about a command, with examples.",
    )
    top.add_argument("--version", action="store_true", help="say which version this is")
    commands = top.add_subparsers(metavar="COMMAND", title="commands")
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for name, text in COMMANDS.items():
        if name != asked:
            commands.add_parser(name, help=text, add_help=False)
            continue
        module = import_module(f"pyddsi.cli.{name}")
        top.chosen = commands.add_parser(
            name, help=text, description=module.DESCRIPTION, epilog=module.EXAMPLES
        )
        module.add(top.chosen)
        top.chosen.set_defaults(run=module.run)
    if asked is not None and top.chosen is None and "--help" not in arguments[:1]:
        top.no_command(asked, COMMANDS)
    return top


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _silence() -> None:
    """What standard output still holds goes nowhere; Python would complain of it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    sys.stdout = sys.stdout or _nowhere()  # who closed them wants to hear nothing
    sys.stderr = sys.stderr or _nowhere()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without arrows still gets its lines
    try:
        top = parser(words)
        options = top.parse_args(words)
        if options.version:
            print(f"pyddsi {pyddsi.__version__}")
            return 0
        if "run" not in options:
            top.print_help()
            return 0
        status: int = options.run(options)
        sys.stdout.flush()
    except (PyddsiError, UsageError) as error:
        sys.stdout.flush()
        print(f"pyddsi: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        _silence()  # the reader has seen enough (`| head`)
        return 0
    except OSError as error:
        _silence()  # most likely a full disk
        print(f"pyddsi: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as end:
        from pyddsi.cli._session import Terminated  # noqa: PLC0415 - only then

        return 143 if isinstance(end, Terminated) else 130
    return status
