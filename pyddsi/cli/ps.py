"""`pyddsi ps`: which processes have sessions."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict

import pyddsi
from pyddsi._looks import Peer
from pyddsi.cli import _arguments as read
from pyddsi.cli import _peers
from pyddsi.cli._session import add_session, opened
from pyddsi.cli._show import Paint, duration, say, size, table
from pyddsi.cli._sockets import Process, processes

DESCRIPTION = """\
List the processes on this machine that have sessions: their sessions in this group, the CPU time and the memory they took,
and how many shared windows they write. Sessions of other machines follow without a process. Other users' processes can
be seen by root alone.
"""

EXAMPLES = """\
examples:
  pyddsi ps
  pyddsi ps --group 239.255.0.7:7447
  pyddsi ps --json | jq 'select(.process.memory_bytes > 100000000)'

The exit status is 1 if there is none.
"""

HEADS = ("pid", "cpu", "memory", "windows", "peer", "address", "command")
SECONDS = 1.0


def add(parser: read.Parser) -> None:
    """Its options."""
    read.add_duration(parser, "how long to wait for answers (default: 1s)", SECONDS, zero=True)
    read.add_json(parser, "one JSON object a session")
    add_session(parser)


def _here(session: pyddsi.Session, peer: Peer) -> bool:
    """Whether it runs on this machine: it has our address."""
    return peer.endpoint is not None and peer.endpoint.address in {
        session.endpoint.address,
        "127.0.0.1",
        "::1",
    }


def _paired(
    session: pyddsi.Session, peers: list[Peer], there: list[Process]
) -> list[tuple[Peer | None, Process | None]]:
    """Each peer with its process, then the processes with sessions that are in no group of ours."""
    found: list[tuple[Peer | None, Process | None]] = []
    seen: set[int] = set()
    for peer in peers:
        port = peer.endpoint.port if peer.endpoint is not None and _here(session, peer) else None
        owner = next((one for one in there if port in one.ports), None)
        found.append((peer, owner))
        seen |= {owner.pid} if owner is not None else set()
    found += [(None, one) for one in there if one.sessions and one.pid not in seen]
    return sorted(found, key=lambda pair: pair[1].pid if pair[1] is not None else 1 << 40)


def _row(peer: Peer | None, process: Process | None) -> list[str]:
    start = ["-"] * 4
    command = ""
    if process is not None:
        start = [
            str(process.pid),
            duration(process.cpu_seconds),
            size(process.memory_bytes),
            str(process.lanes),
        ]
        command = process.command
    name = "(another group)" if peer is None else peer.name
    return [*start, name, "-" if peer is None else str(peer.endpoint), command]


def _plain(process: Process | None) -> dict[str, object] | None:
    if process is None:
        return None
    found: dict[str, object] = asdict(process)
    return found | {"ports": sorted(process.ports)}


def run(options: argparse.Namespace) -> int:
    """List them."""
    with opened(options, shared_memory=False) as session:
        peers = _peers.find(session, options.duration)
        there = [one for one in processes() if one.pid != os.getpid()]
        pairs = _paired(session, peers, there)
        refused = _peers.refused(session)
    if options.json:
        for peer, process in pairs:
            who = None if peer is None else _peers.plain(peer)
            print(json.dumps({"peer": who, "process": _plain(process)}))
    elif pairs:
        rows = [_row(peer, process) for peer, process in pairs]
        lines = table(HEADS, rows, Paint(sys.stdout), left=(4, 5, 6))
        print("\n".join(lines))
    for line in refused:
        say(line)
    if not pairs:
        say("no process of this machine that can be seen has a session, and no peer answered")
    return 0 if pairs else 1
