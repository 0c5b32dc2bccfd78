"""
What goes wrong outside: processes that are killed or stopped, and a system that gives no more. Each has an event, an exception
or a line in the ledger, and nothing is left behind.

Processes are killed and stopped for real. Limits are set on processes of their own, where they meet nobody else.
The file is long because each of these faults is here once, by sockets and by memory.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group

LEASE = 1.0
ROOT = Path(__file__).parents[2]
MIB = 1 << 20

READER = """
    sub = session.subscriber("a", depth=64)
    say("ready", session.name)
    for sample in sub:
        say(bytes(sample.data)[:8].decode())
"""
WRITER = """
    pub = session.publisher("a")
    pub.wait_matched(timeout=60)
    say("ready", session.name)
    for number in range(10**9):
        pub.put(b"%08d" % number, timeout=60)
        say(number)
"""


class Child:
    """A process with a session."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self) -> Any:
        """The next thing that it says."""
        out: IO[str] | None = self.process.stdout
        assert out is not None
        text = out.readline()
        assert text, "it ended"
        return json.loads(text)

    def signal(self, number: int) -> None:
        """A signal to it, which has come there when this returns."""
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()
        elif number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)


@contextmanager
def child(program: str, **settings: Any) -> Iterator[Child]:
    """One that ends with the block at the latest."""
    head = f"""
        import json, pyddsi
        def say(*words):
            print(json.dumps(words[0] if len(words) == 1 else words), flush=True)
        with pyddsi.open(**{settings!r}) as session:
    """
    text = textwrap.dedent(head) + textwrap.indent(textwrap.dedent(program), "    ")
    with subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def balanced(session: pyddsi.Session) -> bool:
    """Whether nothing is in flight."""
    stats = session.stats()
    assert stats.owed == stats.acknowledged + stats.forgiven + stats.in_flight
    return stats.in_flight == 0


def dropped(session: pyddsi.Session, place: str, reason: str) -> int:
    """How many samples the ledger has there for that."""
    return sum(d.count for d in session.drops() if (d.place, d.reason) == (place, reason))


def open_files() -> int:
    """How many descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


def memory() -> int:
    """Of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


WAYS = pytest.mark.parametrize("shared", [False, True], ids=["sockets", "memory"])

# ---- killed ------------------------------------------------------------------------------------------------------


@WAYS
def test_reader_is_killed(shared: bool) -> None:  # noqa: FBT001
    """A reader that was killed would hold its writer up, or what it did not get would be lost without a word."""
    settings: dict[str, Any] = {"group": group(), "lease": LEASE, "shared_memory": shared}
    with pyddsi.open(**settings) as session:
        pub = session.publisher("a")
        files = open_files()
        for _ in range(2):  # the second one finds everything as it was
            with child(READER, **settings) as reader:
                pub.wait_matched(timeout=TIMEOUT)
                _, name = reader.line()
                pub.put(b"00000001")
                assert reader.line() == "00000001"
                session.wait(TIMEOUT, lambda: balanced(session))
                before, lost = session.stats(), dropped(session, "window", "peer_lost")
                reader.signal(signal.SIGKILL)
                for number in range(10):
                    pub.put(b"%08d" % number, timeout=TIMEOUT)
                event = session.wait_event("disconnected", timeout=TIMEOUT)
                assert (event.peer, event.reason) == (name, "exited")
            assert session.wait(TIMEOUT, lambda: balanced(session))
            nobody = session.stats().unmatched - before.unmatched
            assert nobody + dropped(session, "window", "peer_lost") - lost == 10
            assert [peer.state for peer in session.peers()] != ["established"]
            pub.put(b"00000002")  # to nobody, at once
            session.events()
        session.wait(TIMEOUT, lambda: open_files() == files)
        assert open_files() == files


