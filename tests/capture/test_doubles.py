"""Datagrams that were captured twice, and those that only look so."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from pyddsi import capture, wire
from pyddsi.capture.info import Info
from tests.capture.traffic import BEGIN, GROUP, opening, peer
from tests.py import make_capture as make

V6 = (("fe80::a", 40000), ("ff02::7447", 7447))
COUNT = 500
APART_NS = 200_000


def frame(data: bytes, identity: int, *, v6: bool = False, hops: int = 0) -> bytes:
    """A frame with a datagram to the group."""
    if v6:
        return make.ethernet(make.ipv6(make.udp(data, V6), ways=V6))
    ways = peer(0), GROUP
    ip = bytearray(make.ipv4(make.udp(data, ways), ways=ways, identity=identity))
    ip[8] -= hops
    return make.ethernet(bytes(ip))


def written(path: Path, frames: list[bytes]) -> Path:
    """A capture of these frames, a fifth of a millisecond apart, behind the beginning of a session."""
    first = [
        make.ethernet(make.ipv4(make.udp(data, (source, target)), ways=(source, target)))
        for source, target, data in opening(0, 14, 1)
    ]
    out = [struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)]
    for number, one in enumerate([*first, *frames]):
        seconds, rest = divmod(BEGIN + number * APART_NS, 10**9)
        out.append(struct.pack("<IIII", seconds, rest, len(one), len(one)) + one)
    path.write_bytes(b"".join(out))
    return path


def sample(number: int, data: bytes = b"v") -> bytes:
    """A packet with a sample."""
    return wire.encode([wire.SData(number, 1, data, reliable=True)])


def read(path: Path) -> tuple[Info, Info]:
    """What is in it, with copies and without."""
    return capture.open(path).info(), capture.open(path, dedupe=True).info()


def kinds(info: Info) -> set[str]:
    """Of its findings."""
    return {finding.kind for finding in info.findings}


@pytest.mark.parametrize("how", [{"v6": True}, {}])
@pytest.mark.parametrize("size", [1, 60, 200])
def test_different_ones(how: dict[str, Any], size: int, tmp_path: Path) -> None:
    """Datagrams that differ would be taken for copies, and be gone: small ones, and those that differ at their end."""
    frames = [frame(sample(0, bytes(size) + bytes([n % 251])), 0, **how) for n in range(COUNT)]
    numbered = [frame(sample(n), 0, **how) for n in range(COUNT)]
    for given in (frames, numbered):
        whole, without = read(written(tmp_path / "run.pcap", given))
        assert whole.kinds["SDATA"] == without.kinds["SDATA"] == COUNT
        assert not kinds(whole) & {"doubles"}


@pytest.mark.parametrize("how", [{"v6": True}, {}, {"identity": 1}])
def test_repeats(how: dict[str, Any], tmp_path: Path) -> None:
    """What a sender repeats at once would be deleted as a copy."""
    v6, identity = bool(how.get("v6")), int(how.get("identity", 0))
    frames = [
        frame(sample(n), identity * (2 * n + again + 1), v6=v6)
        for n in range(COUNT)
        for again in (0, 1)
    ]
    whole, without = read(written(tmp_path / "run.pcap", frames))
    assert whole.repeats == without.repeats == COUNT
    assert "doubles" not in kinds(whole)


@pytest.mark.parametrize("how", ["identity", "hops"])
def test_copies(how: str, tmp_path: Path) -> None:
    """Copies of a mirrored port, or from before and behind a router, would count as repeats with --dedupe."""
    frames = [
        frame(sample(n), 1 + n if how == "identity" else 0, hops=again * (how == "hops"))
        for n in range(COUNT)
        for again in (0, 1)
    ]
    whole, without = read(written(tmp_path / "run.pcap", frames))
    assert (whole.repeats, without.repeats) == (COUNT, 0)
    assert "doubles" in kinds(whole)
    assert without.kinds["SDATA"] == COUNT
