"""The soak, for some seconds: what ten minutes of it would find sometimes, this finds often."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.rooms import group
from tests.soak.books import BEST, LARGE, SMALL, Book, read
from tests.soak.judge import MIB, WARM_MIN, Judge
from tests.soak.loss import Loss
from tests.soak.soak import Plan, Soak
from tests.soak.verdict import show
from tests.soak.watch import PATIENCE, Watch, stacks

ROOT = Path(__file__).parents[2]


def test_soak() -> None:
    """Processes that are killed, stopped and begun again would lose samples, see some twice, or leave something behind."""
    plan = Plan(seconds=12.0, seed=7, loss=0.03, group=group(), slack=64 * MIB)
    verdict = Soak(plan).run()
    assert verdict.violations == [], show(verdict)
    assert verdict.lives >= plan.processes
    assert sum(sum(row["heard"]) for row in verdict.processes) > 0


def test_interrupt() -> None:
    """Ctrl-C would leave processes behind, or no verdict."""
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tests.soak import soak; sys.exit(soak.main(['5', '--json', '--processes', '2']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        where = process.stderr.readline().split("group ")[1].split(",")[0]
        while "lives" not in (line := process.stderr.readline()):
            assert line, "it ended"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    verdict = json.loads(out)
    assert verdict["violations"] == []
    assert process.returncode == 0
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert where.encode() not in one.read_bytes()
        except OSError:
            continue  # it has ended meanwhile


def test_loss() -> None:
    """Nothing would be lost, or something still when it is over: then the soak shows less than it says."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
    ):
        here.bind(("127.0.0.1", 0))
        here.setblocking(False)  # noqa: FBT003

        def heard() -> int:
            """Of a thousand packets, which come at once on this way."""
            count = 0
            for _ in range(1000):
                there.sendto(b"x", here.getsockname())
                try:
                    here.recv(16)
                    count += 1
                except BlockingIOError:
                    continue
            return count

        loss = Loss(0.5)
        assert 100 < heard() < 900
        loss.heal()
        assert heard() == 1000


# ---- the judge ---------------------------------------------------------------------------------------------------


@pytest.fixture
def room(tmp_path: Path) -> Iterator[tuple[Path, Book, Book]]:
    """Two processes: 0 has put ten samples of each stream, 1 has heard none yet."""
    books = Book(tmp_path, 0, 1), Book(tmp_path, 1, 1)
    for slot, book in enumerate(books):
        book.say("begun", pid=slot, name=f"name{slot}", shared=True, loss=0.0)
        book.say("state", quiet=True, in_flight=0, rss=1, fds=1, drops=[])
    for stream in (SMALL, LARGE):
        books[0].sent(stream, 10, 10)
    yield tmp_path, *books
    for book in books:
        book.close()


def judged(folder: Path) -> Judge:
    """The books as they are."""
    return Judge(read(folder, slot, 1) for slot in (0, 1))


def test_judge_is_content(room: tuple[Path, Book, Book]) -> None:
    """What is as it should be would be found fault with."""
    folder, _, reader = room
    for stream in (SMALL, LARGE):
        for number in range(10):
            reader.heard(0, 1, stream, number, whole=True)
    assert judged(folder).streams() == []
    assert judged(folder).behind([(0, 1), (1, 1)]) == []


@pytest.mark.parametrize(
    ("numbers", "whole", "words"),
    [
        ([0, 1, 1], True, "twice, or out of order"),
        ([0, 2, 1], True, "twice, or out of order"),
        ([0, 1, 3], True, "1 samples in 1 gaps are missing"),
        ([0, 1, 2], False, "3 samples are not what was put"),
        ([9, 10], True, "only 10 were begun"),
    ],
)
def test_judge_finds(
    room: tuple[Path, Book, Book],
    numbers: list[int],
    whole: bool,  # noqa: FBT001
    words: str,
) -> None:
    """A promise that is broken would not be seen."""
    folder, _, reader = room
    for number in numbers:
        reader.heard(0, 1, SMALL, number, whole=whole)
    assert any(words in fault for fault in judged(folder).streams())


