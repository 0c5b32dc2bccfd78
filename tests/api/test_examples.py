"""Every example runs, prints what a reader would hope for, and is short."""

import os
import subprocess
import sys

import pytest
from cbuild import ROOT

from tests.api.rooms import group

SAID = {
    "01_hello.py": "plant/robot/7/pose b'x=1 y=2'",
    "02_patterns.py": """plant/oven/2/temperature b'{"celsius": 91}'""",
    "03_loan.py": "(480, 640) 255 False",
    "04_many.py": "(1000, 3) True",
    "05_async.py": "the sum is 45",
    "06_callback.py": "b'THERE'",
    "07_drops_and_events.py": "96 ring overwritten",
    "08_two_processes.py": "10000 samples from another process",
    "09_config.py": "did you mean 'lease'?",
}
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def test_all() -> None:
    """No example is left out here, and each is less than 40 lines."""
    assert list(SAID) == EXAMPLES
    for name in EXAMPLES:
        lines = (ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()
        assert len(lines) < 40, name
        assert name in (ROOT / "docs/guide/quickstart.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    """A newcomer runs an example, and it fails, warns, or prints something else."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        env={**os.environ, "PYDDSI_GROUP": group()},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert SAID[name] in done.stdout
