"""The program `pyddsi` in processes of its own, each test in a group that nobody else hears."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from pyddsi import cli
from tests.api.rooms import TIMEOUT, group

__all__ = ["TIMEOUT", "Captured", "Program", "group", "run", "started"]

ROOT = Path(__file__).parents[2]
Captured = pytest.CaptureFixture[str]

# who runs the tests in the background may have had Ctrl-C ignored
PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from pyddsi import cli; sys.exit(cli.main())\n"
)


def run(*arguments: str) -> int:
    """The program within this process; argparse ends it on its own."""
    try:
        return cli.main(arguments)
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


class Program:
    """One that runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.pid = process.pid

    @staticmethod
    def _line(pipe: IO[bytes] | None) -> str:
        assert pipe is not None
        return pipe.readline().decode()

    def line(self) -> str:
        """The next line of its output."""
        return self._line(self.process.stdout)

    def remark(self, words: str) -> str:
        """The next line of standard error that has these words."""
        while words not in (line := self._line(self.process.stderr)):
            assert line, f"it ended without saying {words!r}"
        return line

    def write(self, data: bytes) -> None:
        """Type something."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def interrupt(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        """Ctrl-C, as a terminal does it: to all of its processes."""
        os.killpg(self.pid, number)
        return self.end()

    def end(self) -> tuple[int, str, str]:
        """Its exit status, and what it says until then."""
        out, err = self.process.communicate(timeout=3 * TIMEOUT)  # none of what was closed
        assert b"Traceback" not in err, err.decode()
        return self.process.returncode, (out or b"").decode(), err.decode()


@contextmanager
def started(where: str, *arguments: str, **environment: str) -> Iterator[Program]:
    """The program, in this group; it ends with the block at the latest."""
    mine: dict[str, Any] = {"PYDDSI_GROUP": where, "PYTHONPATH": str(ROOT), **environment}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | mine,
        start_new_session=True,
    ) as process:
        try:
            yield Program(process)
        finally:
            process.kill()
