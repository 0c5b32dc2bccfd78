"""What peers have declared, as a session knows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pyddsi._native import enumeration, ffi, lib
from pyddsi._values import name_shown

if TYPE_CHECKING:
    from pyddsi._looking import Looking
    from pyddsi._words import KnownKind, Mode

__all__ = ["KINDS", "MODES", "Known", "known_by"]

KNOWN_ROOM = 256  # declarations that are asked for at first,
NAME_ROOM = 64  # and bytes for each one's name

MODES = {
    bit: name.removesuffix("_mode") for name, bit in enumeration("pyddsi_mode", "PYDDSI_").items()
}
KINDS = {
    int(lib.PYDDSI_RESOURCE): "resource",
    int(lib.PYDDSI_SELECTION): "selection",
    int(lib.PYDDSI_SUBSCRIPTION): "subscription",
}


@dataclass(frozen=True, slots=True)
class Known:
    """
    What a peer has declared.

    kind: "resource", "selection" or "subscription"
    name: of the resource, or the query; where nobody has said one, the number
    number: of the resource or selection, not doubled
    mode: of a subscription: "push", "pull" ...
    """

    peer: str
    kind: KnownKind
    name: str | int
    number: int
    space: int
    mode: Mode | None


def known_of(raw: Any, peer: str, name: str | int | None) -> Known:
    """A peer's declaration."""
    mode = MODES.get(raw.mode) if raw.kind == lib.PYDDSI_SUBSCRIPTION else None
    number = int(raw.id) >> 1
    kind = cast("KnownKind", KINDS[raw.kind])
    return Known(
        peer,
        kind,
        number if name is None else name,
        number,
        int(raw.space),
        cast("Mode | None", mode),
    )


def _with_queries(found: list[Known]) -> list[Known]:
    """The same, where a subscription to a query of its peer has the text of that."""
    names = {(k.peer, k.space, k.number): k.name for k in found if k.kind == "selection"}
    for i, k in enumerate(found):
        if k.kind == "subscription" and (k.peer, k.space, k.number) in names:
            found[i] = replace(k, name=names[k.peer, k.space, k.number])
    return found


def known_by(session: Looking) -> list[Known]:
    """What its peers have declared: resources, selections and subscriptions, by name where that is known."""
    rows, count = KNOWN_ROOM, ffi.new("size_t *")
    while True:  # ends when there is room for all
        raw, text = ffi.new("pyddsi_known[]", rows), ffi.new("uint8_t[]", rows * NAME_ROOM)
        status = session.call("known", raw, rows, count, text, rows * NAME_ROOM)
        if status != lib.PYDDSI_NO_SPACE:
            break
        rows = 2 * int(count[0])
    peers: dict[int, str] = {}
    peer = ffi.new("pyddsi_peer *")
    for one in raw[0 : count[0]]:
        if one.peer not in peers and session.call("peer", one.peer, peer) == lib.PYDDSI_OK:
            peers[one.peer] = bytes(peer.id[0 : peer.id_size]).hex()
    found = [
        known_of(
            one,
            peers.get(one.peer, ""),
            name_shown(ffi.buffer(text + one.name_at, one.name_size))
            or session.name_of(one.space, one.id),
        )
        for one in raw[0 : count[0]]
    ]
    return _with_queries(found)
