"""
The stand-in on TCP: every packet behind its length, as many connections as there are.

    connects: says SCOUT at once                     acceptor: says nothing before something was heard
    a session ends ──► its connection is closed      a length of three bytes, a packet over 100 ──► likewise
    to "0.0.0.0", 0: every connection                lost, if it made it ──► again after a while
"""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass, field

from tests.real.zhe import Zhe
from tests.real.zhe_config import CONNECTED, Address
from tests.real.zhe_session import Violation

PAUSE_MAX = 0.05
SILENCE_MAX = 4.0


@dataclass(eq=False)
class Link:
    """One connection."""

    socket: socket.socket
    address: Address
    ours: Address | None = None
    live: bool = False
    since: float = 0.0
    talked: bool = False
    unframed: bool = False
    got: bytearray = field(default_factory=bytearray)
    out: bytearray = field(default_factory=bytearray)


class Tcp:
    """
    A zhe and its connections.

    connect: whom it connects to
    again: after how many seconds it tries once more (zhe waits for 8)
    cut: send so few bytes at once
    """

    def __init__(
        self,
        zhe: Zhe,
        connect: tuple[Address, ...] = (),
        *,
        port: int | None = None,
        again: float = 0.2,
        cut: int = 1 << 20,
    ) -> None:
        self.zhe, self.again, self.cut = zhe, again, cut
        self.links: list[Link] = []
        self.later = dict.fromkeys(connect, 0.0)
        self.listener: socket.socket | None = None
        if port is not None:
            self.listener = socket.create_server(("127.0.0.1", port))
            self.listener.settimeout(0)

    @property
    def address(self) -> Address:
        """Where others can connect to it."""
        assert self.listener is not None
        found: Address = self.listener.getsockname()
        return found

    def close(self) -> None:
        """All is given back."""
        for link in self.links:
            link.socket.close()
        self.links.clear()
        if self.listener is not None:
            self.listener.close()

    def step(self, timeout: float) -> None:
        """Wait for bytes or a deadline, for so many seconds at most, and do what is to be done."""
        self._connect()
        self._send()
        wait = min(timeout, self.zhe.due() - time.monotonic(), PAUSE_MAX)
        heard: list[socket.socket] = [link.socket for link in self.links]
        if self.listener is not None:
            heard.append(self.listener)
        ready, _, _ = select.select(heard, [], [], max(0.0, wait))
        if self.listener in ready:
            self._accept()
        for link in [link for link in self.links if link.socket in ready]:
            self._read(link)
            self._send()
        now = time.monotonic()
        if now >= self.zhe.due():
            self.zhe.tick(now)
        self._send()
        for link in list(self.links):
            talks = self.zhe.talks_to(link.address)
            silent = not link.live and now - link.since > SILENCE_MAX
            if (link.talked and not talks) or silent:
                self._lose(link)
            link.talked = talks

    # ---- beginnings and ends ----

    def _connect(self) -> None:
        now = time.monotonic()
        for address, due in list(self.later.items()):
            if now < due:
                continue
            try:
                made = socket.create_connection(address, 1.0)
            except OSError:
                self.later[address] = now + self.again
                continue
            del self.later[address]
            link = self._add(made, address)
            link.ours, link.live = address, True
            looked_for = {"client": 1, "peer": 5, "broker": 4}[self.zhe.config.role]
            link.out += bytes([2, 1, looked_for])

    def _accept(self) -> None:
        assert self.listener is not None
        accepted, address = self.listener.accept()
        self._add(accepted, address)

    def _add(self, made: socket.socket, address: Address) -> Link:
        made.settimeout(0)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(made, address, since=time.monotonic())
        self.links.append(link)
        return link

    def _lose(self, link: Link) -> None:
        if link not in self.links:
            return
        self._flush(link)
        link.socket.close()
        self.links.remove(link)
        self.zhe.disconnected(link.address)
        if link.ours is not None:
            self.later[link.ours] = time.monotonic() + self.again

    # ---- bytes ----

    def _read(self, link: Link) -> None:
        try:
            data = link.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(link)
            return
        link.got += data
        while link in self.links and (packet := self._next(link)) is not None:
            link.live = True
            self.zhe.input(packet, link.address, time.monotonic())

    def _next(self, link: Link) -> bytes | None:
        """The next packet; None: there is none, or it cannot be."""
        got = link.got
        if not got or (got[0] >= 0x80 and len(got) < 2):
            return None
        head = 2 if got[0] >= 0x80 else 1
        size = got[0] & 0x7F | (got[1] << 7 if head == 2 else 0)
        wrong = None
        if head == 2 and got[1] >= 0x80:
            wrong = "§1 a length of three bytes or more"
        elif size > self.zhe.config.packet_max:
            wrong = f"§1 limit {self.zhe.config.packet_max} bytes, not {size}"
        elif size == 0:
            wrong = "no frames any more: this stand-in reads frames alone"
        if wrong is not None:
            told = Violation("drop", wrong, link.address, bytes(got), time.monotonic())
            self.zhe.violations.append(told)
            self._lose(link)
            return None
        if len(got) < head + size:
            return None
        packet = bytes(got[head : head + size])
        del got[: head + size]
        return packet

    def _send(self) -> None:
        for to, data in self.zhe.take():
            for link in self.links:
                if link.live and to in {CONNECTED, link.address}:
                    assert len(data) < 128
                    link.out += bytes([len(data)]) + data
        for link in list(self.links):
            self._flush(link)

    def _flush(self, link: Link) -> None:
        try:
            while link.out:
                sent = link.socket.send(link.out[: self.cut])
                del link.out[:sent]
        except BlockingIOError:
            return
        except OSError:
            link.out.clear()
