"""The command line: every command's help, and what is said of wrong arguments."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pyddsi import cli
from tests.cli.programs import ROOT, Captured, run

SESSION = ("--group", "--interface", "--peer", "--no-shared", "--config")
READING = ("--from", "--to", "--port", "--seq-bits", "--dedupe", "--strict")
OPTIONS = {
    "pub": (*SESSION, "--file", "--size", "--count", "--rate", "--no-wait", "--metrics", "--json"),
    "sub": (*SESSION, "--where", "--count", "--timeout", "--raw", "--metrics", "--json"),
    "ping": (*SESSION, "--serve", "--count", "--interval", "--size", "--metrics", "--json"),
    "perf": (*SESSION, "--serve", "--size", "--batch", "--loan", "--metrics", "--json"),
    "scout": (*SESSION, "--watch", "--count", "--metrics", "--json"),
    "ls": (*SESSION, "--rates", "--duration", "--json"),
    "ps": (*SESSION, "--json"),
    "hz": (*SESSION, "--window", "--every", "--json"),
    "bw": (*SESSION, "--window", "--every", "--json"),
    "doctor": (*SESSION, "--quiet", "--json"),
    "demo": ("--captures", "--json"),
    "decode": ("--hex", "--count", *READING, "--where", "--json"),
    "info": (*READING[2:], "--json"),
    "analyse": ("--output", "--fail-if", "--engine", "--master", *READING[2:], "--json"),
    "convert": (*READING, "--table", "--columns", "--window", "--where", "--ours", "--sort"),
    "anonymize": (*READING, "--names", "--key"),
    "record": (
        *SESSION,
        "--output",
        "--max-size",
        "--max-time",
        "--keep",
        "--duration",
        "--count",
        "--json",
    ),
    "replay": (
        *SESSION,
        "--mode",
        "--speed",
        "--pps",
        "--loop",
        "--to",
        "--map",
        "--side",
        "--json",
    ),
    "sim": ("--seeds", "--json"),
    "completion": ("bash", "zsh", "fish"),
    "spark": ("--master", "--remote", "--conf", "--tasks", "--quiet", "--json"),
}


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help(arguments: list[str], capsys: Captured) -> None:
    """A command would not be found, also not by typing the program's name alone."""
    assert set(OPTIONS) == set(cli.COMMANDS)
    assert run(*arguments) == 0
    printed = capsys.readouterr().out
    for name, text in cli.COMMANDS.items():
        assert f"\n    {name}" in printed
        assert text.split()[0] in printed


@pytest.mark.parametrize("command", OPTIONS)
def test_help_of_command(command: str, capsys: Captured) -> None:
    """The help would leave out an option, or teach nothing."""
    assert run(command, "--help") == 0
    printed = capsys.readouterr().out
    for word in OPTIONS[command]:
        assert word in printed
    assert any(f"{before}pyddsi {command}" in printed for before in ("examples:\n  ", "| ", "<("))


