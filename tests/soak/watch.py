"""
The watchdog of the soak: where a process stands that runs, and writes nothing into its books any more.

    log of a process grows four times a second ──► Watch.look ──► silent for a minute, and not stopped: its stacks

A soak that only counted at its end would show that a process fell behind, and not what it waited for.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

PATIENCE = 60.0
_WRITING = 2.0  # how long a process may take to write its stacks; one that is stuck in the kernel never does


def stacks(pid: int, errors: Path) -> str:
    """
    Where each thread of a process stands: those of Python as its fault handler writes them (see worker.py), and what each
    thread of the system waits for.
    """
    before = errors.stat().st_size
    lines = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        try:
            name, call, wait = ((task / what).read_text() for what in ("comm", "syscall", "wchan"))
        except OSError:
            continue  # the thread has ended
        lines.append(f"  {task.name} {name.strip()}: system call {call.split()[0]}, in {wait}")
    os.kill(pid, signal.SIGUSR1)
    pause = threading.Event()  # never set
    for _ in range(int(_WRITING / 0.1)):
        pause.wait(0.1)
        if errors.stat().st_size > before:
            break
    pause.wait(0.1)
    with errors.open("rb") as file:
        file.seek(before)
        lines += [f"  {line}" for line in file.read().decode(errors="replace").splitlines()]
    return "\n".join(lines)


class Watch:
    """Watches the log of one life of a process."""

    def __init__(self, log: Path, now: float) -> None:
        self.log, self.size, self.since, self.told = log, 0, now, False

    def look(self, now: float, *, stopped: bool) -> bool:
        """Whether it has been silent for too long, although it runs. Says so once."""
        size = self.log.stat().st_size if self.log.exists() else 0
        if size != self.size or stopped:
            self.size, self.since = size, now
        silent = now - self.since > PATIENCE and not self.told
        self.told = self.told or silent
        return silent