def test_best_effort_may_be_late(room: tuple[Path, Book, Book]) -> None:
    """What came by another way, and so behind a later one, would be a fault; or what comes twice none."""
    folder, writer, reader = room
    writer.sent(BEST, 10, 10)
    for number in (0, 5, 3, 6):
        reader.heard(0, 1, BEST, number, whole=True)
    assert judged(folder).streams() == []
    reader.heard(0, 1, BEST, 3, whole=True)
    assert any("1 samples came twice" in fault for fault in judged(folder).streams())


@pytest.mark.parametrize("reason", ["disconnected", "reconnected", "detached"])
def test_judge_takes_reasons(room: tuple[Path, Book, Book], reason: str) -> None:
    """A gap that somebody has a reason for would be a fault; the reason of another stream is none."""
    folder, writer, reader = room
    for number in (0, 5):
        reader.heard(0, 1, SMALL, number, whole=True)
    reader.say("state", quiet=True, in_flight=0, drops=[["order", "gap", "soak/0/large", 4]])
    assert judged(folder).streams() != []
    reader.say("detached", peer="name0", reason=None)  # which is about what the reader itself sends
    assert judged(folder).streams() != []
    writer.say(reason, peer="name1", reason=None)
    assert judged(folder).streams() == []


def test_judge_takes_a_full_ring_of_its_own(room: tuple[Path, Book, Book]) -> None:
    """A large sample of one's own, listed as lost for want of room in the own ring, would be a fault; another's would be none."""
    folder, writer, reader = room
    full = [["ring", "full", "soak/0/large", 1]]
    for book, wrong in ((writer, False), (reader, True)):
        for number in (0, 2):
            book.heard(0, 1, LARGE, number, whole=True)
        assert judged(folder).streams() != []
        book.say("state", quiet=True, in_flight=0, drops=full)
        assert bool(judged(folder).streams()) == wrong


def test_judge_waits_for_the_last(room: tuple[Path, Book, Book]) -> None:
    """What never came at all would not be missed."""
    folder, _, reader = room
    for number in range(9):
        reader.heard(0, 1, SMALL, number, whole=True)
    behind = judged(folder).behind([(0, 1), (1, 1)])
    assert any("small: 10 accepted, 1.1 has those up to 9" in fault for fault in behind)
    assert any("large: 10 accepted, 1.1 has those up to 0" in fault for fault in behind)


def test_judge_knows_strangers(room: tuple[Path, Book, Book]) -> None:
    """The last process to begin would be asked for samples from before its time."""
    folder, writer, reader = room
    for book, slot in ((reader, 0), (writer, 1)):
        for stream in (SMALL, LARGE):
            assert judged(folder).strangers([(0, 1), (1, 1)])
            book.heard(slot, 1, stream, 0, whole=True)
    assert not judged(folder).strangers([(0, 1), (1, 1)])


def test_judge_weighs(room: tuple[Path, Book, Book]) -> None:
    """Memory and descriptors that become more would not be seen."""
    folder, writer, _ = room
    for step in range(2 * WARM_MIN):
        writer.say("state", quiet=False, rss=MIB * step, fds=2 * step, drops=[])
    found = judged(folder).grown([(0, 1)])
    assert any("its memory grew" in fault for fault in found)
    assert any("its descriptors grew" in fault for fault in found)


def test_watch(tmp_path: Path) -> None:
    """A process that stands still would be seen only as one that fell behind, or a stopped one would be taken for it."""
    program = (
        "import faulthandler, signal, threading; faulthandler.register(signal.SIGUSR1)\n"
        "def stuck(): print(flush=True); threading.Event().wait()\n"
        "stuck()\n"
    )
    errors, log = tmp_path / "1.err", tmp_path / "1.log"
    watch = Watch(log, 0.0)
    assert not watch.look(PATIENCE, stopped=False)
    log.write_text("a line\n")
    assert not watch.look(PATIENCE + 1, stopped=False)
    assert not watch.look(3 * PATIENCE, stopped=True)
    assert watch.look(4 * PATIENCE + 1, stopped=False)
    assert not watch.look(5 * PATIENCE, stopped=False)  # it was told
    with (
        errors.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=file
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        found = stacks(process.pid, errors)
        process.kill()
    assert "in stuck" in found
    assert f"{process.pid} python" in found
