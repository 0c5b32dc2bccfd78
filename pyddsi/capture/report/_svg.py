"""
Pictures as SVG, drawn with few marks: lines, stacked bars, bands and lanes over time.

They take their colours from the page (CSS variables), so that one drawing serves light and dark; their text is text, so that
it can be searched and read aloud; and they scale with the width of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

__all__ = ["Axis", "bands", "bars", "lanes", "lines"]

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 80, 14, 26, 30  # room for the texts of a phone, which are twice as large
LANE = 42  # height of a lane and its text
LABEL_MAX = 46  # letters
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Axis:
    """Time from left to right: from and to in nanoseconds since 1970, told as seconds from the beginning."""

    first_ns: int
    last_ns: int

    def x(self, time_ns: int) -> float:
        """Where a time is."""
        span = max(1, self.last_ns - self.first_ns)
        share = min(1.0, max(0.0, (time_ns - self.first_ns) / span))
        return LEFT + share * (WIDTH - LEFT - RIGHT)


def _steps(top: float, count: int = 4, least: float = 0.0) -> list[float]:
    """Round numbers from 0 up to `top` or a little more, at least so far apart."""
    if top <= 0:
        return [0.0, 1.0]
    raw = max(top / count, least)
    size = 10.0 ** floor(log10(raw))
    step = next(size * n for n in (1, 2, 5, 10) if size * n >= raw)
    return [step * i for i in range(ceil(top / step) + 1)]


def _number(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


SECONDS_UNTIL, MINUTES_UNTIL, HOURS_UNTIL = 5 * 60, 5 * 3600, 3 * 86400


def _seconds(seconds: float, span: float) -> str:
    """A time on an axis of this length: all of its ticks have one unit."""
    for until, unit, word in (
        (SECONDS_UNTIL, 1, "s"),
        (MINUTES_UNTIL, 60, "min"),
        (HOURS_UNTIL, 3600, "h"),
    ):
        if span < until:
            return f"{seconds / unit:g} {word}"
    return f"{seconds / 86400:g} d"


def _open(title: str, height: int = HEIGHT) -> list[str]:
    return [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">',
        f"<title>{escape(title)}</title>",
    ]


def _unit(text: str) -> str:
    return f'<text class="tick" x="{LEFT}" y="{TOP - 9}">{escape(text)}</text>'


MINUTE, HOUR, DAY = 60, 3600, 86400
CLOCK = (
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""Distances of ticks that are whole in the unit that they are shown in."""


def _moments(span: float, count: int = 6) -> list[float]:
    """Round seconds from 0 up to `span` or a little more; minutes, hours and days where they are shown as these."""
    if span < SECONDS_UNTIL:
        return _steps(span, count)
    step = next((step for step in CLOCK if span <= step * count), CLOCK[-1])
    return [float(step * i) for i in range(min(count, ceil(span / step)) + 1)]


def _time_axis(axis: Axis, height: int) -> list[str]:
    found = []
    span = max(1e-9, (axis.last_ns - axis.first_ns) / SECOND)
    for at in _moments(span):
        if at > span * 1.001:
            break
        x = axis.x(axis.first_ns + round(at * SECOND))
        anchor = "start" if at == 0 else "end" if x > WIDTH - RIGHT - 20 else "middle"
        found.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>'
        )
        found.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}">{_seconds(at, span)}</text>'
        )
    return found


def _value_axis(ticks: Sequence[tuple[float, str]], y: dict[float, float]) -> list[str]:
    found = []
    for value, text in ticks:
        at = y[value]
        found.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        found.append(
            f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>'
        )
    return found


def _linear(
    top: float, least: float = 0.0
) -> tuple[list[tuple[float, str]], dict[float, float], float]:
    steps = _steps(top, least=least)
    high = steps[-1]
    room = HEIGHT - TOP - BOTTOM
    return (
        [(step, _number(step)) for step in steps],
        {step: HEIGHT - BOTTOM - step / high * room for step in steps},
        room / high,
    )


def lines(
    title: str, unit: str, axis: Axis, series: Sequence[tuple[str, Sequence[tuple[int, float]]]]
) -> str:
    """Lines over time, each in its colour; the legend is the page's."""
    top = max((value for _, points in series for _, value in points), default=0.0)
    ticks, y, scale = _linear(top)
    found = [*_open(title), _unit(unit), *_time_axis(axis, HEIGHT), *_value_axis(ticks, y)]
    for i, (name, points) in enumerate(series):
        path = " ".join(
            f"{axis.x(time_ns):.1f},{HEIGHT - BOTTOM - value * scale:.1f}"
            for time_ns, value in points
        )
        found.append(
            f'<polyline class="line c{i % 7}" points="{path}"><title>{escape(name)}</title></polyline>'
        )
    return "\n".join([*found, "</svg>"])


