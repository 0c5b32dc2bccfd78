"""How things are shown: numbers for people, tables, colours, lines that change in their place."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

from pyddsi.cli import _show
from pyddsi.cli._show import Live, Paint
from tests.cli.programs import PROGRAM, group


class Terminal(io.StringIO):
    """A terminal, as far as it is asked."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the tests run in, it is this kind of terminal."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_numbers() -> None:
    """A number would be shown with the wrong unit."""
    assert [_show.size(n) for n in (0, 1, 1023, 1024, 1536 * 1024, 1 << 45)] == [
        "0 bytes",
        "1 byte",
        "1,023 bytes",
        "1.0 KiB",
        "1.5 MiB",
        "32.0 TiB",
    ]
    times = (0.0000015, 0.0015, 1.5, 150.0, 10_000.0, 200_000.0)
    assert [_show.duration(n) for n in times] == [
        "1.5 µs",
        "1.50 ms",
        "1.50 s",
        "2 min",
        "3 h",
        "2 days",
    ]
    assert [_show.many(n, "peer") for n in (0, 1, 2000)] == ["0 peers", "1 peer", "2,000 peers"]


def test_percentiles() -> None:
    """A percentile would be off by one, or be made of nothing."""
    ordered = [float(n) for n in range(1, 101)]
    assert [_show.percentile(ordered, p) for p in (0, 1, 50, 99, 100)] == [1, 1, 50, 99, 100]
    assert _show.percentile([7.0], 50) == 7
    assert _show.percentile([1.0, 2.0], 50) == 1
    assert _show.percentile([], 50) == 0


def test_table() -> None:
    """Columns would not stand below each other."""
    lines = _show.table(("name", "n"), [("a", "1"), ("long one", "22")], Paint(io.StringIO()))
    assert lines == ["name       n", "a          1", "long one  22"]
    assert _show.table(("n", "x"), [("1", "a")], Paint(io.StringIO()), left=(1,)) == [
        "n  x",
        "1  a",
    ]


def test_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names would push the numbers out of a terminal, where the ones at its edge are drawn over each other."""
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("plant/hall/12/robot/7/arm/left/pose", "1,000.0/s", "12.34 ms"), ("x", "1", "2")]
    lines = _show.table(("name", "rate", "mean"), rows, Paint(Terminal()))
    assert lines[1:] == [
        "plant/hal…left/pose  1,000.0/s  12.34 ms",
        "x                            1         2",
    ]
    whole = _show.table(("name", "rate", "mean"), rows, Paint(io.StringIO()))
    assert rows[0][0] in whole[1], "what is no terminal gets all of it"


def test_table_of_others_texts() -> None:
    """A newline in somebody's command line would tear the table, and an escape steer the terminal."""
    lines = _show.table(("command",), [("python -c 'a\nb\033[2J'",)], Paint(io.StringIO()))
    assert lines[1:] == [r"python -c 'a\nb\x1b[2J'"]


def test_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours would get into files, or be shown to who asked for none."""
    assert Paint(Terminal())("red", "x") == "\033[31mx\033[0m"
    assert Paint(Terminal())("red", "") == ""
    assert Paint(io.StringIO())("red", "x") == "x"
    monkeypatch.setenv("NO_COLOR", "")
    assert Paint(Terminal()).on
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Paint(Terminal()).on
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not Paint(Terminal()).on


def test_live() -> None:
    """What changes would be drawn below what it replaces, or be left over at the end."""
    terminal = Terminal()
    live = Live(terminal)
    live.show(["one", "two"])
    live.show(["three"])
    drawn = terminal.getvalue()
    assert drawn.count("\033[2F") == 1
    assert drawn.index("\033[2F") < drawn.index("three")
    live.done(["last"])
    assert terminal.getvalue().endswith("\033[1F\033[Jlast\n")
    live.clear()
    assert terminal.getvalue().endswith("last\n")
    live.show(map(str, range(100)))
    assert "... and 78 more" in terminal.getvalue()
    plain = io.StringIO()
    Live(plain).show(["one"])
    assert not plain.getvalue()
    Live(plain).done(["one"])
    assert plain.getvalue() == "one\n"


def test_on_a_terminal() -> None:
    """On a real terminal the program would show no colours, or scroll where it should redraw."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYDDSI_GROUP": group()}
    command = [sys.executable, "-c", PROGRAM, "doctor"]
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, env=environment) as program:
        os.close(theirs)
        found = b""
        try:
            while data := os.read(ours, 65536):
                found += data
        except OSError:  # that is how a terminal ends
            os.close(ours)
        assert program.wait() == 0
    assert b"\033[32mok  \033[0m  software" in found
