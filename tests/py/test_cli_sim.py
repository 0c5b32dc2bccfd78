"""`pyddsi sim`, as its users meet it: what it plays and prints, what it says of a seed that fails, how it ends."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyddsi import cli
from pyddsi.capture import read_datagrams
from pyddsi.cli import _seeds
from pyddsi.cli import sim as sim_command
from pyddsi.testing import Report, check_texts, run_scenario, scenarios

Captured = pytest.CaptureFixture[str]
CALM = "hostile"  # a scenario of which the tests below need no more than that it plays


def run(*arguments: str) -> int:
    """The program within this process; argparse ends it on its own."""
    try:
        return cli.main(["sim", *arguments])
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


def played(scenario: str, seed: int, *, bad: int = 0) -> Report:
    """A report that says there were so many violations, whatever happened."""
    deaf = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert deaf or not multiprocessing.parent_process()
    report = run_scenario(scenario, seed)
    text = "1.000000 s, node 0: this is not so" if bad else ""
    return dataclasses.replace(
        report, violations=bad, violation=text, violation_texts=[text] if bad else []
    )


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs end well."""
    monkeypatch.setattr(_seeds, "run_scenario", played)


@pytest.fixture
def bad_seven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 7 ends with violations, seed 9 ends its process, the others are well."""

    def fake(scenario: str, seed: int) -> Report:
        if seed == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return played(scenario, seed, bad=3 if seed == 7 else 0)

    monkeypatch.setattr(_seeds, "run_scenario", fake)


def test_list(capsys: Captured) -> None:
    """A scenario or a check would be missing in the list, or have no text."""
    assert run("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    for scenario in scenarios():
        assert f"  {scenario.name:11} {scenario.text}" in lines
    for name, what in check_texts().items():
        assert f"  {name:11} {what}" in lines
    assert run("--list", "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["scenarios"] == {scenario.name: scenario.text for scenario in scenarios()}
    assert plain["checks"] == check_texts()


@pytest.mark.usefixtures("calm")
def test_table(capsys: Captured) -> None:
    """The table would lack a scenario, its sums be wrong, or success not be said."""
    assert run("--seeds", "6", "--scenario", CALM, "--scenario", "pair", "--jobs", "2") == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    runs = {CALM: [run_scenario(CALM, seed) for seed in (1, 3, 5)]}
    runs["pair"] = [run_scenario("pair", seed) for seed in (2, 4, 6)]
    for name, reports in runs.items():
        wanted = [
            len(reports),
            *(sum(getattr(r, n) for r in reports) for n in ("put", "taken", "excused", "packets")),
        ]
        assert [int(word) for word in rows[name][1:6]] == wanted
    assert rows["all"][1] == "6"
    for name, what in check_texts().items():
        total = sum(report.checks[name] for reports in runs.values() for report in reports)
        assert f"{total:12d}  {name:9} {what}" in out
    assert "6 seeds in " in out
    assert " a minute\n" in out
    assert out.endswith("no violation\n")


@pytest.mark.usefixtures("calm")
def test_seeds_take_turns(capsys: Captured) -> None:
    """A scenario would be left out, or a part of a long run play other worlds than the whole."""
    count = len(scenarios())
    assert run("--seeds", str(count), "--json") == 0
    whole = json.loads(capsys.readouterr().out)
    assert list(whole["scenarios"]) != []
    assert {name: one["seeds"] for name, one in whole["scenarios"].items()} == {
        scenario.name: 1 for scenario in scenarios()
    }
    assert run("--seeds", "1", "--first", "3", "--json") == 0
    (third,) = json.loads(capsys.readouterr().out)["scenarios"].items()
    assert third == (scenarios()[2].name, whole["scenarios"][scenarios()[2].name])
    assert whole["total"]["seeds"] == count
    assert whole["violations"] == []
    assert whole["seeds_per_minute"] > 0


@pytest.mark.usefixtures("bad_seven")
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_violations(capsys: Captured, jobs: str) -> None:
    """A failing seed would go unnoticed, not be reproducible, or end the whole run; one that ends its process as well."""
    assert run("--seeds", "12", "--scenario", CALM, "--jobs", jobs) == 1
    out = capsys.readouterr().out
    assert "2 seeds with violations:" in out
    assert f"  {CALM}, seed 7: 1.000000 s, node 0: this is not so\n" in out
    assert f"    pyddsi sim --scenario {CALM} --seed 7 --trace\n" in out
    assert f"  {CALM}, seed 9: the run ended its process with SIGKILL\n" in out
    row = next(line for line in out.splitlines() if line.startswith(CALM)).split()
    assert (row[1], row[-1]) == ("12", "4")
    assert run("--seeds", "12", "--scenario", CALM, "--jobs", jobs, "--json") == 1
    found = json.loads(capsys.readouterr().out)["violations"]
    assert [bad["seed"] for bad in found] == [7, 9]
    assert shlex.split(found[0]["command"])[1:] == [
        "sim",
        "--scenario",
        CALM,
        "--seed",
        "7",
        "--trace",
    ]


def test_many_violations(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run full of violations would bury its summary."""
    monkeypatch.setattr(_seeds, "run_scenario", lambda s, n: played(s, n, bad=1))
    assert run("--seeds", "15", "--scenario", CALM) == 1
    out = capsys.readouterr().out
    assert out.count("--trace") == sim_command.SHOWN_MAX
    assert out.endswith("  and 5 more; --json lists all\n")


