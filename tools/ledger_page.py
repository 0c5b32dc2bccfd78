"""
The page of the drop ledger: the words of csrc/flow/ledger.c, and what each line means. tools/generate.py writes it.

Places and reasons come from the compiled core. What a line means is said here, for it depends on who writes it; a test
reads csrc/node and fails when something is dropped with a place and a reason that have no line.
"""

from __future__ import annotations

from typing import Any

from pyddsi._native import lib, text

HEAD = """\
# The drop ledger

Made by `tools/generate.py`; the words are those of `csrc/flow/ledger.c`.

Whatever a node drops stands in its ledger, in a line for each *place* (where in its way), *reason* (why) and resource:
how many, when the first and when the last one. Nothing is dropped without a line, and no line ever goes away or down.
`Node.drops()` reads it:

```python
from pyddsi.testing import Sim

with Sim(seed=1) as sim:
    a, b = sim.node("a"), sim.node("b")
    pub, sub = a.publisher("news"), b.subscriber("news", depth=2, on_full="drop_oldest")
    sim.run_until_quiet()
    pub.put_many([b"one", b"two", b"three"])
    sim.run(0.1)
    for drop in b.drops():
        if drop.resource == "news":
            print(drop.place, drop.reason, drop.count)
            print(drop)
```

```output
ring overwritten 1
1 of news: between the protocol and the reader; a newer one took its place
```

A resource has a line of its own as long as there are lines (`ledger_max`); after that its drops are counted in the line
of the same place and reason that names no resource. So the sum is always true, and what a flood of invented resources
costs is detail. [limits.md](limits.md) has the number of lines.
"""

# The lines that a node writes: place, reason, whether somebody misses a sample for good, what happened.
TEXT = """\
put      size           yes      it does not fit one packet of a receiver that knows no fragments, as zhe: that one goes without; the line names it, the sample's size and what fits
put      unsupported    yes      a receiver does not know resource spaces: it goes without
window   peer_lost      perhaps  the session ended before the peer acknowledged; it may have had it all the same
window   close          perhaps  the same, where this side ended the session
window   gap            yes      a detached peer lacks it, and is a zhe peer, which cannot say so, or the only one that is left, or lacks more than its numbers can say
packet   full           yes      best effort: the driver has not taken the packet before
packet   peer_lost      yes      best effort that had not left when the session ended
packet   size           yes      whoever drives the node has less room than the packet needs
packet   unsupported    yes      best effort that had not left when a zhe joined its group, which would have ended that zhe's session
packet   limit          no       a word of a session (HELLO, PONG, CLOSE ..) found too many others waiting
shelf    overwritten    yes      pushed out by newer ones before this taker had it; once for each taker
shelf    full           yes      larger than the shelf, or an answer's end mark found no room in the window
shelf    limit          yes      there is no cursor left for one more who pulls or comes late
shelf    peer_lost      yes      a taker left before it had all that it was to have
shelf    close          yes      the publisher was forgotten before a taker had it
shelf    size           yes      as put, size; or more than the window of the taker
shelf    unsupported    yes      the taker does not know resource spaces
input    size           no       a packet is larger than `packet_max`, and not of pieces alone from a peer with a session
input    bad_bytes      no       a packet breaks a rule; what stood before that byte has taken effect
input    unknown_peer   no       a message that needs a session, from an address that has none
input    not_synched    no       it came before its session was made here, or while that is in doubt; it comes again
input    expired_peer   no       the same, from one whose session has just ended
input    limit          no       too many sessions are being opened at this moment, or wait for that; the peer asks again
input    peers_max      no       a peer that asked for a session was refused: this node has `peers_max` peers; the event REFUSED has its address
input    refused        no       a peer refused a session; the event REFUSED says which one, and why
input    unsupported    no       an OPEN that was refused, or a word about a conduit that there is not
order    not_synched    no       before the first SYNCH of its conduit; it comes again
order    repeat         no       received before; a network that duplicates, or a repetition that was not needed
order    full           no       early or held, and not kept: it is asked for again
order    gap            yes      reliable, and the sender no longer has it; the event GAP has the numbers
order    loss           yes      best effort: numbers that did not come; each is a message, which may have been a batch of many samples
order    old            yes      best effort: it came after a later one
order    limit          no       no room to wait for a conduit that a resource moves away from
order    peer_lost      yes      it had come early, and the session ended before those in front of it came
assembly size           yes      more than `sample_max` bytes
assembly full           yes      no place for its pieces: best effort, or its sender has too many others unfinished
assembly incomplete     yes      a piece is missing for ever, or its sender gave the sample up
assembly limit          yes      its sender's unfinished samples take up half of the memory or of the places; or it stood still while others waited
assembly bad_bytes      yes      its pieces contradict each other
assembly peer_lost      yes      the session ended before the last piece
ring     full           yes      its subscriber reads too slowly: best effort, or `on_full` is drop_newest; or the program had no memory for it
ring     overwritten    yes      the same, and `on_full` is drop_oldest
ring     close          yes      the subscriber, or its session, was closed before the program had taken it
ring     no_subscriber  no       on a group everybody hears everything; here nobody wants it
"""
LINES = [line.split(maxsplit=3) for line in TEXT.splitlines()]


def named(count: int, name: Any, about: Any) -> list[tuple[str, str]]:
    """The words of an enumeration: (name, text), in order."""
    return [(text(name(number)), text(about(number))) for number in range(count)]


def render() -> str:
    """The whole page of the ledger."""
    places = named(lib.PYDDSI_PLACE_COUNT, lib.pyddsi_place_name, lib.pyddsi_place_text)
    reasons = named(lib.PYDDSI_REASON_COUNT, lib.pyddsi_reason_name, lib.pyddsi_reason_text)
    parts = [HEAD]
    for title, before, words in (
        ("Places", "It was dropped ..", places),
        ("Reasons", "It was dropped because ..", reasons),
    ):
        rows = [f"| {name} | {about} |" for name, about in words]
        parts.append("\n".join([f"## {title}", "", f"| name | {before} |", "|---|---|", *rows]))
    lines = [f"| {' | '.join(line)} |" for line in LINES]
    parts.append(
        "\n".join(
            [
                "## The lines there are",
                "",
                "*Lost* says whether somebody misses a sample for good.",
                "",
                "| place | reason | lost | what happened |",
                "|---|---|---|---|",
                *lines,
            ]
        )
    )
    used = {place for place, *_ in LINES}
    idle = [f"`{name}`" for name, _ in places if name not in used]
    if idle:
        parts.append(
            f"No line names the place {', '.join(idle)} yet: declarations are never dropped."
        )
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
