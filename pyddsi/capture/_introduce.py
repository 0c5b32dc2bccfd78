"""
What comes first in a recording, and was not said just then.

A PONG from the session to the usual group: so readers take for ours what it says and hears, whichever ports that has.

The names of resources that were declared before, here and by peers, as if everybody said them once more: without them a recording
that begins late would have numbers alone. They stand on a conduit of their own, which no session uses, so that they count in
nobody's numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyddsi import wire
from pyddsi._declared import Resource
from pyddsi._native import ffi, lib
from pyddsi.errors import InvalidNameError
from pyddsi.names import Name

if TYPE_CHECKING:
    from pyddsi.session import Session

__all__ = ["CONDUIT", "introduction", "signature"]

CONDUIT = 254
PACKET_BYTES = 16384
ROOM = 65536 + 512
PCAPNG = 2
UDP = {4, 6}
GROUP = bytes((239, 255, 0, 1)), 7447


def signature(local: Any, at_ns: int) -> bytes:
    """The block that says whose recording it is; `local` is the core's endpoint, `at_ns` when it began."""
    return _block(local, at_ns, wire.encode([wire.Pong(0)]))


def introduction(session: Session, local: Any, at_ns: int) -> bytes:
    """Blocks that name what is declared, here and by the peers; likewise."""
    said: dict[int, list[tuple[int, int, str]]] = {}
    ends: list[Any] = [local]
    peers = {}
    raw = ffi.new("pyddsi_peer *")
    while session.call("peer", len(ends) - 1, raw) == lib.PYDDSI_OK:
        peers[bytes(raw.id[0 : raw.id_size]).hex()] = len(ends)
        ends.append(ffi.new("pyddsi_endpoint *", raw.endpoint))
    for (path, number, space), one in list(session.things.items()):
        if isinstance(one, Resource):
            said.setdefault(0, []).append((space, number, path))
    for known in session.resources():
        if known.kind == "resource" and isinstance(known.name, str):
            who = peers.get(known.peer, 0)
            who = who if ends[who].kind in UDP else 0  # connections have numbers of their own
            said.setdefault(who, []).append((known.space, known.number, known.name))
    return b"".join(
        _block(ends[who], at_ns, packet)
        for who, names in said.items()
        for packet in _packets(names)
    )


def _packets(names: list[tuple[int, int, str]]) -> Iterator[bytes]:
    number = 0
    for space in sorted({one[0] for one in names}):
        waiting: list[wire.Declaration] = []
        size = 0
        marks: list[wire.Message] = [
            wire.Conduit(CONDUIT),
            *([wire.RSpace(space)] if space else ()),
        ]
        for _, rid, name in [one for one in names if one[0] == space] + [(space, 0, "")]:
            if waiting and (size > PACKET_BYTES or not name):
                yield wire.encode([*marks, wire.Declare(number, waiting)])
                number, waiting, size = number + 1, [], 0
            if name:
                try:
                    path = Name(name).path
                except InvalidNameError:
                    continue
                waiting.append(wire.Resource(rid, path))
                size += len(path) + 8


def _block(source: Any, at_ns: int, data: bytes) -> bytes:
    target = ffi.new("pyddsi_endpoint *", {"port": GROUP[1], "kind": 4})
    target.ip[0:4] = list(GROUP[0])
    out, at = ffi.new("uint8_t[]", ROOM), ffi.new("size_t *")
    status = lib.pyddsi_write_datagram(
        PCAPNG, at_ns, source, target, data, len(data), out, ROOM, at
    )
    return bytes(ffi.buffer(out, at[0])) if status == lib.PYDDSI_OK else b""
