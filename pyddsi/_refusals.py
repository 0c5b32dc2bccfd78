"""Sessions that do not come about, because one side refuses: how both sides show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyddsi._looks import endpoint, reason_name

if TYPE_CHECKING:
    from typing import Any

    from pyddsi.capture import Endpoint

__all__ = ["Refusal", "refusal_of", "refused"]

REFUSED = {
    "peers_max": "this side has as many peers as its peers_max allows; give it a larger one",
    "length": "others that speak as zhe have sequence numbers of another length in its group; build all alike, or give "
    "one of them a group of its own",
    "sequence_length": "the peer has sequence numbers of another length; set sequence_bits to it",
    "out_of_resources": "the peer has as many peers as its peers_max allows; give that one a larger one",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    A session that does not come about, because one side refuses.

    name: of the peer; None: it has not said it
    reason: "peers_max" or "length" where this side refuses, else what the peer said, such as "out_of_resources"
    count: how often it was refused
    """

    name: str | None
    endpoint: Endpoint | None
    reason: str
    count: int
    first_ns: int
    last_ns: int

    def __str__(self) -> str:
        return refused(self.name, self.endpoint, self.reason)


def refused(name: str | None, at: Endpoint | None, reason: str) -> str:
    """A refusal in words."""
    why = REFUSED.get(reason, f"the peer refuses it: {reason}")
    return f"No session with {name or 'a peer'} at {at}: {why}"


def refusal_of(
    raw: Any, name: str | None, since_ns: int = 0, paths: tuple[str, ...] = ()
) -> Refusal:
    """A refusal of the core."""
    return Refusal(
        name=name,
        endpoint=endpoint(raw.endpoint, paths),
        reason=reason_name(raw.reason),
        count=raw.count,
        first_ns=since_ns + raw.first_ns,
        last_ns=since_ns + raw.last_ns,
    )
