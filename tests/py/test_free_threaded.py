"""A Python without the global lock is refused, with words that say what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRETEND = "import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = {free}; "
WORDS = "pyddsi does not run on a free-threaded Python such as 3.13t: take the usual one"


def said(program: str) -> tuple[int, str]:
    """The end of a program."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def test_build() -> None:
    """Whoever builds there would get a page of errors of the compiler."""
    status, words = said(PRETEND.format(free=1) + "exec(open('setup.py').read())")
    assert status == 1
    assert words.startswith(WORDS)


@pytest.mark.parametrize(("free", "expected"), [(1, WORDS), (0, "the compiled half of pyddsi")])
def test_import(free: int, expected: str) -> None:
    """Whoever imports it there, or from a tree that is not built, would learn of a module with a strange name."""
    program = "import sys; sys.modules['pyddsi._core'] = None; import pyddsi; pyddsi.open"
    status, words = said(PRETEND.format(free=free) + program)
    assert status == 1
    assert f"ImportError: {expected}" in words.splitlines()[-1]