def bars(
    title: str,
    unit: str,
    axis: Axis,
    width_ns: int,
    stacks: Sequence[tuple[int, Sequence[tuple[int, int]]]],
) -> str:
    """Counts as bars over time, stacked from below: each layer is its colour and its count."""
    top = max((sum(count for _, count in layers) for _, layers in stacks), default=0)
    ticks, y, scale = _linear(float(top), least=1.0)
    found = [*_open(title), _unit(unit), *_time_axis(axis, HEIGHT), *_value_axis(ticks, y)]
    for time_ns, layers in stacks:
        base = float(HEIGHT - BOTTOM)
        x = axis.x(time_ns)
        wide = max(1.5, axis.x(time_ns + width_ns) - x - 0.5)
        for colour, count in layers:
            if count:
                high = max(1.0, count * scale)
                found.append(
                    f'<rect class="bar c{colour}" x="{x:.1f}" y="{base - high:.1f}" width="{wide:.1f}" height="{high:.1f}"/>'
                )
                base -= high
    return "\n".join([*found, "</svg>"])


def _us(us: float) -> str:
    return f"{us:g} µs" if us < 1000 else f"{us / 1000:g} ms" if us < 1e6 else f"{us / 1e6:g} s"


def bands(
    title: str, axis: Axis, points: Sequence[tuple[int, int | None, int | None]], colour: int
) -> str:
    """From the median to the 99th percentile over time, in microseconds on a logarithmic axis."""
    values = [value for _, low, high in points for value in (low, high) if value is not None]
    least, most = max(1, min(values, default=1)), max(1, max(values, default=1))
    low_power, high_power = max(0, floor(log10(0.8 * least))), floor(log10(1.25 * most)) + 1
    room = HEIGHT - TOP - BOTTOM

    def y(us: float) -> float:
        return (
            HEIGHT
            - BOTTOM
            - (log10(max(us, 10.0**low_power)) - low_power) / (high_power - low_power) * room
        )

    ticks = [(10.0**power, _us(10.0**power)) for power in range(low_power, high_power + 1)]
    found = [
        *_open(title),
        *_time_axis(axis, HEIGHT),
        *_value_axis(ticks, {value: y(value) for value, _ in ticks}),
    ]
    runs: list[list[tuple[float, float, float]]] = [[]]
    for time_ns, low, high in points:  # windows without a value part the band
        if low is None or high is None:
            runs.append([])
        else:
            runs[-1].append((axis.x(time_ns), y(low), y(high)))
    for run in filter(None, runs):
        if len(run) == 1:
            x, low_y, high_y = run[0]
            found.append(
                f'<line class="range c{colour}" x1="{x:.1f}" x2="{x:.1f}" y1="{low_y:.1f}" y2="{high_y:.1f}"/>'
            )
            found.append(f'<circle class="dot c{colour}" cx="{x:.1f}" cy="{low_y:.1f}" r="2"/>')
            continue
        upper = " ".join(f"{x:.1f},{high_y:.1f}" for x, _, high_y in run)
        lower = " ".join(f"{x:.1f},{low_y:.1f}" for x, low_y, _ in reversed(run))
        found.append(f'<polygon class="band c{colour}" points="{upper} {lower}"/>')
        median = " ".join(f"{x:.1f},{low_y:.1f}" for x, low_y, _ in run)
        found.append(f'<polyline class="line c{colour}" points="{median}"/>')
    return "\n".join([*found, "</svg>"])


def _label(text: str) -> str:
    """Not longer than there is room; what is left out is in the middle, where addresses differ least."""
    if len(text) <= LABEL_MAX:
        return text
    half = LABEL_MAX // 2
    return f"{text[:half]}…{text[-half:]}"


def lanes(title: str, axis: Axis, rows: Sequence[tuple[str, int, int, str, str]]) -> str:
    """A lane for each session under its label: label, from, to, class, and what is to be said of it."""
    height = TOP + LANE * len(rows) + BOTTOM
    found = [*_open(title, height), *_time_axis(axis, height)]
    for i, (label, first, last, kind, text) in enumerate(rows):
        y = TOP + i * LANE
        begin = axis.x(first)
        wide = max(2.0, axis.x(last) - begin)
        found.append(
            f'<text class="tick" x="0" y="{y + 14}"><title>{escape(label)}</title>{escape(_label(label))}</text>'
        )
        found.append(
            f'<text class="tick {kind}" x="{WIDTH - RIGHT}" y="{y + 14}" text-anchor="end">{escape(text)}</text>'
        )
        found.append(
            f'<rect class="lane {kind}" x="{begin:.1f}" y="{y + 21}" width="{wide:.1f}" height="{LANE - 30}" rx="2"/>'
        )
    return "\n".join([*found, "</svg>"])