def test_one_seed(capsys: Captured, tmp_path: Path) -> None:
    """One seed would play another world than in the long run, or its trace not be what `pyddsi decode` prints."""
    pcap = tmp_path / "one.pcap"
    report = run_scenario("pair", 4, keep_packets=True)
    status = run("--scenario", "pair", "--seed", "4", "--trace", "--pcap", str(pcap))
    printed = capsys.readouterr()
    assert status == (1 if report.violations else 0)
    assert f"digest {report.digest:016x}" in printed.out
    assert printed.err == f"pyddsi: {pcap}: {len({p.number for p in report.sent})} packets\n"
    assert cli.main(["decode", str(pcap)]) == 0
    # a trace does not follow sessions: it has nothing in brackets
    lines = [re.sub(r"  \[[^]]*\]$", "", line) for line in capsys.readouterr().out.splitlines()]
    decoded = [line.split(None, 1)[1] for line in lines]
    traced = [line[21:].split(None, 1)[1] for line in printed.out.splitlines() if line[2:3] == ">"]
    assert traced[0].startswith("0.000000 10.0.0.")
    assert printed.out.startswith("0 > 1     delivered      1     0.000000 10.0.0.1:50000 → ")
    assert list(dict.fromkeys(traced)) == list(dict.fromkeys(decoded))
    with read_datagrams(pcap) as capture:
        assert len(list(capture)) == len({p.number for p in report.sent})


def test_one_seed_as_json(capsys: Captured) -> None:
    """The JSON of a trace would be no objects, or lack who sent what to whom and what became of it."""
    run("--scenario", "loss", "--seed", "4", "--trace", "--json")
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    report = run_scenario("loss", 4, keep_packets=True)
    assert objects[-1] == report.to_dict()
    assert {o["fate"] for o in objects[:-1]} >= {"delivered", "lost"}
    assert {o["from"] for o in objects[:-1]} >= {"0", "1"}
    assert objects[0]["kind"] == "SCOUT"


