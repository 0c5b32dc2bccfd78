"""`pyddsi pub` and `pyddsi sub` with each other, and with programs of their users."""

from __future__ import annotations

import base64
import http.client
import json
import signal
from pathlib import Path

import pytest

import pyddsi
from pyddsi.cli import _samples
from tests.cli.programs import TIMEOUT, Captured, group, run, started


def test_between_processes() -> None:
    """What one process publishes would not be what another prints."""
    where = group()
    with (
        started(where, "sub", "plant/**", "7", "--count", "4", "--json") as sub,
        started(where, "pub", "plant/1/pose", "hello", "two\nlines", "--json") as pub,
        started(where, "pub", "7") as numbered,
    ):
        status, out, _ = pub.end()
        assert status == 0
        said = json.loads(out)
        assert (said["samples"], said["bytes"], said["subscribers"]) == (2, 14, 1)
        assert said["dropped"] == []
        numbered.write(b"typed\nlast")
        assert numbered.process.stdin is not None
        numbered.process.stdin.close()
        numbered.process.stdin = None
        status, out, _ = numbered.end()
        assert status == 0
        assert out.startswith("2 samples (9 bytes) to 1 peer in ")
        status, out, err = sub.end()
        assert status == 0
        found = [json.loads(line) for line in out.splitlines()]
        assert [one["text"] for one in found if one["resource"] == 7] == ["typed", "last"]
        named = [one["text"] for one in found if one["resource"] == "plant/1/pose"]
        assert named == ["hello", "two\nlines"]
        assert "4 samples, 23 bytes in " in err


def test_waits_for_all_that_are_wanted(capsys: Captured) -> None:
    """A sample alone would go to the first subscriber that is found, and the others would miss it."""
    where = group()
    with pyddsi.open(group=where) as first, pyddsi.open(group=where) as second:
        subs = [first.subscriber("log"), second.subscriber("log")]
        assert run("pub", "--group", where, "log", "x", "--wait", "2") == 0
        assert "1 sample (1 byte) to 2 peers in " in capsys.readouterr().out
        assert [bytes(sub.recv(TIMEOUT)) for sub in subs] == [b"x", b"x"]
        assert run("pub", "--group", where, "log", "x", "-w", "3", "--timeout", "200ms") == 1
        assert "waiting for 3 subscribers of 'log'" in capsys.readouterr().err


def test_line_leaves_at_once() -> None:
    """A line of a pipe would wait until the pipe ends."""
    where = group()
    with pyddsi.open(group=where) as session, started(where, "pub", "log") as pub:
        sub = session.subscriber("log")
        pub.write(b"first\n")
        assert bytes(sub.recv(TIMEOUT)) == b"first"
        pub.write(b"second\r\n\n")
        assert [bytes(sub.recv(TIMEOUT)) for _ in range(2)] == [b"second", b""]


def test_files_and_repetition(tmp_path: Path, capsys: Captured) -> None:
    """A file would be cut into lines, or options not be taken between arguments."""
    where = group()
    file = tmp_path / "map"
    file.write_bytes(b"\0\1\n" * 1000)
    with pyddsi.open(group=where) as session:
        sub = session.subscriber("x")
        assert run("pub", "--group", where, "x", "--file", str(file), "--count", "3", "a") == 0
        assert [bytes(sub.recv(TIMEOUT)) for _ in range(3)] == [b"a", file.read_bytes(), b"a"]
        assert run("pub", "--group", where, "x", "--rate", "1000", "b", "c") == 0
        assert [bytes(sub.recv(TIMEOUT)) for _ in range(2)] == [b"b", b"c"]
    assert capsys.readouterr().out.startswith("3 samples (2.9 KiB) to 1 peer in ")


@pytest.mark.parametrize("options", [[], ["--no-shared"], ["--rate", "100000"]])
def test_made_up(options: list[str], capsys: Captured) -> None:
    """Made-up samples would have another size or number, or be lost."""
    where, count = group(), 500
    with pyddsi.open(group=where) as session:
        sub = session.subscriber("x")
        command = ["pub", "x", "--group", where, "--size", "1k", "--count", str(count), "--json"]
        assert run(*command, *options) == 0
        found = [bytes(sub.recv(TIMEOUT)) for _ in range(count)]
    assert {len(data) for data in found} == {1024}
    assert [int.from_bytes(data[:8], "little") for data in found] == list(range(count))
    said = json.loads(capsys.readouterr().out)
    assert (said["samples"], said["bytes"], said["unmatched"]) == (count, count * 1024, 0)


