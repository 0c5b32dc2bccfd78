"""Values as people give them, checked: numbers within limits, words of a list, seconds. Each error says what is right."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

__all__ = [
    "SECOND",
    "SECONDS_MAX",
    "choose",
    "closest",
    "name_shown",
    "nanoseconds",
    "numpy_for",
    "patience",
    "whole",
]

SECOND = 1_000_000_000
SECONDS_MAX = 1e9
FOREVER = 2**64 - 1  # as the core says it


def nanoseconds(seconds: float, what: str) -> int:
    """Seconds as the core counts them."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{what} is a number of seconds, not {seconds!r}")
    if not 0 <= seconds <= SECONDS_MAX:  # what is not a number is not within limits
        raise ValueError(f"{what} is from 0 to {SECONDS_MAX:.0f} seconds, not {seconds!r}")
    return round(seconds * SECOND)


def patience(timeout: float | None) -> int:
    """A timeout as the core counts it; None: for ever."""
    return FOREVER if timeout is None else nanoseconds(timeout, "timeout")


def closest(word: str, words: Iterable[str]) -> str:
    """The end of a sentence that says which words there are."""
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    listed = sorted(words)
    near = get_close_matches(word, listed, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return "there are " + ", ".join(map(repr, listed))


def choose(what: str, word: object, words: Mapping[str, int]) -> int:
    """The number of a word."""
    if not isinstance(word, str):
        raise TypeError(f"{what} is one of {', '.join(map(repr, words))}, not {word!r}")
    if word not in words:
        raise ValueError(f"{what} cannot be {word!r}; {closest(word, words)}")
    return words[word]


def whole(what: str, number: object, least: int, most: int) -> int:
    """A number within its limits."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{what} is a whole number, not {number!r}")
    if not least <= number <= most:
        raise ValueError(f"{what} is from {least} to {most}, not {number}")
    return number


def numpy_for(what: str) -> Any:
    """The module numpy, which only arrays need. The error says how it is installed."""
    try:
        import numpy as np  # noqa: PLC0415 - see above
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{what} needs numpy, which is not installed: pip install 'pyddsi[numpy]'", name="numpy"
        ) from None
    return np


def name_shown(name: Any) -> str:
    """A name in wire form as people write it, without the slash that it begins with there."""
    return bytes(name).decode("utf-8", "replace").removeprefix("/")
