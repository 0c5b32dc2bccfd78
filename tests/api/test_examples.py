"""Every example runs, prints what a reader would hope for, and is short."""

import os
import subprocess
import sys

import pytest
from cbuild import ROOT

import pyddsi
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


NO_NUMPY = "import sys, runpy; sys.modules['numpy'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"


@pytest.mark.parametrize("name", ["03_loan.py", "04_many.py"])
def test_an_example_without_numpy(name: str) -> None:
    """A newcomer without numpy would get a trace, and no word of how it is installed."""
    done = subprocess.run(
        [sys.executable, "-c", NO_NUMPY, str(ROOT / "examples" / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = "this example needs numpy: pip install 'pyddsi[numpy]'\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_an_array_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that asks for an array would get a trace, and no word of how numpy is installed."""
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pyddsi.open(group=group()) as session:
        sub = session.subscriber("a")
        with pytest.raises(ModuleNotFoundError, match=r"recv_array needs numpy.*'pyddsi\[numpy\]'"):
            sub.recv_array()
