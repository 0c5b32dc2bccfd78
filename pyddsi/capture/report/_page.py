"""The page of a report: HTML with everything in it, and nothing that moves."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from html import escape

import pyddsi
from pyddsi.capture._words import amount_of
from pyddsi.capture.info import Finding, Info, Session, moment
from pyddsi.capture.report import _svg, _tables
from pyddsi.capture.report._picture import SESSIONS_MAX, Losses, Picture, Times
from pyddsi.capture.report._tables import count, things

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
dl.facts { display: grid; grid-template-columns: repeat(4, 1fr); gap: 8px; margin: 16px 0; }
dl.facts div { background: var(--card); padding: 8px 12px; } dt { color: var(--soft); font-size: .8rem; }
dl.words { font-size: .85rem; } dl.words dt { font-weight: 600; } dl.words dd { font-size: inherit; margin: 0 0 6px; }
dl.facts dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 8px; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 200px; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
.key { display: inline-block; max-width: 100%; margin-right: 14px; font-size: .85rem; overflow-wrap: anywhere; } .key i { display: inline-block; width: 12px; height: 12px;
  margin-right: 5px; vertical-align: -1px; }
.grid { stroke: var(--rule); stroke-width: 1; } .tick { fill: var(--soft); font: 12px system-ui, sans-serif; }
.tick.lost { fill: var(--error); } .tick.near { fill: var(--warning); }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .band { opacity: .22; stroke: none; } .range { stroke-width: 2; opacity: .5; }
@media (max-width: 600px) { body { padding: 16px 12px 40px; } .tick { font-size: 21px; } .lanes .tick { font-size: 18px; } .line { stroke-width: 2.4; }
  dl.facts { grid-template-columns: repeat(2, 1fr); } th:first-child, td:first-child { min-width: 150px; } }
.lane.open { fill: var(--c0); } .lane.closed { fill: var(--c6); } .lane.lost { fill: var(--error); } .lane.near { fill: var(--warning); }
"""
FILTERS = "Commands take the capture with -r; filters with pyddsi. want the plug-in for tshark and Wireshark that pyddsi comes with."
COLOURS = "".join(
    f".c{i}.line, .c{i}.range {{ stroke: var(--c{i}); }} .c{i}.bar, .c{i}.band, .c{i}.dot {{ fill: var(--c{i}); }} "
    f".key.c{i} i {{ background: var(--c{i}); }}\n"
    for i in range(7)
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
    silent = _by_silence(info)
    who, what = things(len(info.peers), "peer"), things(info.messages, "message")
    parts = [
        f"{who} exchanged {what} in {_span(info.seconds)}, over {things(len(info.sessions), 'session')}."
    ]
    if silent:
        parts.append(
            f"{count(silent)} of these ended by silence: a peer was gone, or could not be heard."
        )
    if lost:
        verb = "was" if lost == 1 else "were"
        parts.append(
            f"{things(lost, 'sample')} ({lost / max(1, data):.1%}) {verb} sent again after going by."
        )
    if info.missing:
        parts.append(
            f"{things(info.missing, 'number')} never came by: lost before the place of capture, or by the capturing."
        )
    if (
        data
        and not silent
        and not any(one.repeats - one.pre_sync or one.missing for one in info.conduits)
    ):
        parts.append("Nothing shows a loss: no message was sent again, and no number is missing.")
    if worst:
        parts.append(f"What went wrong ({count(len(worst))}) stands first:")
    return " ".join(parts)


def _by_silence(info: Info) -> int:
    return sum(session.end == "expired" for session in info.sessions)


def _finding(info: Info, finding: Finding) -> str:
    frames = info.frames_of(finding)
    frames = f" {frames[0].upper()}{frames[1:]}." if frames else ""
    file = info.file_of(finding)
    read = f"-r {shlex.quote(file)} " if file else ""
    shown = finding.filter or (f"frame.number == {finding.packets[0]}" if finding.packets else "")
    filter_ = f"<br><code>tshark {escape(read)}-Y '{escape(shown)}'</code>" if shown else ""
    return (
        f'<li class="{finding.severity}"><b class="{finding.severity}">{finding.severity}</b> '
        f"{escape(finding.text)}.{escape(frames)}{filter_}</li>"
    )


def _findings(info: Info) -> Iterator[str]:
    yield '<ul class="findings">'
    if info.findings:
        yield from (_finding(info, finding) for finding in info.findings)
    else:
        yield '<li class="good"><b class="good">good</b> Nothing looks wrong.</li>'
    yield "</ul>"


def _facts(info: Info) -> Iterator[str]:
    facts = {
        "packets": count(info.packets),
        "sample bytes a second": amount_of(
            sum(one.bytes for one in info.resources) / max(info.seconds, 1e-9)
        ),
        "messages": count(info.messages),
        "peers": count(len(info.peers)),
        "sessions": count(len(info.sessions)),
        "resources": count(len(info.resources)),
        "lost and repeated": count(info.repeats - info.pre_sync),
        "missing": count(info.missing),
        "ended by silence": count(_by_silence(info)),
    }
    yield '<dl class="facts">'
    for name, value in facts.items():
        yield f"<div><dt>{name}</dt><dd>{value}</dd></div>"
    yield "</dl>"


# ---- pictures ----


def _keys(names: Sequence[tuple[int, str]]) -> str:
    return " ".join(
        f'<span class="key c{colour % 7}"><i></i>{escape(name)}</span>' for colour, name in names
    )


def _figure(
    title: str, caption: str, svg: str, keys: Sequence[tuple[int, str]] = ()
) -> Iterator[str]:
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
            _svg.lines("Messages a second, by resource", "messages/s", axis, lines),
            list(enumerate(series.name for series in picture.rates)),
        )


