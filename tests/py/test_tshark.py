"""The Wireshark plug-in against the core's decoder and the rules of docs/inside/capture.md, field by field."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pyddsi import wire
from pyddsi.testing import run_scenario, write_pcap
from tests.py import core_columns
from tests.py.golden import CAPTURES, index, load
from tests.py.tshark import compare, fields, followed

NAMES = sorted(index())

# Worlds of the simulator, chosen for what only they have.
SCENARIOS = {
    "auto": 0,
    "batch": 0,
    "best": 1,
    "corrupt": 0,
    "crash": 1,
    "fragments": 0,
    "hostile": 2,
    "pull": 1,
    "spaces": 0,
    "wrap": 0,
    "zhe": 0,
}


@pytest.mark.parametrize("name", NAMES)
def test_capture(name: str) -> None:
    """A field of a message would have another value in Wireshark than in the core, or what is concluded from it."""
    compare(CAPTURES / name, load(name))


@pytest.mark.parametrize("name", NAMES)
def test_capture_in_the_core(name: str) -> None:
    """A column of the core's table would have another value than the page and so Wireshark have, in a capture of zhe."""
    core_columns.compare(CAPTURES / name, load(name))


@pytest.mark.parametrize("name", ["p2p_loss5.pcap", "three_multicast_loss.pcap"])
def test_what_is_repeated_is_remembered(name: str) -> None:
    """The core would have forgotten when it was first sent just where something was lost."""
    assert not any(core_columns.compare(CAPTURES / name, load(name)).values())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The captures of the worlds."""
    folder = tmp_path_factory.mktemp("worlds")
    for scenario, seed in SCENARIOS.items():
        sent = run_scenario(scenario, seed, keep_packets=True).sent
        write_pcap(folder / f"{scenario}.pcap", sent)
    return {scenario: folder / f"{scenario}.pcap" for scenario in SCENARIOS}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str, played: dict[str, Path]) -> None:
    """What zhe does not say would be read otherwise: batches, pieces, spaces, moves, pulls, short numbers, any bytes at all."""
    compare(played[scenario], load(str(played[scenario])))
    core_columns.compare(played[scenario], load(str(played[scenario])))


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_hostile(seed: int, tmp_path: Path) -> None:
    """Endpoints at ports of other protocols would not be read as the profile has it, or names that are empty be names."""
    path = tmp_path / "hostile.pcap"
    write_pcap(path, run_scenario("hostile", seed, keep_packets=True).sent)
    packets = load(str(path))
    compare(path, packets, "-o", "udp.try_heuristic_first:TRUE")
    core_columns.compare(path, packets)


def test_scenarios_have_everything(played: dict[str, Path]) -> None:
    """The worlds above would leave out a kind of message, or an event."""
    kinds, events, usns = set[int](), set[int](), set[int]()
    for scenario, path in played.items():
        for packet, rows in followed(load(str(path))):
            kinds |= {message.KIND for message in packet.messages}
            events |= {row["seq_event"] for row in rows if "seq_event" in row}
            usns |= {row.get("usn", 0) for row in rows if scenario == "wrap"}
    assert kinds == set(wire.MESSAGES)
    assert events == set(range(9))
    assert max(usns) > 127


@pytest.mark.parametrize(("name", "count"), [("p2p_loss5", 401), ("three_multicast_loss", 623)])
def test_repeats(name: str, count: int) -> None:
    """The repeats that are known to be in a capture would be counted as something else."""
    asked = ["pyddsi.kind", "pyddsi.seq_event"]
    frames = fields(CAPTURES / f"{name}.pcap", asked, "-Y", f"pyddsi.kind == {wire.SData.KIND}")
    found = Counter(event for got in frames.values() for event in got["pyddsi.seq_event"])
    assert all(set(got["pyddsi.kind"]) == {"7"} for got in frames.values())
    assert found["3"] + found["8"] == count


@pytest.mark.parametrize("name", [n for n in NAMES if index()[n].errors] + ["result_conflict.pcap"])
def test_experts(name: str) -> None:
    """A packet would be marked that breaks no rule, refuses and repeats nothing, or one that does not be."""
    marked = dict[str, set[int]]()
    for packet, rows in followed(load(name)):
        refused = any(
            (isinstance(m, wire.Close) and m.reason != 0)
            or (
                isinstance(m, wire.Declare)
                and any(isinstance(d, wire.Result) and d.status for d in m.declarations)
            )
            for m in packet.messages
        )
        events = {row.get("seq_event") for row in rows}
        found = {
            "malformed": packet.error is not None,
            "refused": refused,
            "gap": 2 in events,
            "repeat": 3 in events,
            "pre_sync": 8 in events,
        }
        for expert, is_marked in found.items():
            marked.setdefault(expert, set()).update({packet.number} if is_marked else ())
    read = fields(CAPTURES / name, [f"pyddsi.expert.{expert}" for expert in marked])
    for expert, frames in marked.items():
        assert {frame for frame, got in read.items() if got[f"pyddsi.expert.{expert}"]} == frames
