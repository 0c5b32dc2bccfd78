"""`pyddsi.testing`: scenarios play what they say, the same each time, and their reports tell all of it."""

from __future__ import annotations

from typing import Any

import pytest

from pyddsi._native import ffi, lib
from pyddsi.testing import (
    _scenarios,
    check_texts,
    find_scenario,
    measure_repair,
    run_scenario,
    scenarios,
)


def test_scenarios() -> None:
    """A scenario could not be found or played, or its report be of another run."""
    known = scenarios()
    assert len(known) == len({scenario.name for scenario in known}) >= 20
    assert find_scenario("loss").text
    assert all(scenario.text for scenario in known)
    one, two = run_scenario("loss", 3), run_scenario("loss", 3, keep_packets=True)
    assert one.digest == two.digest
    assert (one.scenario, one.seed, one.sent) == ("loss", 3, [])
    assert one.digest != run_scenario("loss", 4).digest
    assert len({packet.number for packet in two.sent}) >= two.packets > 0
    assert sum(packet.fate == "lost" for packet in two.sent) == two.packets_lost
    assert list(one.checks) == list(check_texts())
    assert sum(one.checks.values()) > 100
    assert one.to_dict()["scenario"] == "loss"
    assert "sent" not in one.to_dict()


def test_violations_of_a_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """The violations of a kept run would be lost."""
    texts = [ffi.new("char[]", b"one"), ffi.new("char[]", b"two")]

    class Lib:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def pyddsi_sim_violation(self, _sim: Any, index: int) -> Any:
            return texts[index] if index < 2 else ffi.NULL

    monkeypatch.setattr(_scenarios, "lib", Lib())
    assert run_scenario("pair", 1, keep_packets=True).violation_texts == ["one", "two"]


def test_repair() -> None:
    """The measurement would not lose or not repair, or count in other units."""
    found = measure_repair(1, loss=0.05, samples=500)
    assert found.put == found.delivered == 500
    assert 5 <= found.lost <= 60
    assert 0.001 < found.median <= found.p99 <= found.max < 1.0
    assert found.resent_per_lost == found.resent / found.lost
    assert measure_repair(1, loss=0.0, samples=100).resent_per_lost == 0.0
