"""
The stand-in on real sockets, and as a program of its own.

One socket sends everything and hears unicast; one on the well-known port hears the groups. What happens is printed as JSON,
one object a line: "ready", "peer", "gone", "sample", "result", "violation", "written".
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence

from tests.real.zhe import Zhe
from tests.real.zhe_config import CONFIGS, Address, Config

DATAGRAM_MAX = 65536
PAUSE_MAX = 0.05
BURST = 64


class Udp:
    """A zhe and its two sockets."""

    def __init__(self, zhe: Zhe, interface: str = "127.0.0.1") -> None:
        self.zhe = zhe
        self.unicast = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.multicast = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        here = socket.inet_aton(interface)
        self.unicast.bind((interface, 0))
        self.unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
        self.unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        self.multicast.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.multicast.bind(("", zhe.config.scouting[1]))
        for group in {zhe.config.scouting[0], *(host for host, _ in zhe.config.groups)}:
            member = socket.inet_aton(group) + here
            self.multicast.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        self.address: Address = self.unicast.getsockname()
        for one in (self.unicast, self.multicast):
            one.settimeout(0)

    def close(self) -> None:
        """Both sockets are given back."""
        self.unicast.close()
        self.multicast.close()

    def step(self, timeout: float) -> None:
        """Wait for a packet or a deadline, for so many seconds at most, and do what is to be done."""
        self._send()
        wait = min(timeout, self.zhe.due() - time.monotonic(), PAUSE_MAX)
        ready, _, _ = select.select([self.unicast, self.multicast], [], [], max(0.0, wait))
        for one in (self.unicast, self.multicast):  # zhe looks at unicast first
            if one in ready:
                for data, source in self._packets(one):
                    self.zhe.input(data, source, time.monotonic())
                    self._send()
        now = time.monotonic()
        if now >= self.zhe.due():
            self.zhe.tick(now)
        self._send()

    def _packets(self, one: socket.socket) -> Iterator[tuple[bytes, Address]]:
        for _ in range(BURST):
            try:
                data, source = one.recvfrom(DATAGRAM_MAX)
            except BlockingIOError:
                return
            if source != self.address:
                yield data, source

    def _send(self) -> None:
        for to, data in self.zhe.take():
            try:
                self.unicast.sendto(data, to)
            except (BlockingIOError, ConnectionRefusedError):
                continue  # lost, as datagrams may be


def drive(ends: Sequence[Udp], ready: Callable[[], object], timeout: float = 5.0) -> None:
    """Drive several in turn until this is so; TimeoutError if it is not in time."""
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout} s")
        for end in ends:
            end.step(0.001)


# ---- the program ------------------------------------------------------------------------------------------------


def say(what: str, **fields: object) -> None:
    """One line."""
    print(json.dumps({"event": what, **fields}), flush=True)


def resource(text: str) -> tuple[int, str | None]:
    """RID or RID=URI."""
    rid, _, uri = text.partition("=")
    return int(rid), uri or None


def arguments() -> argparse.ArgumentParser:
    """What the program can be told."""
    parser = argparse.ArgumentParser(
        prog="zhe.py", description="A strict stand-in for the reference peer zhe, on UDP sockets."
    )
    add = parser.add_argument
    add("--config", choices=sorted(CONFIGS), default="p2p", help="how it is built")
    add("--id", type=bytes.fromhex, default=b"\xa0\xff", metavar="HEX", help="its peer id")
    add("--interface", default="127.0.0.1", metavar="ADDRESS", help="where it sends and listens")
    add("--group", default="239.255.0.1", metavar="ADDRESS", help="the scouting group")
    add("--port", type=int, default=7447, help="the well-known port")
    add("--scout-ms", type=int, metavar="MS", help="scout interval, and time until the first one")
    add("--seq-bits", type=int, metavar="L", help="length of sequence numbers")
    add("--lease", type=int, metavar="N", help="lease in units of 100 ms")
    add("--subscribe", type=resource, action="append", default=[], metavar="RID[=URI]")
    add("--publish", type=resource, action="append", default=[], metavar="RID[=URI]")
    add("--best-effort", action="store_true", help="publish so")
    add("--payload", default="", metavar="TEXT", help="what each sample begins with")
    add("--every", type=float, default=1.0, metavar="SECONDS", help="how often it writes")
    add("--count", type=int, default=0, help="how many samples it writes; 0: no end")
    add("--seconds", type=float, default=0.0, help="how long it runs; 0: until it is killed")
    return parser


def configured(told: argparse.Namespace) -> Config:
    """The configuration with what was said."""
    config = CONFIGS[told.config].changed(scouting=(told.group, told.port))
    if told.scout_ms is not None:
        config = config.changed(scout_ms=told.scout_ms)
    if told.seq_bits is not None:
        most = min(config.multicast_samples, (1 << told.seq_bits - 1) - 1)
        config = config.changed(seq_bits=told.seq_bits, multicast_samples=most)
    return config if told.lease is None else config.changed(lease=told.lease)


class Program:
    """What runs until it is killed: 0 if nobody broke a rule, 1 if somebody did, 3 if zhe were dead."""

    def __init__(self, told: argparse.Namespace) -> None:
        self.told = told
        self.zhe = Zhe(configured(told), told.id, time.monotonic())
        self.written = 0
        self._samples = self._violations = self._results = 0
        self._peers: set[bytes] = set()
        for rid, uri in told.subscribe + told.publish:
            if uri is not None and rid not in self.zhe.tables.uris:
                self.zhe.resource(rid, uri)
        for rid, _ in told.subscribe:
            self.zhe.subscribe(rid)
        for rid, _ in told.publish:
            self.zhe.publish(rid, reliable=not told.best_effort)

    def run(self) -> int:
        """Until the time is over, it is dead, or it is killed."""
        zhe, end = self.zhe, Udp(self.zhe, self.told.interface)
        say("ready", id=zhe.id.hex(), address=f"{end.address[0]}:{end.address[1]}")
        begin = time.monotonic()
        following = begin
        try:
            while not zhe.dead:
                now = time.monotonic()
                if self.told.seconds and now - begin > self.told.seconds:
                    break
                if now >= following and self._write(now):
                    following = now + self.told.every
                end.step(max(0.0, min(following - now, PAUSE_MAX)))
                self._tell()
        except KeyboardInterrupt:
            say("stopped")
        finally:
            end.close()
        self._tell()
        return 3 if zhe.dead else 1 if zhe.violations else 0

    def _write(self, now: float) -> bool:
        """The next sample of each publication that somebody subscribes to."""
        wanted = [rid for rid, _ in self.told.publish if self.zhe.tables.wanted(rid)]
        if not wanted or (self.told.count and self.written >= self.told.count):
            return True
        payload = f"{self.told.payload}{self.written}".encode()
        done = True
        for rid in wanted:
            done &= self.zhe.write(rid, payload, now)
        self.zhe.flush(now)
        if done:
            self.written += 1
            say("written", number=self.written, payload=payload.decode())
        return done

    def _tell(self) -> None:
        zhe = self.zhe
        for one in zhe.received[self._samples :]:
            payload = one.payload.decode(errors="backslashreplace")
            say("sample", rid=one.rid, subscription=one.subscription, payload=payload)
        for peer, commit, status, rid in zhe.results[self._results :]:
            say("result", peer=peer.hex(), commit=commit, status=status, rid=rid)
        for broken in zhe.violations[self._violations :]:
            sentence, packet = broken.sentence, broken.data.hex()
            say("violation", kind=broken.kind, sentence=sentence, packet=packet)
        self._samples, self._results = len(zhe.received), len(zhe.results)
        self._violations = len(zhe.violations)
        peers = set(zhe.peers)
        for peer in peers - self._peers:
            say("peer", id=peer.hex())
        for peer in self._peers - peers:
            say("gone", id=peer.hex())
        self._peers = peers


def main(words: Sequence[str] | None = None) -> int:
    """The program."""
    return Program(arguments().parse_args(words)).run()
