"""`pyddsi record`: from its beginning to its end, and what it says of what cannot be."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

import pyddsi
from pyddsi import capture
from pyddsi.cli import record
from tests.cli.programs import TIMEOUT, Captured, group, run, started

GOOD_CHECKSUM, NO_CHECKSUM = "1", "3"  # as tshark calls them


def put(where: str, count: int) -> None:
    """Samples that everybody there gets."""
    with pyddsi.open(group=where) as session:
        pub = session.publisher("plant/robot/7")
        pub.wait_matched(timeout=TIMEOUT)
        for i in range(count):
            pub.put(b"%d" % i, timeout=TIMEOUT)


def data(info: capture.Info) -> int:
    """Samples in a recording."""
    return sum(one.messages - one.repeats for one in info.resources)


def test_what_others_publish(tmp_path: Path) -> None:
    """Samples would be missing, or Ctrl-C leave a file that is cut off."""
    path = tmp_path / "run.pcapng"
    where = group()
    with started(where, "record", "-o", str(path), "plant/**", "--json") as program:
        program.remark("recording into")
        put(where, 50)
        status, out, err = program.interrupt()
    assert status == 130
    said = json.loads(out)
    run_ = capture.open(path)
    info = run_.info()
    assert not run_.problems
    assert data(info) == 50
    assert [one.uri for one in info.resources] == ["/plant/robot/7"]
    assert said == {
        "files": [str(path)],
        "packets": info.frames - 1,
        "bytes": path.stat().st_size,
        "lost": 0,
        "left_out": 0,
    }
    assert f"{info.frames - 1:,} packets, " in err


def test_without_names_nobody_is_held_up(tmp_path: Path) -> None:
    """Who wants to know who is there would have to subscribe, or would be told as SIGTERM ends it."""
    path = tmp_path / "run.pcapng"
    where = group()
    with started(where, "record", "-o", str(path)) as program:
        program.remark("recording into")
        with pyddsi.open(group=where) as session:
            session.publisher("plant/robot/7")
            assert session.wait(TIMEOUT, session.peers)
        assert program.interrupt(signal.SIGTERM)[0] == 143
    assert len(capture.open(path).info().peers) == 2


def test_so_many_packets_in_files(tmp_path: Path) -> None:
    """A recording of limited files, or of so many packets, would not end, or not be one recording."""
    where = group()
    path = tmp_path / "run.pcapng"
    arguments = ("--max-size", "128k", "--count", "200", "--keep", "9")
    with started(where, "record", "-o", str(path), "**", *arguments) as program:
        program.remark("recording into")
        with pyddsi.open(group=where) as session:
            pub = session.publisher("plant/robot/7")
            pub.wait_matched(timeout=TIMEOUT)
            for _ in range(200):
                pub.put(bytes(1300), timeout=TIMEOUT)
            status, _, err = program.end()
    assert status == 0
    assert "200 packets, " in err
    assert "files, " in err
    run_ = capture.open(tmp_path)
    assert len(run_.files) > 1
    assert run_.info().frames == 200 + len(run_.files)


def test_a_pipe(tmp_path: Path) -> None:
    """tshark, or another program, could not look on while it goes."""
    where = group()
    with started(where, "record", "-o", "-", "**", "--quiet") as program:
        put(where, 50)
        program.process.send_signal(signal.SIGINT)
        assert program.process.stdout is not None
        taken = program.process.stdout.read()
        status, _, err = program.end()
    assert (status, err) == (130, "")
    path = tmp_path / "taken.pcapng"
    path.write_bytes(taken)
    assert data(capture.open(path).info()) == 50


def test_tshark_reads_it(tmp_path: Path) -> None:
    """Other programs would not see directions and comments, or find checksums wrong. A sample of shared memory has none to be summed."""
    path = tmp_path / "run.pcapng"
    with pyddsi.open(group=group(), record=path) as one, pyddsi.open(group=one.config.group) as two:
        pub, sub = one.publisher("plant/robot/7"), two.subscriber("plant/**")
        pub.wait_matched(timeout=TIMEOUT)
        assert one.wait(TIMEOUT, lambda: one.counts()["lane_readers"])
        pub.put(b"x", timeout=TIMEOUT)
        sub.recv(TIMEOUT)
    fields = ("frame.packet_flags_direction", "frame.comment", "udp.checksum.status")
    command = ["tshark", "-r", str(path), "-o", "udp.check_checksum:TRUE", "-T", "fields"]
    for name in fields:
        command += ["-e", name]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in found.splitlines()]
    assert {row[0] for row in rows[1:]} == {"1", "2"} or {row[0] for row in rows[1:]} == {
        "0x00000001",
        "0x00000002",
    }
    assert [row[2] for row in rows if row[1] == "by shared memory"] == [NO_CHECKSUM]
    assert {row[2] for row in rows if row[1] != "by shared memory"} == {GOOD_CHECKSUM}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-o", "run.txt"], "ends in .pcapng"),
        (["-o", "run.pcapng", "--keep", "3"], "goes with max_size or max_time"),
        (["-o", "run.pcapng", "--max-size", "5"], "a number of bytes from 131072 on"),
        (["-o", "-", "--max-size", "1M"], "standard output is one file"),
        (["-o", "-", "--json"], "both write to standard output"),
        (["-o", "run.pcapng", "--interface", "lo", "plant/**"], "NAME is for a session"),
        (["-o", "run.pcapng", "--interface", "lo", "--no-shared"], "--no-shared is for a session"),
        (["-o", "run.pcapng", "--port", "7"], "--port goes with --interface"),
        (["-o", "run.pcapng", "--interface", "nosuch0"], "nosuch0|CAP_NET_RAW"),
    ],
)
def test_what_cannot_be(
    arguments: list[str],
    why: str,
    capsys: Captured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mistake would be answered by a traceback, or by a file that holds nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYDDSI_GROUP", group())
    assert run("record", *arguments) == 2
    err = capsys.readouterr().err
    assert any(word in err for word in why.split("|")), err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_help_teaches(capsys: Captured) -> None:
    """Who asks for help would not see what to type."""
    assert run("record", "--help") == 0
    out = capsys.readouterr().out
    assert record.EXAMPLES.splitlines()[1] in out
    assert "CAP_NET_RAW" in out
