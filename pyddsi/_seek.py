"""
The peers that `peers` names: host names become addresses, and what keeps one from being reached is told.

    core ── pyddsi_session_named ──► is it there? how often did connecting fail, and why?
      ▲                                     │ no
      └──── pyddsi_session_aim ◄── getaddrinfo, on this thread, which carries no traffic

A name is resolved again before each attempt that this thread sees, and of several addresses the next one is tried: so a container
that comes back elsewhere is found. Sessions that name no peer have no such thread. It sleeps for longer and longer while nothing
changes, and ends as soon as the session closes.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from weakref import ref

from pyddsi._checks import place_of
from pyddsi._native import ffi, lib

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
    from typing import Any

    from pyddsi._looking import Looking
    from pyddsi._native import Keeper

__all__ = ["Seeker", "seeker"]

PAUSE_FIRST, PAUSE_MAX = 0.25, 8.0
KINDS = {("udp", 4): 4, ("udp", 16): 6, ("tcp", 4): 14, ("tcp", 16): 16}


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


class Named:
    """One of the peers that were named."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = place_of(text, names=True)
        self.turn = 0  # of its addresses
        self.unknown = 0  # times that its name had no address
        self.why = ""
        self.told = ""

    def addresses(self, kind: int) -> list[bytes]:
        """Those that its name has now, of the core's kind. OSError if there are none."""
        import socket  # noqa: PLC0415 - who names addresses alone needs it not

        family = socket.AF_INET if kind in {4, 14} else socket.AF_INET6
        found = socket.getaddrinfo(self.place.host, None, family, socket.SOCK_STREAM)
        return list(dict.fromkeys(socket.inet_pton(family, str(one[4][0])) for one in found))

    def resolve(self, raw: Any, index: int, state: Any) -> None:
        """Aims the core at the next of its addresses."""
        try:
            found = self.addresses(state.where.kind)
        except (OSError, UnicodeError) as error:
            self.unknown += 1
            text = getattr(error, "strerror", None) or str(error)
            self.why = f"unknown name, {_times(self.unknown)} ({text})"
            return
        self.unknown = 0
        state.where.ip = found[self.turn % len(found)].ljust(16, b"\0")
        self.turn += 1
        lib.pyddsi_session_aim(raw, index, ffi.addressof(state, "where"))

    def look(self, raw: Any, index: int, state: Any) -> bool | None:
        """Whether it is there, and why not. None: the session is closed."""
        if lib.pyddsi_session_named(raw, index, state) != lib.PYDDSI_OK:
            return None
        if state.live:
            self.why, self.unknown, self.turn = "", 0, 0
            return True
        where = self._where(state) if any(bytes(state.where.ip)) and self.place.host else ""
        if state.failed:
            word = {111: "refused", 110: "timed out"}.get(state.code) or os.strerror(state.code)
            self.why = f"{word.lower()}, {_times(state.failed)}{where}"
        elif any(bytes(state.where.ip)) or self.place.kind == "unix":
            self.why = f"no answer yet{where}"
        if self.place.host:
            self.resolve(raw, index, state)
        return False

    def _where(self, state: Any) -> str:
        from pyddsi._looks import endpoint  # noqa: PLC0415 - only for a name that was resolved

        return f" at {endpoint(state.where)}"


class Seeker:
    """Looks after all of them, on a thread."""

    def __init__(self, texts: tuple[str, ...], asleep: LockType) -> None:
        self.named = [Named(text) for text in texts]
        self._asleep = asleep
        asleep.acquire()

    def stop(self) -> None:
        """The session closes."""
        if self._asleep.locked():
            self._asleep.release()

    def missing(self) -> dict[str, str]:
        """Those that are not there, and why."""
        return {one.text: one.why for one in self.named if one.why}

    def run(self, keeper: Keeper, raw: Any, session_of: Callable[[], Looking | None]) -> None:
        """Until the session is closed. `keeper` keeps its memory; the session itself may go meanwhile."""
        state, pause, calm = ffi.new("pyddsi_named *"), PAUSE_FIRST, False
        while session_of() is not None:
            there = [one.look(raw, i, state) for i, one in enumerate(self.named)]
            if None in there:
                break
            self._tell(session_of)
            if self._asleep.acquire(timeout=pause):
                break
            pause = PAUSE_FIRST if calm and not all(there) else min(2 * pause, PAUSE_MAX)
            calm = all(there)
        del keeper

    def _tell(self, session_of: Callable[[], Looking | None]) -> None:
        from pyddsi._log import log_missing  # noqa: PLC0415 - it is loaded by then

        for one in self.named:
            reason = one.why.partition(",")[0]
            session = session_of()
            if session is not None and reason not in {one.told, "no answer yet"}:
                log_missing(session, one.text, one.why)
                one.told = reason


def seeker(session: Looking) -> Seeker:
    """One for a session that is open, at work."""
    found = Seeker(session.config.peers, allocate_lock())
    start_new_thread(found.run, (session._keeper, session.raw, ref(session)))  # noqa: SLF001 - as session.py does
    return found
