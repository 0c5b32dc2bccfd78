"""Sessions that reach each other through TCP and Unix sockets, without any group."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyddsi
from pyddsi._endpoints import TcpEndpoint, UnixEndpoint
from pyddsi.config import Config
from tests.api.rooms import TIMEOUT, group

PLACES = ["tcp", "tcp6", "unix", "abstract"]
_count = itertools.count()


def place(kind: str, folder: Path) -> str:
    """Somewhere to listen at that nobody else has."""
    return {
        "tcp": "tcp/127.0.0.1:0",
        "tcp6": "tcp/[::1]:0",
        "unix": f"unix/{folder}/{next(_count)}.sock",
        "abstract": f"unix/@pyddsi-test-{os.getpid()}-{next(_count)}",
    }[kind]


def opened(**settings: Any) -> pyddsi.Session:
    """A session that hears no group."""
    settings.setdefault("group", "")
    settings.setdefault("shared_memory", False)
    return pyddsi.open(**settings)


def where(session: pyddsi.Session) -> str:
    """Where others connect to it."""
    return str(session.listening[0])


def exchange(one: pyddsi.Session, other: pyddsi.Session, count: int = 200) -> None:
    """Samples both ways, reliable ones and in order."""
    for source, target in ((one, other), (other, one)):
        with source.publisher("link/a") as pub, target.subscriber("link/*", depth=count) as sub:
            pub.wait_matched(timeout=TIMEOUT)
            for number in range(count):
                pub.put(b"%d" % number)
            got = [int(bytes(sub.recv(timeout=TIMEOUT).data)) for _ in range(count)]
            assert got == list(range(count))


@pytest.mark.parametrize("kind", PLACES)
def test_talk(kind: str, tmp_path: Path) -> None:
    """Two sessions that only a connection joins do not find each other, or samples of some size are lost there."""
    with opened(listen=[place(kind, tmp_path)]) as one, opened(peers=[where(one)]) as other:
        exchange(one, other)
        pub, sub = other.publisher("link/large"), one.subscriber("link/large")
        pub.wait_matched(timeout=TIMEOUT)
        for size in (0, 1, 1400, 1500, 65_000, 3_000_000):
            pub.put(os.urandom(size))
            assert len(sub.recv(timeout=TIMEOUT).data) == size
        assert one.counts()["links_accepted"] == other.counts()["links_made"] == 1
        assert one.counts()["send_failed"] == 0


@pytest.mark.parametrize("kind", PLACES)
def test_addresses(kind: str, tmp_path: Path) -> None:
    """A peer behind a connection is shown as something that nobody could connect to, or its session cannot be closed."""
    with opened(listen=[place(kind, tmp_path)]) as one, opened(peers=[where(one)]) as other:
        other.wait_event("connected", timeout=TIMEOUT)
        event = one.wait_event("connected", timeout=TIMEOUT)
        (peer,), (back,) = other.peers(), one.peers()
        assert str(peer.endpoint) == where(one)
        assert event.endpoint == back.endpoint
        if kind.startswith("tcp"):
            assert isinstance(back.endpoint, TcpEndpoint)
            assert str(back.endpoint).startswith(
                "tcp/[::1]:" if kind == "tcp6" else "tcp/127.0.0.1:"
            )
        else:
            assert isinstance(back.endpoint, UnixEndpoint)
            assert str(back.endpoint) == f"{where(one)} (process {os.getpid()})"
            assert not back.endpoint.multicast
        other.close_session(peer)
        assert one.wait_event("disconnected", timeout=TIMEOUT).peer == other.name
        other.wait_event("reconnected", timeout=TIMEOUT)
        exchange(one, other)


def test_many(tmp_path: Path) -> None:
    """Several who connect to one, by TCP and by a Unix socket, disturb each other, or do not all get what it publishes."""
    listen = [place("tcp", tmp_path), place("unix", tmp_path)]
    with opened(listen=listen) as hub:
        ends = [opened(peers=[str(hub.listening[i % 2])]) for i in range(6)]
        pub = hub.publisher("link/news")
        subs = [one.subscriber("link/news", depth=500) for one in ends]
        while len(pub.matched) < len(ends):
            hub.wait_event("matched", timeout=TIMEOUT)
        for number in range(300):
            pub.put(b"%d" % number)
        for sub in subs:
            got = [int(bytes(sub.recv(timeout=TIMEOUT).data)) for _ in range(300)]
            assert got == list(range(300))
        for one in ends:
            one.close()


def test_named_datagrams() -> None:
    """A peer that is named by its UDP address, where there is no group, is not asked."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    with (
        opened(listen=[f"udp/0.0.0.0:{port}"]) as one,
        opened(peers=[f"127.0.0.1:{port}"]) as other,
    ):
        exchange(one, other)


