"""The tables of a report: what was published, the conduits, and what the words on the page mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from pyddsi.capture._words import amount_of
from pyddsi.capture.info import Conduit, Info
from pyddsi.capture.report._picture import FLOWS_MAX, RESOURCES_LISTED, Picture

__all__ = ["count", "flows", "resources", "things", "words"]


def count(number: float) -> str:
    return f"{number:,.0f}"


def things(number: int, one: str) -> str:
    return f"{count(number)} {one}{'' if number == 1 else 's'}"


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


def _table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], more: int
) -> Iterator[str]:
    """Rows below their heads; `more` says how many are left out."""
    yield f"<h2>{escape(title)}</h2>"
    yield '<div class="scroll"><table><tr>' + "".join(f"<th>{word}</th>" for word in head) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</table></div>"
    if more > 0:
        yield f'<p class="soft">{more:,} more are not shown.</p>'


def resources(picture: Picture) -> Iterator[str]:
    """What was published: how much, how often, how evenly, how large."""
    info = picture.info
    if not info.resources:
        return
    jitters = [*picture.jitters, *([None] * RESOURCES_LISTED)]
    head = (
        "resource",
        "messages",
        "a second",
        "jitter",
        "repeated",
        "bytes",
        "bytes a second",
        "bytes each",
    )
    seconds = max(info.seconds, 1e-9)
    rows = [
        (
            one.uri or ("by name alone" if one.rid is None else f"number {one.rid}"),
            count(one.messages),
            f"{one.rate:,.1f}",
            _us(None if jitter is None else round(jitter)),
            count(one.repeats),
            amount_of(one.bytes),
            f"{amount_of(one.bytes / seconds)}/s",
            f"{one.bytes / max(1, one.messages):,.0f}",
        )
        for one, jitter in zip(info.resources[:RESOURCES_LISTED], jitters, strict=False)
    ]
    yield from _table("Resources", head, rows, len(info.resources) - RESOURCES_LISTED)


WORDS = (
    ("conduit", "one sender's numbered messages to one receiver or one group"),
    (
        "jitter",
        "how much the time from one sample of a publisher to its next differs from the time before it, on average; repeats aside",
    ),
    (
        "repeated",
        "a message of a number that had gone by already: it was asked for again, or not acknowledged in time",
    ),
    (
        "before SYNCH",
        "repeated since it came before the receiver knew where to begin: how a session starts, and no loss",
    ),
    (
        "missing",
        "numbers that were passed over and did not go by later: lost before the place of capture, or not captured",
    ),
    ("NACKs", "acknowledgements that ask for a missing message"),
    (
        "acked in",
        "from the first time that a message went by to the first acknowledgement of it; p50: half of them are quicker",
    ),
    ("lease", "how long a peer may be silent until others take it for gone"),
)


def words() -> Iterator[str]:
    yield '<h2>Words</h2><dl class="words">'
    for word, text in WORDS:
        yield f"<dt>{word}</dt><dd>{escape(text)}</dd>"
    yield "</dl>"


def _flow(conduit: Conduit) -> Sequence[str]:
    kind = "reliable" if conduit.reliable else "best effort"
    share = f"{conduit.repeats / conduit.messages:.1%}" if conduit.messages else ""
    return (
        f"{conduit.source} → {conduit.destination}, conduit {conduit.conduit}, {kind}",
        count(conduit.messages),
        f"{count(conduit.repeats)} ({share})" if conduit.repeats else "0",
        count(conduit.pre_sync),
        count(max(0, conduit.missing)),
        count(conduit.nacks),
        _us(conduit.delivery_us[0] if conduit.delivery_us else None),
        _us(conduit.delivery_us[1] if conduit.delivery_us else None),
    )


def flows(info: Info) -> Iterator[str]:
    used = [conduit for conduit in info.conduits if conduit.messages]
    worst = sorted(
        used, key=lambda c: (-(c.repeats - c.pre_sync + max(0, c.missing)), -c.messages)
    )[:FLOWS_MAX]
    if not worst:
        return
    head = (
        "conduit",
        "messages",
        "repeated",
        "before SYNCH",
        "missing",
        "NACKs",
        "acked in (p50)",
        "(p99)",
    )
    rows = map(_flow, worst)
    yield from _table("Conduits, the worst first", head, rows, len(used) - FLOWS_MAX)
