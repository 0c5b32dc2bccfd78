"""Sessions without multicast that name one of them: all meet."""

from __future__ import annotations

from typing import Any

import pytest

import pyddsi

PATIENCE = 60.0
NOWHERE = "udp/[::1]:9"


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_star(kind: str) -> None:
    """Two that name the same third would never meet, and nothing would say so."""
    common: dict[str, Any] = {
        "group": "",
        "interface": "127.0.0.1",
        "shared_memory": False,
        "scout": 0.1,
    }
    listen = ["tcp/127.0.0.1:0"] if kind == "tcp" else []
    with pyddsi.open(**common, listen=listen) as hub:
        where = str(hub.listening[0] if listen else hub.endpoint)
        with (
            pyddsi.open(**common, peers=[where]) as one,
            pyddsi.open(**common, peers=[where]) as other,
        ):
            sub = other.subscriber("star")
            pub = one.publisher("star", way="each")
            assert pub.wait_matched(timeout=PATIENCE)
            assert {peer.name for peer in one.peers()} == {hub.name, other.name}
            pub.put(b"met")
            assert bytes(sub.recv(timeout=PATIENCE)) == b"met"


@pytest.mark.parametrize("listener", ["one", "other", "both"])
def test_star_of_connections(listener: str) -> None:
    """Two that only connections join would never meet, though one of them listens: their datagrams are of different families."""
    common: dict[str, Any] = {"group": "", "shared_memory": False, "scout": 0.1}
    listens: dict[str, Any] = {"listen": ["tcp/127.0.0.1:0"]}
    first: dict[str, Any] = listens if listener != "other" else {}
    second: dict[str, Any] = listens if listener != "one" else {}
    with pyddsi.open(**common, **listens, interface="127.0.0.1") as hub:
        where = str(hub.listening[0])
        with (
            pyddsi.open(**common, **first, interface="::1", peers=[where, NOWHERE]) as one,
            pyddsi.open(**common, **second, interface="127.0.0.1", peers=[where]) as other,
        ):
            sub = other.subscriber("star", depth=256)
            pub = one.publisher("star", way="each")
            assert pub.wait_matched(timeout=PATIENCE)
            assert {peer.name for peer in one.peers()} == {hub.name, other.name}
            for number in range(200):
                pub.put(b"%d" % number)
            got = [int(bytes(sub.recv(timeout=PATIENCE))) for _ in range(200)]
            assert got == list(range(200))