def test_beside_a_group(tmp_path: Path) -> None:
    """Peers of a group and one behind a connection do not all get a sample, or one of them gets it twice."""
    room = group()
    with (
        opened(group=room, listen=[place("unix", tmp_path)]) as one,
        opened(group=room) as near,
        opened(peers=[where(one)]) as far,
    ):
        pub = one.publisher("link/all")
        subs = [near.subscriber("link/all", depth=500), far.subscriber("link/all", depth=500)]
        while len(pub.matched) < 2:
            one.wait_event("matched", timeout=TIMEOUT)
        for number in range(300):
            pub.put(b"%d" % number)
        for sub in subs:
            got = [int(bytes(sub.recv(timeout=TIMEOUT).data)) for _ in range(300)]
            assert got == list(range(300))
            assert sub.poll() is None


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_shared_memory(kind: str, tmp_path: Path) -> None:
    """Peers on one machine that a connection joins do not use shared memory, or lose samples there."""
    with (
        opened(listen=[place(kind, tmp_path)], shared_memory=True) as one,
        opened(peers=[where(one)], shared_memory=True) as other,
    ):
        exchange(one, other, 100)
        pub, sub = other.publisher("link/lane"), one.subscriber("link/lane")
        pub.wait_matched(timeout=TIMEOUT)
        for number in itertools.count():
            pub.put(b"%d" % number)
            assert int(bytes(sub.recv(timeout=TIMEOUT).data)) == number
            if other.counts()["lane_put"] and one.counts()["lane_taken"]:
                break
            assert number < 100_000


def test_selections_meanwhile(tmp_path: Path) -> None:
    """
    002-43: while samples come in, selections and subscriptions that are made and forgotten disturb them, or get what they did
    not ask for.
    """
    with opened(listen=[place("unix", tmp_path)]) as one, opened(peers=[where(one)]) as other:
        pub = other.publisher("link/busy")
        steady = one.subscriber("link/busy", depth=1000)
        pub.wait_matched(timeout=TIMEOUT)
        numbers = iter(range(1_000_000))

        def more(count: int = 40) -> None:
            for number in itertools.islice(numbers, count):
                pub.put(b"%d" % number + bytes(number % 20), timeout=TIMEOUT)

        expected = itertools.count()
        for _ in range(25):
            with one.subscriber("link/busy", where="$size > 15") as some:
                while (sample := some.poll()) is None:
                    more()
                    for one_of in steady.recv_many(timeout=TIMEOUT):
                        assert int(bytes(one_of.data).rstrip(b"\0")) == next(expected)
                assert len(sample.data) > 15
                thread = threading.Thread(target=more)
                thread.start()  # and these come in while it is forgotten
            thread.join()
        last = next(numbers)
        pub.put(b"%d" % last)
        for number in expected:
            assert int(bytes(steady.recv(timeout=TIMEOUT).data).rstrip(b"\0")) == number
            if number == last:
                break


# ---- ends ----

PROGRAM = """
import sys, pyddsi
with pyddsi.open(group="", shared_memory=False, listen=[sys.argv[1]]) as session:
    with session.publisher("link/number") as pub:
        print(session.listening[0], flush=True)
        for number in range(1_000_000):
            pub.wait_matched(timeout=None)
            pub.put(b"%d" % number, timeout=None)
"""


