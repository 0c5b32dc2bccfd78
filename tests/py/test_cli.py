"""The program `pyddsi`, as its users meet it: what it prints, what it says when it cannot, and with which status it ends."""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyddsi import cli, wire
from pyddsi.cli import decode as decode_command
from tests.py import make_capture as make
from tests.py.golden import CAPTURES, load

PUBSUB = str(CAPTURES / "p2p_pubsub.pcap")
PROGRAM = [sys.executable, "-m", "pyddsi"]

FIRST_LINES = """\
    1     0.000000 10.77.0.1:48935 → 239.255.0.1:7447  c0 SCOUT mask=broker+peer
    2     0.000050 10.77.0.2:46376 → 10.77.0.1:48935  c0 HELLO mask=peer locators=["udp/239.255.0.1:7447"]
    3     0.000077 10.77.0.1:48935 → 10.77.0.2:46376  c0 OPEN P version=1 id=478e57028f1ded73699d63640002c6ea \
lease=50 locators=["udp/239.255.0.1:7447"] properties=[authentication:0203 (2)]
    4     0.000090 10.77.0.2:46376 → 239.255.0.1:7447  c0 SCOUT mask=broker+peer
    5     0.000113 10.77.0.2:46376 → 10.77.0.1:48935  c0 ACCEPT P opener=478e57028f1ded73699d63640002c6ea \
acceptor=af03706c345dab0518dc6a5356505927 lease=50 properties=[authentication:0203 (2)]
    6     0.000137 10.77.0.2:46376 → 10.77.0.1:48935  c2 CONDUIT conduit=2
    6     0.000137 10.77.0.2:46376 → 10.77.0.1:48935  c2 DECLARE C sn=0 declarations=[SUBSCRIPTION id=1 mode=push]
    7     0.000151 10.77.0.2:46376 → 10.77.0.1:48935  c2 CONDUIT conduit=2
    7     0.000151 10.77.0.2:46376 → 10.77.0.1:48935  c2 SYNCH SRU sn=1 count=1
    8     0.000162 10.77.0.1:48935 → 10.77.0.2:46376  c2 CONDUIT conduit=2
    8     0.000162 10.77.0.1:48935 → 10.77.0.2:46376  c2 ACKNACK M sn=0 mask=0  [answer after 11 µs]
"""

Captured = pytest.CaptureFixture[str]


def run(*arguments: str) -> int:
    """The program within this process; argparse ends it on its own."""
    try:
        return cli.main(arguments)
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


def started(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The program as a process of its own."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        check=False,
        timeout=60,
        cwd=CAPTURES.parent,
        **options,
    )


def one_line(text: str, *words: str) -> None:
    """Standard error holds one line that says this."""
    assert text.startswith("pyddsi: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    for word in words:
        assert word in text


def test_lines(capsys: Captured) -> None:
    """The lines would say other things than the packets, or in other words."""
    assert run("decode", PUBSUB) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(FIRST_LINES)
    assert not printed.err
    assert printed.out.count("\n") == sum(
        len(packet.messages) for packet in load("p2p_pubsub.pcap")
    )


def test_json(capsys: Captured) -> None:
    """A line of the JSON output would be no object, or hold other numbers than the counts and the messages."""
    assert run("decode", "--json", PUBSUB) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run("decode", "--count", "--json", PUBSUB) == 0
    assert Counter(o["kind"] for o in objects) == json.loads(capsys.readouterr().out)
    messages = [(p.number, m) for p in load("p2p_pubsub.pcap") for m in p.messages]
    assert len(objects) == len(messages)
    for found, (number, message) in zip(objects, messages, strict=True):
        assert found["packet"] == number
        assert (found["at"], found["size"], found["conduit"]) == (
            message.at,
            message.size,
            message.conduit,
        )
        assert found.items() >= message.to_dict().items()
    assert objects[0]["source"] == "10.77.0.1:48935"
    assert objects[0]["destination"] == "239.255.0.1:7447"
    assert objects[0]["time"] == 0
    assert objects[-1]["time"] == pytest.approx(
        (objects[-1]["time_ns"] - objects[0]["time_ns"]) / 1e9
    )


def test_counts(capsys: Captured) -> None:
    """The table of counts would differ from the JSON object, or the summary get mixed into it."""
    assert run("decode", "--count", "--json", PUBSUB) == 0
    wanted = json.loads(capsys.readouterr().out)
    assert run("decode", "--count", PUBSUB) == 0
    printed = capsys.readouterr()
    table = {line[:13].strip(): int(line[13:]) for line in printed.out.splitlines()}
    assert table == wanted
    assert printed.err == f"{sum(wanted.values())} messages in 47 packets, 0 malformed\n"


def test_several_files(capsys: Captured) -> None:
    """A second file would not be read, or its counts be printed apart."""
    files = [PUBSUB, str(CAPTURES / "probes/ping.pcap")]
    total: Counter[str] = Counter()
    for file in files:
        assert run("decode", "--count", "--json", file) == 0
        total.update(json.loads(capsys.readouterr().out))
    assert run("decode", "--count", "--json", *files) == 0
    assert json.loads(capsys.readouterr().out) == total


def test_malformed(capsys: Captured) -> None:
    """A bad packet would be hidden, or stop the program."""
    file = str(CAPTURES / "probes/malformed.pcap")
    assert run("decode", file) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "MALFORMED" in line]
    assert len(lines) == 5
    assert lines[-1].endswith(
        "MALFORMED byte 10: no message has this kind (kind 0; zhe drops the session)"
    )
    assert run("decode", "--json", file) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    faults = [o["malformed"] for o in objects if "malformed" in o]
    assert [(f["rule"], f["at"], f["kind"], f["zhe"]) for f in faults][-2:] == [
        ("LENGTH_WIDE", 3, "SDATA", "drops"),
        ("KIND_UNKNOWN", 10, None, "drops"),
    ]
    assert run("decode", "--count", file) == 0
    assert "5 malformed" in capsys.readouterr().err
    assert run("decode", "--count", "--reading", "zhe", file) == 0
    assert "11 malformed" in capsys.readouterr().err
    assert run("decode", "--count", "--reading", "tolerant", "--seq-bits", "7", file) == 0
    assert "7 malformed" in capsys.readouterr().err


