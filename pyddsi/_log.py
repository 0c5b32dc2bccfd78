"""
What the logger "pyddsi" is told of a session: peers that come, go and are refused, samples that will not come, what was dropped.

    core ── an event ──► a thread that waits for events alone ──► pump() ──► the logger, and events() of the program
                         pump() of a call of the program      ──►

Whichever takes an event out of the core logs it, so each is logged once, when it happens, also in a program that never asks. The
thread sleeps in the core: samples do not wake it. `logging` takes longer to import than a session to open, so it is imported
for a warning, and for what is less only if the program has imported it.
"""

from __future__ import annotations

import sys

from pyddsi._native import ffi, lib
from pyddsi.errors import ClosedError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
    from logging import Logger
    from typing import Any

    from pyddsi._looking import Looking
    from pyddsi._native import Keeper

__all__ = ["log_broker", "log_drops", "log_event", "log_missing", "watch"]

DEBUG, INFO, WARNING = 10, 20, 30  # as logging has them
LEVELS = {
    lib.PYDDSI_CONNECTED: INFO,
    lib.PYDDSI_RECONNECTED: INFO,
    lib.PYDDSI_DISCONNECTED: INFO,
    lib.PYDDSI_REFUSED: WARNING,
    lib.PYDDSI_GAP: WARNING,
    lib.PYDDSI_DETACHED: WARNING,
    lib.PYDDSI_QOS_CONFLICT: WARNING,
    lib.PYDDSI_TOO_LARGE: WARNING,
}
"""All others are details."""


def watch(
    keepers: list[Keeper], raw: Any, session_of: Callable[[], Looking | None], running: LockType
) -> None:
    """
    Until the session is closed, whose close() waits for it.

    keepers: the one that keeps the session's memory; the session itself may go meanwhile
    running: is held when this begins, and released when it has ended
    """
    keeper = keepers.pop()
    try:
        _watch(raw, session_of)
    finally:
        del keeper
        running.release()


def _watch(raw: Any, session_of: Callable[[], Looking | None]) -> None:
    heard = ffi.new("uint32_t *")
    while lib.pyddsi_session_wait_event(raw, heard) == lib.PYDDSI_OK:
        session = session_of()
        if session is None:
            return
        try:
            session.pump()
        except ClosedError:
            return
        del session


def _logger(level: int) -> Logger | None:
    """The logger, if it takes what is of this level."""
    if level >= WARNING:
        import logging  # noqa: F401, PLC0415 - see the top

    # a session that nothing refers to any more may be closed in the middle of that import
    get = getattr(sys.modules.get("logging"), "getLogger", None)
    found: Logger | None = None if get is None else get("pyddsi")
    return found if found is not None and found.isEnabledFor(level) else None


def log_event(session: Looking, raw: Any) -> None:
    """An event that was just taken out of the core."""
    level = LEVELS.get(raw.kind, DEBUG)
    log = _logger(level)
    if log is not None:
        log.log(level, "%s: %s", session.title, _text(session, raw))


def log_missing(session: Looking, text: str, why: str) -> None:
    """A peer that was named cannot be reached, for another reason than before; or it can again."""
    log = _logger(WARNING if why else INFO)
    if log is not None and why:
        log.warning("%s: the peer %s is not reached: %s", session.title, text, why)
    elif log is not None:
        log.info("%s: the peer %s is reached", session.title, text)


def log_broker(session: Looking) -> None:
    """A session opens: of a broker more may be hoped for than it does."""
    log = _logger(WARNING) if session.config.role == "broker" else None
    if log is not None:
        log.warning(
            "%s: a broker relays nothing: what one client publishes does not reach another one",
            session.title,
        )


def log_drops(session: Looking) -> None:
    """The session is closed: what its ledger has."""
    log = _logger(INFO)
    if log is not None:
        for drop in session.drops():
            log.info("%s: dropped: %s", session.title, drop)


def _text(session: Looking, raw: Any) -> str:
    from pyddsi._looks import endpoint, reason_name  # noqa: PLC0415 - most programs open without

    event = session.event_of(raw)
    if raw.kind == lib.PYDDSI_REFUSED:
        from pyddsi._refusals import refused  # noqa: PLC0415 - few sessions are refused

        return refused(event.peer, endpoint(raw.endpoint, session.paths), reason_name(raw.reason))
    at = f" at {event.endpoint}" if event.endpoint is not None else ""
    if raw.kind == lib.PYDDSI_TOO_LARGE:
        return (
            f"{event.of or event.resource}: a sample of {event.size} bytes does not go to peer {event.peer}{at}, which takes "
            f"{event.size_max} at most; drops() counts such samples"
        )
    what = str(event).partition(" ")[2].replace(event.peer or "\0", f"peer {event.peer}{at}", 1)
    return what + (f" of {event.resource!r}" if event.resource is not None else "")
