"""The tables of `spark.py`: seconds of every way, and the ratios that are aimed at."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

from _spark_ways import timed

__all__ = ["Goal", "Times"]


class Goal(NamedTuple):
    """A ratio that is aimed at."""

    name: str
    found: float
    least: float | None = None
    most: float | None = None

    def line(self) -> str:
        """As the table has it."""
        wanted = f">= {self.least:g}" if self.most is None else f"<= {self.most:g}"
        met = self.found >= self.least if self.least is not None else self.found <= (self.most or 0)
        return f"{self.name:66} {wanted:>10} {self.found:10.2f}  {'' if met else 'missed'}"


class Times:
    """Seconds of each way, and how many things went through it in them."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.count: dict[str, int] = {}
        self.size: dict[str, int] = {}

    def add(self, name: str, count: int, size: int, call: Callable[[], Any]) -> None:
        """Time it once more."""
        self.seconds.setdefault(name, []).append(timed(call))
        self.count[name], self.size[name] = count, size

    def of(self, name: str) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds[name])

    def rate(self, name: str) -> float:
        """Of packets, or messages, for each second."""
        return self.count[name] / self.of(name)

    def over(self, name: str, other: str) -> float:
        """How many times as fast as another way."""
        return self.rate(name) / self.rate(other)

    def show(self, title: str, against: tuple[str, ...] = ()) -> None:
        """The table."""
        heads = "".join(f"{'x ' + name:>15}" for name in against)
        print(f"\n{title}\n\n{'':44}{'thousand/s':>12}{'MB/s':>9}{'seconds':>9}{heads}")
        for name in self.seconds:
            ratios = "".join(f"{self.over(name, other):15,.1f}" for other in against)
            speed = self.size[name] / self.of(name) / 1e6
            print(
                f"{name:44}{self.rate(name) / 1e3:12,.0f}{speed:9,.0f}{self.of(name):9.2f}{ratios}",
                flush=True,
            )
