"""The usual number of seeds over all scenarios, by the command that users have."""

import json
import subprocess
import sys

SEEDS = 2000


def test_two_thousand_seeds() -> None:
    """A seed breaks a promise: a sample lost without a word, delivered twice, out of order, or never; books or memory."""
    command = [sys.executable, "-m", "pyddsi", "sim", "--seeds", str(SEEDS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    total = json.loads(done.stdout)["total"]
    assert total["seeds"] == SEEDS
    assert total["violations"] == 0
    assert total["taken"] > 0
