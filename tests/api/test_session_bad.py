"""What goes wrong with a session: each error says what was wrong, where, and what would be right."""

import gc
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, two


def test_closed() -> None:
    """After the end everything is refused, and the books can still be read."""
    session = pyddsi.open(group=group())
    pub, sub = session.publisher("a"), session.subscriber("a")
    session.close()
    session.close()
    calls: list[Callable[[], Any]] = [
        lambda: pub.put(b""),
        lambda: pub.put_many([b""]),
        lambda: pub.put_array(b"ab"),
        lambda: pub.loan(1).__enter__(),
        lambda: sub.recv(0),
        lambda: sub.recv_many(timeout=0),
        lambda: sub.recv_array(timeout=0),
        sub.poll,
        lambda: session.publisher("b"),
        lambda: session.put("b", b""),
        session.peers,
        session.flush,
        session.fileno,
    ]
    for call in calls:
        with pytest.raises(pyddsi.ClosedError, match=f"session {session.name} is closed"):
            call()
    assert list(sub) == []
    assert session.stats().accepted == 0
    assert session.drops() == []
    assert "closed" in repr(session)
    assert session.why_not("a") == f"session {session.name} is closed."


def test_closed_publisher_and_subscriber() -> None:
    """A closed publisher or subscriber says that it was closed itself."""
    with pyddsi.open(group=group()) as session:
        with session.publisher("a") as pub, session.subscriber("a") as sub:
            pass
        with pytest.raises(pyddsi.ClosedError, match=r"publisher 'a' of session .* is closed"):
            pub.put(b"")
        with pytest.raises(pyddsi.ClosedError, match=r"subscriber 'a' of session .* is closed"):
            sub.recv()
        assert list(sub) == []


def test_closing_wakes_a_reader() -> None:
    """A thread that waits for a sample is told of the end at once."""
    session = pyddsi.open(group=group())
    sub = session.subscriber("a")
    found: list[Any] = []

    def read() -> None:
        found.extend(sub)
        try:
            sub.recv()
        except pyddsi.ClosedError as error:
            found.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    session.close()
    thread.join(TIMEOUT)
    assert [type(one) for one in found] == [pyddsi.ClosedError]


def test_timeouts() -> None:
    """Every wait that takes too long raises TimeoutError, which names what did not happen."""
    with pyddsi.open(group=group()) as session:
        pub, sub = session.publisher("plant/a"), session.subscriber("plant/b")
        with pytest.raises(TimeoutError, match=r"subscriber 'plant/b'.* no sample came within 0.0"):
            sub.recv(timeout=0)
        with pytest.raises(TimeoutError):
            sub.recv_many(timeout=0.001)
        with pytest.raises(TimeoutError, match=r"0 of 1 peers subscribe after .* There is no peer"):
            pub.wait_matched(timeout=0.01)
        assert sub.poll() is None


def test_a_full_window() -> None:
    """A publisher whose reader does not read waits, then says who it is that does not."""
    with two(shared_memory=False, window_bytes=4096) as (one, other):
        other.subscriber("a", depth=1)
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        with suppress(TimeoutError):
            while pub.put(bytes(1000), timeout=1.0):
                pass  # the one that is read makes room again
        with pytest.raises(TimeoutError, match=rf"its window is full .*{other.name}"):
            pub.put(bytes(1000), timeout=0.01)
        with pytest.raises(TimeoutError) as caught:
            pub.put_many([bytes(1000)] * 8, timeout=0.01)
        assert caught.value.taken == 0  # type: ignore[attr-defined]
        assert pub.put_many([bytes(1000)] * 8, wait=False) == 0
        other.close()


@pytest.mark.parametrize("data", ["text", 7, None, [1, 2]])
def test_no_sample(data: Any) -> None:
    """What is no buffer cannot be put."""
    with pyddsi.open(group=group()) as session:
        pub = session.publisher("a")
        kind = type(data).__name__
        with pytest.raises(TypeError, match=f"a sample is bytes, or another buffer, not {kind}"):
            pub.put(data)
        with pytest.raises(TypeError, match=f"a sample is bytes, or another buffer, not {kind}"):
            pub.put_many([b"", data])
        with pytest.raises(TypeError, match=f"a sample is bytes, or another buffer, not {kind}"):
            session.put("a", data)