def publisher(listen: str) -> Iterator[subprocess.Popen[str]]:
    """A process that listens and publishes; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, listen], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_killed(kind: str, tmp_path: Path) -> None:
    """
    002-24: a process that is killed leaves something that hinders its next start at the same address; or its peer does not notice
    at once, does not find the next one, or gets a part of a sample.
    """
    listen = place(kind, tmp_path)
    if kind == "tcp":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            listen = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    with opened(peers=[listen], scout=0.2) as session:
        sub = session.subscriber("link/number", depth=100)
        for _ in range(3):
            for process in publisher(listen):
                first = int(bytes(sub.recv(timeout=TIMEOUT).data))
                for number in range(first + 1, first + 50):
                    assert int(bytes(sub.recv(timeout=TIMEOUT).data)) == number
                process.send_signal(signal.SIGKILL)
            end = session.wait_event("disconnected", timeout=TIMEOUT)
            assert end.reason == "link"
            while sub.poll() is not None:  # what came before
                pass


def test_stranger(tmp_path: Path) -> None:
    """Bytes of a stranger, or his silence, end more than his own connection."""
    with opened(listen=[place("tcp", tmp_path)]) as one, opened(peers=[where(one)]) as other:
        other.wait_event("connected", timeout=TIMEOUT)
        address = ("127.0.0.1", one.listening[0].port)
        for data in (
            b"\xff\xff\xff\xff",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x02\x01\x05" + bytes(100),
            b"\x05\x01\x05",
        ):
            with socket.create_connection(address, TIMEOUT) as stranger:
                stranger.sendall(data)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(1000):
                    pass
        exchange(one, other)
        assert one.counts()["links_broken"] >= 2
        assert not [event for event in other.events() if event.kind == "disconnected"]


# ---- what cannot be ----


def refused(listen: str) -> str:
    """What is said of this."""
    with pytest.raises(pyddsi.OpenError) as info:
        opened(listen=[listen])
    return str(info.value)


def test_in_use(tmp_path: Path) -> None:
    """A place that somebody else has is taken, or it is not said what to do."""
    for kind in PLACES:
        with opened(listen=[place(kind, tmp_path)]) as one:
            assert "is in use by another program: end that, or choose another" in refused(
                where(one)
            )
    (tmp_path / "file").write_text("mine")
    assert "is no socket" in refused(f"unix/{tmp_path}/file")
    assert (tmp_path / "file").read_text() == "mine"
    assert "no such folder" in refused(f"unix/{tmp_path}/no/folder")
    assert "no interface of this machine has this address" in refused("tcp/192.0.2.1:7447")


WRONG: list[tuple[str, Any, str]] = [
    ("peers", ["robot"], "each of peers is an IP address or a host's name, and a port"),
    ("peers", ["tcp/robot:"], "each of peers is an IP address or a host's name, and a port"),
    (
        "peers",
        ["quic/10.0.0.9:7447"],
        "each of peers is an IP address and a port, such as 10.0.0.9:7447, tcp/",
    ),
    ("peers", ["unix/run/x.sock"], "a path from the root"),
    ("peers", ["unix/"], "a path from the root"),
    ("peers", ["unix//" + "x" * 107], "at most 107 bytes"),
    (
        "peers",
        ["tcp/0.0.0.0:7447"],
        "the address of one machine, not 'tcp/0.0.0.0:7447'; to be found there, name it in listen",
    ),
    ("peers", ["tcp/10.0.0.9:0"], "an IP address or a host's name, and a port"),
    ("listen", "tcp/0.0.0.0:7447", "a list of addresses"),
    ("listen", ["tcp/0.0.0.0:70000"], "an IP address and a port"),
    (
        "listen",
        ["udp/10.0.0.9:7447"],
        "udp/0.0.0.0:7447 for our own UDP port, not 'udp/10.0.0.9:7447'; choose the address by interface='10.0.0.9'",
    ),
    ("listen", ["udp/0.0.0.0:1", "udp/0.0.0.0:2"], "one UDP address at most"),
    ("listen", ["unix/@x"] * 9, "at most 8"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_wrong(name: str, value: Any, words: str) -> None:
    """A text that is no address is taken, or it is not said what would be right."""
    with pytest.raises(pyddsi.ConfigError) as info:
        Config(**{name: value})
    assert words in str(info.value)


def test_packets_too_large() -> None:
    """Packets that no frame can hold are promised."""
    with pytest.raises(ValueError, match="packets have at most 16383 bytes"):
        opened(listen=["tcp/127.0.0.1:0"], packet_max=20000)


def test_shown(tmp_path: Path) -> None:
    """`pyddsi scout` cannot show who is behind a connection."""
    with opened(listen=[place("unix", tmp_path)]) as one:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pyddsi",
                "scout",
                "--peer",
                where(one),
                "--count",
                "1",
                "--json",
                "--duration",
                "20",
            ],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYDDSI_GROUP": ""},
            timeout=60,
        )
        found = json.loads(done.stdout)
        assert (found["name"], found["endpoint"]) == (one.name, where(one))
