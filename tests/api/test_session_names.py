"""Peers that are named by a host's name, and what is said of those that are not there."""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any

import pytest

import pyddsi

PATIENCE = 60.0
ALONE: dict[str, Any] = {
    "group": "",
    "interface": "127.0.0.1",
    "shared_memory": False,
    "scout": 0.1,
}


class Names:
    """A resolver of the test's own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.known: dict[str, list[str]] = {}
        self.asked = threading.Semaphore(0)
        patch.setattr(socket, "getaddrinfo", self.look)

    def look(self, host: str, *_: object) -> list[Any]:
        """As the system's."""
        assert threading.current_thread() is not threading.main_thread()
        self.asked.release()
        if host not in self.known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(2, 1, 6, "", (one, 0)) for one in self.known[host]]


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_a_name_that_becomes_known(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that begins before its broker, which has but a name, would never reach it, or not say why."""
    names = Names(monkeypatch)
    with pyddsi.open(**ALONE, listen=["tcp/127.0.0.1:0"]) as broker:
        port = (broker.listening[0] if kind == "tcp" else broker.endpoint).port
        named = f"{kind}/broker.plant:{port}"
        with pyddsi.open(**ALONE, peers=[named]) as one:
            assert names.asked.acquire(timeout=PATIENCE)
            assert names.asked.acquire(timeout=PATIENCE)
            assert one.missing()[named].startswith("unknown name, ")
            assert f"The peer {named} is not reached: unknown name, " in one.why_not("x")
            names.known["broker.plant"] = ["127.0.0.9", "127.0.0.1"]  # at the first is nobody
            pub, sub = one.publisher("x", way="each"), broker.subscriber("x")
            assert pub.wait_matched(timeout=PATIENCE)
            pub.put(b"met")
            assert bytes(sub.recv(timeout=PATIENCE)) == b"met"


def test_localhost() -> None:
    """The one name that every machine knows would be refused."""
    with (
        pyddsi.open(**ALONE, listen=["tcp/127.0.0.1:0"]) as hub,
        pyddsi.open(**ALONE, peers=[f"tcp/localhost:{hub.listening[0].port}"]) as one,
    ):
        sub, pub = hub.subscriber("x"), one.publisher("x", way="each")
        assert pub.wait_matched(timeout=PATIENCE)
        sub.close()


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that is dead would be passed over in silence."""
    told = threading.Event()
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            if "refused" in lines[-1]:
                told.set()

    handler = Handler()
    monkeypatch.setattr(logging.getLogger("pyddsi"), "handlers", [handler])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        named = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        with pyddsi.open(**ALONE, peers=[named]) as one:
            assert told.wait(PATIENCE)
            assert one.missing()[named].startswith("refused, ")
            assert f"{named} is not reached: refused, " in one.why_not("x")


@pytest.mark.parametrize(
    "bad",
    [
        "broker",
        "tcp/:7447",
        "300.1.2.3:7447",
        "bro ker:7447",
        "a..b:7447",
        "broker:0",
        "tcp/x:70000",
    ],
)
def test_what_is_no_name(bad: str) -> None:
    """A slip would be looked up for ever."""
    with pytest.raises(ValueError, match="an IP address or a host's name, and a port"):
        pyddsi.Config(peers=(bad,))