def test_arguments() -> None:
    """Wrong arguments of the hot calls are named."""
    with pyddsi.open(group=group()) as opened:
        session: Any = opened  # what is wrong on purpose is no business of the type checker
        pub, sub = session.publisher("a"), session.subscriber("a")
        wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
            (pub.put, TypeError, "put() takes one argument"),
            (lambda: pub.put(b"", b""), TypeError, "not 2 arguments"),
            (lambda: pub.put(b"", tmeout=1), TypeError, "no keyword 'tmeout'"),
            (lambda: pub.put(b"", timeout="1"), TypeError, "a number of seconds"),
            (lambda: pub.put(b"", timeout=-1), ValueError, "from 0 to 1000000000 seconds"),
            (lambda: pub.put(b"", timeout=float("nan")), ValueError, "from 0 to"),
            (lambda: pub.put(b"", timeout=True), TypeError, "a number of seconds"),
            (lambda: pub.put_many(b"abc"), TypeError, "a list of samples"),
            (lambda: pub.put_many(7), TypeError, "not iterable"),
            (lambda: pub.put_array(np.float32(1)), ValueError, "at least one dimension"),
            (lambda: pub.loan(-1), ValueError, "0 bytes or more"),
            (lambda: pub.loan("8"), TypeError, "a number of bytes"),
            (lambda: sub.recv(1, 2), TypeError, "a timeout and nothing else"),
            (lambda: sub.recv_many(0), ValueError, "1 or more, not 0"),
            (lambda: sub.callback(7), TypeError, "called with a sample"),
            (lambda: session.publisher(0), ValueError, "from 1 to 36028797018963967"),
            (lambda: session.publisher(2**55), ValueError, "is from 1 to"),
            (lambda: session.publisher("a b"), pyddsi.InvalidNameError, "character 2"),
            (lambda: session.publisher("a", way="both"), ValueError, "way cannot be 'both'"),
            (lambda: session.subscriber("a", depth=0), ValueError, "depth is from 1"),
            (lambda: session.subscriber("a", on_full="drop"), ValueError, "on_full cannot be"),
            (lambda: session.close(-1), ValueError, "timeout is from 0"),
        ]
        for call, kind, message in wrong:
            with pytest.raises(kind) as caught:
                call()
            assert message in str(caught.value)


def test_conflict() -> None:
    """One number for two names is refused with both names."""
    with pyddsi.open(group=group()) as session:
        session.resource("a", number=5)
        with pytest.raises(pyddsi.ConflictError) as caught:
            session.resource("b", number=5)
        assert caught.value.number == 5
        assert "'a'" in str(caught.value)


def test_port_in_use() -> None:
    """A port that another program has is named."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
        with pytest.raises(pyddsi.OpenError, match=str(port)):
            pyddsi.open(group=group(), listen=[f"udp/0.0.0.0:{port}"])


def test_missing_interface() -> None:
    """An interface that is not there is named."""
    with pytest.raises(pyddsi.OpenError, match="nothing9"):
        pyddsi.open(group=group(), interface="nothing9")


def in_child(session: pyddsi.Session, pub: Any, answers: Any) -> None:
    """What a forked process finds."""
    found = []
    for call in (lambda: pub.put(b""), session.peers, lambda: session.publisher("b")):
        try:
            call()
        except pyddsi.ClosedError as error:
            found.append(str(error))
    answers.put((session.closed, found))


def test_fork() -> None:
    """After fork a session in the child refuses every call; the parent's goes on."""
    with two() as (one, other):
        sub = other.subscriber("a")
        pub = one.publisher("a")
        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()
        child = context.Process(target=in_child, args=(one, pub, answers))
        child.start()
        closed, found = answers.get()
        child.join()
        assert child.exitcode == 0
        assert closed
        assert len(found) == 3
        assert all(f"belongs to process {os.getpid()}" in text for text in found)
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(b"still here")
        assert bytes(sub.recv(TIMEOUT)) == b"still here"


def test_left_open() -> None:
    """A session that nobody closed says so, with what it had; and it is closed."""
    session = pyddsi.open(group=group())
    session.publisher("plant/pose")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del session
        gc.collect()
    (warning,) = [one for one in caught if one.category is ResourceWarning]
    assert "publisher 'plant/pose'" in str(warning.message)
    assert "was not closed" in str(warning.message)


FULL = ["pub.put(bytes(1000), timeout=60)", "pub.put_many([bytes(1000)] * 9, timeout=60)"]
FULL += ["pub.loan(1000, timeout=60).__enter__()"]


@pytest.mark.parametrize("wait", FULL)
def test_interrupt_of_a_publisher(wait: str) -> None:
    """Ctrl-C ends a wait for room."""
    program = f"""
        import pyddsi, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        settings = dict(group={group()!r}, shared_memory=False, window_bytes=4096)
        with pyddsi.open(**settings) as session, pyddsi.open(**settings) as other:
            other.subscriber("a", depth=1)
            pub = session.publisher("a")
            pub.wait_matched(timeout=60)
            try:
                while pub.put(bytes(1000), timeout=1.0):
                    pass  # until the window is full and stays so: the one that is read makes room again
            except TimeoutError:
                pass
            try:
                print("ready", flush=True)
                {wait}
            except KeyboardInterrupt:
                print("interrupted")
            other.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == "interrupted\n"
    assert child.returncode == 0


WAITS = ["sub.recv()", "sub.recv_many()", "next(sub)", "pub.wait_matched(timeout=60)"]


@pytest.mark.parametrize("wait", WAITS)
def test_interrupt(wait: str) -> None:
    """Ctrl-C ends every wait."""
    program = f"""
        import pyddsi, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pyddsi.open(group={group()!r}) as session:
            pub, sub = session.publisher("a"), session.subscriber("b")
            try:
                print("ready", flush=True)
                {wait}
            except KeyboardInterrupt:
                print("interrupted")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == "interrupted\n"
    assert child.returncode == 0