@WAYS
def test_writer_is_killed(shared: bool) -> None:  # noqa: FBT001
    """Of a writer that was killed something would come twice, out of order, or with a gap; or its memory would stay."""
    settings: dict[str, Any] = {"group": group(), "lease": LEASE, "shared_memory": shared}
    with pyddsi.open(**settings) as session:
        sub = session.subscriber("a", depth=8192)
        files = open_files()
        for _ in range(2):
            with child(WRITER, **settings) as writer:
                _, name = writer.line()
                got = [int(bytes(sub.recv(timeout=TIMEOUT)))]
                while writer.line() < 200:
                    pass
                writer.signal(signal.SIGKILL)
                event = session.wait_event("disconnected", timeout=TIMEOUT)
                assert (event.peer, event.reason) == (name, "exited")
            while (sample := sub.poll()) is not None:
                got.append(int(bytes(sample.data)))
                del sample
            assert got == list(range(got[-1] + 1))
            session.wait(TIMEOUT, lambda: open_files() == files)
            assert open_files() == files
            session.events()


def test_killed_while_it_begins() -> None:
    """Those who are killed while they open would leave something that keeps the next ones from it."""
    settings: dict[str, Any] = {"group": group(), "lease": LEASE}
    with pyddsi.open(**settings) as session:
        files = open_files()
        for wait in range(6):
            with child(READER, **settings) as reader:
                for _ in range(wait % 2):
                    reader.line()
                reader.signal(signal.SIGKILL)
        with child(READER, **settings) as reader:
            _, name = reader.line()
            pub = session.publisher("a")
            session.wait(TIMEOUT, lambda: name in pub.matched)
            pub.put(b"00000007", timeout=TIMEOUT)
            assert reader.line() == "00000007"
        gone = session.wait(
            TIMEOUT, lambda: all(peer.state != "established" for peer in session.peers())
        )
        assert gone
        session.wait(TIMEOUT, lambda: open_files() <= files + 1)
        assert open_files() <= files + 1  # one more is what our publisher shares


# ---- stopped -----------------------------------------------------------------------------------------------------


@WAYS
def test_reader_is_stopped(shared: bool) -> None:  # noqa: FBT001
    """A writer whose reader is stopped would not wait as it was told to, grow, or lose what it had accepted."""
    settings: dict[str, Any] = {
        "group": group(),
        "lease": 0,
        "shared_memory": shared,
        "window_bytes": 65536,
        "shared_bytes": 65536,
    }
    with pyddsi.open(**settings) as session, child(READER, **settings) as reader:
        pub = session.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        _, name = reader.line()
        pub.put(b"00000000")
        assert reader.line() == "00000000"
        assert not shared or session.wait(TIMEOUT, lambda: session.counts()["lane_readers"] == 1)
        reader.signal(signal.SIGSTOP)
        number = 1
        while pub.put((b"%08d" % number).ljust(500), wait=False):
            number += 1
        with pytest.raises(TimeoutError, match=f"is full.*{name}"):
            pub.put(bytes(500), timeout=0.05)
        before = memory()
        assert not any(pub.put(bytes(500), wait=False) for _ in range(100_000))
        assert memory() < before + 4 * MIB
        reader.signal(signal.SIGCONT)
        pub.put((b"%08d" % number).ljust(500), timeout=TIMEOUT)
        assert [int(reader.line()) for _ in range(number)] == list(range(1, number + 1))
        assert session.wait(TIMEOUT, lambda: balanced(session))
        assert dropped(session, "window", "peer_lost") == 0


@WAYS
def test_stopped_for_longer_than_its_lease(shared: bool) -> None:  # noqa: FBT001
    """Who was stopped for so long would not be given up, or not come back when it goes on."""
    settings: dict[str, Any] = {
        "group": group(),
        "lease": LEASE,
        "scout": 0.2,
        "shared_memory": shared,
    }
    with pyddsi.open(**settings) as session, child(READER, **settings) as reader:
        pub = session.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        _, name = reader.line()
        pub.put(b"00000000")
        assert reader.line() == "00000000"
        reader.signal(signal.SIGSTOP)
        for number in range(1, 11):
            pub.put(b"%08d" % number, timeout=TIMEOUT)
        event = session.wait_event("disconnected", timeout=TIMEOUT)
        assert (event.peer, event.reason) == (name, "lease")
        assert session.wait(TIMEOUT, lambda: balanced(session))
        reader.signal(signal.SIGCONT)
        assert session.wait_event("connected", "reconnected", timeout=TIMEOUT).peer == name
        session.wait(TIMEOUT, lambda: name in pub.matched)
        pub.put(b"00000011", timeout=TIMEOUT)
        got = [reader.line()]
        while got[-1] != "00000011":
            got.append(reader.line())
        assert got == sorted(set(got))


