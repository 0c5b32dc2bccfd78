"""`pyddsi record`: what a session hears, or what goes by on an interface, into capture files."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pyddsi
from pyddsi.cli import _arguments as read
from pyddsi.cli._arguments import UsageError
from pyddsi.cli._session import add_session, chosen, declaring, terminable
from pyddsi.cli._show import duration, many, say, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyddsi.capture._record import Recorder

DESCRIPTION = """\
Write packets into a pcapng file, which `pyddsi info`, `pyddsi replay`, Wireshark and others read.

  without --interface   a session of its own records what it says and hears, and needs no privilege. It hears what goes to
                        the group: who is there, what they declare, and samples that go to the group. Samples that go from
                        one to one, or through shared memory, it gets as their subscriber: name them, or '**' for all
  with --interface      what goes by there is recorded, whoever says it, as far as it is of the protocol; needs root, or the
                        capability CAP_NET_RAW. Shared memory goes by on no interface

Ends with Ctrl-C, after --duration or --count. What a program of yours says and hears records pyddsi.open(record="run.pcapng").
"""

EXAMPLES = """\
examples:
  pyddsi record -o run.pcapng '**'
  pyddsi record -o run.pcapng 'plant/**' --duration 10min
  pyddsi record -o run.pcapng '**' --max-size 100M --keep 10     (run_00001.pcapng, run_00002.pcapng, ...)
  pyddsi record -o run.pcapng '**' --max-time 1h
  sudo pyddsi record -o run.pcapng --interface eth0
  pyddsi record -o - '**' | tshark -r -

Publishers wait for a recording's subscriber as for no other: never; what it misses is counted. The exit status is 1 if packets
were lost for want of room.
"""

TICK = 0.5


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.mixed = True
    parser.add_argument(
        "names", metavar="NAME", nargs="*", type=read.resource, help="a name, or a pattern: '**'"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="what is written: a name that ends in .pcapng; - is standard output",
    )
    parser.add_argument(
        "--interface",
        dest="sniffed",
        metavar="NAME",
        help="record what goes by here, and open no session: eth0, or any",
    )
    parser.add_argument(
        "--port",
        type=read.whole_number(1, 65535),
        action="append",
        metavar="PORT",
        help="with --interface: a well-known port of the protocol (default: 7447; may be repeated)",
    )
    group = parser.add_argument_group("files")
    group.add_argument(
        "--max-size",
        type=read.byte_count(128 * 1024),
        metavar="BYTES",
        help="begin another file before one has more: 10M, 1G",
    )
    group.add_argument(
        "--max-time",
        type=read.span,
        metavar="TIME",
        help="begin another file before one holds more: 10min, 1h",
    )
    group.add_argument(
        "--keep", type=read.whole_number(1), metavar="N", help="of these, only the newest so many"
    )
    group.add_argument(
        "--overwrite", action="store_true", help="files that exist, instead of an error"
    )
    read.add_duration(parser, "end after this: 10s", zero=True)
    parser.add_argument(
        "--count", type=read.whole_number(1), metavar="N", help="end after so many packets"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, and no summary")
    read.add_json(parser, "the summary as one JSON object, on standard output")
    add_session(parser, interface=False)


def _files(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "max_size": options.max_size,
        "max_time": options.max_time,
        "keep": options.keep,
        "count": options.count,
        "overwrite": options.overwrite,
    }


def _check(options: argparse.Namespace) -> None:
    names = ("names", "group", "peer", "config", "no_shared")
    given = [name for name in names if getattr(options, name)]
    if options.sniffed is not None and given:
        word = "NAME" if given[0] == "names" else "--" + given[0].replace("_", "-")
        raise UsageError(f"{word} is for a session, and --interface opens none")
    if options.sniffed is None and options.port:
        raise UsageError("--port goes with --interface; a session knows its own packets")
    if options.output == "-" and options.json:
        raise UsageError("--json and -o - both write to standard output")


@contextmanager
def _recorder(options: argparse.Namespace) -> Iterator[Recorder]:
    """What records, from its beginning to its end."""
    if options.sniffed is not None:
        from pyddsi import capture  # noqa: PLC0415 - only then

        ports = tuple(options.port or (7447,))
        with capture.record(
            options.sniffed, options.output, ports=ports, **_files(options)
        ) as recorder:
            yield recorder
        return
    try:
        session = pyddsi.Session(chosen(options), recorded=True)
    except (ValueError, MemoryError) as error:
        raise UsageError(str(error)) from None
    with session:
        recorder = session.record(options.output, **_files(options))
        with declaring():
            for name in dict.fromkeys(options.names):
                session.subscriber(name, on_full="drop_oldest").callback(_nothing)
        yield recorder
    recorder.close()


def _nothing(_sample: pyddsi.Sample) -> None:
    """It is in the file already."""


def _progress(recorder: Recorder) -> None:
    counts = recorder.counts
    lost = f", {counts.lost:,} lost" if counts.lost else ""
    where = recorder.files[-1]
    print(
        f"\r{many(counts.packets, 'packet')}, {size(counts.bytes)} in {where}{lost}\033[K",
        end="",
        file=sys.stderr,
        flush=True,
    )


def _run(options: argparse.Namespace, recorder: Recorder) -> None:
    """Until the end."""
    until = None if options.duration is None else time.monotonic() + options.duration
    shown = sys.stderr.isatty() and not options.quiet
    if not options.quiet:
        say(f"recording into {recorder.files[0]}; Ctrl-C ends it")
    try:
        while not recorder.closed:
            left = TICK if until is None else min(TICK, until - time.monotonic())
            if left <= 0 or recorder.wait(left):
                break
            if shown:
                _progress(recorder)
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr)


def _say_all(options: argparse.Namespace, recorder: Recorder, seconds: float) -> None:
    counts = recorder.counts
    if options.json:
        found = {
            "files": list(recorder.files),
            "packets": counts.packets,
            "bytes": counts.bytes,
            "lost": counts.lost,
            "left_out": counts.left_out,
        }
        print(json.dumps(found))
    if options.quiet:
        return
    files = recorder.files
    where = files[0] if len(files) == 1 else f"{len(files)} files, {files[0]} to {files[-1]}"
    say(
        f"{many(counts.packets, 'packet')}, {size(counts.bytes)} in {duration(seconds)}, in {where}"
    )
    if counts.lost:
        say(f"{many(counts.lost, 'packet')} lost: the disk, or this machine, was too slow")


def run(options: argparse.Namespace) -> int:
    """Record."""
    _check(options)
    begun = time.monotonic()
    lost = 0
    try:
        with terminable(), ExitStack() as stack:
            recorder = stack.enter_context(_recorder(options))
            try:
                _run(options, recorder)
            finally:
                stack.close()  # the farewell is in the file as well
                lost = recorder.counts.lost
                _say_all(options, recorder, time.monotonic() - begun)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return 1 if lost else 0
