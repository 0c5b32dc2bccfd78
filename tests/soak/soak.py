"""
The soak: processes that publish to each other for minutes, while they are killed, stopped and begun again, and packets are
lost. Afterwards the books of all have to balance.

    ./run soak                  ten minutes, four processes
    ./run soak 1 --seed 7       one minute; the seed decides who is killed when, as far as time allows
    ./run soak --json           one JSON object at the end, and its progress on standard error

    play    faults every second or so; everybody publishes ──► heal    no faults any more, the dead are begun again
                                                               quiet   nobody puts; what was accepted arrives
                                                               end     all close; nothing is left behind

Process 0 is never killed, only stopped now and then: its memory has to stay as it was. Ctrl-C ends it cleanly, with a
verdict on what there was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.soak import books
from tests.soak.judge import MIB, Judge
from tests.soak.verdict import Verdict, show
from tests.soak.watch import PATIENCE as SILENCE
from tests.soak.watch import Watch, stacks

ROOT = Path(__file__).parents[2]
LEASE = 2.0
SCOUT = 0.5
FAULT_EVERY = 1.2
PATIENCE = 60.0
STEP = 0.1
SHARED = Path("/dev/shm")  # noqa: S108 - looked at, not used


@dataclass(slots=True)
class Plan:
    """What a soak is to be."""

    seconds: float = 600.0
    processes: int = 4
    seed: int = 1
    loss: float = 0.02
    pace: float = 1.0
    group: str = ""
    slack: int = 6 * MIB
    say: Callable[[str], None] = lambda _: None


@dataclass(slots=True)
class Slot:
    """A place for a process, of which one is alive at a time."""

    number: int
    life: int = 0
    process: subprocess.Popen[bytes] | None = None
    stopped_until: float = 0.0  # 0: it runs
    watch: Watch | None = None

    def tell(self, word: str) -> None:
        """A word to the process."""
        if self.process is not None and self.process.stdin is not None:
            try:
                self.process.stdin.write(word.encode() + b"\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                pass  # it has ended by itself: that is seen elsewhere

    def signal(self, number: int) -> None:
        """A signal to it."""
        if self.process is not None:
            self.process.send_signal(number)


class Soak:
    """One of them, from the first process to the verdict."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.draw = random.Random(plan.seed)
        self.folder = Path(tempfile.mkdtemp(prefix="pyddsi-soak-"))
        self.slots = [Slot(i) for i in range(plan.processes)]
        self.faults: Counter[str] = Counter()
        self.lives: list[tuple[int, int]] = []
        self.violations: list[str] = []
        self.healed = False
        self.clock = (
            threading.Event()
        )  # never set: it paces what happens, and no verdict depends on it

    # ---- processes ----

    def begin(self, slot: Slot) -> None:
        """Start a process there: with memory or without, under its old name or a new one."""
        slot.life += 1
        shared = self.draw.random() < 0.5
        loss = 0.0 if self.healed else self.draw.choice((0.0, self.plan.loss, 2 * self.plan.loss))
        name = struct.pack(">BHIB", slot.number, self.plan.seed & 0xFFFF, os.getpid(), 0)
        if slot.life > 1 and self.draw.random() < 0.5:
            name = name[:-1] + struct.pack(">I", slot.life)
        options = {
            "slot": slot.number,
            "life": slot.life,
            "seed": self.plan.seed,
            "pace": self.plan.pace,
            "folder": str(self.folder),
            "loss": loss,
            "id": name.hex(),
            "told": {"shared": shared, "loss": loss},
            "config": {
                "group": self.plan.group,
                "lease": LEASE,
                "scout": SCOUT,
                "shared_memory": shared,
            },
        }
        log = self.folder / f"{slot.number}-{slot.life}.log"
        slot.watch = Watch(log, time.monotonic())
        with self.errors(slot).open("wb") as errors:
            slot.process = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.worker", json.dumps(options)],
                stdin=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                start_new_session=True,  # Ctrl-C is for us; they are told
            )
        self.lives.append((slot.number, slot.life))

    def end(self, slot: Slot, *, how: str) -> None:
        """End the process there."""
        process = slot.process
        if process is None:
            return
        if how == "kill":
            process.kill()
            slot.stopped_until = 0.0
        else:
            self.resume(slot)
            slot.tell("end")
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.violations.append(f"{slot.number}.{slot.life} did not end when it was told to")
            process.kill()
            status = process.wait()
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # a word that it ended without
                process.stdin.close()
        wanted = -signal.SIGKILL if how == "kill" else 0
        if status != wanted:
            text = self.errors(slot).read_text()[-2000:]
            self.violations.append(
                f"{slot.number}.{slot.life} ended with {status}, not {wanted}: {text}"
            )
        slot.process = None

    def resume(self, slot: Slot) -> None:
        """Let it run, if it was stopped."""
        if slot.stopped_until:
            slot.signal(signal.SIGCONT)
            slot.stopped_until = 0.0

    def alive(self) -> list[tuple[int, int]]:
        """Those that are there now."""
        return [(one.number, one.life) for one in self.slots if one.process is not None]

    def errors(self, slot: Slot) -> Path:
        """The file of what it writes on standard error."""
        return self.folder / f"{slot.number}-{slot.life}.err"

    def stands(self, slot: Slot) -> str:
        """Where its threads stand now."""
        return "" if slot.process is None else stacks(slot.process.pid, self.errors(slot))

    def look(self) -> None:
        """Whether one has ended by itself, or stands still."""
        now = time.monotonic()
        for slot in self.slots:
            if slot.process is not None and slot.process.poll() is not None:
                self.end(slot, how="crash")
            elif slot.watch is not None and slot.watch.look(
                now, stopped=slot.process is None or slot.stopped_until != 0
            ):
                self.violations.append(
                    f"{slot.number}.{slot.life} runs, and wrote nothing into its books for {SILENCE:g} s:\n"
                    f"{self.stands(slot)}"
                )

    # ---- faults ----

    def fault(self, now: float) -> None:
        """One thing goes wrong."""
        slot = self.draw.choice(self.slots)
        kind = self.draw.choice(("kill", "kill", "close", "pause", "stop"))
        if slot.number == 0 and kind in {"kill", "close"}:
            kind = "pause"
        if slot.process is None or (slot.stopped_until and kind != "kill"):
            return
        self.faults[kind] += 1
        if kind in {"kill", "close"}:
            self.end(slot, how=kind)
            slot.stopped_until = 0.0
        else:
            length = 0.5 * LEASE if kind == "pause" else 1.5 * LEASE
            slot.stopped_until = now + self.draw.uniform(0.2, 1.0) * length + (kind == "stop")
            slot.signal(signal.SIGSTOP)

    def play(self) -> None:
        """Faults, for as long as was wanted."""
        start = time.monotonic()
        next_fault, next_line = start + 2.0, start
        reborn: dict[int, float] = {}
        while (now := time.monotonic()) - start < self.plan.seconds:
            self.look()
            for slot in self.slots:
                if slot.process is None and now >= reborn.setdefault(
                    slot.number, now + self.draw.choice((0.0, 0.3, 1.5 * LEASE))
                ):
                    self.begin(slot)
                    del reborn[slot.number]
                if slot.stopped_until and now >= slot.stopped_until:
                    self.resume(slot)
            if now >= next_fault:
                next_fault = now + self.draw.expovariate(1 / FAULT_EVERY)
                self.fault(now)
            if now >= next_line:
                next_line = now + 10.0
                self.progress(now - start)
            self.clock.wait(STEP)

    def progress(self, seconds: float) -> None:
        """A line for who watches, and a first look for what cannot be mended any more."""
        judge = self.judge()
        faults = ", ".join(f"{n} {what}" for what, n in sorted(self.faults.items()))
        rows = judge.table()
        sent = sum(sum(row["accepted"]) for row in rows)
        heard = sum(sum(row["heard"]) for row in rows)
        bad = len(judge.streams()) + len(self.violations)
        self.plan.say(
            f"{seconds:5.0f} s  {len(self.lives):3d} lives ({faults or 'no fault'})  {sent:,} accepted, "
            f"{heard:,} heard  {f'{bad} VIOLATIONS' if bad else 'all well'}"
        )

    # ---- the end ----

    def judge(self) -> Judge:
        """The books as they are now."""
        records = [books.read(self.folder, *one) for one in self.lives]
        for one in records:  # what somebody has heard by now was begun before this
            books.refresh(self.folder, one)
        return Judge(records)

    def heal(self) -> None:
        """No more faults, and everybody is there."""
        self.healed = True
        for slot in self.slots:
            self.resume(slot)
            slot.tell("heal")
            if slot.process is None:
                self.begin(slot)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.judge().strangers(self.alive()):
            self.look()
            self.clock.wait(5 * STEP)

    def settle(self) -> list[str]:
        """Nobody puts; what was accepted has to arrive. Answers what did not."""
        for slot in self.slots:
            slot.tell("quiet")
        end = time.monotonic() + PATIENCE
        behind = ["nothing was looked at"]
        while behind and time.monotonic() < end:
            self.clock.wait(5 * STEP)
            behind = self.judge().behind(self.alive())
        if behind:
            for slot in self.slots:
                self.plan.say(f"{slot.number}.{slot.life} stands at\n{self.stands(slot)}")
        return behind

    def left(self) -> list[str]:
        """What is left behind: files, and sockets in our group."""
        found = [f"{path} was left" for path in SHARED.glob("*pyddsi*")]
        port = int(self.plan.group.rpartition(":")[2])
        for table in ("/proc/net/udp", "/proc/net/udp6"):
            for line in Path(table).read_text().splitlines()[1:]:
                if int(line.split()[1].rpartition(":")[2], 16) == port:
                    found.append(f"a socket was left on port {port}")
        return found

    def run(self) -> Verdict:
        """All of it."""
        start = time.monotonic()
        try:
            try:
                self.play()
            except KeyboardInterrupt:
                self.plan.say("interrupted: what there was is judged")
            self.heal()
            alive = self.alive()
            self.violations += self.settle()
            for slot in self.slots:
                self.end(slot, how="close")
            judge = self.judge()
            self.violations += judge.streams()
            self.violations += judge.grown(alive, self.plan.slack)
            self.violations += self.left()
            return Verdict(
                time.monotonic() - start,
                dict(self.faults),
                len(self.lives),
                judge.table(),
                self.violations,
            )
        finally:
            for slot in self.slots:
                if slot.process is not None:
                    slot.process.kill()
                    slot.process.communicate()
            if not self.violations:
                shutil.rmtree(self.folder, ignore_errors=True)
            else:
                self.plan.say(f"the books are kept in {self.folder}")


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__.split("\n\n")[0])
    parser.add_argument("minutes", nargs="?", type=float, default=10.0, metavar="MINUTES")
    parser.add_argument("--seed", type=int, default=int(time.time()) & 0xFFFF)
    parser.add_argument("--loss", type=float, default=0.02, help="of packets, from 0 to 1 (0.02)")
    parser.add_argument("--pace", type=float, default=1.0, help="how fast all publish (1.0)")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pid = os.getpid()
    plan = Plan(
        seconds=60 * options.minutes,
        processes=options.processes,
        seed=options.seed,
        loss=options.loss,
        pace=options.pace,
        group=f"239.255.{pid >> 8 & 255}.{pid & 255}:{20000 + pid % 12000}",
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    plan.say(f"seed {plan.seed}, group {plan.group}, {plan.seconds:g} s")
    verdict = Soak(plan).run()
    print(json.dumps(asdict(verdict), indent=1) if options.json else show(verdict))
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
