"""`pyddsi replay`: a capture again, into a session, as datagrams, or into a node."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial

from pyddsi._checks import address_of
from pyddsi.capture import replay
from pyddsi.capture.replay import Pace, Recording, Route
from pyddsi.cli import _arguments as read
from pyddsi.cli._arguments import Parser, UsageError
from pyddsi.cli._replay import show_deliveries, show_progress, show_published, show_sent
from pyddsi.cli._session import add_session, declaring, opened, terminable, unsent
from pyddsi.cli._show import many, say

DESCRIPTION = """\
Play a capture again (pcap, pcapng, gzipped or not; several files are one recording), at the times of the recording:

  --mode session   publish the recorded samples in a live session, with numbers and acknowledgements of its own.
                   Waits for a subscriber first. This is the default, for it is what peers and applications understand
  --mode raw       send the recorded datagrams, byte for byte, each sender from a socket of its own; or write them into
                   a file. For tools, and receivers without a memory: a peer takes numbers of long ago for damage
  --mode core      feed the recorded packets to a node in the place of one of the peers, without a socket, and print
                   what it delivers. The same capture has the same deliveries and the same digest
"""

EXAMPLES = """\
examples:
  pyddsi replay night.pcap
  pyddsi replay night.pcap --speed 10 --from 60 --to 90
  pyddsi replay night.pcap --pps 500 --loop 0 --gap 1s --group 239.255.9.9:7447
  pyddsi replay night.pcap --mode raw --send-to 127.0.0.1:9000 --max
  pyddsi replay night.pcap --mode raw --map 10.77.0.0/16=127.77.0.0/16 --map-port 7447=17447 --interface lo
  pyddsi replay night.pcap --mode raw --speed 2 --as-file faster.pcapng
  pyddsi replay night.pcap --mode core --side 10.77.0.2:7447 --json

Times have a unit (300us, 5ms, 1s, 2h) or are in seconds. The exit status is 1 if nobody subscribed in time, if something
was dropped, not sent or not the same the second time, or if one of a hundred was later than --max-late.
"""

PATIENCE = 10.0
HURRY = 1.0
RESOURCES_MIN = 1024
ONLY = {
    "raw": ("send_to", "map", "map_port", "as_file"),
    "session": ("no_wait", "timeout", "group", "peer", "no_shared", "config", "metrics"),
    "core": ("side",),
}


# ---- options -----------------------------------------------------------------------------------------------------


def _moment(word: str) -> float | datetime:
    with suppress(argparse.ArgumentTypeError):
        return read.span(word)
    try:
        return datetime.fromisoformat(word)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{word!r} is no moment: give seconds from the start, or a time such as 2024-05-01T12:00:00Z"
        ) from None


def _address(word: str) -> tuple[str, int]:
    try:
        address_of(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{word!r} is not {str(error).split(', not')[0]}"
        ) from None
    host, _, port = word.rpartition(":")
    return host.strip("[]"), int(port)


def _until(word: str) -> float | datetime:
    with suppress(ValueError):
        address_of(word)
        raise argparse.ArgumentTypeError(f"{word!r} is no moment; --send-to says where to send")
    return _moment(word)


def _well_known(word: str) -> int:
    if "=" in word:
        raise argparse.ArgumentTypeError(f"{word!r} is no port; --map-port makes one of another")
    return read.whole_number(1, 65535)(word)


def _pair(word: str, what: str) -> tuple[str, str]:
    one, mark, two = word.partition("=")
    if not (one and mark and two):
        raise argparse.ArgumentTypeError(f"{word!r} is not two {what} with = between them")
    return one, two


def _ports(word: str) -> tuple[int, int]:
    one, two = _pair(word, "ports, such as 7447=17447,")
    number = read.whole_number(1, 65535)
    return number(one), number(two)


def add(parser: Parser) -> None:
    """Its options."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="a capture; - is standard input (raw only)"
    )
    parser.add_argument(
        "--mode", choices=["session", "raw", "core"], default="session", help="see above"
    )
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=_well_known,
        default=7447,
        help="a well-known port of the protocol (default: 7447)",
    )
    read.add_json(parser, "say what happened as JSON")
    part = parser.add_argument_group("which part")
    part.add_argument(
        "--from",
        dest="start",
        metavar="T",
        type=_moment,
        help="from then on: seconds from the start, or a time of day (UTC if it has no zone)",
    )
    part.add_argument("--to", dest="stop", metavar="T", type=_until, help="up to then")
    pace = parser.add_argument_group("how fast, and how often")
    rate = pace.add_mutually_exclusive_group()
    rate.add_argument(
        "--speed",
        metavar="X",
        type=read.exact,
        help="times as fast as it was recorded (default: 1)",
    )
    rate.add_argument(
        "--pps", metavar="N", type=read.exact, help="so many packets (samples) a second, exactly"
    )
    rate.add_argument(
        "--mbps", metavar="N", type=read.exact, help="so many megabits of payload a second"
    )
    rate.add_argument("--max", action="store_true", help="as fast as the machine can")
    pace.add_argument(
        "--loop",
        metavar="N",
        type=read.whole_number(0),
        default=1,
        help="how many rounds; 0: until Ctrl-C (default: 1)",
    )
    pace.add_argument(
        "--gap", metavar="TIME", type=read.span, default=0.0, help="a pause between two rounds"
    )
    pace.add_argument(
        "--max-late",
        metavar="TIME",
        type=read.span,
        help="the exit status is 1 if one of a hundred was later than this",
    )
    raw = parser.add_argument_group("--mode raw")
    raw.add_argument(
        "--send-to",
        metavar="ADDRESS:PORT",
        type=_address,
        help="everything goes there, groups included",
    )
    raw.add_argument(
        "--map",
        metavar="NET=NET",
        type=partial(_pair, what="networks, such as 10.0.0.0/8=127.0.0.0/8,"),
        action="append",
        help="addresses of one network become those of another (may be repeated); a group stays "
        "what it is unless it is named",
    )
    raw.add_argument(
        "--map-port",
        metavar="N=M",
        type=_ports,
        action="append",
        help="one port becomes another (may be repeated)",
    )
    raw.add_argument(
        "--as-file", metavar="FILE", help="write a capture (.pcap or .pcapng) instead of sending"
    )
    core = parser.add_argument_group("--mode core")
    core.add_argument(
        "--side", metavar="ADDRESS[:PORT]", help="who is replaced (default: one after the other)"
    )
    session = parser.add_argument_group("--mode session")
    session.add_argument(
        "--no-wait", action="store_true", help="begin at once, whether somebody subscribes or not"
    )
    session.add_argument(
        "--timeout",
        metavar="TIME",
        type=read.span,
        help="how long to wait for a subscriber, and for room (default: 10 s)",
    )
    add_session(parser, metrics=True)


