"""The page of a report: HTML with everything in it, and nothing that moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import pyddsi
from pyddsi.capture.info import Conduit, Finding, Info, Session, moment
from pyddsi.capture.report import _svg
from pyddsi.capture.report._picture import FLOWS_MAX, SESSIONS_MAX, Losses, Picture, Times

__all__ = ["render"]

SECOND = 1_000_000_000

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --soft: #5b6675; --rule: #dfe4ea; --card: #f6f8fa;
  --c0: #2f6fde; --c1: #d9822b; --c2: #2a9d6f; --c3: #b4469b; --c4: #7a6ff0; --c5: #b98a00; --c6: #7d8794;
  --error: #c62f3b; --warning: #b86e00; --note: #41749e; --good: #23845a; }
@media (prefers-color-scheme: dark) { :root { --paper: #12171e; --ink: #e4e9ef; --soft: #9aa6b4; --rule: #2b343f;
  --card: #1a212a; --c0: #6ea1ff; --c1: #f0a75b; --c2: #58c79a; --c3: #df86c9; --c4: #a69dff; --c5: #e0bb4a; --c6: #9aa6b4;
  --error: #ff7580; --warning: #f0b055; --note: #80b5e0; --good: #5fcf9b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 60px; max-width: 960px; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 36px 0 6px; }
p { margin: 4px 0 10px; } .soft, figcaption { color: var(--soft); font-size: .9rem; }
ul.findings { list-style: none; margin: 12px 0; padding: 0; }
ul.findings li { padding: 8px 12px; margin: 6px 0; border-left: 4px solid var(--note); background: var(--card);
  overflow-wrap: anywhere; }
li.error { border-color: var(--error) !important; } li.warning { border-color: var(--warning) !important; }
li.good { border-color: var(--good) !important; }
b.error { color: var(--error); } b.warning { color: var(--warning); } b.note { color: var(--note); } b.good { color: var(--good); }
code { font: .85em ui-monospace, "SF Mono", Consolas, monospace; background: var(--card); padding: 1px 4px; overflow-wrap: anywhere; }
li code { background: var(--paper); }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 8px; margin: 16px 0; }
dl.facts div { background: var(--card); padding: 8px 12px; } dt { color: var(--soft); font-size: .8rem; }
dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 8px; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 200px; }
th { color: var(--soft); font-weight: 600; }
.key { display: inline-block; margin-right: 14px; font-size: .85rem; } .key i { display: inline-block; width: 12px; height: 12px;
  margin-right: 5px; vertical-align: -1px; }
.grid { stroke: var(--rule); stroke-width: 1; } .tick { fill: var(--soft); font: 11px system-ui, sans-serif; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .band { opacity: .22; stroke: none; } .range { stroke-width: 2; opacity: .5; }
@media (max-width: 600px) { .tick { font-size: 18px; } .line { stroke-width: 2.4; } }
.lane.open, .lane.closed { fill: var(--c0); } .lane.expired, .lane.refused { fill: var(--error); } .lane.moved { fill: var(--c5); }
"""
COLOURS = "".join(
    f".c{i}.line, .c{i}.range {{ stroke: var(--c{i}); }} .c{i}.bar, .c{i}.band, .c{i}.dot {{ fill: var(--c{i}); }} "
    f".key.c{i} i {{ background: var(--c{i}); }}\n"
    for i in range(7)
)


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _things(number: int, one: str) -> str:
    return f"{_count(number)} {one}{'' if number == 1 else 's'}"


def _us(us: int | None) -> str:
    if us is None:
        return ""
    return (
        f"{us:,} µs"
        if us < 1000
        else f"{us / 1000:,.1f} ms"
        if us < 1_000_000
        else f"{us / 1e6:,.2f} s"
    )


def _span(seconds: float) -> str:
    return (
        f"{seconds:,.1f} s"
        if seconds < 300
        else f"{seconds / 60:,.1f} min"
        if seconds < 18000
        else f"{seconds / 3600:,.1f} h"
    )


# ---- what it opens with ----


