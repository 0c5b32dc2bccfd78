"""`pyddsi replay`: each mode by its command line, what it says, and how it ends."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

import pyddsi
from pyddsi import wire
from pyddsi.capture import Endpoint, read_datagrams
from pyddsi.capture.replay import Lateness, Progress
from pyddsi.capture.write import write_datagrams
from pyddsi.cli import _arguments as read
from pyddsi.cli._replay import show_progress
from tests.cli.programs import ROOT, TIMEOUT, Captured, group, run, started

CAPTURES = ROOT / "captures"
PUBSUB = str(CAPTURES / "p2p_pubsub.pcap")


@pytest.fixture
def target() -> object:
    """A socket that gets what is sent raw."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(TIMEOUT)
    one.bind(("127.0.0.1", 0))
    with one:
        yield one


def place(one: socket.socket) -> str:
    """Where it is."""
    return "{}:{}".format(*one.getsockname())


def test_session_between_processes() -> None:
    """What was recorded would not come out of another process."""
    where = group()
    with (
        started(where, "sub", "1", "--count", "13", "--json") as sub,
        started(where, "replay", PUBSUB, "--speed", "100", "--json") as replay,
    ):
        status, out, _ = replay.end()
        assert status == 0
        said = json.loads(out)
        assert (said["mode"], said["samples"], said["subscribers"], said["dropped"]) == (
            "session",
            13,
            1,
            [],
        )
        assert (said["resources"], said["repeats"], said["missing"], said["unmatched"]) == (
            1,
            2,
            0,
            0,
        )
        assert sum(row["count"] for row in said["late"]["below"]) == 13
        status, out, _ = sub.end()
        assert status == 0
        assert len(out.splitlines()) == 13


def test_session(capsys: Captured) -> None:
    """The usual way would say something else than it did, or nobody there pass for success."""
    where = group()
    assert run("replay", PUBSUB, "--group", where, "--timeout", "0.2") == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert "nobody subscribes to any of its resources after 0.2 s. There is no peer" in printed.err
    assert run("replay", PUBSUB, "--group", where, "--no-wait", "--max") == 0
    assert "13 of them while nobody subscribed" in capsys.readouterr().out
    with pyddsi.open(group=where) as session:
        sub = session.subscriber(1)
        assert (
            run("replay", PUBSUB, "--group", where, "--pps", "2000", "--loop", "2", "--gap", "1ms")
            == 0
        )
        assert len([sub.recv(TIMEOUT) for _ in range(26)]) == 26
    out = capsys.readouterr().out
    assert out.startswith("26 samples (62 bytes) of 1 resource to 1 peer in ")
    assert "\nlate: p50 " in out
    assert "2 messages of the capture came more than once, and count once" in out


def test_session_in_turn_with_ctrl_c() -> None:
    """Ctrl-C would end without a word about what was done."""
    where = group()
    command = ["replay", PUBSUB, "--loop", "0", "--speed", "5"]
    with pyddsi.open(group=where) as session, started(where, *command) as replay:
        sub = session.subscriber(1)
        for _ in range(2):
            sub.recv(TIMEOUT)
        status, out, _ = replay.interrupt()
    assert status == 130
    assert re.match(r"\d+ samples? \(\d+ bytes\) of 1 resource to 1 peer in ", out)
    assert int(out.split()[0]) >= 1  # the last one may not have been counted


def test_raw(target: socket.socket, capsys: Captured) -> None:
    """What is sent would not be what was recorded, or the summary say something else."""
    command = ["replay", PUBSUB, "--mode", "raw", "--send-to", place(target)]
    assert run(*command, "--max", "--json") == 0
    with read_datagrams(PUBSUB) as capture:
        assert [target.recv(65536) for _ in range(47)] == [bytes(item.data) for item in capture]
    said = json.loads(capsys.readouterr().out)
    assert (said["mode"], said["packets"], said["bytes"], said["rounds"], said["late"]) == (
        "raw",
        47,
        278,
        1,
        {},
    )
    assert set(said["senders"]) == {"10.77.0.1:48935", "10.77.0.2:46376"}
    assert run(*command, "--speed", "5000", "--from", "1", "--to", "3") == 0
    out = capsys.readouterr().out
    assert out.startswith("4 packets (16 bytes) from 2 senders in ")
    assert "\n  10.77.0.1:48935 sent from 0.0.0.0:" in out
    assert "\nlate: p50 " in out
    assert "#" in out