def test_stopped_while_its_publisher_goes_over() -> None:
    """Who was stopped, and given up when others came, would hear what they were sent before the end of what was sent to it alone."""
    settings: dict[str, Any] = {"group": group(), "scout": 0.2, "shared_memory": False}
    program = '\n    heard = session.subscriber("b")' + READER
    with pyddsi.open(**settings) as session, child(program, **settings) as reader:
        pub, group_pub = session.publisher("a", way="auto"), session.publisher("b")
        pub.wait_matched(timeout=TIMEOUT)
        group_pub.wait_matched(timeout=TIMEOUT)
        _, name = reader.line()
        for number in range(20):  # it goes over to the one reader meanwhile
            pub.put(b"%08d" % number, timeout=TIMEOUT)
            group_pub.put(b"so it hears the group as well", timeout=TIMEOUT)
            assert int(reader.line()) == number
            assert session.wait(TIMEOUT, lambda: balanced(session))
        reader.signal(signal.SIGSTOP)
        number = 20
        while pub.put((b"%08d" % number).ljust(1000), wait=False):
            number += 1
            session.flush()  # a packet each, so the reader needs many calls for them
        with pyddsi.open(**settings) as other, pyddsi.open(**settings) as third:
            sub, another = other.subscriber("a"), third.subscriber("a", on_full="drop_oldest")
            pub.wait_matched(3, timeout=TIMEOUT)
            for _ in range(100):
                pub.put((b"%08d" % number).ljust(1000), timeout=TIMEOUT)
                number += 1
            while int(bytes(sub.recv(TIMEOUT))[:8]) != number - 1:
                pass
            assert another.recv(TIMEOUT)
            assert session.wait_event("disconnected", timeout=TIMEOUT).peer == name
            reader.signal(signal.SIGCONT)
            session.wait_event("connected", "reconnected", timeout=TIMEOUT)
            assert session.wait(TIMEOUT, lambda: name in pub.matched)
            pub.put(b"%08d" % number, timeout=TIMEOUT)
            got = [int(reader.line())]
            while got[-1] != number:
                got.append(int(reader.line()))
            assert got == sorted(set(got))
            assert 20 in got


@WAYS
def test_drops_as_asked(shared: bool) -> None:  # noqa: FBT001
    """A reader that wants the newest alone would hold its writer up, or not say what it has missed."""
    settings: dict[str, Any] = {"group": group(), "shared_memory": shared}
    with pyddsi.open(**settings) as session, pyddsi.open(**settings) as other:
        sub = other.subscriber("a", depth=8, on_full="drop_oldest")
        pub = session.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        for number in range(5000):
            pub.put(b"%08d" % number, timeout=TIMEOUT)
        got: list[int] = []
        while not got or got[-1] != 4999:
            got += [int(bytes(one.data)) for one in sub.recv_many(timeout=TIMEOUT)]
        assert got == sorted(set(got))
        assert len(got) + dropped(other, "ring", "overwritten") == 5000


# ---- a system that gives no more ---------------------------------------------------------------------------------


