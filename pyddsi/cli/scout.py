"""`pyddsi scout`: who is there."""

from __future__ import annotations

import argparse
import json
import sys

import pyddsi
from pyddsi.cli import _arguments as read
from pyddsi.cli import _peers
from pyddsi.cli._session import add_session, opened
from pyddsi.cli._show import Paint, many, say, table

DESCRIPTION = """\
Say who is there: the name and address of each session, how far it is, how long it may be silent, what it can do beyond the
basic protocol, and since when it is there. For that moment this program is a peer of theirs, too.
"""

EXAMPLES = """\
examples:
  pyddsi scout
  pyddsi scout --watch
  pyddsi scout --count 1 --duration 30s && echo somebody is there
  pyddsi scout --peer 10.0.0.9:7447 --json | jq .name

The exit status is 1 if nobody is there (or with --count fewer).
"""

HEADS = ("peer", "address", "speaks", "round trip", "lease", "age")
SECONDS = 2.0


def add(parser: read.Parser) -> None:
    """Its options."""
    read.add_duration(parser, "how long to wait for answers (default: 2s)", SECONDS, zero=True)
    parser.add_argument(
        "--count", metavar="N", type=read.whole_number(1), help="end as soon as there are so many"
    )
    parser.add_argument(
        "--watch", action="store_true", help="then say who comes and goes, until Ctrl-C"
    )
    read.add_json(parser, "one JSON object a peer, and with --watch one an event")
    add_session(parser, metrics=True)


def _watch(options: argparse.Namespace, session: pyddsi.Session) -> None:
    paint = Paint(sys.stdout)
    colours: dict[pyddsi.EventKind, str] = {
        "connected": "green",
        "reconnected": "green",
        "disconnected": "red",
        "refused": "red",
    }
    while True:
        event = session.wait_event(*colours, timeout=None)
        if options.json:
            plain = {
                "event": event.kind,
                "name": event.peer,
                "endpoint": None if event.endpoint is None else str(event.endpoint),
                "reason": event.reason,
                "time_ns": event.time_ns,
            }
            print(json.dumps(plain), flush=True)
            continue
        why = f" ({event.reason})" if event.reason else ""
        where = f" at {event.endpoint}" if event.endpoint is not None else ""
        print(f"{paint(colours[event.kind], event.kind)} {event.peer}{where}{why}", flush=True)


def run(options: argparse.Namespace) -> int:
    """Look around."""
    with opened(options) as session:
        found = _peers.find(session, options.duration, options.count)
        if options.json:
            for peer in found:
                print(json.dumps(_peers.plain(peer)))
        elif found:
            rows = [
                [
                    peer.name,
                    str(peer.endpoint),
                    _peers.speaks(peer),
                    _peers.round_trip(peer),
                    f"{peer.lease:g} s",
                    _peers.age(peer),
                ]
                for peer in found
            ]
            print("\n".join(table(HEADS, rows, Paint(sys.stdout), left=(0, 1, 2))), flush=True)
        for line in _peers.refused(session):
            say(line)
        if not found:
            say(f"nobody answered within {options.duration:g} s. {session.why_not(1)}")
        if options.watch:
            session.events()  # of those who have just been listed
            say("watching; Ctrl-C ends")
            _watch(options, session)
        elif found and options.count and len(found) < options.count:
            say(f"{many(len(found), 'peer')} within {options.duration:g} s, not {options.count}")
        return 0 if len(found) >= (options.count or 1) else 1
