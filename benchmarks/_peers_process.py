"""
The processes of peers.py: each is started here, asked and told here, and ended here, whatever happens.

A Crew holds the processes of one run and is left by `with`: then none of them is left. Three things see to that. Their
standard input is a pipe from here, and at its end they leave by themselves, closing their library properly; who has not
gone within LEAVE_S is killed, with whatever it started; and should this process die in a way that runs no more of it,
the kernel kills the others (PR_SET_PDEATHSIG). Ctrl-C reaches this process alone, because the others are in groups of
their own.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).resolve().parent
LEAVE_S = 3.0  # to close a library
OPEN_S = 20.0  # to find each other
JOIN_S = 0.2  # that a publisher is there before a subscriber joins
SLACK_S = 25.0  # beyond the time that a measurement takes
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

Values = dict[str, float]


class PeerError(Exception):
    """A contender did not do its part; the text says which and what it said last."""


def die_with_parent() -> None:
    """In a new process: be killed when this one is gone."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Process:
    """A running child, and what it has said and nobody has read yet."""

    role: str
    name: str
    started: float
    popen: subprocess.Popen[bytes]
    errors: Path
    lines: list[str] = field(default_factory=list)
    rest: bytes = b""

    def tell(self, word: str) -> None:
        """Say a word."""
        assert self.popen.stdin is not None  # noqa: S101 - it is a pipe
        try:
            self.popen.stdin.write(word.encode() + b"\n")
            self.popen.stdin.flush()
        except BrokenPipeError:
            raise self.failure(f"has gone before it was told '{word}'") from None

    def hear(self, word: str, seconds: float) -> Values:
        """Wait for the line that begins with this word, and return its numbers."""
        assert self.popen.stdout is not None  # noqa: S101 - it is a pipe
        end = time.monotonic() + seconds
        while not self.lines:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.popen.stdout], [], [], left)[0]:
                raise self.failure(f"has not said '{word}' within {seconds:.0f} s")
            data = os.read(self.popen.stdout.fileno(), 4096)
            if not data:
                raise self.failure(f"has gone before it said '{word}'")
            *whole, self.rest = (self.rest + data).split(b"\n")
            self.lines += [line.decode() for line in whole]
        first, *pairs = self.lines.pop(0).split()
        if first != word:
            raise self.failure(f"has said '{first}' instead of '{word}'")
        return {key: float(value) for key, _, value in (pair.partition("=") for pair in pairs)}

    def failure(self, what: str) -> PeerError:
        """An exception with the last that the child had to say."""
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(0.2)
        said = self.errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = f": {said[-1].strip()[:200]}" if said else ""
        return PeerError(f"{self.name}: {self.role} {what}{last}")

    def status(self) -> Values:
        """The kernel's account of its memory, in MiB: VmRSS, VmHWM, RssShmem, ..."""
        text = Path(f"/proc/{self.popen.pid}/status").read_text(encoding="ascii", errors="replace")
        fields = (line.split() for line in text.splitlines() if line.endswith(" kB"))
        return {name.rstrip(":"): int(value) / 1024 for name, value, _ in fields}

    def cpu(self) -> float:
        """The seconds that its threads have run."""
        total = 0
        for task in Path(f"/proc/{self.popen.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
        return total / 1e9


class Crew:
    """The processes of one run, with a folder and ports of their own."""

    def __init__(self, name: str, size: int, *, mode: str = "put", seconds: float = 0.0) -> None:
        self.name = name
        self.size = size
        self.mode = mode
        self.seconds = seconds
        self.members: list[Process] = []
        self.place = Path(tempfile.mkdtemp(prefix="pyddsi-bench-"))
        self.ports = free_ports(2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        try:
            end(self.members)
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    def start(self, role: str, cpus: Iterable[int] = ()) -> Process:
        """Start one process."""
        errors = self.place / f"errors-{len(self.members)}"
        arguments: list[object] = [role, self.name, self.mode, self.size, self.seconds, self.place]
        arguments += [",".join(map(str, self.ports)), ",".join(map(str, cpus))]
        with errors.open("wb") as sink:
            started = time.monotonic()
            popen = subprocess.Popen(
                [sys.executable, "-c", "import _peers_child as child; child.main()"]
                + [str(one) for one in arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=os.environ | {"PYTHONPATH": str(HERE)},
                cwd=self.place,
                process_group=0,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - there are no threads here
            )
        process = Process(role, self.name, started, popen, errors)
        self.members.append(process)
        return process


def end(members: list[Process]) -> None:
    """Let all go by themselves, and after LEAVE_S by force. A second Ctrl-C does not stop this."""
    with ExitStack() as stack:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        stack.callback(signal.signal, signal.SIGINT, before)
        for one in members:
            assert one.popen.stdin is not None  # noqa: S101 - it is a pipe
            with suppress(OSError):
                one.popen.stdin.close()
        until = time.monotonic() + LEAVE_S
        for one in members:
            with suppress(subprocess.TimeoutExpired):
                one.popen.wait(max(0.0, until - time.monotonic()))
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(one.popen.pid, signal.SIGKILL)
            one.popen.wait()
            if one.popen.stdout is not None:
                one.popen.stdout.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody has just now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


# ---- what the processes do together --------------------------------------------------------------


def meet(crew: Crew, subscribers: int = 1) -> tuple[Process, list[Process]]:
    """Start a publisher and its subscribers, and wait until a first sample has come to each."""
    takers = [crew.start("take") for _ in range(subscribers)]
    sender = crew.start("send")
    for one in [sender, *takers]:
        one.hear("open", OPEN_S)
    for one in takers:
        one.hear("first", OPEN_S)
    return sender, takers


def pour(crew: Crew, sender: Process, takers: list[Process]) -> Values:
    """Let samples flow for as long as the crew has, and return what the subscribers counted."""
    sender.tell("go")
    wait_s = crew.seconds + SLACK_S
    sent = sender.hear("sent", wait_s)
    counts = [one.hear("done", wait_s) for one in takers]
    memory = {"rss": takers[0].status(), "pub": sender.status()}
    sender.tell("end")
    spent = sender.hear("done", wait_s)
    got = sum(count["samples"] for count in counts)
    wanted = sent["samples"] * len(takers)
    return {
        "rate": sum(count["rate"] for count in counts),
        "lost": 100.0 * (wanted - got) / max(wanted, 1),
        "gaps": sum(count["gaps"] for count in counts),
        "cpu": (spent["cpu"] + sum(count["cpu"] for count in counts)) / max(got, 1) * 1e6,
        "samples": got,
        "sub_rss": memory["rss"]["VmRSS"],
        "pub_rss": memory["pub"]["VmRSS"],
        "sub_shm": memory["rss"]["RssShmem"],
        "pub_shm": memory["pub"]["RssShmem"],
    }


def one_way(name: str, mode: str, size: int, seconds: float, subscribers: int = 1) -> Values:
    """Throughput to so many subscribers."""
    with Crew(name, size, mode=mode, seconds=seconds) as crew:
        sender, takers = meet(crew, subscribers)
        return pour(crew, sender, takers)


def idle_then_loaded(name: str, size: int, seconds: float, idle_s: float) -> Values:
    """Memory and CPU of two processes that have met and say nothing, then their memory under load."""
    with Crew(name, size, seconds=seconds) as crew:
        sender, takers = meet(crew)
        sender.tell("hush")
        time.sleep(0.2)
        before = [one.cpu() for one in (sender, *takers)]
        time.sleep(idle_s)
        after = [one.cpu() for one in (sender, *takers)]
        idle = [one.status() for one in (sender, *takers)]
        loaded = pour(crew, sender, takers)
        return {
            "idle_pub_rss": idle[0]["VmRSS"],
            "idle_sub_rss": idle[1]["VmRSS"],
            "idle_pub_shm": idle[0]["RssShmem"],
            "idle_sub_shm": idle[1]["RssShmem"],
            "idle_pub_cpu": 100 * (after[0] - before[0]) / idle_s,
            "idle_sub_cpu": 100 * (after[1] - before[1]) / idle_s,
            "loaded_pub_rss": loaded["pub_rss"],
            "loaded_sub_rss": loaded["sub_rss"],
            "loaded_pub_shm": loaded["pub_shm"],
            "loaded_sub_shm": loaded["sub_shm"],
        }


def round_trip(name: str, size: int, seconds: float, cpus: list[int]) -> Values:
    """
    Percentiles of there and back, in microseconds, the processes pinned on the first and the last of these processors.
    Left alone, the kernel would put both on one as often as not.
    """
    with Crew(name, size, seconds=seconds) as crew:
        pong = crew.start("pong", cpus[-1:])
        ping = crew.start("ping", cpus[:1])
        pong.hear("open", OPEN_S)
        ping.hear("open", OPEN_S)
        pong.hear("first", OPEN_S)
        ping.tell("listen")
        ping.hear("first", OPEN_S)
        pong.tell("go")
        ping.tell("go")
        return ping.hear("done", seconds + SLACK_S)


def cold(name: str) -> Values:
    """Milliseconds from the start of two processes to the first sample."""
    with Crew(name, 64) as crew:
        taker = crew.start("take")
        sender = crew.start("send")
        sender.hear("open", OPEN_S)
        return first_sample(crew, sender, taker)


def join(name: str) -> Values:
    """The same for a subscriber whose publisher has been there for a while."""
    with Crew(name, 64) as crew:
        sender = crew.start("send")
        sender.hear("open", OPEN_S)
        time.sleep(JOIN_S)
        return first_sample(crew, sender, crew.start("take"))


def first_sample(crew: Crew, sender: Process, taker: Process) -> Values:
    """When it came; and then no samples, but the END by which the subscriber leaves."""
    taker.hear("open", OPEN_S)
    at = taker.hear("first", OPEN_S)["at"]
    pour(crew, sender, [taker])
    return {"ms": 1e3 * (at - taker.started)}


def importing(name: str) -> Values:
    """Milliseconds that the import of the library takes."""
    with Crew(name, 64) as crew:
        return crew.start("import").hear("done", OPEN_S)
