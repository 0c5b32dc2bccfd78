"""What a session receives of several others at once: nothing is lost, and nothing comes in another order."""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from contextlib import ExitStack
from typing import Any

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group

WRITERS, COUNT = 4, 3000


@pytest.mark.parametrize("way", ["udp", "tcp", "large packets"])
def test_several_publishers(way: str) -> None:
    """Samples of several publishers would be lost, come twice or out of order."""
    settings: dict[str, Any] = {"group": group(), "shared_memory": False}
    where: dict[str, Any] = {}
    if way == "tcp":
        settings["group"], where["listen"] = "", ["tcp/127.0.0.1:0"]
    elif way == "large packets":
        settings["packet_max"] = 9000
    with ExitStack() as stack:
        other = stack.enter_context(pyddsi.open(**where, **settings))
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
        assert other.counts()["received"] > 0


def test_more_threads_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """002-80: a setting that has no effect any more would be refused before anybody was told, or be taken without a word."""
    with pytest.warns(FutureWarning, match="receive_threads=3 has no effect") as told:
        config = pyddsi.Config(receive_threads=3)
    assert told[0].filename == __file__
    assert config.receive_threads == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pyddsi.Config(receive_threads=1) == pyddsi.Config()
    monkeypatch.setenv("PYDDSI_RECEIVE_THREADS", "2")
    with pytest.warns(FutureWarning, match="one receive thread"), pyddsi.open(group=group()) as one:
        assert one.config.receive_threads == 2