def test_violations_of_one_seed(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The violations of a traced seed would not be shown, or the status say that all is well."""
    fake = played(CALM, 1, bad=3)
    monkeypatch.setattr(sim_command, "run_scenario", lambda *_, **__: fake)
    assert run("--scenario", CALM, "--seed", "1") == 1
    out = capsys.readouterr().out
    assert out.endswith("VIOLATION 1.000000 s, node 0: this is not so\nVIOLATION (and 2 more)\n")
    monkeypatch.setattr(sim_command, "run_scenario", lambda *_, **__: played(CALM, 1))
    assert run("--scenario", CALM, "--seed", "1") == 0
    assert capsys.readouterr().out.endswith(" checks, and all hold\n")


def test_repair(capsys: Captured) -> None:
    """The measurement would not lose 5 %, not be repaired, or be printed in other units."""
    assert run("--repair", "--seeds", "2", "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    for way in ("unicast", "multicast"):
        row = plain[way]
        assert row["put"] == row["delivered"] == 4000
        assert 50 < row["lost"] < 400
        assert 1.0 < row["median_ms"] <= row["p99_ms"] <= row["max_ms"]
        assert row["resent_per_lost"] >= 1.0
    assert run("--repair", "--seeds", "2") == 0
    out = capsys.readouterr().out
    for way in ("unicast", "multicast"):
        line = next(line for line in out.splitlines() if line.startswith(way))
        assert f"{plain[way]['median_ms']:.2f} ms" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "los"], ["--scenario", "'los'", "did you mean 'loss'?"]),
        (["--scenario", "qqqqq"], ["there are", "'pair'"]),
        (["--trace"], ["--scenario NAME --seed N"]),
        (["--pcap", "x"], ["--scenario NAME --seed N"]),
        (["--seed", "1", "--seeds", "2"], ["--first S --seeds N"]),
        (["--seed", "1", "--first", "2"], ["leave out"]),
        (["--seed", "1", "--scenario", "loss", "--scenario", "pair"], ["name one"]),
        (["--repair", "--seed", "1", "--trace"], ["leave out"]),
        (["--seeds", "0"], ["'0' is not a whole number from 1 on"]),
        (["--first", "-1"], ["'-1' is not a whole number from 0 on"]),
        (["--seed", "x"], ["'x' is not a whole number"]),
        (["--list", "--repair"], ["not allowed with"]),
        (
            ["--scenario", "pair", "--seed", "1", "--pcap", "/nowhere/x.pcap"],
            ["/nowhere/x.pcap cannot be written"],
        ),
    ],
)
def test_wrong_arguments(capsys: Captured, arguments: list[str], words: list[str]) -> None:
    """Wrong arguments would play something, or end with a trace or without saying what would be right."""
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert all(word in printed.err for word in words)
    assert "Traceback" not in printed.err
    assert "seeds in" not in printed.out


def test_progress(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """On a terminal nothing would move during a long run, or its line stay in the way."""
    monkeypatch.setattr(_seeds, "run_scenario", played)
    monkeypatch.setattr(sim_command, "PROGRESS_SECONDS", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert run("--seeds", "3", "--scenario", CALM) == 0
    err = capsys.readouterr().err
    assert "\r\033[K1 of 3 seeds" in err
    assert err.endswith("3 of 3 seeds\r\033[K")
    assert run("--seeds", "3", "--scenario", CALM, "--json") == 0
    assert not capsys.readouterr().err


def test_workers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers would play on when nobody listens any more."""
    workers: list[Any] = []
    real = _seeds._Worker.__init__

    def init(self: Any, tasks: Any) -> None:
        real(self, tasks)
        workers.append(self)

    monkeypatch.setattr(_seeds._Worker, "__init__", init)
    monkeypatch.setattr(_seeds, "run_scenario", played)
    outcomes = _seeds.play([(CALM, seed) for seed in range(1, 1000)], 2)
    next(outcomes)
    outcomes.close()
    assert len(workers) == 2
    assert not any(worker.process.is_alive() for worker in workers)


def test_interrupt() -> None:
    """Ctrl-C would leave workers behind, print a trace, or not end the run."""
    program = (
        "import signal, sys; from pyddsi import cli; from pyddsi.cli import sim\n"
        # who runs the tests in the background may have had it ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sim.PROGRESS_SECONDS = -1.0; sys.stderr.isatty = lambda: True\n"
        "sim._show_progress = lambda *_: print('on', file=sys.stderr, flush=True)\n"
        "sys.exit(cli.main(['sim', '--seeds', '100000', '--scenario', 'pair', '--jobs', '2']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"on\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_whole_program() -> None:
    """The command would not be there in the installed program."""
    done = subprocess.run(
        [sys.executable, "-m", "pyddsi", "sim", "--seed", "1", "--scenario", "pair", "--json"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode in {0, 1}
    assert json.loads(done.stdout)["scenario"] == "pair"
