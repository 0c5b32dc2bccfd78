"""What the commands about captures have in common: which files, how they are read, and which part of them."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyddsi.cli._arguments import UsageError, byte_count, whole_number

__all__ = ["add_files", "add_part", "add_reading", "opened", "progress", "warned"]


def add_files(parser: argparse.ArgumentParser, many: str = "+") -> None:
    """The files."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs=many,
        help="pcap or pcapng, plain or packed (gzip, zstd, lz4); a folder or a quoted pattern; - is standard input",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How they are read."""
    parser.add_argument(
        "--port",
        type=whole_number(1, 65535),
        action="append",
        metavar="PORT",
        help="a well-known port of the protocol (default: 7447; may be repeated)",
    )
    parser.add_argument(
        "--seq-bits",
        type=whole_number(7, 56),
        metavar="L",
        help="length of sequence numbers (default: as the sessions announce)",
    )
    parser.add_argument(
        "--dedupe",
        action="store_true",
        help="pass over datagrams that were captured twice, as on `any` or a mirrored port",
    )
    parser.add_argument(
        "--memory",
        type=byte_count(16 << 20),
        metavar="SIZE",
        help="for the endpoints, counters and names that are followed at one time (default: 256M, some ten thousand endpoints)",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit status 2 for what is a warning otherwise, such as a file that is cut off",
    )


def add_part(parser: argparse.ArgumentParser) -> None:
    """Which part of them."""
    parser.add_argument(
        "--from",
        dest="start",
        metavar="TIME",
        help="not before this: 2026-11-18T12:00:00 (UTC), or seconds from the beginning: 1.5",
    )
    parser.add_argument("--to", dest="stop", metavar="TIME", help="before this, likewise")


def moment(word: str | None) -> str | float | None:
    """A time of the command line: a number is seconds from the beginning."""
    if word is None:
        return None
    try:
        return float(word)
    except ValueError:
        return word


def opened(options: argparse.Namespace, **settings: Any) -> Any:
    """The capture that the options name."""
    from pyddsi import capture  # noqa: PLC0415 - only these commands need it

    try:
        return capture.open(
            options.files,
            ports=options.port or (7447,),
            seq_bits=options.seq_bits,
            dedupe=options.dedupe,
            strict=options.strict,
            **({} if options.memory is None else {"memory": options.memory}),
            **settings,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


@contextmanager
def warned() -> Iterator[None]:
    """Warnings as lines of standard error, in a with block."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # pyspark 4.0 leaves sockets open: nothing that our user could do about
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = _show  # catch_warnings puts the old one back
        yield


def _show(message: Warning | str, *_rest: object, **_more: object) -> None:
    sys.stdout.flush()
    print(f"pyddsi: warning: {message}", file=sys.stderr)


def progress(what: str) -> Any:
    """A function that says how far it is, on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None

    def say(done: int, total: int) -> None:
        share = f"{done / total:4.0%}" if total else f"{done / 1e6:,.0f} MB"
        print(
            f"\r{what}: {share}",
            end="" if done < total else "\r\033[K",
            file=sys.stderr,
            flush=True,
        )

    return say