def _sentence(info: Info) -> str:
    """The whole in a sentence or two."""
    worst = [finding for finding in info.findings if finding.severity == "error"]
    data = sum(conduit.messages for conduit in info.conduits)
    lost = info.repeats - info.pre_sync
    who = _things(len(info.peers), "peer")
    what = _things(info.messages, "message")
    parts = [
        f"{who} exchanged {what} in {_span(info.seconds)}, over {_things(len(info.sessions), 'session')}."
    ]
    if lost or info.missing:
        share = (lost + info.missing) / max(1, data)
        parts.append(
            f"{share:.1%} of what they sent was lost on the way: {_things(lost, 'sample')} had to be repeated, and "
            f"{_count(info.missing)} never came."
        )
    elif data:
        parts.append("Nothing that they sent was lost.")
    if worst:
        parts.append(f"{_things(len(worst), 'thing')} went wrong.")
    return " ".join(parts)


def _finding(finding: Finding) -> str:
    frames = f" Frame {', '.join(map(_count, finding.packets))}." if finding.packets else ""
    shown = finding.filter or (f"frame.number == {finding.packets[0]}" if finding.packets else "")
    filter_ = f"<br><span class=soft>tshark -Y <code>{escape(shown)}</code></span>" if shown else ""
    return (
        f'<li class="{finding.severity}"><b class="{finding.severity}">{finding.severity}</b> '
        f"{escape(finding.text)}.{frames}{filter_}</li>"
    )


def _findings(info: Info) -> Iterator[str]:
    yield '<ul class="findings">'
    if info.findings:
        yield from map(_finding, info.findings)
    else:
        yield '<li class="good"><b class="good">good</b> Nothing looks wrong.</li>'
    yield "</ul>"


def _facts(info: Info) -> Iterator[str]:
    facts = {
        "packets": _count(info.packets),
        "messages": _count(info.messages),
        "peers": _count(len(info.peers)),
        "sessions": _count(len(info.sessions)),
        "resources": _count(len(info.resources)),
        "repeated": _count(info.repeats),
        "missing": _count(info.missing),
        "leases expired": _count(info.expiries),
    }
    yield '<dl class="facts">'
    for name, value in facts.items():
        yield f"<div><dt>{name}</dt><dd>{value}</dd></div>"
    yield "</dl>"


# ---- pictures ----


def _keys(names: Sequence[str]) -> str:
    return " ".join(
        f'<span class="key c{i % 7}"><i></i>{escape(name)}</span>' for i, name in enumerate(names)
    )


def _figure(title: str, caption: str, svg: str, keys: Sequence[str] = ()) -> Iterator[str]:
    yield f"<h2>{escape(title)}</h2>"
    yield f"<figure>{_keys(keys)}"
    yield svg
    yield f"<figcaption>{escape(caption)}</figcaption></figure>"