def test_nobody_subscribes(capsys: Captured) -> None:
    """Publishing to nobody would pass for success, or not say why nobody is there."""
    where = group()
    assert run("pub", "--group", where, "x", "y", "--timeout", "0.2") == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert "pyddsi: waiting for a subscriber of 'x' (--no-wait does not)" in printed.err
    assert "There is no peer" in printed.err
    assert run("pub", "--group", where, "x", "y", "--no-wait") == 0
    assert "1 of them while nobody subscribed" in capsys.readouterr().out


def test_dropped_samples_count(capsys: Captured) -> None:
    """Samples that a killed reader did not get would pass for delivered."""
    where = group()
    with (
        started(where, "sub", "x", "--no-shared", PYDDSI_LEASE="0.5") as sub,
        started(where, "pub", "x", "--size", "8", "--no-shared", PYDDSI_LEASE="0.5") as pub,
        pyddsi.open(group=where, lease=0.5, shared_memory=False) as session,
    ):
        mine = session.subscriber("x")
        mine.recv(TIMEOUT)
        mine.callback(lambda _: None)
        sub.line()
        sub.process.send_signal(signal.SIGKILL)
        assert session.wait_event("disconnected", timeout=TIMEOUT).reason == "exited"
        status, out, _ = pub.interrupt()
        assert status == 130
        assert "the peer left before it acknowledged" in out
    assert not capsys.readouterr().out


def test_reader_that_does_not_read(capsys: Captured) -> None:
    """Samples that were not acknowledged in time would pass for delivered."""
    where = group()
    with pyddsi.open(group=where) as session:
        session.subscriber("x", depth=1)
        pub = ["pub", "--group", where, "x", "--no-shared", "--timeout", "0.5", "--count"]
        assert run(*pub, "50", "--size", "1k") == 1
        out = capsys.readouterr().out
        assert out.startswith("50 samples (50.0 KiB) to 1 peer in ")
        assert "dropped: " in out
        assert "this side closed before it was acknowledged" in out
        assert run(*pub, "100000", "--size", "1k", "--json") == 1
        printed = capsys.readouterr()
        assert "its window is full" in printed.err
        said = json.loads(printed.out)
        assert 50 < said["samples"] < 100_000
        assert said["bytes"] == 1024 * said["samples"]
        assert sum(drop["count"] for drop in said["dropped"]) > 0


def test_interrupted_pub() -> None:
    """Ctrl-C would end in a trace, without a word of what was published, or with status 0."""
    where = group()
    with pyddsi.open(group=where) as session:
        sub = session.subscriber("x", depth=1)
        # it takes no more than a few, so the window is full, and will be; --timeout must not hold up the end
        with started(where, "pub", "x", "--size", "64", "--no-shared", "--timeout", "9999") as pub:
            sub.recv(TIMEOUT)
            status, out, _ = pub.interrupt()
        assert status == 130
        assert " to 1 peer in " in out
        assert "this side closed before it was acknowledged" in out
        assert session.wait_event("disconnected", timeout=TIMEOUT).reason == "ordinary"


def test_interrupted_waits() -> None:
    """Ctrl-C would not end who waits for a subscriber, or for samples."""
    where = group()
    with started(where, "pub", "x", "y") as pub:
        pub.remark("waiting for a subscriber")
        status, out, _ = pub.interrupt()
        assert (status, out) == (130, "")
    with pyddsi.open(group=where) as session:
        for number, wanted in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with started(where, "sub", "x") as sub, session.publisher("x") as pub_x:
                pub_x.wait_matched(timeout=TIMEOUT)
                pub_x.put(b"one")
                assert sub.line().endswith("  x  one\n")
                status, out, err = sub.interrupt(number)
                assert (status, out) == (wanted, "")
                assert "pyddsi: 1 sample, 3 bytes in " in err
                assert session.wait_event("disconnected", timeout=TIMEOUT).reason == "ordinary"


