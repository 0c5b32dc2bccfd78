"""A session that receives by several threads: nothing is lost, and nothing comes in another order."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import ExitStack
from typing import Any

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group

THREADS, WRITERS, COUNT = 3, 4, 3000


@pytest.mark.parametrize("way", ["udp", "tcp", "large packets"])
def test_several_publishers(way: str) -> None:
    """002-80: samples of several publishers would be lost, come twice or out of order, or one thread would do everything."""
    settings: dict[str, Any] = {"group": group(), "shared_memory": False}
    where: dict[str, Any] = {}
    if way == "tcp":
        settings["group"], where["listen"] = "", ["tcp/127.0.0.1:0"]
    elif way == "large packets":
        settings["packet_max"] = 9000
    with ExitStack() as stack:
        other = stack.enter_context(pyddsi.open(receive_threads=THREADS, **where, **settings))
        sub = other.subscriber("a", depth=4096)
        if way == "tcp":
            settings["peers"] = [str(other.listening[0])]
        ones = [stack.enter_context(pyddsi.open(**settings)) for _ in range(WRITERS)]
        pubs = [one.publisher("a") for one in ones]
        for pub in pubs:
            pub.wait_matched(timeout=TIMEOUT)

        def write(which: int) -> None:
            for number in range(COUNT):
                pubs[which].put((b"%d %d" % (which, number)).ljust(200), timeout=TIMEOUT)

        writers = [threading.Thread(target=write, args=(i,)) for i in range(WRITERS)]
        for writer in writers:
            writer.start()
        came: dict[int, list[int]] = defaultdict(list)
        for _ in range(WRITERS * COUNT):
            which, number = map(int, bytes(sub.recv(timeout=TIMEOUT).data).split())
            came[which].append(number)
        for writer in writers:
            writer.join()
        assert came == {which: list(range(COUNT)) for which in range(WRITERS)}
        counts = other.counts()
        assert counts["receive_threads"] == THREADS
        took = [counts[f"received_{i + 1}"] for i in range(THREADS)]
        assert f"received_{THREADS + 1}" not in counts
        assert sum(took) > 0
        labels = [one.labels["thread"] for one in other.metrics() if "received" in one.name]
        assert labels == ["1", "2", "3"]


def test_one_is_enough() -> None:
    """A session would begin with more threads than it was told to."""
    with pyddsi.open(pyddsi.Config(group=group())) as one:
        names = [name for name in one.counts() if name.startswith("received_")]
        assert names == ["received_1"]
        assert one.counts()["receive_threads"] == one.config.receive_threads == 1