def test_raw_of_connections(target: socket.socket, capsys: Captured) -> None:
    """What came by TCP would be missing without a word."""
    files = [PUBSUB, str(CAPTURES / "tcp_pubsub.pcap")]
    assert run("replay", *files, "--mode", "raw", "--send-to", place(target), "--max") == 0
    assert (
        "36 packets came by TCP connections, and were left out: --mode session"
        in capsys.readouterr().out
    )


def test_raw_without_end(target: socket.socket) -> None:
    """A replay without end could not be ended, or would leave its summary out."""
    command = [
        "replay",
        PUBSUB,
        "--mode",
        "raw",
        "--send-to",
        place(target),
        "--loop",
        "0",
        "--pps",
        "500",
    ]
    with started("", *command) as replay:
        for _ in range(100):
            target.recv(65536)
        status, out, _ = replay.interrupt()
    assert status == 130
    assert int(out.split()[0].replace(",", "")) >= 100
    assert " packets (" in out


def test_late(target: socket.socket, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that was later than it may be would end with status 0."""
    command = ["replay", PUBSUB, "--mode", "raw", "--send-to", place(target), "--speed", "5000"]
    assert run(*command, "--max-late", "1h") == 0
    capsys.readouterr()
    monkeypatch.setattr(Lateness, "percentile", lambda *_: 5_000_000)
    assert run(*command, "--max-late", "5ms") == 0
    assert run(*command, "--max-late", "4.9ms") == 1
    assert (
        "one of a hundred was later than 5.000 ms, and --max-late is 4.9 ms"
        in capsys.readouterr().err
    )


def test_file(tmp_path: Path, capsys: Captured) -> None:
    """A file would hold something else than what would be sent, or not be read again."""
    out = tmp_path / "out.pcapng"
    mapped = ["--map", "10.77.0.0/16=192.168.0.0/16", "--map-port", "7447=17447", "--speed", "2"]
    assert run("replay", PUBSUB, "--mode", "raw", *mapped, "--as-file", str(out)) == 0
    assert capsys.readouterr().out == f"47 packets (278 bytes) in {out}, which last 6.03 s\n"
    assert (
        run(
            "replay",
            str(out),
            "--mode",
            "raw",
            "--port",
            "17447",
            "--as-file",
            str(tmp_path / "again.pcap"),
        )
        == 0
    )
    with read_datagrams(tmp_path / "again.pcap") as capture:
        items = list(capture)
    assert {item.source.address for item in items} == {"192.168.0.1", "192.168.0.2"}
    assert run("replay", PUBSUB, "--mode", "raw", "--as-file", "/nowhere/x.pcap") == 2
    assert "/nowhere/x.pcap cannot be written: No such file or directory" in capsys.readouterr().err


def test_core(capsys: Captured) -> None:
    """What a node delivers would not be printed, or not be the same twice."""
    assert run("replay", PUBSUB, "--mode", "core", "--loop", "2") == 0
    first = capsys.readouterr().out
    assert run("replay", PUBSUB, "--mode", "core", "--loop", "2") == 0
    assert capsys.readouterr().out == first
    lines = first.splitlines()
    ends = [line for line in lines if "delivered" in line]
    assert [line.split()[:4] for line in ends] == [
        [f"{side}:", count, "samples", "delivered,"]
        for side, count in (("10.77.0.1:48935", "0"), ("10.77.0.2:46376", "13"))
        for _ in range(2)
    ]
    assert len({line.split()[-1] for line in ends}) == 2
    assert len([line for line in lines if line.startswith("  ")]) == 13
    assert "    0.020441  c0 0      1  01 32" in lines
    assert run("replay", PUBSUB, "--mode", "core", "--side", "10.77.0.2", "--json") == 0
    *found, total = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["number"] for one in found] == list(range(13))
    assert {one["resource"] for one in found} == {1}
    assert (total["deliveries"], total["side"], len(total["digest"])) == (13, "10.77.0.2:46376", 32)


@pytest.mark.parametrize("probe", ["handshake", "declare_c", "malformed"])
def test_core_of_what_is_refused(probe: str, capsys: Captured) -> None:
    """What a sender of nonsense says of itself (numbers of 300 bits, no id) would be asked of the node in its place."""
    path = str(CAPTURES / "probes" / f"{probe}.pcap")
    assert run("replay", path, "--mode", "core") == 0
    assert "samples delivered, digest" in capsys.readouterr().out


def test_core_that_differs(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that does something else the second time would pass for one that does the same."""
    digests = iter("ab")
    monkeypatch.setattr("hashlib.blake2b", lambda **_: _Sum(next(digests)))
    assert run("replay", PUBSUB, "--mode", "core", "--side", "10.77.0.1", "--loop", "2") == 1
    assert "not the same each time, which is a fault in pyddsi" in capsys.readouterr().err


class _Sum:
    def __init__(self, digest: str) -> None:
        self.hexdigest = lambda: digest

    def update(self, _: bytes) -> None:
        """Nothing."""


BAD = [
    (
        ["captures/small_pubsub.pcap"],
        "28 packets of the protocol, and no sample in them, so there is nothing",
    ),
    (["README.md"], "README.md is not a capture, it begins with 23"),
    (
        [PUBSUB, "--from", "1000"],
        "there is none from 1000 s until the end, so there is nothing to replay",
    ),
    (
        [PUBSUB, "--to", "1999-01-01"],
        "there is none from the start until 1999-01-01 00:00:00, so",
    ),
    (["-"], "standard input can be read once"),
    ([PUBSUB, "--no-wait", "--speed", "1e-20"], "years; ask for more"),
    ([PUBSUB, "--mode", "core", "--max"], "a node's time is virtual"),
    (
        [PUBSUB, "--mode", "core", "--side", "10.0.0.9"],
        "10.0.0.9 has not opened or accepted a session",
    ),
    (
        [PUBSUB, "--mode", "raw", "--map", "10.0.0.0/8=127.0.0.0/16"],
        "127.0.0.0/16 has no room for all",
    ),
    (
        [PUBSUB, "--mode", "raw", "--map", "10.0.0.0/8=192.0.2.1"],
        "192.0.2.1, which is no address of this machine",
    ),
    (
        [PUBSUB, "--mode", "raw", "--map", "10.0.0.0/8=::1"],
        "to an address of the other family; map both to the same",
    ),
    (
        [PUBSUB, "--mode", "raw", "--send-to", "127.0.0.1:9", "--interface", "none0"],
        "there is no interface 'none0'",
    ),
    (
        [PUBSUB, "--mode", "raw", "--as-file", PUBSUB],
        "is what is replayed; write into another file",
    ),
    (
        [PUBSUB, "--mode", "raw", "--loop", "0", "--as-file", "x.pcap"],
        "rounds without end fill any disk",
    ),
    (
        ["captures/tcp_pubsub.pcap", "--mode", "raw", "--send-to", "127.0.0.1:9"],
        "all packets came by TCP connections",
    ),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=lambda value: " ".join(value)[-40:])
def test_bad(
    arguments: list[str], words: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be replayed would be told with a trace, in more than a line, or after something was played."""
    monkeypatch.chdir(ROOT)
    assert run("replay", *arguments) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("pyddsi: ")
    assert printed.err.count("\n") == 1
    assert words in printed.err


def test_larger_than_the_window(tmp_path: Path) -> None:
    """A sample of best effort that is larger than the window would be left out, or waited for."""
    path = tmp_path / "x.pcap"
    ends = Endpoint("10.0.0.1", 1), Endpoint("239.255.0.1", 7447)
    write_datagrams(
        path, [(0, *ends, wire.encode([wire.SData(0, 1, bytes(9000), reliable=False)]))]
    )
    where = group()
    with pyddsi.open(group=where) as session, pytest.MonkeyPatch.context() as patch:
        sub = session.subscriber(1)
        patch.setenv("PYDDSI_WINDOW_BYTES", "4096")
        assert run("replay", str(path), "--group", where, "--max", "--no-shared") == 0
        assert sub.recv(TIMEOUT).size == 9000


@pytest.mark.parametrize(
    ("word", "seconds"),
    [("300us", 3e-4), ("5ms", 5e-3), ("1s", 1), ("2min", 120), ("2h", 7200), ("0.5", 0.5)],
)
def test_times(word: str, seconds: float) -> None:
    """A unit would be read as another one."""
    assert read.span(word) == pytest.approx(seconds)


class _Terminal:
    """A standard error that somebody looks at."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        """It is one."""
        return True

    def write(self, text: str) -> None:
        """Shown."""
        self.text += text

    def flush(self) -> None:
        """At once."""


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks at a terminal would not learn how far it is, and when it ends."""
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress("packet") as watch:
        watch(Progress(1, 2.0, 10.0))
        watch(Progress(2000, 3.0, None))
    assert "1 packet in 2.00 s, 10.00 s left\n" in terminal.text
    assert "2,000 packets in 3.00 s\n" in terminal.text