LAYERS = (
    (1, "sent again after going by"),
    (6, "sent again: came before the first SYNCH"),
    (3, "passed over: lost before the place of capture, or by the capturing"),
    (2, "came late"),
)
"""Of the losses, their colours and names, in the order that Losses has them."""


def _losses(picture: Picture, axis: _svg.Axis, losses: Sequence[Losses]) -> Iterator[str]:
    sums = [sum(loss[i] for loss in losses) for i in range(1, 5)]
    there = [i for i, total in enumerate(sums) if total]
    if not there:
        return
    stacks = [(loss.time_ns, [(LAYERS[i][0], loss[i + 1]) for i in there]) for loss in losses]
    yield from _figure(
        "Losses",
        f"Each bar stands for {_width(picture)}. A receiver takes nothing before the first SYNCH: what it is sent again after that is "
        "how a session begins, and no loss.",
        _svg.bars("Samples lost over time", "samples", axis, picture.window_ns, stacks),
        [LAYERS[i] for i in there],
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


ENDS = {"capture_end": "open", "again": "opened again", "evicted": "forgotten"}
NEAR = 0.5  # of a lease: a silence that long is worth a look


def _lane(info: Info, session: Session) -> tuple[str, int, int, str, str]:
    """Who with whom, from when until when, how that looks, and what is said of it."""
    first = session.accept_ns or session.open_ns or info.first_ns or 0
    last = session.until_ns or first
    end = ENDS.get(session.end, session.end)
    kind = "open" if session.end == "capture_end" else "closed"
    if session.accept_ns is None:
        end, kind = (end, "lost") if session.end != "capture_end" else ("not answered", "near")
    elif session.end == "expired":
        kind = "lost"
    elif session.quiet is not None and session.quiet[1] > NEAR * session.quiet[2]:
        kind = "near"
    silence = ""
    if session.quiet is not None:
        silence = f", silence {session.quiet[1] / session.quiet[2]:.0%} of lease"
    return f"{session.opener} ↔ {session.acceptor}", first, last, kind, end + silence


def _sessions(info: Info, axis: _svg.Axis) -> Iterator[str]:
    if not info.sessions:
        return
    lanes = [_lane(info, session) for session in info.sessions]
    order = {"lost": 0, "near": 1}
    worst = sorted(range(len(lanes)), key=lambda i: order.get(lanes[i][3], 2))[:SESSIONS_MAX]
    more = (
        f" {len(lanes) - SESSIONS_MAX:,} more, all of them better, are not shown."
        if len(lanes) > SESSIONS_MAX
        else ""
    )
    yield from _figure(
        "Sessions",
        "Who with whom, from when until when, and how long the quieter one was silent at most, of its lease. Red: it ended by "
        f"silence, or was refused; orange: it was near that.{more}",
        f'<div class="lanes">{_svg.lanes("Sessions", axis, [lanes[i] for i in sorted(worst)])}</div>',
    )


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
        *_tables.resources(picture),
        *_tables.flows(info),
        *_tables.words(),
        f'<p class="soft">{FILTERS}</p>',
        f'<p class="soft">Times are UTC. Made by pyddsi {escape(str(pyddsi.__version__))}.</p>',
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"
