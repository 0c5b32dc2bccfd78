"""`pyddsi doctor`: that it is content with a good machine, and sees what is wrong with a bad one."""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pyddsi
from pyddsi.cli import _checks_host, _checks_way, doctor
from pyddsi.cli._checks import CHECKS
from pyddsi.cli._machine import Finding, Interface, Machine
from tests.cli.programs import Captured, group, run, started


def test_this_machine(capsys: Captured) -> None:
    """A machine on which sessions work, as the other tests show, would be told that they cannot."""
    assert run("doctor", "--group", group()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(
        f"{len([o for o in lines if o[:4] in {'ok  ', 'warn'}])} looks: nothing failed"
    )
    for name in ("route", "loopback", "port", "shared memory", "sessions", "clock", "company"):
        assert any(line.startswith(f"ok    {name} ") for line in lines), name
    assert run("doctor", "--group", group(), "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(set(one) == {"name", "level", "text", "mend"} for one in found)
    assert all(one["mend"] for one in found if one["level"] != "ok")


def test_failures_decide_the_status(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure would end with status 0, or its remedy not be shown."""

    def bad(_: Machine) -> Iterator[Finding]:
        yield Finding("thing", "fail", "it is broken", ("mend it",))
        yield Finding("other", "warn", "it is odd", ("see to it",))
        yield Finding("third", "ok", "it is well")

    monkeypatch.setattr(doctor, "CHECKS", (bad,))
    assert run("doctor", "--quiet") == 1
    assert capsys.readouterr().out == (
        f"fail  thing          it is broken\n{'':21}mend it\n"
        f"warn  other          it is odd\n{'':21}see to it\n"
        "3 looks: 1 failed, 1 warning\n"
    )


def test_interrupt() -> None:
    """Ctrl-C would end in a trace."""
    with started(group(), "doctor") as program:
        assert program.line().startswith("ok    software")
        assert program.interrupt()[0] == 130


class Fake(Machine):
    """A machine that is as a test says."""

    def __init__(
        self, root: Path, *, interfaces: list[Interface] | None = None, **settings: object
    ) -> None:
        super().__init__(pyddsi.Config(**settings), root)  # type: ignore[arg-type]
        self._interfaces = interfaces or []
        self.own: str | OSError = "10.0.0.1"
        self.heard: bool | OSError = True
        self.gives = 1 << 30

    def file(self, path: str, text: str) -> None:
        """A file of it."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def interfaces(self) -> list[Interface]:
        """Those of the test."""
        return self._interfaces

    def granted(self, option: int, wanted: int) -> int:
        """At most what the test says."""
        assert option in {socket.SO_RCVBUF, socket.SO_SNDBUF}
        return min(self.gives, wanted)

    def own_address(self) -> str:
        """The test's."""
        if isinstance(self.own, OSError):
            raise self.own
        return self.own

    def hears_itself(self) -> bool:
        """As the test says."""
        if isinstance(self.heard, OSError):
            raise self.heard
        return self.heard


ETH = Interface("eth0", "10.0.0.1", up=True, loopback=False, multicast=True, mtu=1500)
LO = Interface("lo", "127.0.0.1", up=True, loopback=True, multicast=False, mtu=65536)


def said(check: Callable[[Machine], Iterator[Finding]], machine: Machine) -> tuple[str, str]:
    """The worst that a check says, and what of it and of its remedies."""
    found = sorted(check(machine), key=lambda one: ["ok", "warn", "fail"].index(one.level))
    worst = found[-1] if found else Finding("", "ok", "")
    assert worst.mend or worst.level == "ok"
    return worst.level, " | ".join([worst.text, *worst.mend])


def test_interfaces(tmp_path: Path) -> None:
    """A machine without multicast would pass."""
    level, text = said(_checks_way.interfaces, Fake(tmp_path, interfaces=[LO, ETH]))
    assert (level, text) == ("ok", "eth0 10.0.0.1: up, multicast, MTU 1500")
    deaf = Interface("eth0", "10.0.0.1", up=True, loopback=False, multicast=False, mtu=1500)
    found = list(_checks_way.interfaces(Fake(tmp_path, interfaces=[LO, deaf])))
    assert [one.level for one in found] == ["warn", "warn"]
    assert found[0].mend == ("sudo ip link set dev eth0 multicast on",)
    assert "only sessions on this machine are found" in found[1].text


def test_route(tmp_path: Path) -> None:
    """No way to the group, or one that ends at loopback, would pass."""
    machine = Fake(tmp_path)
    assert said(_checks_way.route, machine)[0] == "ok"
    machine.own = "127.0.0.1"
    assert said(_checks_way.route, machine)[0] == "warn"
    machine.own = OSError(101, "Network is unreachable")
    level, text = said(_checks_way.route, machine)
    assert level == "fail"
    assert "Network is unreachable" in text
    down = Interface("eth9", None, up=False, loopback=False, multicast=True, mtu=1500)
    other = Fake(tmp_path, interfaces=[LO, down])
    other.own = "127.0.0.1"
    level, text = said(_checks_way.route, other)
    assert (level, "ip link set dev eth9 up" in text) == ("warn", True)
    assert "ip link set dev eth9 up" in said(_checks_way.interfaces, other)[1]
    second = Interface("wlan0", "10.9.0.1", up=True, loopback=False, multicast=True, mtu=1500)
    many = Fake(tmp_path, interfaces=[LO, ETH, second])
    assert said(_checks_way.route, many)[1].endswith("10.0.0.1 (eth0), and from 10.9.0.1 (wlan0)")
    named = Fake(tmp_path, interfaces=[LO, ETH, second], interface="eth0")
    assert said(_checks_way.route, named)[1].endswith("leave from 10.0.0.1 (eth0)")
    assert said(_checks_way.route, Fake(tmp_path, group=""))[0] == "ok"


def test_loopback(tmp_path: Path) -> None:
    """A machine that does not hear itself would pass."""
    machine = Fake(tmp_path)
    assert said(_checks_way.loopback, machine)[0] == "ok"
    machine.heard = False
    assert said(_checks_way.loopback, machine)[0] == "fail"
    machine.heard = OSError(1, "Operation not permitted")
    assert "Operation not permitted" in said(_checks_way.loopback, machine)[1]


def test_port() -> None:
    """A port that another program holds alone would pass, or that program not be named."""
    where = group()
    machine = Machine(pyddsi.Config(group=where))
    assert said(_checks_way.port, machine)[0] == "ok"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as alone:
        alone.bind(("", int(where.rpartition(":")[2])))
        level, text = said(_checks_way.port, machine)
    assert level == "fail"
    assert f"{os.getpid()} (" in text


def test_mtu(tmp_path: Path) -> None:
    """Packets that go in pieces would pass."""
    assert said(_checks_way.mtu, Fake(tmp_path, interfaces=[LO, ETH]))[0] == "ok"
    small = Interface("eth0", "10.0.0.1", up=True, loopback=False, multicast=True, mtu=1400)
    level, text = said(_checks_way.mtu, Fake(tmp_path, interfaces=[LO, small]))
    assert level == "warn"
    assert "export PYDDSI_PACKET_MAX=1372" in text
    fits = Fake(tmp_path, interfaces=[LO, small], packet_max=1372)
    assert said(_checks_way.mtu, fits)[0] == "ok"


def test_buffers(tmp_path: Path) -> None:
    """Buffers that are too small would pass, or the remedy not be enough."""
    machine = Fake(tmp_path, receive_buffer=1 << 20)
    assert said(_checks_way.buffers, machine)[0] == "ok"  # none can be read
    machine.gives = 4096
    assert "gets 4.0 KiB" in said(_checks_way.buffers, machine)[1]
    assert Machine(pyddsi.Config()).granted(socket.SO_RCVBUF, 8192) == 8192
    machine.file("proc/sys/net/core/rmem_max", "212992\n")
    machine.file("proc/sys/net/core/wmem_max", "1048576\n")
    levels = {one.name: one for one in _checks_way.buffers(machine)}
    assert levels["send buffer"].level == "ok"
    assert levels["receive buffer"].level == "warn"
    assert levels["receive buffer"].mend[0] == "sudo sysctl -w net.core.rmem_max=1048576"


def test_losses(tmp_path: Path) -> None:
    """Lost packets would go unnoticed, or a few of them be called many."""
    machine = Fake(tmp_path)
    assert said(_checks_way.losses, machine) == ("ok", "")
    for lost, level in ((0, "ok"), (9, "ok"), (11, "warn")):
        machine.file(
            "proc/net/snmp", f"Ip: A\nIp: 1\nUdp: InDatagrams RcvbufErrors\nUdp: 1000000 {lost}\n"
        )
        assert said(_checks_way.losses, machine)[0] == level


def test_firewall(tmp_path: Path) -> None:
    """A firewall would go unnoticed."""
    machine = Fake(tmp_path, interfaces=[LO, ETH])
    assert said(_checks_way.firewall, machine)[0] == "ok"
    machine.file("proc/net/ip_tables_names", "filter\n")
    assert "iptables -S INPUT" in said(_checks_way.firewall, machine)[1]
    machine.file("etc/ufw/ufw.conf", "# x\nENABLED=yes\n")
    assert "sudo ufw allow in proto udp to 239.255.0.1" in said(_checks_way.firewall, machine)[1]
    other = Fake(tmp_path / "other")
    (tmp_path / "other/run/firewalld").mkdir(parents=True)
    assert "firewall-cmd" in said(_checks_way.firewall, other)[1]


def test_reverse_path(tmp_path: Path) -> None:
    """Of two interfaces one would swallow packets without a word of why."""
    second = Interface("eth1", "10.1.0.1", up=True, loopback=False, multicast=True, mtu=1500)
    machine = Fake(tmp_path, interfaces=[LO, ETH, second])
    assert said(_checks_way.reverse_path, machine)[0] == "ok"
    machine.file("proc/sys/net/ipv4/conf/eth1/rp_filter", "1\n")
    level, text = said(_checks_way.reverse_path, machine)
    assert level == "warn"
    assert "net.ipv4.conf.eth1.rp_filter=2" in text


def test_groups_and_container(tmp_path: Path) -> None:
    """A system with too few groups, or a container, would pass for any other."""
    machine = Fake(tmp_path)
    assert said(_checks_way.groups, machine)[0] == "ok"
    machine.file("proc/sys/net/ipv4/igmp_max_memberships", "4\n")
    assert said(_checks_way.groups, machine)[0] == "warn"
    assert said(_checks_way.container, machine)[0] == "ok"
    machine = Fake(tmp_path, interfaces=[LO, ETH])
    machine.file(".dockerenv", "")
    machine.file("sys/class/net/eth0/ifindex", "2\n")
    machine.file("sys/class/net/eth0/iflink", "7\n")
    assert said(_checks_way.container, machine)[0] == "warn"
    assert "--network host" in said(_checks_way.container, machine)[1]
    assert "--pid host" in said(_checks_way.container, machine)[1]


def test_a_container_on_the_network_of_its_host(tmp_path: Path) -> None:
    """A container that was started with --network host would be told to do that."""
    machine = Fake(tmp_path, interfaces=[LO, ETH])
    machine.file(".dockerenv", "")
    machine.file("sys/class/net/eth0/ifindex", "2\n")
    machine.file("sys/class/net/eth0/iflink", "2\n")
    level, text = said(_checks_way.container, machine)
    assert level == "warn"
    assert "--network host" not in text
    assert "--pid host" in text
    machine.file("proc/2/comm", "kthreadd\n")
    assert said(_checks_way.container, machine)[0] == "ok"


def test_clock(tmp_path: Path) -> None:
    """A slow clock would pass."""
    machine = Fake(tmp_path)
    place = "sys/devices/system/clocksource/clocksource0"
    machine.file(f"{place}/current_clocksource", "tsc\n")
    machine.file(f"{place}/available_clocksource", "tsc hpet\n")
    assert said(_checks_host.clock, machine)[0] == "ok"
    machine.file(f"{place}/current_clocksource", "hpet\n")
    assert "there are tsc hpet" in said(_checks_host.clock, machine)[1]


def test_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit at which sessions fail would pass."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 4096))
    assert "ulimit -n 4096" in said(_checks_host.files, Fake(tmp_path))[1]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert said(_checks_host.files, Fake(tmp_path))[0] == "ok"


def test_no_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox without shared memory would pass."""
    assert "is not wanted" in said(_checks_host.memory, Fake(tmp_path, shared_memory=False))[1]

    def refused(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refused)
    level, text = said(_checks_host.memory, Fake(tmp_path))
    assert level == "warn"
    assert "memfd_create: Operation not permitted" in text


def test_sessions_that_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that cannot be opened, or do not find each other, would pass."""
    monkeypatch.setattr(_checks_host, "FOUND_SECONDS", 0.1)
    bad = Fake(tmp_path, interface="none0")
    for check in (_checks_host.sessions, _checks_host.company):
        level, text = said(check, bad)
        assert level == "fail"
        assert 'no interface or address "none0"' in text
    deaf = Fake(tmp_path, loopback=False)
    assert "two sessions here do not meet" in said(_checks_host.sessions, deaf)[1]


def test_every_check_is_made() -> None:
    """A check would be written and never be made."""
    modules = (_checks_host, _checks_way)
    assert {check.__name__ for check in CHECKS} == {name for m in modules for name in m.__all__}
