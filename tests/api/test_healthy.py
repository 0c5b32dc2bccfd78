"""Recordings of sessions that lose nothing, each way that they reach each other by: nothing is found in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import pyddsi
from pyddsi import capture
from tests.api.rooms import TIMEOUT, group

RUNS = int(os.environ.get("PDI_RUNS", "1"))  # of each way; the long run has 50
COUNT = 50


def ways(kind: str, folder: Path) -> tuple[dict[str, Any], bool]:
    """The settings of both sessions, but for where the first listens; and whether samples go by shared memory."""
    if kind in {"udp", "shared memory"}:
        return {"group": group(), "shared_memory": kind != "udp"}, kind != "udp"
    listen = "tcp/127.0.0.1:0" if kind == "tcp" else f"unix/{folder}/s"
    return {"group": "", "shared_memory": False, "listen": (listen,)}, False


@pytest.mark.parametrize("kind", ["udp", "tcp", "unix", "shared memory"])
@pytest.mark.parametrize("run", range(RUNS))
def test_nothing_is_found(kind: str, run: int, tmp_path: Path) -> None:
    """A user whose sessions lose nothing would be told of losses, in the first recording that is looked at."""
    settings, shared = ways(kind, tmp_path)
    path = tmp_path / f"{run}.pcapng"
    with pyddsi.open(record=path, **settings) as one:
        peers = {} if settings["group"] else {"listen": (), "peers": (str(one.listening[0]),)}
        with (
            pyddsi.open(**settings | peers) as two,
            two.subscriber("plant/**", depth=COUNT) as sub,
            one.publisher("plant/a") as pub,
            two.publisher("back/b", reliable=False) as back,
            one.subscriber("back/**", depth=COUNT) as heard,
        ):
            pub.wait_matched(timeout=TIMEOUT)
            back.wait_matched(timeout=TIMEOUT)
            if shared:
                assert one.wait(TIMEOUT, lambda: one.counts()["lane_readers"])
            for number in range(COUNT):
                pub.put(b"%d" % number, timeout=TIMEOUT)
                assert sub.recv(timeout=TIMEOUT).data == b"%d" % number
                back.put(b"%d" % number)
                assert heard.recv(timeout=TIMEOUT).data == b"%d" % number
    info = capture.open(path).info()
    assert info.messages > COUNT
    # where the machine is busy with something else, answers come late, and that is said
    assert [finding.text for finding in info.findings if finding.kind != "stall"] == []
    assert (info.repeats, info.missing, info.gaps) == (0, 0, 0)
