"""The files of a recording: how they follow each other, what each holds, and what is left when their writer is killed."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections import Counter
from pathlib import Path

import pytest

from pyddsi import capture
from pyddsi.capture import CaptureWarning
from pyddsi.capture._rotate import Files
from pyddsi.errors import CaptureError
from tests.py.make_capture import enhanced

TIMEOUT = 100.0
BLOCK = enhanced(bytes(68))
"""A packet that is nothing, in 100 bytes."""


def frames(*times: int) -> tuple[memoryview, array[int], array[int], int]:
    """Blocks with these times."""
    ends = array("I", [len(BLOCK) * (i + 1) for i in range(len(times))])
    return memoryview(BLOCK * len(times)), array("q", times), ends, len(times)


def counts_of(files: Files) -> list[int]:
    """How many of these blocks are in each file."""
    return [Path(name).read_bytes().count(BLOCK) for name in files.names]


def test_files_of_a_limited_time(tmp_path: Path) -> None:
    """A file would hold packets of a longer time than allowed, or one be lost where files change."""
    files = Files(tmp_path / "run.pcapng", max_time=1.0)
    second = 10**9
    files.write(*frames(5, 6, second + 4, second + 5, second + 6))
    files.write(*frames(2 * second + 4, 5 * second, 5 * second + 1))
    files.end()
    assert counts_of(files) == [3, 3, 2]
    assert files.frames == 8


def test_only_the_newest(tmp_path: Path) -> None:
    """The files of a recorder that runs for days would fill the disk."""
    files = Files(tmp_path / "run.pcapng", max_time=1.0, keep=2)
    for i in range(5):
        files.write(*frames(i * 10**10))
    files.end()
    there = sorted(file.name for file in tmp_path.iterdir())
    assert there == ["run_00004.pcapng", "run_00005.pcapng"]
    assert [Path(name).name for name in files.names] == there


def test_an_old_file_that_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A recording would end because a file that is too old cannot be removed."""
    files = Files(tmp_path / "run.pcapng", max_time=1.0, keep=1)
    files.write(*frames(0))
    Path(files.names[0]).unlink()
    Path(files.names[0]).mkdir()
    for i in range(1, 3):
        files.write(*frames(i * 10**10))
    files.end()
    there = sorted(file.name for file in tmp_path.iterdir())
    assert there == ["run_00001.pcapng", "run_00003.pcapng"]
    assert "run_00001.pcapng stays: it cannot be removed: Is a directory" in caplog.text


KILLED = """
import os, signal, sys
from pyddsi.capture import _rotate

block, lines = bytes.fromhex(sys.argv[2]), 0

def record(number):
    global lines
    lines = 0
    os.mkdir(f"{sys.argv[1]}/{number}")
    files = _rotate.Files(f"{sys.argv[1]}/{number}/run.pcapng", max_time=1.0, keep=2)
    files.link(101)
    files.write(memoryview(block), [0], [len(block)], 1)

    def kill(frame, event, _argument):
        global lines
        if frame.f_code.co_filename != _rotate.__file__:
            return None
        lines += event == "line"
        if lines == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return kill

    sys.settrace(kill)
    files.write(memoryview(block), [10**10], [len(block)], 1)
    sys.settrace(None)
    files.end()

record(-1)  # what is made once is made, which each child would make again
number, status = 0, None
while status != 0:
    number += 1
    child = os.fork() or (record(number), os._exit(0))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, -signal.SIGKILL}, status
print(number)
"""
"""Records into a folder for each line of the code that writes files, and is killed there."""


def test_killed_at_any_moment_of_a_rotation(tmp_path: Path) -> None:
    """A recorder that is killed while it begins another file would leave one that nobody can read."""
    program = [sys.executable, "-c", KILLED, str(tmp_path), BLOCK.hex()]
    done = subprocess.run(program, check=True, timeout=TIMEOUT, stdout=subprocess.PIPE)
    lines = int(done.stdout)
    assert lines > 50
    sizes = Counter(
        file.stat().st_size > 0 for folder in tmp_path.iterdir() for file in folder.glob("*.pcapng")
    )
    assert list(sizes) == [True]
    assert sizes.total() > lines
    rows = {capture.open(folder).table("packets").num_rows for folder in tmp_path.iterdir()}
    assert rows == {1, 2}


def test_an_empty_file_among_others(tmp_path: Path) -> None:
    """A folder could not be read because a writer was killed before it wrote anything into its last file."""
    files = Files(tmp_path / "run.pcapng", max_time=1.0)
    files.link(101)
    for i in range(2):
        files.write(*frames(i * 10**10))
    files.end()
    (tmp_path / "run_00003.pcapng").touch()
    for what in (tmp_path, f"{tmp_path}/*.pcapng"):
        with pytest.warns(CaptureWarning, match=r"run_00003.pcapng is empty, and left out"):
            found = capture.open(what)
        assert found.table("packets").num_rows == 2
        assert [problem.kind for problem in found.problems] == ["empty"]
    with pytest.raises(CaptureError, match="is empty"):
        capture.open(tmp_path / "run_00003.pcapng").info()


def test_what_was_lost_is_told(tmp_path: Path) -> None:
    """A file from which packets are missing would look complete."""
    files = Files(tmp_path / "run.pcapng")
    files.link(101)
    files.lost = 7
    files.end()
    found = capture.open(files.names[0])
    assert [(one.kind, one.count) for one in found.info().findings if "drop" in one.kind] == [
        ("capture_drop", 7)
    ]
