"""A slice of the worlds that `.ci/run --long` plays 10,000 of: python -m tests.spark.world 10000."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.world import play


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_worlds(tmp_path: Path, seed: int) -> None:
    """Frames of some file would be read twice, or never, and nothing be said; or a batch that is run again have other rows."""
    for one in range(seed, seed + 10):
        assert play(one, tmp_path / "world") == [], f"seed {one}"
