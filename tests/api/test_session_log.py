"""The logger "pyddsi" is told what happens, when it happens, also where the program asks for nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from queue import SimpleQueue
from types import ModuleType

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group


class Lines(logging.Handler):
    """What is logged, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: SimpleQueue[tuple[str, str]] = SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        """One more."""
        self.lines.put((record.levelname, record.getMessage()))

    def until(self, *words: str) -> str:
        """The level of the next line with all of these words."""
        while True:
            level, line = self.lines.get(timeout=TIMEOUT)
            if all(word in line for word in words):
                return level


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What the logger is told meanwhile."""
    log, handler = logging.getLogger("pyddsi"), Lines()
    log.addHandler(handler)
    before = log.level
    log.setLevel(logging.DEBUG)
    yield handler
    log.setLevel(before)
    log.removeHandler(handler)


def test_sessions_that_are_asked_nothing(lines: Lines) -> None:
    """A program that only reads would have a log without the peers that come and go."""
    where = group()
    with pyddsi.open(group=where) as session:
        other = pyddsi.open(group=where)
        name = other.name
        assert lines.until(session.title, "connected", f"peer {name} at ") == "INFO"
        session.subscriber("a")
        other.publisher("a")
        assert lines.until(other.title, "matched", "publisher 'a'") == "DEBUG"
        other.close()
        assert lines.until(session.title, "disconnected", name, "ordinary") == "INFO"
        kinds = [event.kind for event in session.events()]
        assert "connected" in kinds, "what is logged is still told by events()"
        assert "disconnected" in kinds


def test_drops(lines: Lines) -> None:
    """What was dropped would stand in the ledger alone, which goes with the program."""
    with pyddsi.open(group=group()) as session:
        session.subscriber("a")
        session.publisher("a").put(b"x")
    assert lines.until("dropped: 1 of a") == "INFO"


def test_a_handler_that_asks_the_session(lines: Lines) -> None:
    """A handler that looks at the session would wait for itself."""
    where = group()
    asked = SimpleQueue[int]()
    with pyddsi.open(group=where) as session:

        def ask(_record: logging.LogRecord) -> bool:
            asked.put(0 if session.closed else len(session.peers()))
            return True

        lines.addFilter(ask)
        with pyddsi.open(group=where):
            asked.get(timeout=TIMEOUT)
            lines.until("connected")


def test_a_session_that_closes_while_logging_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """close() would raise where the garbage collector closes a session in the middle of an import."""
    with pyddsi.open(group=group()) as session:
        session.subscriber("a")
        session.publisher("a").put(b"x")
        monkeypatch.setitem(sys.modules, "logging", ModuleType("logging"))
    assert session.closed


PROGRAM = """
    import sys, pyddsi
    with pyddsi.open(group=sys.argv[1]) as session, pyddsi.open(group=sys.argv[1]) as other:
        sub, pub = session.subscriber("a"), other.publisher("a")
        pub.put(b"x") if pub.wait_matched() else None
        sub.recv()
        print("logging" in sys.modules)
"""


def test_a_program_without_logging() -> None:
    """A program that does not log would pay for it, or have lines on its standard error."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), group()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
