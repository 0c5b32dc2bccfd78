"""Samples larger than the windows: what can be done while one is on its way."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from tests.api.rooms import TIMEOUT, group, two

PATIENCE_S = 60


def test_interrupted() -> None:
    """Without it a program that waits in a put of a large sample could not be stopped with Ctrl-C."""
    program = """
        import sys, threading, signal
        import pyddsi
        signal.signal(signal.SIGINT, signal.default_int_handler)
        options = eval(sys.argv[1])
        with pyddsi.open(**options) as a, pyddsi.open(**options) as b:
            sub = b.subscriber("large", depth=1, on_full="wait")
            pub = a.publisher("large", reliable=True)
            pub.wait_matched(timeout=20)
            pub.put(bytes(2_000_000))  # the subscriber has no room for another
            out = a.stats().packets_out

            def interrupt():
                while a.stats().packets_out < out + 10:
                    pass
                signal.raise_signal(signal.SIGINT)

            thread = threading.Thread(target=interrupt, daemon=True)
            thread.start()
            try:
                pub.put(bytes(20_000_000), timeout=None)
            except KeyboardInterrupt:
                print("interrupted")
            thread.join()
            print(len(sub.recv(timeout=20).data))
            pub.put(b"and on it goes", timeout=20)
            print(bytes(sub.recv(timeout=20).data).decode())
    """
    options = repr(
        {"group": group(), "interface": "lo", "shared_memory": False, "window_bytes": 65536}
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["interrupted", "2000000", "and on it goes"], done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("size", [8192, 100_000, 1_000_000])
def test_batches_that_are_kept(size: int) -> None:
    """A batch that a program looks at until it has the next one would fill the shared window, and so keep that from coming."""
    count = 300
    with two() as (one, other):
        sub = other.subscriber("a", depth=1024)
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        one.wait(TIMEOUT, lambda: one.counts()["lane_readers"])
        pub.put(bytes(size))  # the window grows
        sub.recv(timeout=TIMEOUT)
        before = one.counts()["lane_put"]
        thread = threading.Thread(target=lambda: [pub.put(bytes(size)) for _ in range(count)])
        thread.start()
        got, largest = 0, 0
        while got < count:
            batch = sub.recv_many(timeout=TIMEOUT)
            got += len(batch)
            largest = max(largest, len(batch))
        thread.join()
        assert one.counts()["lane_put"] == before + count, "none had to take another way"
        assert largest * size <= 16 << 20


@pytest.mark.parametrize("way", ["shared", "sockets", "own"])
def test_the_limit_is_one(way: str) -> None:
    """What a publisher may put depends on where its reader is: 30 MiB fail by the network alone, or 2 MiB of best effort."""
    with two(shared_memory=way == "shared") as (one, other):
        reader = one if way == "own" else other
        sub, best = reader.subscriber("a"), reader.subscriber("b", reliable=False)
        pub, careless = one.publisher("a"), one.publisher("b", reliable=False)
        if way != "own":
            pub.wait_matched(timeout=TIMEOUT)
            careless.wait_matched(timeout=TIMEOUT)
        for _ in range(2):  # the second finds shared memory in use
            for small in (pub, careless):
                with pytest.raises(ValueError, match="too many pieces for packets of 1472 bytes"):
                    small.put(bytes(30 << 20))
                with pytest.raises(ValueError, match="too many pieces"):
                    small.put_many([bytes(30 << 20)])
                with pytest.raises(ValueError, match="too many pieces"), small.loan(30 << 20):
                    pass
            assert careless.put(bytes(2 << 20))
            assert pub.put(b"x")
            assert bytes(sub.recv(TIMEOUT)) == b"x"
        assert one.stats().accepted == 4
        if way != "sockets":  # there pieces may be lost
            assert best.recv(TIMEOUT).size == 2 << 20
