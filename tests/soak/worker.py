"""
One process of the soak: it publishes three streams, reads those of all others, and writes its books as it goes.

    writer of "small" ──┐                              ┌── reader of "soak/*/small"
    writer of "large" ──┼──► session ◄──── sockets ────┼── reader of "soak/*/large"
    writer of "best"  ──┘          └────── memory ─────┴── reader of "soak/*/best"

Its parent tells it on standard input, a word a line: "heal" (nothing is lost any more), "quiet" (put nothing more), "end"
(close, and go). When the parent has gone, it ends too.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import select
import signal
import struct
import sys
import threading
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pyddsi
from tests.soak.books import BEST, LARGE, SMALL, STREAMS, Book
from tests.soak.loss import Loss

HEAD = struct.Struct("<4sHHIQII")
MAGIC = b"soak"
EVERY = 0.25
PATIENCE = 0.2


def sample(slot: int, life: int, stream: int, number: int, size: int) -> bytes:
    """A sample that says which it is, and whether it is whole."""
    body = bytes([number & 255]) * size
    return HEAD.pack(MAGIC, slot, stream, life, number, size, zlib.crc32(body)) + body


class Worker:
    """What a process does until it is told to stop."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.slot, self.life = options["slot"], options["life"]
        self.pace = options["pace"]
        self.draw = random.Random(f"{options['seed']}-{self.slot}-{self.life}")
        self.book = Book(Path(options["folder"]), self.slot, self.life)
        self.session = pyddsi.open(
            pyddsi.Config(**options["config"], id=bytes.fromhex(options["id"]))
        )
        self.loss = Loss(options["loss"])
        self.quiet = threading.Event()
        self.stop = threading.Event()
        self.threads: list[threading.Thread] = []
        self.book.say("begun", pid=os.getpid(), name=self.session.name, **options["told"])

    # ---- writing ----

    def sizes(self, stream: int) -> list[int]:
        """How large the next samples are."""
        draw = self.draw
        if stream == LARGE:
            return [draw.choice((5_000, 20_000, 40_000, 40_000, 150_000, 400_000))]
        if stream == BEST:
            return [draw.choice((0, 100, 1000, 4000))]
        return [draw.randrange(200) for _ in range(draw.choice((1, 1, 1, 10, 50, 300)))]

    def write(self, stream: int) -> None:
        """One stream, until it is told to stop."""
        pub = self.session.publisher(f"soak/{self.slot}/{STREAMS[stream]}", reliable=stream != BEST)
        number, rest = 0, (0.02, 0.1, 0.02)[stream] / self.pace
        while not self.quiet.is_set():
            sizes = self.sizes(stream)
            batch = [
                sample(self.slot, self.life, stream, number + i, n) for i, n in enumerate(sizes)
            ]
            while batch and not self.quiet.is_set():
                self.book.sent(stream, number + len(batch), number)
                try:
                    if len(batch) == 1:
                        pub.put(batch[0], timeout=PATIENCE)
                        taken = 1
                    else:
                        taken = pub.put_many(batch, timeout=PATIENCE)
                except TimeoutError as error:
                    taken = getattr(error, "taken", 0)
                number += taken
                del batch[:taken]
                self.book.sent(stream, number, number)
            self.quiet.wait(self.draw.expovariate(1 / rest))

    # ---- reading ----

    def read(self, stream: int) -> None:
        """The streams of all others, until the session is closed."""
        full: Literal["drop_oldest", "wait"] = "drop_oldest" if stream == BEST else "wait"
        sub = self.session.subscriber(f"soak/*/{STREAMS[stream]}", depth=256, on_full=full)
        while not self.stop.is_set():
            try:
                found = sub.recv_many(256, timeout=PATIENCE)
            except TimeoutError:
                continue
            for one in found:
                self.take(stream, one.data)
            del found

    def take(self, stream: int, data: memoryview) -> None:
        """Look at one."""
        magic, slot, said, life, number, size, check = HEAD.unpack_from(data)
        body = data[HEAD.size :]
        whole = (magic, said, size, check) == (MAGIC, stream, len(body), zlib.crc32(body))
        self.book.heard(slot, life, stream, number, whole=whole)

    # ---- the state ----

    def report(self) -> None:
        """What has happened, and how things are."""
        for event in self.session.events():
            if event.kind in {"connected", "disconnected", "reconnected", "gap", "detached"}:
                self.book.say(
                    "gap_told" if event.kind == "gap" else event.kind,
                    peer=event.peer,
                    reason=event.reason,
                    resource=event.resource,
                    first=event.first,
                    last=event.last,
                )
        stats = self.session.stats()
        self.book.say(
            "state",
            rss=int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
            fds=len(list(Path("/proc/self/fd").iterdir())),
            threads=threading.active_count(),
            quiet=not any(one.is_alive() for one in self.threads[: len(STREAMS)]),
            stats=asdict(stats),
            in_flight=stats.in_flight,
            counts=self.session.counts(),
            drops=[(d.place, d.reason, str(d.resource), d.count) for d in self.session.drops()],
            peers=[p.name for p in self.session.peers() if p.state == "established"],
        )

    def obey(self, word: str) -> bool:
        """Do what the parent says. Answers whether that was the last."""
        if word == "heal":
            self.loss.heal()
        elif word == "quiet":
            self.quiet.set()
        return word not in {"heal", "quiet"}

    def run(self) -> None:
        """All of it."""
        for work in (self.write, self.read):
            for stream in (SMALL, LARGE, BEST):
                self.threads.append(threading.Thread(target=work, args=(stream,)))
        for one in self.threads:
            one.start()
        ended = False
        while not ended:
            ready, _, _ = select.select([sys.stdin.buffer], [], [], EVERY)
            for word in os.read(0, 4096).decode().split() or ["end"] if ready else []:
                ended = self.obey(word) or ended
            self.report()
        self.quiet.set()
        self.stop.set()
        for one in self.threads:
            one.join()
        self.session.close(2.0)
        self.report_end()

    def report_end(self) -> None:
        """The books after the end."""
        stats = self.session.stats()
        self.book.say(
            "ended",
            stats=asdict(stats),
            in_flight=stats.in_flight,
            drops=[(d.place, d.reason, str(d.resource), d.count) for d in self.session.drops()],
        )


def crash(failure: threading.ExceptHookArgs) -> None:
    """A thread that fails ends the process: its parent wants to know."""
    threading.__excepthook__(failure)
    sys.stderr.flush()
    os._exit(3)


if __name__ == "__main__":
    threading.excepthook = crash
    faulthandler.register(signal.SIGUSR1)  # see watch.py
    Worker(json.loads(sys.argv[1])).run()