def test_output_forms() -> None:
    """Raw bytes would be changed on their way to standard output."""
    where, data = group(), [bytes(range(256)), b"text", b""]
    forms = {"--raw": b"".join(data), "--lines": b"".join(one + b"\n" for one in data)}
    with pyddsi.open(group=where) as session, session.publisher("x") as pub:
        for form, wanted in forms.items():
            with started(where, "sub", "x", form, "--count", "3") as sub:
                pub.wait_matched(timeout=TIMEOUT)
                pub.put_many(data)
                out, err = sub.process.communicate(timeout=TIMEOUT)
                assert (out, sub.process.returncode) == (wanted, 0)
                assert b"3 samples, 260 bytes" in err
            session.wait_event("disconnected", timeout=TIMEOUT)


def test_where() -> None:
    """--where would let other samples pass."""
    where = group()
    with (
        pyddsi.open(group=where) as session,
        started(where, "sub", "x", "--where", "lum > 50", "--count", "1", "--lines") as sub,
    ):
        pub = session.publisher("x")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put_many([b'{"lum": 50}', b'{"lum": 51}'])
        assert sub.end()[:2] == (0, '{"lum": 51}\n')


def test_timeout(capsys: Captured) -> None:
    """Waiting in vain would pass for success, or be left unexplained."""
    where = group()
    assert run("sub", "--group", where, "x", "--timeout", "0.1") == 1
    err = capsys.readouterr().err
    assert "no sample came within 0.1 s. There is no peer" in err
    with (
        pyddsi.open(group=where) as session,
        session.publisher("x") as pub,
        started(where, "sub", "x", "--count", "2", "--timeout", "2") as sub,
        started(where, "sub", "x", "--timeout", "2", "--quiet") as other,
    ):
        pub.wait_matched(2, timeout=TIMEOUT)
        pub.put(b"1")
        status, _, err = sub.end()
        assert status == 1
        assert "no sample came within 2 s\n" in err
        assert other.end()[0] == 0


def test_closed_pipe() -> None:
    """`pyddsi sub x | head -1` would end with a trace."""
    where = group()
    with pyddsi.open(group=where) as session, started(where, "sub", "x") as sub:
        pub = session.publisher("x")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(b"1")
        assert sub.process.stdout is not None
        assert sub.process.stdout.readline()
        sub.process.stdout.close()
        sub.process.stdout = None
        pub.put(b"2")
        assert sub.end()[0] == 0


def fetched(port: int, path: str) -> tuple[int, str]:
    """What a server on this machine answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("GET", path)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_metrics() -> None:
    """--metrics would serve nothing, or something else."""
    where = group()
    with pyddsi.open(group=where) as session:
        sub = session.subscriber("x")
        with started(where, "pub", "x", "--metrics", "0", "--rate", "1000", "--size", "8") as pub:
            address = pub.remark("metrics are at").split()[-1]
            sub.recv(TIMEOUT)
            port = int(address.rpartition(":")[2].partition("/")[0])
            status, text = fetched(port, "/metrics")
            assert status == 200
            assert "# TYPE pyddsi_accepted_total counter\n" in text
            assert "pyddsi_peer_established{" in text
            assert fetched(port, "/") == (404, "there is only /metrics here\n")
            with started(where, "sub", "x", "--metrics", str(port)) as other:
                status, _, err = other.end()
                assert status == 2
                assert f"--metrics: port {port} cannot be had" in err
            assert pub.interrupt()[0] == 130


def test_text_is_recognized() -> None:
    """Bytes would be shown as a text that they are not, or steer the terminal."""
    assert _samples.shown(b"plain") == "plain"
    assert _samples.shown("grün\n".encode()) == "grün\\n"
    assert _samples.shown(b"\x1b[2Jgone") == "1b 5b 32 4a 67 6f 6e 65"
    assert _samples.shown(b"\xff" * 40) == "ff " * 32 + "... 40 bytes"
    assert _samples.shown(b"\xff" * 40, whole=True) == " ".join(["ff"] * 40)
    assert _samples.shown(b"a" * 1001).endswith("a ... 1001 bytes")
    assert _samples.shown(b"") == ""


def test_json_of_bytes() -> None:
    """Bytes that are no text would be lost in JSON."""
    where = group()
    with (
        pyddsi.open(group=where) as session,
        started(where, "sub", "x", "--count", "1", "--json") as sub,
    ):
        pub = session.publisher("x")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(b"\xff\0")
        status, out, _ = sub.end()
        assert status == 0
        found = json.loads(out)
        assert base64.b64decode(found["base64"]) == b"\xff\0"
        assert (found["source"], found["size"], found["reliable"]) == (session.name, 2, True)
