"""
Sessions on real sockets against stand-ins for zhe that were built with other lengths of sequence numbers, by UDP and TCP.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.rooms import TIMEOUT
from tests.real.test_zhe_tcp import (
    COUNT,
    INTO,
    OUT,
    P2P,
    address,
    ending,
    meeting,
    session,
    talk,
    zhe_of,
)
from tests.real.zhe_config import CONFIGS, over_tcp
from tests.real.zhe_tcp import Tcp
from tests.real.zhe_udp import Udp, drive


@pytest.mark.parametrize("bits", [7, 14, 28, 56])
@pytest.mark.parametrize("way", ["group", "zhe connects", "we connect"])
def test_lengths(bits: int, way: str) -> None:
    """
    002-128: a zhe with sequence numbers of another length is not joined, or a sample is lost where the numbers wrap round: with 7
    bits those of both, with more those of the zhe, which begins short of that.
    """
    room, scouting = meeting()
    most = min(P2P.multicast_samples, (1 << (bits - 1)) - 1)
    config = CONFIGS["p2p"].changed(seq_bits=bits, multicast_samples=most, scout_ms=100)
    config = config.changed(scouting=scouting) if way == "group" else over_tcp(config)
    zhe = zhe_of(config, begin=(1 << bits) - COUNT)
    settings: dict[str, Any] = {"listen": ["tcp/127.0.0.1:0"]}
    with ending(Udp(zhe) if way == "group" else Tcp(zhe, port=0)) as end:
        if way == "group":
            settings = {"group": room, "interface": "lo"}
        elif isinstance(end, Tcp) and way == "we connect":
            settings = {"peers": [f"tcp/127.0.0.1:{end.address[1]}"]}
        with session(**settings) as one:
            if isinstance(end, Tcp) and way == "zhe connects":
                end.later[address(one)] = 0.0
            talk(one, end, 3 * COUNT)
            assert one.publisher(INTO).wait_matched(timeout=TIMEOUT)
            # it refuses an OPEN of 14 bits at most until its own has told the length
            assert bits != 14 or not zhe.violations


def test_two_lengths() -> None:
    """002-128: of two zhes of one group whose numbers have two lengths the second is joined, or refused without a word."""
    room, scouting = meeting()
    config = CONFIGS["p2p"].changed(scouting=scouting, scout_ms=100)
    with (
        session(group=room, interface="lo") as one,
        ending(Udp(zhe_of(config))) as first,
    ):
        talk(one, first)
        long = config.changed(seq_bits=28, unicast=None, multicasts=3)
        with ending(Udp(zhe_of(long, b"\xb0"))) as second:

            def refused() -> bool:
                return [(two.name, two.reason) for two in one.refusals()] == [("b0", "length")]

            drive([first, second], refused, TIMEOUT)  # type: ignore[list-item]
            assert "sequence numbers of another length" in one.why_not(OUT)
            assert [peer.name for peer in one.peers()] == [first.zhe.id.hex()]
        talk(one, first)
