"""
How often an idle session wakes up: alone, and with one peer in another process, both with the settings that everybody has.

    ./run bench idle                  ten seconds of each
    ./run bench idle --seconds 60 --json

Two figures for each: what the session counts itself (its receive and its housekeeping thread), and what strace sees, if it
is there and may look: every call by which a thread of the process waits, in all of its threads. The aim is one a second.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WAITS = (
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "futex",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "read",
)
LASTED = re.compile(r"<(\d+\.\d+)>$")
WAITED = 0.0005  # seconds; what took less has not slept
WARM = 4.0
AIM = 1.0

CHILD = """
import json, signal, sys, time
import pyddsi
with pyddsi.open(group=sys.argv[1]) as session:
    if sys.argv[2] == "two":
        session.wait_event("connected", timeout=20)
    signal.signal(signal.SIGUSR1, lambda *_: print(json.dumps(session.counts()), flush=True))
    print("ready", flush=True)
    while True:
        signal.pause()
"""


def _child(group: str, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, group, how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _counts(child: subprocess.Popen[str]) -> int:
    assert child.stdout is not None  # noqa: S101 - it is a pipe
    child.send_signal(signal.SIGUSR1)
    counts = json.loads(child.stdout.readline())
    return int(counts["wakeups_receive"] + counts["wakeups_housekeeping"])


def _traced(pid: int, seconds: float) -> tuple[float, dict[str, int]] | None:
    """Waiting calls a second, and all calls, by strace; None: it is not there, or may not look."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calls"
        command = [strace, "-f", "-qq", "-T", "-o", str(file), "-p", str(pid)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
            time.sleep(seconds)
            if tracer.poll() is not None:
                return None
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
        calls: dict[str, int] = {}
        woken = 0
        for line in file.read_text().splitlines():
            text = line.split(maxsplit=1)[1]
            resumed = text.startswith("<... ")
            name = text[5:].split()[0] if resumed else text.partition("(")[0]
            if not resumed:
                calls[name] = calls.get(name, 0) + 1
            spent = LASTED.search(text)  # a call that waited, and is over
            woken += name in WAITS and spent is not None and float(spent[1]) >= WAITED
        return woken / seconds, calls


def measure(how: str, seconds: float) -> dict[str, Any]:
    """One of the two."""
    pid = os.getpid()
    group = f"239.255.{pid >> 8 & 255}.{pid & 255}:{20000 + pid % 12000 + (how == 'two')}"
    children = [_child(group, how) for _ in range(1 + (how == "two"))]
    try:
        for child in children:
            assert child.stdout is not None  # noqa: S101 - it is a pipe
            child.stdout.readline()
        time.sleep(WARM)
        before = _counts(children[0])
        time.sleep(seconds)
        counted = (_counts(children[0]) - before) / seconds
        traced = _traced(children[0].pid, seconds)
        stat = Path(f"/proc/{children[0].pid}/stat").read_text().rpartition(")")[2].split()
        return {
            "sessions": len(children),
            "counted": round(counted, 3),
            "traced": None if traced is None else round(traced[0], 3),
            "calls": {} if traced is None else traced[1],
            "cpu_seconds": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
        }
    finally:
        for child in children:
            child.kill()
            child.communicate()


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="How often an idle session wakes up.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {how: measure(how, options.seconds) for how in ("one", "two")}
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for how, title in (("one", "alone"), ("two", "with a peer")):
            one = found[how]
            seen = "strace is not here, or may not look"
            if one["traced"] is not None:
                calls = ", ".join(f"{n} {name}" for name, n in sorted(one["calls"].items()))
                seen = f"{one['traced']:.2f} by strace ({calls})"
            print(f"{title:12} {one['counted']:.2f} wake-ups a second by its own count, {seen}")
    return int(any(one["counted"] > AIM for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