def answers(program: str, *command: str) -> list[Any]:
    """What a program in a process of its own says."""
    head = """
        import json, os, resource
        import pyddsi
        from tests.api.rooms import TIMEOUT, group
        settings = dict(group=group())
        def files():
            return len(os.listdir("/proc/self/fd"))
        def limit(what, number):
            resource.setrlimit(what, (number, resource.getrlimit(what)[1]))
        def talk(**more):
            with pyddsi.open(**settings, **more) as one, pyddsi.open(**settings, **more) as other:
                sub, pub = other.subscriber("a"), one.publisher("a")
                pub.wait_matched(timeout=TIMEOUT)
                for number in range(100):
                    pub.put(b"%d" % number, timeout=TIMEOUT)
                assert [int(bytes(sub.recv(TIMEOUT))) for _ in range(100)] == list(range(100))
                return one.counts()
        def say(*words):
            print(json.dumps(words[0] if len(words) == 1 else words), flush=True)
    """
    text = textwrap.dedent(head) + textwrap.dedent(program)
    found = subprocess.run(
        [*command, sys.executable, "-W", "error", "-c", text],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_no_more_files() -> None:
    """With each number of files that a process may open it would fail without saying why, or keep some of them."""
    program = """
        talk()  # what is loaded later needs files, too
        before, usual = files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        for more in range(2, 40):
            limit(resource.RLIMIT_NOFILE, before + more)
            try:
                talk()
                word = "fine"
            except pyddsi.OpenError as error:
                word = str(error)
            limit(resource.RLIMIT_NOFILE, usual)
            say(word, files() - before)
    """
    found = answers(program)
    assert len(found) == 38
    assert found[-1][0] == "fine"
    refused = [word for word, _ in found if word != "fine"]
    assert refused
    assert all("(ulimit -n)" in word for word in refused)
    assert {more for _, more in found} == {0}


def test_closed_is_closed() -> None:
    """A session that was closed, and is still looked at, would keep its sockets from the next one."""
    where, files = group(), open_files()
    kept = [pyddsi.open(group=where) for _ in range(5)]
    for one in kept:
        one.publisher("a")
        one.close()
    assert open_files() - files <= 2 * len(kept)  # memory that peers may still map
    assert [one.stats().accepted for one in kept] == [0] * 5
    del one
    kept.clear()
    assert open_files() == files


def test_no_shared_memory() -> None:
    """Where no shared memory is to be had, or none large enough, samples would not come by sockets, or nobody would know."""
    program = """
        counts = talk()
        say(counts["lane_refused"])
        for most in (0, 4096, 100_000):
            limit(resource.RLIMIT_FSIZE, most)
            counts = talk()
            say(counts["lane_put"], counts["lane_refused"] > 0)
    """
    assert answers(program) == [0, [0, True], [0, True], [0, True]]


def test_no_memory() -> None:
    """Where memory is limited a session would fail by a crash, or without saying what would need less."""
    program = """
        talk()  # what is loaded later needs memory, too
        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        for most in (0, 1 << 16, 1 << 20, 1 << 24, 1 << 27):
            limit(resource.RLIMIT_AS, size + most)
            try:
                pyddsi.open(**settings).close()
                word = "fine"
            except (MemoryError, pyddsi.OpenError) as error:
                word = str(error)
            limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
            say(word)
        talk()
    """
    found = answers(program)
    assert len(found) == 5
    assert all("memory" in word or "thread" in word or word == "fine" for word in found), found


def test_no_route() -> None:
    """Without any network the error would not say so; with the loopback alone nobody could talk on this machine."""
    program = """
        try:
            pyddsi.open(**settings)
        except pyddsi.OpenError as error:
            say(str(error))
        os.system("ip link set lo up")
        say(talk(shared_memory=False)["send_failed"])
    """
    alone = ("unshare", "--user", "--map-root-user", "--net")
    if subprocess.run([*alone, "ip", "link"], capture_output=True, check=False).returncode != 0:
        # Whoever may not make a network without a route can still ask for one that is not there.
        with pytest.raises(pyddsi.OpenError, match="nothing9"):
            pyddsi.open(group=group(), interface="nothing9")
        return
    refused, failed = answers(program, *alone)
    assert refused.startswith("no multicast route to 239.255.")
    assert "ip link set lo up" in refused
    assert failed == 0


def test_group_port_in_use() -> None:
    """A group's port that another program keeps for itself would not be named."""
    where = group()
    port = int(where.rpartition(":")[2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", port))
        files = open_files()
        with pytest.raises(pyddsi.OpenError, match=rf"UDP port {port} of the group .* is in use"):
            pyddsi.open(group=where)
        assert open_files() == files
    pyddsi.open(group=where).close()


def test_interface_that_is_not_there() -> None:
    """A wrong interface would not be named with those that there are."""
    for wrong in ("nothing9", "198.51.100.7"):
        with pytest.raises(pyddsi.OpenError, match=rf"{wrong}.*lo"):
            pyddsi.open(group=group(), interface=wrong)
