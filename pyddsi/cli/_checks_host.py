"""What a session needs besides a network, and the whole, tried."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pyddsi
from pyddsi.cli import _peers
from pyddsi.cli._machine import Finding, Machine
from pyddsi.cli._show import duration, many

__all__ = ["clock", "company", "files", "fork", "memory", "processors", "sessions", "software"]

FILES_LEAST = 256
FOUND_SECONDS = 5.0
COMPANY_SECONDS = 1.0
GOOD_CLOCKS = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"}


def software(_machine: Machine) -> Iterator[Finding]:
    """What this is."""
    yield Finding(
        "software",
        "ok",
        f"pyddsi {pyddsi.__version__}, Python {platform.python_version()}, Linux {platform.release()}, "
        f"{platform.machine()}",
    )


CHILD = """\
import os, sys
fd = os.memfd_create("pyddsi-doctor", os.MFD_CLOEXEC)
os.write(fd, b"seen")
print(os.getpid(), fd, flush=True)
sys.stdin.read()
"""


def memory(machine: Machine) -> Iterator[Finding]:
    """Shared memory: made by one process, opened by another through /proc."""
    if not machine.config.shared_memory:
        yield Finding("shared memory", "ok", "is not wanted (shared_memory = false)")
        return
    try:
        os.close(os.memfd_create("pyddsi-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    except OSError as error:
        yield Finding(
            "shared memory",
            "warn",
            f"memory cannot be had (memfd_create: {error.strerror}): samples for peers on this machine go by sockets",
            ("let the sandbox (seccomp) allow memfd_create",),
        )
        return
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None  # noqa: S101 - they are pipes
        pid, fd = child.stdout.readline().split()
        try:
            seen = Path(f"/proc/{int(pid)}/fd/{int(fd)}").read_bytes() == b"seen"
        except OSError:
            seen = False
        child.communicate()
    if seen:
        yield Finding("shared memory", "ok", "processes of this user can share it")
    else:
        yield Finding(
            "shared memory",
            "warn",
            "a process cannot open the memory of another one through /proc: samples on this machine go by sockets",
            ("sudo mount -o remount,hidepid=0 /proc",),
        )


def files(_machine: Machine) -> Iterator[Finding]:
    """How many files a process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "no limit" if soft == resource.RLIM_INFINITY else f"{soft:,}"
    if soft != resource.RLIM_INFINITY and soft < FILES_LEAST:
        yield Finding(
            "open files",
            "warn",
            f"a process may have {shown}; a session with many peers and lanes needs some hundred",
            (f"ulimit -n {hard if hard > 0 else 4096}",),
        )
    else:
        yield Finding("open files", "ok", f"a process may have {shown}")


def processors(_machine: Machine) -> Iterator[Finding]:
    """How many there are."""
    count = len(os.sched_getaffinity(0))
    if count == 1:
        yield Finding(
            "processors",
            "ok",
            "one: do not spin for samples here, others would have to wait for the processor",
        )
    else:
        yield Finding("processors", "ok", f"{count} that this process may use")