def test_extensions_are_learnt(capsys: Captured, tmp_path: Path) -> None:
    """A message beyond zhe would be shown for one that never announced any, or be refused from one that did."""
    batch = wire.encode([wire.BData(0, 1, [wire.Sample(b"x")])])
    plain = wire.encode([wire.Open(1, b"x", 50, [], properties=[])])
    ours = wire.encode([wire.Open(1, b"x", 50, [], properties=[wire.Property(1, b"\x01\x01")])])
    for opening, wanted in ((None, True), (plain, False), (ours, True)):
        packets = [opening, batch] if opening else [batch]
        file = tmp_path / "some.pcap"
        ways = ("10.0.0.1", 40000), ("10.0.0.2", 7447)
        file.write_bytes(
            make.pcap([make.ethernet(make.ipv4(make.udp(p, ways=ways))) for p in packets])
        )
        assert run("decode", str(file)) == 0
        shown = capsys.readouterr().out.splitlines()[-1]
        assert ("BDATA sn=0" in shown) == wanted
        assert ("MALFORMED" in shown) != wanted


@pytest.mark.parametrize(
    ("arguments", "out", "err", "status"),
    [
        (["67 00 02 02 31 32"], "c0 SDATA SR sn=0 rid=1 payload=3132 (2)\n", "", 0),
        (["930e00"], "c1 CONDUIT conduit=1\nc1 SYNCH sn=0\n", "", 0),
        ([""], "", "", 0),
        (["0105 67 00"], "c0 SCOUT mask=broker+peer\n", "pyddsi: byte 4: the message runs past", 1),
        (["6"], "", "pyddsi: --hex takes pairs of hexadecimal digits, not '6'", 2),
        (["zz"], "", "pyddsi: --hex takes pairs", 2),
        (["0c8001", "--json"], '{"kind": "PING", "hash": 128}\n', "", 0),
        (["0c800193", "--count", "--json"], '{"PING": 1, "CONDUIT": 1}\n', "", 0),
        (["1000", "--reading", "strict"], "", "pyddsi: byte 1: a peer id has 1 to 16 bytes", 1),
    ],
)
def test_hex(arguments: list[str], out: str, err: str, status: int, capsys: Captured) -> None:
    """A packet given as digits would be read as another."""
    assert run("decode", "--hex", *arguments) == status
    printed = capsys.readouterr()
    assert printed.out == out
    assert printed.err.startswith(err)
    assert printed.err.count("\n") == (status != 0)


