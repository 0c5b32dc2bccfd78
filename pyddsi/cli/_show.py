"""How things are shown: colours and live tables where there is a terminal, plain lines where there is none."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Container, Iterable, Sequence
from typing import TextIO

__all__ = [
    "Live",
    "Paint",
    "duration",
    "lively",
    "many",
    "percentile",
    "printable",
    "say",
    "shortened",
    "size",
    "table",
]

CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
GAP = 2
"""Spaces between two columns."""
TEXT_MIN = 12
"""Columns of text are not made narrower than this."""


def say(text: str) -> None:
    """A remark, which is no part of the output."""
    sys.stdout.flush()
    print(f"pyddsi: {text}", file=sys.stderr, flush=True)


def lively(stream: TextIO) -> bool:
    """Whether somebody looks at it: a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Paint:
    """Colours, where there is a terminal and NO_COLOR is not set."""

    def __init__(self, stream: TextIO) -> None:
        self.terminal = lively(stream)
        self.on = self.terminal and not os.environ.get("NO_COLOR")

    def __call__(self, colour: str, text: str) -> str:
        return f"\033[{CODES[colour]}m{text}\033[0m" if self.on and text else text


class Live:
    """A block of lines that is drawn again in its place. Without a terminal nothing is shown until `done`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.on = lively(stream)
        self._height = 0

    def show(self, lines: Iterable[str]) -> None:
        """Draw these lines in place of those before."""
        if not self.on:
            return
        wanted = list(lines)
        room = shutil.get_terminal_size().lines - 1
        if len(wanted) > room:
            wanted[room - 1 :] = [f"... and {len(wanted) - room + 1} more"]
        up = f"\033[{self._height}F" if self._height else ""
        # lines that are too long are cut by the terminal, as the next drawing counts them as one
        body = "".join(f"\033[2K{line}\n" for line in wanted)
        self._stream.write(f"\033[?7l{up}\033[J{body}\033[?7h")
        self._stream.flush()
        self._height = len(wanted)

    def done(self, lines: Iterable[str]) -> None:
        """Draw the last state, which stays."""
        self.clear()
        for line in lines:
            print(line, file=self._stream)
        self._stream.flush()

    def clear(self) -> None:
        """Take the lines away."""
        if self._height:
            self._stream.write(f"\033[{self._height}F\033[J")
            self._stream.flush()
            self._height = 0


def printable(text: str) -> str:
    """Text of others on one line: a newline or an escape in it would draw where it likes."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def shortened(text: str, width: int) -> str:
    """The text, or its beginning and its end around a mark: names of resources differ at their ends."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return text[: width - 1 - end] + "…" + text[len(text) - end :]


def _fitted(widths: list[int], left: Container[int], room: int) -> list[int]:
    """Widths that fit: columns of text shrink, the widest first, and numbers keep theirs."""
    found = list(widths)
    excess = sum(found) + GAP * (len(found) - 1) - room
    while excess > 0:
        wide = max((i for i in range(len(found)) if i in left), key=found.__getitem__)
        if found[wide] <= TEXT_MIN:
            break
        found[wide] -= 1
        excess -= 1
    return found


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    paint: Paint,
    *,
    left: Container[int] = (0,),
) -> list[str]:
    """
    Rows below their heads; the columns in `left` hold text and begin at the left, the others hold numbers and end at the
    right. On a terminal the table is as wide as that at most.
    """
    cells = [[printable(text) for text in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(heads), *cells]) for i in range(len(heads))]
    if paint.terminal:
        widths = _fitted(widths, left, shutil.get_terminal_size().columns)

    def line(row: Sequence[str]) -> str:
        parts = [
            shortened(text, width).ljust(width) if i in left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return (" " * GAP).join(parts).rstrip()

    return [paint("bold", line(heads)), *map(line, cells)]


def many(count: float, word: str) -> str:
    """A number of things: 1 sample, 2 samples."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def size(count: float) -> str:
    """A number of bytes, short."""
    for unit in UNITS[:-1]:
        if count < 1024:
            return many(round(count), "byte") if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {UNITS[-1]}"


def duration(seconds: float) -> str:
    """A time, short."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that so many percent do not exceed, of values in order; 0 of none."""
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]
