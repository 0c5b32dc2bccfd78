"""What the commands have in common on the command line: how arguments are read, and what is said of wrong ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyddsi._values import closest

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "Parser",
    "UsageError",
    "add_duration",
    "add_json",
    "amount",
    "byte_count",
    "exact",
    "port",
    "resource",
    "span",
    "span_above_0",
    "whole_number",
]

WHOLE_MAX = 2**63
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
SPANS = {"us": "1/1000000", "ms": "1/1000", "s": "1", "min": "60", "h": "3600", "": "1"}


class UsageError(Exception):
    """What is asked for cannot be; the text says what can."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that says in one line what is wrong, and what would be right."""

    chosen: Parser | None = None
    """Of the whole: the parser of the command that is asked for."""
    mixed = False
    """Whether options may stand between the arguments of one list: NAME --count 3 DATA."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        settings.setdefault("allow_abbrev", False)
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """Exit status 2."""
        who = self if self.chosen is None else self.chosen
        head, _, command = who.prog.partition(" ")
        where = f"{command}: " if command else ""
        self.exit(2, f"{head}: {where}{message}; `{who.prog} --help` shows what can be\n")

    def no_command(self, word: str, words: Iterable[str]) -> NoReturn:
        """There is no such command."""
        self.error(f"there is no command {word!r}; {closest(word, words)}")

    def parse_known_args(  # type: ignore[override]  # one of its overloads is enough
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """What is known, and what is left."""
        if not self.mixed:
            return super().parse_known_args(args, namespace or argparse.Namespace())
        self.mixed = False  # what follows comes back here
        try:
            return self.parse_known_intermixed_args(args, namespace or argparse.Namespace())
        finally:
            self.mixed = True

    def parse_args(  # type: ignore[override]  # nobody gives another namespace
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """All arguments, or an error that names the first that is not known."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            who = self if self.chosen is None else self.chosen
            word = left[0].partition("=")[0]
            options = [name for name in who._option_string_actions if name.startswith("--")]  # noqa: SLF001 - of our parent
            near = closest(word, options)
            hint = f"; {near}" if word.startswith("-") and near.startswith("did you") else ""
            self.error(f"unrecognized argument {left[0]!r}{hint}")
        return found


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """The option that all commands have."""
    parser.add_argument("--json", action="store_true", help=what)


def _refused(word: str, what: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"{word!r} is not {what}")


def whole_number(least: int, most: int = WHOLE_MAX) -> Callable[[str], int]:
    """Reads a whole number within these limits."""

    def read(word: str) -> int:
        try:
            number = int(word)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            upper = f"to {most}" if most < WHOLE_MAX else "on"
            _refused(word, f"a whole number from {least} {upper}")
        return number

    return read


port = whole_number(0, 65535)


def _real(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return -1.0


def span(word: str) -> float:
    """Reads a time with its unit: 300us, 5ms, 1s, 10min, 2h; without one it is in seconds."""
    from fractions import Fraction  # noqa: PLC0415 - few commands have such times

    number = word.rstrip("abcdefghijklmnopqrstuvwxyz")
    factor = SPANS.get(word.removeprefix(number))
    try:
        seconds = float(Fraction(number) * Fraction(factor or -1))
    except (ValueError, ZeroDivisionError):
        seconds = -1.0
    if not 0 <= seconds <= 1e9:
        _refused(word, "a time such as 300us, 5ms, 1s or 2h")
    return seconds


def span_above_0(word: str) -> float:
    """Reads a time that is not 0."""
    seconds = span(word)
    if not seconds:
        _refused(word, "a time above 0, such as 5ms, 1s or 2h")
    return seconds


def add_duration(
    parser: argparse.ArgumentParser, what: str, default: float | None = None, *, zero: bool = False
) -> None:
    """How long a command goes on."""
    kind = span if zero else span_above_0
    parser.add_argument("--duration", metavar="TIME", type=kind, default=default, help=what)


def exact(word: str) -> Fraction:
    """Reads a number above 0 exactly as it is written."""
    from fractions import Fraction  # noqa: PLC0415 - few commands have such numbers

    try:
        number = Fraction(word)
    except (ValueError, ZeroDivisionError):
        number = Fraction(0)
    if number <= 0:
        _refused(word, "a number above 0, such as 0.5 or 100")
    return number


def amount(word: str) -> float:
    """Reads a number above 0."""
    number = _real(word)
    if not 0 < number <= 1e12:
        _refused(word, "a number above 0, such as 0.5 or 100")
    return number


def byte_count(least: int) -> Callable[[str], int]:
    """Reads a number of bytes, from so many on: 64, 8k, 1M."""

    def read(word: str) -> int:
        digits = word.lower().removesuffix("b").removesuffix("i")
        unit = digits[-1:] if digits[-1:] in UNITS else ""
        number = digits.removesuffix(unit) if unit else digits
        if not (number.isascii() and number.isdigit()) or int(number) * UNITS[unit] < least:
            _refused(word, f"a number of bytes from {least} on, such as 64, 8k or 1M")
        return int(number) * UNITS[unit]

    return read


def resource(word: str) -> str | int:
    """Reads a resource: a name, a pattern, or a plain number."""
    from pyddsi import names  # noqa: PLC0415 - not every command has names

    if word.isascii() and word.isdigit():
        return whole_number(1, 2**31 - 1)(word)
    try:
        names.canonical(word)
    except names.InvalidNameError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return word
