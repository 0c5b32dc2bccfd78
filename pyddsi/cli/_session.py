"""A command's session: the options that all commands share for it, its opening, and its end by Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyddsi
from pyddsi._looks import Drop
from pyddsi.cli._arguments import Parser, UsageError

__all__ = [
    "Terminated",
    "add_session",
    "chosen",
    "declaring",
    "opened",
    "settings",
    "terminable",
    "unheard",
    "unsent",
]

SENDING = {"put", "window", "packet"}
"""Where a publisher's samples are dropped."""
LOSSES = {"gap", "loss", "size", "overwritten", "full", "incomplete", "limit"}
"""Why a subscriber lacks samples. The other reasons are of packets from before both knew each other, or that came twice."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: the end as by Ctrl-C, with another exit status."""


def add_session(parser: Parser, *, metrics: bool = False, interface: bool = True) -> None:
    """The options for the session, and for its metrics; without --interface where that means something else."""
    group = parser.add_argument_group(
        "session",
        "Any other setting comes from the file, or the environment: PYDDSI_LEASE=2, PYDDSI_WINDOW_BYTES=1048576.",
    )
    group.add_argument("--group", metavar="ADDRESS:PORT", help="the group in which peers meet")
    if interface:
        group.add_argument(
            "--interface", metavar="NAME", help="by which the group is reached: eth0, or an address"
        )
    else:
        parser.set_defaults(interface=None)
    group.add_argument(
        "--peer",
        action="append",
        metavar="ADDRESS:PORT",
        help="ask this peer directly (may be repeated)",
    )
    group.add_argument(
        "--no-shared", action="store_true", help="no shared memory: all goes by the network"
    )
    group.add_argument("--config", metavar="FILE", help="a TOML file with settings")
    if metrics:
        from pyddsi.cli._arguments import port  # noqa: PLC0415 - few commands have it

        group.add_argument(
            "--metrics",
            type=port,
            metavar="PORT",
            help="serve all counts in Prometheus' text form at http://127.0.0.1:PORT/metrics (0: any port)",
        )


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """What the options say of the session."""
    found: dict[str, Any] = {}
    if options.group is not None:
        found["group"] = options.group
    if options.interface is not None:
        found["interface"] = options.interface
    if options.peer:
        found["peers"] = tuple(options.peer)
    if options.no_shared:
        found["shared_memory"] = False
    return found


def chosen(options: argparse.Namespace, **more: Any) -> pyddsi.Config:
    """The config of the session; what the options say wins over `more`."""
    return pyddsi.Config.load(options.config, **more | settings(options))


@contextmanager
def declaring() -> Iterator[None]:
    """What cannot be declared as the options say is their user's mistake, and no fault of ours."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, so that peers hear farewell."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(*_: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def opened(options: argparse.Namespace, **more: Any) -> Iterator[pyddsi.Session]:
    """A session as the options say, with its metrics if they are asked for."""
    config = chosen(options, **more)
    with terminable():
        try:
            session = pyddsi.open(config)
        except (ValueError, MemoryError) as error:
            raise UsageError(str(error)) from None
        with session:
            port = getattr(options, "metrics", None)
            if port is None:
                yield session
                return
            from pyddsi.cli._metrics import served  # noqa: PLC0415 - a server takes long to load

            with served(session, port):
                yield session


def unsent(session: pyddsi.Session) -> list[Drop]:
    """The lines of the ledger about samples that were published and did not reach everybody."""
    return [drop for drop in session.drops() if drop.place in SENDING]


def unheard(session: pyddsi.Session) -> list[Drop]:
    """The lines of the ledger about samples that were to come and did not."""
    return [drop for drop in session.drops() if drop.place not in SENDING and drop.reason in LOSSES]
