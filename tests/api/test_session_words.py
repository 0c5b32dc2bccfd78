"""What editors and type checkers know: settings, words, types; and what the calls answer."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import pytest

import pyddsi
from pyddsi import _known, _looks, _words
from pyddsi._native import lib, text
from pyddsi.config import DEFAULTS, SETTINGS, Config
from tests.api.rooms import TIMEOUT, connected, two

ROOT = Path(__file__).resolve().parents[2]


def words(literal: object) -> set[str]:
    """The words of a Literal."""
    return set(typing.get_args(literal))


def named(call: typing.Callable[[int], object], count: int) -> set[str]:
    """The core's words for the first numbers."""
    return {text(call(number)) for number in range(count)}


def test_words_are_those_of_the_core() -> None:
    """An editor would offer a word that never comes, or a type checker refuse one that does."""
    assert words(_words.EventKind) == set(_looks.EVENTS)
    assert words(_words.DropPlace) == named(lib.pyddsi_place_name, lib.PYDDSI_PLACE_COUNT)
    assert words(_words.DropReason) == named(lib.pyddsi_reason_name, lib.PYDDSI_REASON_COUNT)
    assert words(_words.PeerState) == {_looks.state_name(number) for number in range(256)}
    assert words(_words.EndReason) == {
        name for number in range(2048) if not (name := _looks.reason_name(number)).isdigit()
    }
    assert words(_words.Status) == {_looks.status_name(number) for number in range(256)}
    assert words(_words.KnownKind) == set(_known.KINDS.values())
    assert words(_words.Mode) == set(_known.MODES.values())


def test_settings_are_typed() -> None:
    """An editor would complete a setting that there is not, or leave one out."""
    assert set(_words.Settings.__annotations__) == set(SETTINGS) == set(DEFAULTS)


PROGRAM = """
    import pyddsi

    with pyddsi.open(lease=2) as session:
        for event in session.events():
            if event.kind == "conected":
                print(event)
        pub = session.publisher("a")
        found: int = pub.wait_matched()
        peer: pyddsi.Peer = session.peers(gone=True)[0]
        if peer.state == "here":
            print(peer)
    pyddsi.open(lese=2)
    pyddsi.open(lease="2")
    pyddsi.Config.load(role="brocker")
"""


def test_a_type_checker_finds_what_is_misspelt(tmp_path: Path) -> None:
    """A misspelt setting, or a comparison that is never true, would be found when the program runs, if at all."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", tmp_path, file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    wrong = [
        number
        for number, line in enumerate(textwrap.dedent(PROGRAM).splitlines(), 1)
        if any(word in line for word in ("conected", '"here"', "lese", '"2"', "brocker"))
    ]
    assert sorted(found) == wrong, done.stdout + done.stderr


def test_exports() -> None:
    """A program could not name the type of what a call answers."""
    for name in pyddsi.__all__:
        assert getattr(pyddsi, name) is not None
    assert {"Peer", "Event", "Drop", "Stats", "Known", "Window", "Endpoint"} <= set(pyddsi.__all__)


def test_help_begins_with_a_program_that_ends() -> None:
    """The program that help(pyddsi) shows would hang, or not run."""
    shown = (pyddsi.__doc__ or "").split("\n\n")
    program = "\n\n".join(part for part in shown if part.startswith("    "))
    program = textwrap.dedent(program.split("pyddsi.testing")[0])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("plant/robot/7/pose b'hello'\n", "")


def test_waits_answer_something_true() -> None:
    """`if pub.wait_matched():` would never be taken."""
    with two() as (one, other):
        pub = one.publisher("a")
        other.subscriber("a")
        assert pub.wait_matched(timeout=TIMEOUT) == 1
        one.subscriber("a")
        assert pub.wait_matched(2, timeout=TIMEOUT) == 2
        assert pub.wait_settled(timeout=TIMEOUT) is True


def test_peers_that_left() -> None:
    """A program would count peers that are not there any more."""
    with two() as (one, other):
        connected(one, other)
        assert [peer.name for peer in one.peers()] == [other.name]
        name = other.name
        other.close()
        one.wait_event("disconnected", timeout=TIMEOUT)
        assert one.peers() == []
        (left,) = one.peers(gone=True)
        assert (left.name, left.state) in {(name, "unknown"), (name, "expired")}


def test_a_sample_is_equal_to_its_bytes() -> None:
    """`assert sub.recv() == b"x"` would fail although the sample is x."""
    with two() as (one, other):
        pub, sub = connected(one, other)
        pub.put_many([b"x", b"x", b"y"])
        first, second, third = (sub.recv(TIMEOUT) for _ in range(3))
        assert first == b"x"
        assert first == second == bytearray(b"x")
        assert first == memoryview(b"x")
        assert first != third
        assert first != b"y"
        assert first != "x"
        assert len({first, second, third, b"x"}) == 2
        with pytest.raises(TypeError, match=r"cannot be copied or pickled; bytes\(sample\) can"):
            pickle.dumps(first)


def test_a_misspelt_environment_variable(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PYDDSI_LESE=2 would be ignored without a word."""
    monkeypatch.setenv("PYDDSI_LESE", "2")
    assert Config.load() == Config()
    assert "PYDDSI_LESE is no setting and is ignored; did you mean 'PYDDSI_LEASE'?" in caplog.text