def _width(picture: Picture) -> str:
    ns = picture.window_ns
    for size, unit in ((SECOND, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if ns >= size:
            return f"{ns / size:g} {unit}"
    return f"{ns} ns"


def _rates(picture: Picture, axis: _svg.Axis) -> Iterator[str]:
    if picture.rates:
        lines = [
            (series.name, [(point.time_ns, point.value) for point in series.points])
            for series in picture.rates
        ]
        yield from _figure(
            "Messages a second, by resource",
            f"Each point stands for {_width(picture)}; repeats are counted as well.",
            _svg.lines("Messages a second, by resource", axis, lines),
            [series.name for series in picture.rates],
        )


def _losses(picture: Picture, axis: _svg.Axis, losses: Sequence[Losses]) -> Iterator[str]:
    if not any(loss[1:] != (0, 0, 0, 0) for loss in losses):
        return
    stacks = [
        (loss.time_ns, (loss.repeats, loss.pre_sync, loss.gaps, loss.fills)) for loss in losses
    ]
    yield from _figure(
        "Losses",
        f"Samples in {_width(picture)}. Repeated: lost behind the place of capture. Passed over: lost before it, or by the capturing.",
        _svg.bars("Samples lost over time", axis, picture.window_ns, stacks),
        ("repeated", "repeated, as they came before the first SYNCH", "passed over", "came late"),
    )


def _times(picture: Picture, axis: _svg.Axis, times: Sequence[Times]) -> Iterator[str]:
    if any(time.delivery_p50 is not None for time in times):
        yield from _figure(
            "Time until acknowledged",
            f"From the first transmission of a message to the first acknowledgement that covers it, in {_width(picture)}: the line is the "
            "median, the band reaches to the 99th percentile. Long where the sender asks seldom, or has to repeat.",
            _svg.bands(
                "Time until acknowledged",
                axis,
                [(time.time_ns, time.delivery_p50, time.delivery_p99) for time in times],
                0,
            ),
        )
    if any(time.answer_p50 is not None for time in times):
        yield from _figure(
            "Time to answer",
            "From the last message that asked for an acknowledgement to the acknowledgement: how awake the receivers are.",
            _svg.bands(
                "Time to answer",
                axis,
                [(time.time_ns, time.answer_p50, time.answer_p99) for time in times],
                2,
            ),
        )


def _lane(info: Info, session: Session) -> tuple[str, int, int, str, str]:
    first = session.accept_ns or session.open_ns or info.first_ns or 0
    last = session.end_ns or info.last_ns or first
    kind = {"capture_end": "open", "again": "closed", "evicted": "closed"}.get(
        session.end, session.end
    )
    margin = "" if session.margin_us is None else f"margin {session.margin_us / 1e6:.1f} s"
    text = margin if session.end == "capture_end" else session.end
    if session.accept_ns is None:
        text = session.end if session.end != "capture_end" else "not answered"
    return f"{session.opener} ↔ {session.acceptor}", first, last, kind, text


def _sessions(info: Info, axis: _svg.Axis) -> Iterator[str]:
    if not info.sessions:
        return
    order = {"expired": 0, "refused": 1, "moved": 2, "again": 2}
    chosen = sorted(
        info.sessions, key=lambda session: (order.get(session.end, 3), session.margin_us or 0)
    )[:SESSIONS_MAX]
    chosen.sort(key=lambda session: session.accept_ns or session.open_ns or 0)
    more = (
        f" {len(info.sessions) - SESSIONS_MAX:,} more are not shown."
        if len(info.sessions) > SESSIONS_MAX
        else ""
    )
    yield from _figure(
        "Sessions",
        f"Who with whom, from when until when; the margin is the least distance of a silence to the lease.{more}",
        f'<div class="scroll">{_svg.lanes("Sessions", axis, [_lane(info, session) for session in chosen])}</div>',
    )


def _flow(conduit: Conduit) -> str:
    kind = "reliable" if conduit.reliable else "best effort"
    share = f"{conduit.repeats / conduit.messages:.1%}" if conduit.messages else ""
    cells = (
        f"{escape(conduit.source)} → {escape(conduit.destination)}, conduit {conduit.conduit}, {kind}",
        _count(conduit.messages),
        f"{_count(conduit.repeats)} ({share})" if conduit.repeats else "0",
        _count(conduit.pre_sync),
        _count(max(0, conduit.missing)),
        _count(conduit.nacks),
        _us(conduit.delivery_us[0] if conduit.delivery_us else None),
        _us(conduit.delivery_us[1] if conduit.delivery_us else None),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _flows(info: Info) -> Iterator[str]:
    worst = sorted(
        info.conduits, key=lambda c: (-(c.repeats - c.pre_sync + max(0, c.missing)), -c.messages)
    )[:FLOWS_MAX]
    if not worst:
        return
    head = (
        "conduit",
        "messages",
        "repeated",
        "of these before SYNCH",
        "missing",
        "NACKs",
        "acknowledged p50",
        "p99",
    )
    yield "<h2>Conduits, the worst first</h2>"
    yield '<div class="scroll"><table><tr>' + "".join(f"<th>{word}</th>" for word in head) + "</tr>"
    yield from map(_flow, worst)
    yield "</table></div>"
    if len(info.conduits) > FLOWS_MAX:
        yield f'<p class="soft">{len(info.conduits) - FLOWS_MAX:,} more are not shown.</p>'


def render(picture: Picture) -> str:
    """The page."""
    info = picture.info
    names = ", ".join(info.files[:3]) + (
        f" and {len(info.files) - 3} more" if len(info.files) > 3 else ""
    )
    axis = _svg.Axis(info.first_ns or 0, max((info.first_ns or 0) + 1, info.last_ns or 0))
    when = (
        f"{moment(info.first_ns)} to {moment(info.last_ns)}"
        if info.first_ns is not None
        else "no times"
    )
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(names)}: report</title><style>{STYLE}{COLOURS}</style></head><body>",
        f'<h1>{escape(names)}</h1><p class="soft">{when}</p>',
        f"<p>{escape(_sentence(info))}</p>",
        *_findings(info),
        *_facts(info),
        *_rates(picture, axis),
        *_losses(picture, axis, picture.losses),
        *_times(picture, axis, picture.times),
        *_sessions(info, axis),
        *_flows(info),
        f'<p class="soft">Times are UTC. Made by pyddsi {escape(str(pyddsi.__version__))}.</p>',
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"
