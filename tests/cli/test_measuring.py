"""`pyddsi ping`, `perf`, `hz` and `bw`: what they measure, of what they measure it, and how they end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import pyddsi
from pyddsi.cli._rates import Meter
from tests.cli.programs import Captured, group, run, started


def test_ping(capsys: Captured) -> None:
    """Answers would be missing, be counted for others, or a percentile lie outside of what was measured."""
    where = group()
    with started(where, "ping", "--serve") as server, started(where, "ping", "--serve") as other:
        names = {one.remark("answering as").split()[3].rstrip(";") for one in (server, other)}
        ping = ["ping", "--group", where, "--interval", "0", "--count", "5"]
        while run(*ping, "--count", "1", "--json") or '"asked": 2' not in capsys.readouterr().out:
            pass  # until both are found
        assert run(*ping, "--json") == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        answers, total = lines[:-1], lines[-1]
        assert {(one["source"], one["number"], one["size"]) for one in answers} == {
            (name, number, 64) for name in names for number in range(5)
        }
        assert (total["asked"], total["answered"], total["size"]) == (10, 10, 64)
        times = list(total["seconds"].values())
        assert times == sorted(times)
        assert times[0] == min(one["seconds"] for one in answers)
        assert times[-1] == max(one["seconds"] for one in answers)
        status, _, _ = other.interrupt()
        assert status == 130
        assert run(*ping, "--spin", "--size", "8k", "--interval", "0.001") == 0
        printed = capsys.readouterr().out
        assert printed.count("8192 bytes from ") >= 5
        assert "5 answers, 0 missing\nround trip: min " in printed
        assert server.interrupt()[0] == 130


def test_ping_without_server(capsys: Captured) -> None:
    """Nobody there would pass for a measurement."""
    assert run("ping", "--group", group(), "--timeout", "0.1") == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert "nobody answers; start `pyddsi ping --serve` on the other side. There is no peer" in (
        printed.err
    )


def test_answers_to_others(capsys: Captured) -> None:
    """What another session asked would be taken for an answer to us."""
    where = group()
    with pyddsi.open(group=where) as session:
        answer = session.publisher("pyddsi/ping/answer")
        heard = []

        @session.subscriber("pyddsi/ping/ask").callback
        def distort(sample: pyddsi.Sample) -> None:
            heard.append(sample.size)
            answer.put(bytes(byte ^ 1 for byte in bytes(sample)[:8]) + bytes(sample)[8:])
            answer.put(b"short")

        assert run("ping", "--group", where, "--timeout", "1", "--size", "99") == 1
        assert set(heard) == {99}
    assert "nobody answers" in capsys.readouterr().err


def test_interrupted_ping() -> None:
    """Ctrl-C would take the measurement with it."""
    where = group()
    with started(where, "ping", "--serve"), started(where, "ping", "--count", "100000") as ping:
        assert " bytes from " in ping.line()
        status, out, _ = ping.interrupt()
        assert status == 130
        assert " missing\nround trip: min " in out


@pytest.mark.parametrize("options", [[], ["--batch", "16"], ["--loan"], ["--no-shared"]])
def test_perf(options: list[str], capsys: Captured) -> None:
    """Counts of what was sent and of what arrived would differ, or a size be left out."""
    where = group()
    with started(where, "perf", "--serve") as server:
        server.remark("serving as")
        perf = ["perf", "--group", where, "--size", "8,1k", "--duration", "0.05", *options]
        assert run(*perf, "--json") == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["size"] for row in rows] == [8, 1024]
        for row in rows:
            assert row["sent"] == row["received"] > 0
            assert row["lost"] == 0
            assert row["samples_per_second"] > 0
            assert 0 < row["round_trip"]["p50"] <= row["round_trip"]["max"]
        status, _, _ = server.interrupt()
        assert status == 130


def test_perf_as_table(capsys: Captured) -> None:
    """The table would lack a row, or best effort wait for ever for what was lost."""
    where = group()
    with started(where, "perf", "--serve") as server:
        server.remark("serving as")
        perf = ["perf", "--group", where, "--size", "64", "--duration", "0.05", "--best-effort"]
        assert run(*perf) in {0, 1}
        heads, row = capsys.readouterr().out.splitlines()
        assert heads.split()[:3] == ["size", "samples/s", "bytes/s"]
        assert row.split()[:2] == ["64", "bytes"]


def test_interrupted_perf() -> None:
    """Ctrl-C would end in a trace, or keep what was measured for itself."""
    where = group()
    with started(where, "perf", "--serve") as server:
        server.remark("serving as")
        perf = ["perf", "--size", "8," * 1000 + "8", "--duration", "0.01", "--json"]
        with started(where, *perf) as client:
            assert json.loads(client.line())["size"] == 8
            assert client.interrupt()[0] == 130
    with started(where, "perf", "--timeout", "0.1") as client:
        status, _, err = client.end()
        assert status == 1
        assert "start `pyddsi perf --serve`" in err


@contextmanager
def publishing(session: pyddsi.Session, **sizes: int) -> Iterator[None]:
    """Samples of these sizes, for ever and evenly, while the block lasts."""
    publishers = [(session.publisher(f"plant/{name}"), size) for name, size in sizes.items()]
    over = threading.Event()

    def publish() -> None:
        while not over.wait(0.002):
            for publisher, size in publishers:
                publisher.put(bytes(size))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_rates(command: str, capsys: Captured) -> None:
    """A resource would be left out, or sizes and times of one be told of another."""
    where = group()
    with pyddsi.open(group=where) as session, publishing(session, a=10, b=1000):
        watch = [command, "--group", where, "plant/*", "--count", "40", "--every", "1000"]
        assert run(*watch, "--json") == 0
        rows = {
            row["resource"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())
        }
        assert set(rows) == {"plant/a", "plant/b"}
        for name, size in (("plant/a", 10), ("plant/b", 1000)):
            row = rows[name]
            assert row["size_min"] == row["size_mean"] == row["size_max"] == size
            assert 0 <= row["interval_min"] <= row["interval_mean"] <= row["interval_max"]
            assert row["per_second"] == pytest.approx(1 / row["interval_mean"])
            assert row["bytes_per_second"] == pytest.approx(size * row["per_second"])
        assert sum(row["total"] for row in rows.values()) >= 40
        assert run(*watch) == 0
        heads, *lines = capsys.readouterr().out.splitlines()
        assert heads.startswith("resource")
        assert [line.split()[0] for line in lines] == ["plant/a", "plant/b"]


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_interrupted_rates(command: str) -> None:
    """Ctrl-C would end without the last report."""
    where = group()
    with (
        pyddsi.open(group=where) as session,
        publishing(session, a=10),
        started(where, command, "plant/a", "--every", "0.01") as watch,
    ):
        assert watch.line().startswith("resource")
        status, out, _ = watch.interrupt()
        assert status == 130
        assert out.splitlines()[-1].startswith("plant/a ")


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_nothing_to_measure(command: str, capsys: Captured) -> None:
    """Silence would pass for a rate."""
    assert run(command, "--group", group(), "x", "--duration", "0.1") == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert "no sample came. There is no peer" in printed.err


def test_meter() -> None:
    """The arithmetic would be wrong, or old samples count for ever."""
    meter = Meter(3)
    for time_ns, size in ((0, 1), (10**9, 100), (2 * 10**9, 200), (5 * 10**9, 300)):
        meter.add(time_ns, size)
    found = meter.measured("x")
    assert (found.total, found.samples) == (4, 3)
    assert (found.interval_min, found.interval_mean, found.interval_max) == (1, 2, 3)
    assert found.interval_deviation == 1
    assert (found.per_second, found.bytes_per_second) == (0.5, 125)
    assert (found.size_min, found.size_mean, found.size_max) == (100, 200, 300)
    for few in (0, 1):
        meter = Meter(3)
        for _ in range(few):
            meter.add(1, 7)
        found = meter.measured("x")
        assert (found.samples, found.per_second, found.bytes_per_second) == (few, 0, 0)
