"""`pyddsi completion`: what the shells themselves make of it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pyddsi import cli
from tests.cli.programs import Captured, run

PROGRAM = Path(sys.executable).parent


def script(shell: str, capsys: Captured, folder: Path) -> Path:
    """What the command prints, as a file."""
    assert run("completion", shell) == 0
    path = folder / f"pyddsi.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def bash(path: Path, *words: str) -> set[str]:
    """What bash offers for the last word."""
    program = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pyddsi; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", program, str(path), "pyddsi", *words],
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return set(done.stdout.split())


def fish(path: Path, *words: str) -> set[str]:
    """What fish offers for the last word."""
    done = subprocess.run(
        [
            "fish",
            "--no-config",
            "-c",
            f"source {path}; complete -C '{' '.join(['pyddsi', *words])}'",
        ],
        cwd=path.parent,
        env={"HOME": str(path.parent), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


ZSHRC = """\
stty rows 200 cols 200
PS1= RPS1= PROMPT_EOL_MARK= LISTMAX=1000
autoload -Uz compinit
compinit -D
source {path}
bindkey '^D' list-choices
begun() {{ print READY }}
zle -N zle-line-init begun
"""


def zsh(path: Path, *words: str) -> set[str]:
    """What zsh offers for the last word: asked in a terminal of its own, as it completes nowhere else."""
    (path.parent / ".zshrc").write_text(ZSHRC.format(path=path))
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(path.parent)
        home = {"ZDOTDIR": str(path.parent), "PATH": os.environ["PATH"], "TERM": "dumb"}
        os.execvpe("zsh", ["zsh", "--interactive"], home)  # noqa: S606 - a shell is what is tested
    try:
        read_until(terminal, b"READY\r\n")  # it reads what is typed from now on
        os.write(terminal, " ".join(["pyddsi", *words]).encode() + b"\x04")
        os.write(terminal, b"\x15print E''ND\n")
        return set(read_until(terminal, b"END\r\n").decode(errors="replace").split())
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, mark: bytes) -> bytes:
    """What a terminal shows up to this."""
    found = b""
    while mark not in found:
        found += os.read(terminal, 4096)
    return found


ASKS = {"bash": bash, "fish": fish, "zsh": zsh}


@pytest.mark.parametrize("shell", ASKS)
def test_completes(shell: str, capsys: Captured, tmp_path: Path) -> None:
    """Tab would offer nothing, or options of another command, or no files where a file is wanted."""
    path = script(shell, capsys, tmp_path)
    (tmp_path / "run.pcapng").write_bytes(b"")
    ask = ASKS[shell]
    assert set(cli.COMMANDS) <= ask(path, "")
    assert {"ping", "ps", "pub"} <= ask(path, "p")
    assert {"--on-full", "--where"} <= ask(path, "sub", "--")
    assert not {"--on-full", "--seconds"} & ask(path, "hz", "--")
    assert "--duration" in ask(path, "hz", "--d")
    assert {"drop_newest", "drop_oldest", "wait"} <= ask(path, "sub", "x", "--on-full", "")
    assert "run.pcapng" in ask(path, "info", "")
    assert "run.pcapng" in ask(path, "analyse", "run.pcapng", "-o", "ru")
    assert "run.pcapng" not in ask(path, "pub", "x", "--rate", "")