WRONG = [
    (["pib"], "pyddsi: there is no command 'pib'; did you mean 'pub'?"),
    (["qqqq"], "there are 'analyse', 'anonymize', 'bw'"),
    (["--vresion"], "unrecognized argument '--vresion'; did you mean '--version'?"),
    (["pub"], "pyddsi: pub: the following arguments are required: NAME"),
    (["pub", "x", "--conut", "3"], "'--conut'; did you mean '--count'?"),
    (["pub", "a b"], "'a b', character 2: a name has"),
    (["pub", "x", "--count", "0"], "--count: '0' is not a whole number from 1 on"),
    (["pub", "x", "--rate", "-1"], "--rate: '-1' is not a number above 0, such as 0.5 or 100"),
    (["pub", "x", "--size", "4x"], "'4x' is not a number of bytes from 0 on, such as 64, 8k or 1M"),
    (["pub", "x", "--size", "4", "y"], "pub: --size makes samples up; leave out DATA"),
    (["pub", "x", "--file", "/nowhere/f"], "--file /nowhere/f: there is no such file"),
    (["pub", "x", "--metrics", "70000"], "'70000' is not a whole number from 0 to 65535"),
    (["sub"], "required: NAME"),
    (["sub", "x", "--timeout", "soon"], "'soon' is not a time such as 300us, 5ms, 1s or 2h"),
    (["sub", "x", "--json", "--raw"], "not allowed with"),
    (["sub", "x", "--on-full", "explode"], "'drop_oldest'"),
    (["sub", "0"], "'0' is not a whole number from 1 to"),
    (["ping", "--size", "4"], "'4' is not a number of bytes from 16 on"),
    (["ping", "--name", "7"], "ping: --name is a name"),
    (["perf", "--size", "8,x"], "'x' is not a number of bytes from 8 on"),
    (["perf", "--batch", "4", "--loan"], "not allowed with"),
    (["perf", "--name", "7"], "perf: --name is a name"),
    (["scout", "--count", "x"], "'x' is not a whole number"),
    (["ls", "a", "b"], "unrecognized argument 'b'"),
    (["ps", "--duration", "-1"], "'-1' is not a time such as"),
    (["hz", "x", "--window", "1"], "'1' is not a whole number from 2 to"),
    (["bw"], "required: NAME"),
    (["doctor", "x"], "unrecognized argument 'x'"),
    (["demo", "--captures", "/nowhere"], "no golden captures here"),
    (["replay"], "required: FILE"),
    (["replay", "x", "--mode", "rwa"], "'session', 'raw', 'core'"),
    (["replay", "x", "--speed", "0"], "--speed: '0' is not a number above 0, such as 0.5 or 100"),
    (["replay", "x", "--gap", "1 week"], "'1 week' is not a time such as 300us, 5ms, 1s or 2h"),
    (["replay", "x", "--from", "noon"], "'noon' is no moment: give seconds from the start, or"),
    (
        ["replay", "x", "--mode", "raw", "--send-to", "home"],
        "'home' is not an IP address and a port, such as",
    ),
    (
        ["replay", "x", "--mode", "raw", "--map", "10.0.0.0/8"],
        "is not two networks, such as 10.0.0.0/8=127",
    ),
    (
        ["replay", "x", "--mode", "raw", "--map-port", "7447"],
        "'7447' is not two ports, such as 7447=17447,",
    ),
    (
        ["replay", "x", "--send-to", "127.0.0.1:9"],
        "--send-to is for --mode raw, and this is --mode session",
    ),
    (["replay", "x", "--to", "127.0.0.1:9"], "--send-to says where to send"),
    (["replay", "x", "--port", "7447=17447"], "--map-port makes one of another"),
    (["replay", "x", "--mode", "core", "--no-wait"], "--no-wait is for --mode session"),
    (["replay", "x", "--mode", "core", "--gap", "1s"], "--gap has no meaning for --mode core"),
    (
        ["replay", "/nowhere/x.pcap"],
        "/nowhere/x.pcap: there is no such file; name a pcap or pcapng file",
    ),
    (["replay", "x", "--pps", "1", "--max"], "--max: not allowed with argument --pps"),
    (["pub", "a?{x > 1}", "y", "--no-wait"], "it is for subscribers: leave out ?{...}"),
    (["sub", "x", "--where", "lum >"], "a predicate is such as lum > 0"),
    (["sub", "7", "--where", "lum > 1"], "where= asks about a name or a pattern"),
    (["scout", "--group", "10.0.0.1:7447"], "group is a multicast address"),
    (["scout", "--group", "x"], "group is an IP address and a port"),
    (["scout", "--peer", "x"], "each of peers is an IP address or a host's name, and a port"),
    (["scout", "--interface", "none0"], 'no interface or address "none0"'),
    (["scout", "--config", "/nowhere/c.toml"], "/nowhere/c.toml: cannot be read"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=lambda value: " ".join(value)[:40])
def test_wrong_arguments(arguments: list[str], words: str, capsys: Captured) -> None:
    """A mistake would be guessed at, take more than a line to explain, or leave open what would be right."""
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("pyddsi: ")
    assert printed.err.count("\n") == 1
    assert words in printed.err


def test_wrong_setting_in_environment(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong setting from elsewhere would be blamed on the command line."""
    monkeypatch.setenv("PYDDSI_LEASE", "long")
    assert run("scout") == 2
    assert "PYDDSI_LEASE" in capsys.readouterr().err


def test_start_is_quick() -> None:
    """Every call of the program would load what only one command needs."""
    program = (
        "import sys; before = set(sys.modules); from pyddsi import cli\n"
        "try: cli.main(['pub', '--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert "pyddsi.cli.pub" in loaded
    heavy = {"pyddsi.cli.sim", "pyddsi.testing", "pyddsi.wire", "numpy", "http.server", "asyncio"}
    assert not heavy & loaded
    assert not {"multiprocessing", "subprocess", "ipaddress", "tomllib", "difflib"} & loaded


DECODE = ["decode", "--count", "captures/p2p_pubsub.pcap"]


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("command", [["sim", "--list"], DECODE])
def test_full_disk(command: list[str], *, buffered: bool) -> None:
    """A full disk would be told with a trace, or not at all, or after a sum that nothing stands above."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - no file
        done = subprocess.run(
            [sys.executable, *([] if buffered else ["-u"]), "-m", "pyddsi", *command],
            cwd=ROOT,
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "pyddsi: No space left on device\n")


def test_closed_outputs() -> None:
    """Who closes standard output, or standard error, would get a trace of that."""
    for closed in ("1", "2"):
        done = subprocess.run(
            ["bash", "-c", f'exec "$0" -m pyddsi "$@" {closed}>&-', sys.executable, *DECODE],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
