"""The way to the group: interfaces ─► route ─► loopback ─► port ─► mtu, and what packets meet on it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

from pyddsi._native import lib
from pyddsi.cli._machine import Finding, Machine
from pyddsi.cli._show import size
from pyddsi.cli._sockets import processes

__all__ = [
    "buffers",
    "container",
    "firewall",
    "groups",
    "interfaces",
    "loopback",
    "losses",
    "mtu",
    "port",
    "reverse_path",
    "route",
    "segmentation",
]

UDP_SEGMENT, UDP_GRO = 103, 104
HEADERS = {4: 28, 6: 48}
GROUPS_LEAST = 9  # scouting and eight conduits
LOSS_LIMIT = 1e-5


def interfaces(machine: Machine) -> Iterator[Finding]:
    """Who could carry a group to other machines."""
    good = 0
    for one in machine.interfaces():
        if not one.up:
            continue
        where = f"{one.name} {one.address or 'without an IPv4 address'}"
        if one.loopback:
            continue
        if one.multicast:
            good += one.address is not None
            yield Finding("interface", "ok", f"{where}: up, multicast, MTU {one.mtu}")
        else:
            yield Finding(
                "interface",
                "warn",
                f"{where}: up, but without multicast, so peers behind it are not found by the group",
                (f"sudo ip link set dev {one.name} multicast on",),
            )
    if not good:
        yield Finding(
            "interface",
            "warn",
            "no interface but loopback is up with an address and multicast: only sessions on this machine are found",
            (
                f"sudo ip link set dev {machine.candidate()} up   # and give it an address",
                "or name peers: --peer 10.0.0.9:7447",
            ),
        )


def route(machine: Machine) -> Iterator[Finding]:
    """Where packets to the group leave."""
    if machine.group is None:
        yield Finding("route", "ok", "no group is set: only the named peers are asked")
        return
    group = machine.config.group
    try:
        own = machine.own_address()
    except OSError as error:
        yield Finding(
            "route",
            "fail",
            f"there is no way to the group {group}: {error.strerror}",
            (
                f"sudo ip link set dev {machine.candidate()} up",
                f"or choose one: --interface {machine.candidate()}",
            ),
        )
        return
    loop = ip_address(own).is_loopback
    further = [
        f"{one.address} ({one.name})"
        for one in machine.ways()
        if one.address != own and not machine.config.interface and ip_address(own).version == 4
    ]
    name = next((f" ({one.name})" for one in machine.interfaces() if one.address == own), "")
    yield Finding(
        "route",
        "warn" if loop else "ok",
        f"packets to the group {group} leave from {own}{name}"
        + (f", and from {', '.join(further)}" if further else "")
        + (", which is loopback: nobody outside hears them" if loop and not further else ""),
        (
            f"sudo ip link set dev {machine.candidate()} up   # sessions that are open follow",
            f"or choose one: --interface {machine.candidate()}",
        )
        if loop
        else (),
    )


def loopback(machine: Machine) -> Iterator[Finding]:
    """Whether sessions on this machine can hear each other by the group."""
    if machine.group is None:
        return
    mend = (
        "sudo ip link set dev lo multicast on",
        f"sudo iptables -I INPUT -d {machine.group[0]} -p udp -j ACCEPT",
    )
    try:
        heard = machine.hears_itself()
    except OSError as error:
        yield Finding(
            "loopback", "fail", f"nothing can be sent to the group: {error.strerror}", mend
        )
        return
    if heard:
        yield Finding("loopback", "ok", "what this machine sends to the group comes back to it")
    else:
        yield Finding(
            "loopback",
            "fail",
            "what this machine sends to the group does not come back to it: a firewall, or loopback without multicast",
            mend,
        )


def port(machine: Machine) -> Iterator[Finding]:
    """Whether the group's port can be shared."""
    if machine.group is None:
        return
    port = machine.group[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((machine.group[0] if machine.group[0].count(".") else "", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                yield Finding(
                    "port",
                    "fail",
                    f"UDP port {port} cannot be had: {error.strerror}",
                    ("meet elsewhere: --group 239.255.0.1:7448",),
                )
                return
            who = ", ".join(
                f"{one.pid} ({one.command[:40]})" for one in processes() if port in one.ports
            )
            yield Finding(
                "port",
                "fail",
                f"UDP port {port} is held by a program that does not share it: {who or 'of another user'}",
                (f"sudo ss -ulpn 'sport = :{port}'", "or meet elsewhere: --group 239.255.0.1:7448"),
            )
            return
    there = [one for one in processes() if port in one.ports]
    yield Finding(
        "port",
        "ok",
        f"UDP port {port} can be had; {len(there)} of the processes that can be seen use it",
    )


def mtu(machine: Machine) -> Iterator[Finding]:
    """Whether our packets fit the way."""
    if machine.group is None:
        return
    with suppress(OSError):
        own = machine.own_address()
        headers = HEADERS[ip_address(own).version]
        for one in machine.interfaces():
            if one.name != machine.config.interface and one.address != own:
                continue
            room, largest = one.mtu - headers, machine.config.packet_max
            if largest <= room:
                yield Finding(
                    "mtu", "ok", f"packets of {largest} bytes go through {one.name} whole"
                )
            else:
                yield Finding(
                    "mtu",
                    "warn",
                    f"packets of {largest} bytes are larger than {one.name} carries (MTU {one.mtu}): they go in pieces, "
                    f"and with one piece all are lost",
                    (f"export PYDDSI_PACKET_MAX={room}",),
                )


# ---- what packets meet -------------------------------------------------------------------------------------------


def buffers(machine: Machine) -> Iterator[Finding]:
    """What the system grants of the buffers that a session asks for."""
    for name, wanted, limit, option in (
        ("receive", machine.config.receive_buffer, "rmem_max", socket.SO_RCVBUF),
        ("send", lib.PYDDSI_SEND_BYTES, "wmem_max", socket.SO_SNDBUF),
    ):
        most = machine.number(f"proc/sys/net/core/{limit}")
        if most is None:  # a container does not see it
            most = machine.granted(option, wanted)
        if most < wanted:
            yield Finding(
                f"{name} buffer",
                "warn",
                f"a session asks for {size(wanted)} and gets {size(most)}: bursts are lost and sent again",
                (
                    f"sudo sysctl -w net.core.{limit}={wanted}",
                    f"echo net.core.{limit}={wanted} | sudo tee /etc/sysctl.d/60-pyddsi.conf",
                ),
            )
        else:
            yield Finding(
                f"{name} buffer",
                "ok",
                f"{size(wanted)}, of at most {size(most)}" if most > wanted else size(wanted),
            )


def losses(machine: Machine) -> Iterator[Finding]:
    """What was lost for want of buffers."""
    rows = [
        line.split()[1:]
        for line in machine.read("proc/net/snmp").splitlines()
        if line.startswith("Udp:")
    ]
    if len(rows) < 2:
        return
    counts = dict(zip(rows[0], map(int, rows[1]), strict=False))
    lost, came = counts.get("RcvbufErrors", 0), counts.get("InDatagrams", 0)
    text = f"{lost:,} of {came:,} UDP packets were lost since the start, as a program's receive buffer was full"
    if lost > came * LOSS_LIMIT:
        yield Finding(
            "losses",
            "warn",
            text + " (by any program, and in tests on purpose)",
            (
                "see who: ss -ulmp",
                "export PYDDSI_RECEIVE_BUFFER=8388608   # and raise net.core.rmem_max",
            ),
        )
    else:
        yield Finding("losses", "ok", text)


def firewall(machine: Machine) -> Iterator[Finding]:
    """What keeps peers out."""
    group = machine.group[0] if machine.group is not None else "239.255.0.1"
    found = False
    if "ENABLED=yes" in machine.read("etc/ufw/ufw.conf"):
        found = True
        yield Finding(
            "firewall",
            "warn",
            "ufw is on; peers must be let in, at the group and at any port of this machine",
            (
                f"sudo ufw allow in proto udp to {group}",
                "sudo ufw allow in proto udp from 10.0.0.0/8   # the network of your peers",
            ),
        )
    if (machine.root / "run/firewalld").is_dir():
        found = True
        yield Finding(
            "firewall",
            "warn",
            "firewalld is on; peers must be let in, at the group and at any port of this machine",
            (
                "sudo firewall-cmd --zone=trusted --add-source=10.0.0.0/8   # the network of your peers",
            ),
        )
    tables = [t for t in ("ip", "ip6") if machine.read(f"proc/net/{t}_tables_names")]
    if tables and not found:
        found = True
        yield Finding(
            "firewall",
            "warn",
            "iptables has rules; see whether UDP from your peers is let in",
            ("sudo iptables -S INPUT", f"sudo iptables -I INPUT -d {group} -p udp -j ACCEPT"),
        )
    if not found:
        yield Finding("firewall", "ok", "no ufw, firewalld or iptables rules to be seen from here")


def reverse_path(machine: Machine) -> Iterator[Finding]:
    """Whether packets are dropped because an answer would leave by another interface."""
    up = [one for one in machine.interfaces() if one.up and one.multicast and not one.loopback]
    strict = [
        o.name for o in up if machine.read(f"proc/sys/net/ipv4/conf/{o.name}/rp_filter") == "1"
    ]
    if len(up) > 1 and strict:
        yield Finding(
            "reverse path",
            "warn",
            f"several interfaces are up, and {', '.join(strict)} drop packets whose answer would go another way",
            tuple(f"sudo sysctl -w net.ipv4.conf.{name}.rp_filter=2" for name in strict),
        )


def groups(machine: Machine) -> Iterator[Finding]:
    """How many groups a socket may join."""
    most = machine.number("proc/sys/net/ipv4/igmp_max_memberships")
    if most is not None and most < GROUPS_LEAST:
        yield Finding(
            "groups",
            "warn",
            f"a socket may join {most} groups; a session with all its conduits joins up to {GROUPS_LEAST}",
            ("sudo sysctl -w net.ipv4.igmp_max_memberships=20",),
        )


def _bridged(machine: Machine) -> bool:
    """Whether all that leads out of here ends in another network namespace, as a container's end of a bridge does."""
    links = [one for one in machine.interfaces() if not one.loopback]
    place = "sys/class/net"
    return bool(links) and all(
        machine.number(f"{place}/{one.name}/iflink")
        != machine.number(f"{place}/{one.name}/ifindex")
        for one in links
    )


def container(machine: Machine) -> Iterator[Finding]:
    """What a container cuts off."""
    if not any((machine.root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
        return
    cut, mend = list[str](), list[str]()
    if _bridged(machine):
        cut.append("its bridge carries no multicast to other machines")
        mend += ["docker run --network host ...", "or name peers: --peer 10.0.0.9:7447"]
    if machine.read("proc/2/comm") != "kthreadd":  # as the machine's own processes see it
        cut.append("shared memory reaches only processes of the same container")
        mend.append("docker run --pid host ...   # for shared memory with other containers")
    if cut:
        yield Finding(
            "container", "warn", f"this is a container: {', and '.join(cut)}", tuple(mend)
        )
    else:
        yield Finding(
            "container", "ok", "a container with the network and the processes of its host"
        )


def segmentation(_machine: Machine) -> Iterator[Finding]:
    """Many packets in one call: what the kernel can do (GSO, GRO)."""
    lacking = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for name, option in (("GSO", UDP_SEGMENT), ("GRO", UDP_GRO)):
            try:
                probe.setsockopt(socket.IPPROTO_UDP, option, 0)
            except OSError:
                lacking.append(name)
    if lacking:
        yield Finding(
            "segmentation",
            "warn",
            f"the kernel has no {' and no '.join(lacking)} for UDP: large samples cost more CPU; Linux 5.0 has both",
        )
    else:
        yield Finding("segmentation", "ok", "the kernel has GSO and GRO for UDP")
