"""What is said of peers: how `scout` and `ps` find and describe them."""

from __future__ import annotations

import time
from typing import Any

import pyddsi
from pyddsi._looks import FEATURES, Peer
from pyddsi.cli._show import duration

__all__ = ["age", "established", "find", "plain", "refused", "round_trip", "speaks"]

EARLIEST_MS = (
    1_500_000_000_000  # an incarnation of a pyddsi session is when it began, in ms since 1970
)


def established(session: pyddsi.Session) -> list[Peer]:
    """The peers with a session, in order of their names."""
    return sorted((p for p in session.peers() if p.state == "established"), key=lambda p: p.name)


def find(session: pyddsi.Session, seconds: float, count: int | None = None) -> list[Peer]:
    """Those who are found in so much time, or as soon as there are `count`."""
    wanted = count or 1 << 30
    session.wait(seconds, lambda: len(established(session)) >= wanted)
    return established(session)


def refused(session: pyddsi.Session) -> list[str]:
    """The sessions that did not come about because a limit was met, in sentences."""
    return [str(one) for one in session.refusals()]


def speaks(peer: Peer) -> str:
    """What it can do, in words."""
    missing = sorted(set(FEATURES) - peer.features)
    if not peer.features:
        return "as zhe"
    if not missing:
        return "all extensions"
    if len(missing) <= 2:
        return f"all but {', '.join(missing)}"
    return ", ".join(sorted(peer.features))


def age(peer: Peer) -> str:
    """How long it has been there, if it tells."""
    return duration(max(0.0, seconds)) if (seconds := age_seconds(peer)) is not None else "-"


def age_seconds(peer: Peer) -> float | None:
    """The same as a number."""
    if peer.incarnation < EARLIEST_MS:
        return None
    return time.time() - peer.incarnation / 1000


def round_trip(peer: Peer) -> str:
    """How far it is."""
    return duration(peer.rtt) if peer.rtt else "-"


def plain(peer: Peer) -> dict[str, Any]:
    """A peer as a JSON object. Times in seconds; null: not known."""
    seconds = age_seconds(peer)
    return {
        "name": peer.name,
        "endpoint": None if peer.endpoint is None else str(peer.endpoint),
        "round_trip": peer.rtt or None,
        "lease": peer.lease,
        "features": sorted(peer.features),
        "age": None if seconds is None else round(seconds, 3),
        "unacknowledged": peer.unacknowledged,
    }
