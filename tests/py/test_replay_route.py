"""Where replayed packets go, and where they come from."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyddsi.capture import Endpoint
from pyddsi.capture.replay import (
    RawReplay,
    Route,
)
from tests.api.rooms import group
from tests.py.replayed import (
    GROUP,
    MAX,
    ONE,
    SECOND,
    TIMEOUT,
    TWO,
    made,
    receiver,
    refused,
    rows,
    sample,
)


def test_senders_are_mapped(tmp_path: Path) -> None:
    """A receiver would see other addresses than those that it was told to."""
    mapping = {"10.0.0.0/8": "127.0.0.0/8"}
    taken = Counter[tuple[str, int]]()
    with receiver() as one, receiver(socket.AF_INET, "127.0.0.9") as two:
        ports = {40000: _free("127.0.0.1"), 40001: _free("127.0.0.2"), 7447: two.address[1]}
        to = Endpoint("10.0.0.9", 7447)
        recording = made(tmp_path / "x.pcap", rows(3, target=to) + rows(2, source=TWO, target=to))
        report = RawReplay(recording, MAX, Route(maps=mapping, ports=ports)).run()
        taken.update(source for _, source, _ in two.take(5))
        assert not one.take(0)
    assert taken == {("127.0.0.1", ports[40000]): 3, ("127.0.0.2", ports[40001]): 2}
    assert report.senders == {
        str(ONE): f"127.0.0.1:{ports[40000]}",
        str(TWO): f"127.0.0.2:{ports[40001]}",
    }


def _free(host: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def test_group(tmp_path: Path) -> None:
    """What went to a group would not reach it, or leave by another interface than the one named."""
    address, _, port = group().partition(":")
    recording = made(tmp_path / "x.pcap", rows(5))
    route = Route(maps={"239.255.0.1": address}, ports={7447: int(port)}, interface="lo")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(TIMEOUT)
        one.bind((address, int(port)))
        joined = socket.inet_aton(address) + socket.inet_aton("127.0.0.1")
        one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        for interface in ("lo", "127.0.0.1"):
            route.interface = interface
            RawReplay(recording, MAX, route).run()
            got = [one.recvfrom(65536) for _ in range(5)]
            assert [data for data, _ in got] == [sample(i) for i in range(5)]
            assert {source[0] for _, source in got} == {"127.0.0.1"}


def test_ipv6(tmp_path: Path) -> None:
    """IPv6 would not be replayed, or not told apart."""
    source, target = Endpoint("fd00::1", 40000), Endpoint("fd00::2", 7447)
    recording = made(tmp_path / "x.pcap", rows(4, source=source, target=target))
    with receiver(socket.AF_INET6, "::1") as one:
        ports = {7447: one.address[1]}
        report = RawReplay(
            recording,
            MAX,
            Route(maps={"fd00::/64": "::1"}, ports=ports | {40000: _free("127.0.0.1")}),
        ).run()
        assert [data for data, _, _ in one.take(4)] == [sample(i) for i in range(4)]
    assert next(iter(report.senders.values())).startswith("[::1]:")
    with receiver() as one:  # the family is that of whom it goes to
        RawReplay(recording, MAX, Route(to=one.address)).run()
        assert len(one.take(4)) == 4


def test_route_of_addresses() -> None:
    """An address would lose its host, or a group be sent elsewhere though nobody said so."""
    route = Route(maps={"10.1.0.0/16": "127.9.0.0/16", "10.0.0.0/8": "192.0.2.7"}, ports={1: 2})
    assert route.target(Endpoint("10.1.2.3", 1)) == ("127.9.2.3", 2)
    assert route.target(Endpoint("10.2.2.3", 3)) == ("192.0.2.7", 3)
    assert route.target(GROUP) == GROUP
    assert route.source(GROUP) is None
    assert route.source(Endpoint("10.1.2.3", 1)) == ("127.9.2.3", 2)
    assert Route(to=("127.0.0.1", 9)).target(GROUP) == ("127.0.0.1", 9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"maps": {"10.0.0.0/8": "127.0.0.0/16"}},
            "127.0.0.0/16 has no room for all addresses of 10.0.0.0/8",
        ),
        (
            {"maps": {"10.0.0.1/8": "127.0.0.0/8"}},
            "has host bits set; a network is such as 10.0.0.0/8",
        ),
        ({"maps": {"x": "127.0.0.0/8"}}, "map x=127.0.0.0/8: 'x' does not appear to be"),
        ({"ports": {0: 1}}, "a port is from 1 to 65535, not 0"),
        ({"to": ("127.0.0.1", 0)}, "the port of to is from 1"),
        ({"to": ("somewhere", 1)}, "'somewhere' does not appear to be"),
    ],
)
def test_wrong_route(settings: dict[str, Any], words: str) -> None:
    """Addresses that cannot be exchanged would be exchanged for others."""
    with pytest.raises(ValueError, match=words):
        Route(**settings)


def test_no_way(tmp_path: Path) -> None:
    """What cannot be sent as it is asked for would be told packet by packet, or only by a number at the end."""
    recording = made(tmp_path / "x.pcap", rows(3))
    said = refused(recording, Route(maps={"10.0.0.0/8": "198.51.100.1"}))
    assert (
        "10.0.0.1:40000 is to send from 198.51.100.1, which is no address of this machine" in said
    )
    said = refused(recording, Route(maps={"10.0.0.0/8": "::1"}))
    assert "to an address of the other family; map both to the same" in said
    said = refused(recording, Route(to=("127.0.0.1", 9), interface="none0"))
    assert said.startswith("there is no interface 'none0'; there are ")
    with receiver(socket.AF_INET, "127.0.0.1") as one:
        said = refused(
            recording, Route(maps={"10.0.0.1": "127.0.0.1"}, ports={40000: one.address[1]})
        )
        assert (
            f"is to send from 127.0.0.1:{one.address[1]}, which is in use; map its port to another"
            in said
        )
    far = made(tmp_path / "y.pcap", rows(3, target=Endpoint("203.0.113.1", 7447)))
    said = refused(
        far, Route(maps={"10.0.0.0/8": "127.0.0.1"})
    )  # what has the address of lo leaves by lo alone
    assert said.startswith("there is no way to 203.0.113.1:7447: ")
    assert said.endswith("map its network to one of this machine, or say where everything is to go")


def test_too_many_senders(tmp_path: Path) -> None:
    """A capture of a large network would use up all descriptors, and say so by an error of the system."""
    many = [Endpoint(f"10.0.{i // 200}.{i % 200 + 1}", 40000) for i in range(1030)]
    recording = made(
        tmp_path / "x.pcap", [(SECOND + i, one, GROUP, sample(i)) for i, one in enumerate(many)]
    )
    assert "socket" in refused(recording, Route(to=("127.0.0.1", 9)))