def _fault(options: argparse.Namespace) -> None:
    """What contradicts itself."""
    for mode, names in ONLY.items():
        for name in names if mode != options.mode else ():
            if getattr(options, name) not in {None, False}:
                raise UsageError(
                    f"replay: --{name.replace('_', '-')} is for --mode {mode}, and this is --mode {options.mode}"
                )
    if options.mode == "core":
        for name, value in (
            ("gap", options.gap),
            ("max-late", options.max_late),
            ("interface", options.interface),
        ):
            if value:
                raise UsageError(
                    f"replay: --{name} has no meaning for --mode core, in which time is virtual"
                )


# ---- the three modes ---------------------------------------------------------------------------------------------


def _late(options: argparse.Namespace, late: replay.Lateness) -> int:
    """Whether it was later than it should be, as a status."""
    if options.max_late is None or not late:
        return 0
    found = late.percentile(99) / 1e9
    if found <= options.max_late:
        return 0
    say(
        f"one of a hundred was later than {found * 1e3:.3f} ms, and --max-late is {options.max_late * 1e3:g} ms"
    )
    return 1


def _raw(options: argparse.Namespace, recording: Recording, pace: Pace) -> int:
    with declaring():
        route = Route(
            to=options.send_to,
            maps=dict(options.map or ()),
            ports=dict(options.map_port or ()),
            interface=options.interface or "",
        )
    one = replay.RawReplay(recording, pace, route)
    with terminable(), show_progress("packet") as watch:
        try:
            if options.as_file is not None:
                one.write(options.as_file)
            else:
                one.run(watch)
        finally:
            watch.clear()
            if one.report.packets or one.report.refused:
                show_sent(options, one.report)
    failed = one.report.refused or one.report.full
    return 1 if failed else _late(options, one.report.late)


def _session(options: argparse.Namespace, recording: Recording, pace: Pace) -> int:
    contents = replay.survey(recording)
    wanted = max(RESOURCES_MIN, 2 * len(contents.topics))
    with opened(
        options, **({"resources_max": wanted} if wanted > RESOURCES_MIN else {})
    ) as session:
        timeout = PATIENCE if options.timeout is None else options.timeout
        with declaring():
            one = replay.SessionReplay(recording, session, pace, contents=contents, timeout=timeout)
            one.check()
            one.declare()
        if not options.no_wait and not _found_subscriber(one):
            return 1
        status = 0
        with show_progress("sample") as watch:
            try:
                one.run(watch, wait=False)
            except TimeoutError as error:
                say(str(error))
                status = 1
            except ValueError as error:  # a sample that can never be sent
                raise UsageError(f"{error} (as PYDDSI_WINDOW_BYTES=...)") from None
            finally:
                watch.clear()
                session.close(HURRY)
                show_published(options, one, session)
    return 1 if unsent(session) else status or _late(options, one.report.late)


def _found_subscriber(one: replay.SessionReplay) -> bool:
    """Whether somebody subscribes in time; says what it waits for when that takes long."""
    what = many(len(one.contents.topics), "resource")
    if not one.session.wait(min(0.5, one.timeout), one.matched):
        say(f"waiting for a subscriber of one of {what} (--no-wait does not)")
    try:
        one.wait_matched()
    except TimeoutError as error:
        say(str(error))
        return False
    return True


def _core(options: argparse.Namespace, recording: Recording, pace: Pace) -> int:
    first = replay.CoreReplay(recording, options.side, pace)
    sides = [first.side] if options.side is not None else list(first.facts.ids)
    status = 0
    for side in sides:
        digests = set()
        for number in pace.rounds():
            one = replay.CoreReplay(recording, side, pace, facts=first.facts)
            show_deliveries(options, one, quiet=number > 0)
            digests.add(one.digest)
        if len(digests) > 1:
            say(
                f"{side}: not the same each time, which is a fault in pyddsi; please report it with the capture"
            )
            status = 1
    return status


MODES: dict[str, Callable[[argparse.Namespace, Recording, Pace], int]] = {
    "raw": _raw,
    "session": _session,
    "core": _core,
}


def run(options: argparse.Namespace) -> int:
    """Play it."""
    _fault(options)
    with declaring():
        recording = Recording(
            options.files, start=options.start, until=options.stop, well_known=options.port
        )
        pace = Pace(
            speed=options.speed,
            pps=options.pps,
            mbps=options.mbps,
            flat_out=options.max,
            loop=options.loop,
            gap=options.gap,
        )
    return MODES[options.mode](options, recording, pace)