def test_standard_input(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture in a pipe would be read otherwise than the same in a file."""
    assert run("decode", PUBSUB) == 0
    wanted = capsys.readouterr().out
    with Path(PUBSUB).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read())))
    assert run("decode", "-") == 0
    assert capsys.readouterr().out == wanted
    done = started("decode", "--count", "--json", "-", input=Path(PUBSUB).read_bytes())
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["SDATA"] == 14
    done = started("decode", "-", input=b"")
    assert done.returncode == 2
    one_line(done.stderr.decode(), "empty")


def test_files_that_cannot_be_read(capsys: Captured, tmp_path: Path) -> None:
    """A missing, empty, foreign or cut file would be passed over, or end in a traceback."""
    empty, foreign, cut = tmp_path / "empty.pcap", tmp_path / "text.pcap", tmp_path / "cut.pcap"
    empty.write_bytes(b"")
    foreign.write_text("this is no capture\n" * 10)
    (tmp_path / "folder").mkdir()
    cut.write_bytes(Path(PUBSUB).read_bytes()[:500])
    for file, words in (
        (tmp_path / "missing.pcap", "there is no such file"),
        (empty, "is empty"),
        (foreign, "is not a capture"),
        (tmp_path / "folder", "has no captures in it"),
    ):
        for options in ([], ["--json"], ["--count", "--json"]):
            assert run("decode", *options, str(file)) == 2
            printed = capsys.readouterr()
            assert printed.out in {"", "{}\n"}
            one_line(printed.err, str(file), words)
    assert run("decode", str(cut)) == 0
    printed = capsys.readouterr()
    assert printed.out == "".join(FIRST_LINES.splitlines(keepends=True)[:7])
    one_line(printed.err, "warning", "cut off", "6 packets were read")
    assert run("decode", "--strict", "--count", "--json", str(cut), PUBSUB) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "SCOUT": 2,
        "HELLO": 1,
        "OPEN": 1,
        "ACCEPT": 1,
        "CONDUIT": 1,
        "DECLARE": 1,
    }


def test_capture_of_others(capsys: Captured, tmp_path: Path) -> None:
    """A capture without a packet of the protocol would end in silence."""
    file = tmp_path / "other.pcap"
    packet = make.ethernet(
        make.ipv4(make.udp(b"hello", ways=(("10.0.0.1", 53), ("10.0.0.2", 5353))))
    )
    file.write_bytes(make.pcap([packet] * 3))
    assert run("decode", str(file)) == 0
    printed = capsys.readouterr()
    assert not printed.out
    one_line(printed.err, "no packet of the protocol among 3 captured", "3 UDP packets", "--port")
    assert run("decode", "--port", "5353", str(file)) == 0
    assert "MALFORMED" in capsys.readouterr().out


def test_gzip(capsys: Captured, tmp_path: Path) -> None:
    """A packed capture would need unpacking first."""
    packed = tmp_path / "x.pcap.gz"
    gzip = shutil.which("gzip")
    assert gzip is not None
    packed.write_bytes(subprocess.run([gzip, "-c", PUBSUB], capture_output=True, check=True).stdout)
    assert run("decode", str(packed)) == 0
    assert capsys.readouterr().out.startswith(FIRST_LINES)


def test_closed_pipe() -> None:
    """`pyddsi decode FILE | head` would end with a traceback."""
    command = [*PROGRAM, "decode", str(CAPTURES / "p2p_throughput.pcap")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"SCOUT" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_interrupt(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C would end in a traceback, or count as success."""

    def interrupted(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(decode_command, "run", interrupted)
    assert run("decode", PUBSUB) == 130
    assert not capsys.readouterr().err


def test_version(capsys: Captured) -> None:
    """The program would say another version than it is."""
    project = tomllib.loads((CAPTURES.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert run("--version") == 0
    wanted = f"pyddsi {project['project']['version']}\n"
    assert capsys.readouterr().out == wanted
    done = started("--version")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, wanted, b"")


def test_help(capsys: Captured) -> None:
    """The help would leave out a command or an option."""
    assert run("--help") == 0
    assert "decode" in capsys.readouterr().out
    assert run("decode", "--help") == 0
    printed = capsys.readouterr().out
    for word in ("--json", "--count", "--hex", "--reading", "--seq-bits", "--port", "examples:"):
        assert word in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["decode"], "FILE"),
        (["decode", "--nonsense", "x"], "--nonsense"),
        (["decode", "--hex", "00", "x"], "--hex"),
        (["decode", "--reading", "loose", "x"], "loose"),
        (["decode", "--seq-bits", "many", "x"], "--seq-bits"),
        (["decode", "--seq-bits", "6", "x"], "'6' is not a whole number from 7 to 56"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_use(arguments: list[str], words: str, capsys: Captured) -> None:
    """A mistake on the command line would be guessed at instead of named."""
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert words in printed.err