def clock(machine: Machine) -> Iterator[Finding]:
    """What a look at the time costs."""
    source = machine.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
    start, calls = time.perf_counter_ns(), 1000
    for _ in range(calls):
        time.monotonic_ns()
    each = (time.perf_counter_ns() - start) / calls / 1e9
    text = f"{source or 'unknown'}, {duration(each)} a look from Python"
    if source and source not in GOOD_CLOCKS:
        others = machine.read("sys/devices/system/clocksource/clocksource0/available_clocksource")
        yield Finding(
            "clock",
            "warn",
            f"{text}: a slow one, which costs at every sample; there are {others}",
            (
                "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
        )
    else:
        yield Finding("clock", "ok", text)


# ---- the whole, tried --------------------------------------------------------------------------------------------

FORKING = """\
import os, sys, warnings
warnings.simplefilter("ignore")
import pyddsi
with pyddsi.open(group="") as session:
    child = os.fork()
    if not child:
        try:
            session.peers()
        except pyddsi.ClosedError:
            os._exit(0)
        os._exit(1)
    status = os.waitpid(child, 0)[1]
    session.peers()
sys.exit(1 if status else 0)
"""


def fork(_machine: Machine) -> Iterator[Finding]:
    """Whether a process with a session can fork."""
    root = str(Path(pyddsi.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        yield Finding(
            "fork", "ok", "a session stays with the process that opened it; a child opens its own"
        )
    else:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        yield Finding(
            "fork",
            "fail",
            f"a process with a session cannot fork as it should: {last}",
            ("multiprocessing.set_start_method('spawn')",),
        )


MISSING = (
    "start it there, with listen; see its name by: getent hosts NAME",
    "and let its port through the firewalls between",
)
MORE_PEERS = (
    "PYDDSI_PEERS_MAX=1024 program   # for the one whose limit it is; or peers_max= of pyddsi.open()",
)


def sessions(machine: Machine) -> Iterator[Finding]:
    """Two sessions in a group of their own, beside the one that is asked about."""
    if machine.group is None:
        return
    host = f"[{machine.group[0]}]" if ":" in machine.group[0] else machine.group[0]
    beside = machine.config.replace(
        group=f"{host}:{20000 + os.getpid() % 12000}", listen=(), id=b"", peers=()
    )
    start = time.monotonic()
    try:
        with pyddsi.open(beside) as one, pyddsi.open(beside) as other:
            publisher, subscriber = (
                one.publisher("pyddsi/doctor"),
                other.subscriber("pyddsi/doctor"),
            )
            publisher.wait_matched(timeout=FOUND_SECONDS)
            found = time.monotonic() - start
            publisher.put(b"x")
            subscriber.recv(timeout=FOUND_SECONDS)
            counts, where = one.counts(), one.endpoint.address
    except (pyddsi.PyddsiError, TimeoutError, ValueError) as error:
        yield Finding(
            "sessions",
            "fail",
            f"two sessions here do not meet: {error}",
            ("mend what stands above first; or stay on this machine: --interface lo",),
        )
        return
    yield Finding(
        "sessions", "ok", f"two sessions here found each other in {duration(found)}, at {where}"
    )
    if beside.shared_memory and counts["lane_refused"]:
        yield Finding(
            "sessions",
            "warn",
            "they could not use each other's memory, so samples on this machine go by sockets",
            ("see shared memory above",),
        )


def company(machine: Machine) -> Iterator[Finding]:
    """Who else is there."""
    try:
        with pyddsi.open(machine.config.replace(id=b"")) as session:
            peers = _peers.find(session, COMPANY_SECONDS)
            heard = session.stats().packets_in
            refused = _peers.refused(session)
            missing = session.missing()
            alone = ip_address(session.endpoint.address).is_loopback and bool(machine.config.group)
    except (pyddsi.PyddsiError, ValueError) as error:
        yield Finding(
            "company",
            "fail",
            f"no session can be opened: {error}",
            ("pyddsi scout   # says the same for other options",),
        )
        return
    for line in refused:
        yield Finding("company", "fail", line, MORE_PEERS)
    for text, why in missing.items():
        yield Finding("company", "warn", f"the peer {text} is not reached: {why}", MISSING)
    who = f"{many(len(peers), 'session')} in the group {machine.config.group or '(none)'} answered"
    silent = not peers and heard
    if not peers and alone and not machine.config.interface:
        yield Finding(
            "company",
            "warn",
            f"{who}, and none of another machine could: the group is reached through loopback alone",
            ("see interface and route above",),
        )
        return
    yield Finding(
        "company",
        "warn" if silent else "ok",
        who
        + (
            ", though packets came in: of something that is no peer, or cannot answer"
            if silent
            else ""
        ),
        ("pyddsi scout", "tcpdump -i any -w - udp | pyddsi decode -") if silent else (),
    )
