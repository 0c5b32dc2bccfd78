"""
Every code block of the documents runs. A page is a test; its blocks run in order, in the tree's folder.

    ```python    is run; the blocks of a page share their names. A ```output block directly after it is compared with
                 what it printed.
    ```console   lines that start with "$ " are run by bash, one shell for each block, with this environment's commands
                 first; the lines below one, if any, are compared with what it printed. A command has to succeed,
                 unless the next one is "$ echo $?".
    ```bash      is shown and not run. Only lines that start like one of SHOWN are allowed.
    ```c, ```text, ```toml are shown; any other word is a mistake.

In what is compared, "..." alone on a line stands for any lines, and within a line for anything in that line.
"""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cbuild import ROOT

from tests.api.rooms import group

PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
INERT = {"c", "text", "toml"}
CONSOLE_SECONDS_MAX = 120

# Beginnings of lines that are shown and not run, each with its reason.
SHOWN = {
    "./run ": "sets up this tree and runs these very tests; the checks of every change start with it",
    "git clone ": "needs the place it comes from",
    "cd ": "follows a clone",
    "pip install ": "needs a package index; tests/py/test_wheel.py installs what is built here",
    "python3 -m venv ": "goes before an installation",
    "#": "a remark",
}


class PageError(Exception):
    """A page that does not do what it says, with the line at fault."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its word, its text, the line its text starts at, and whether it stands directly after another."""

    word: str
    text: str
    line: int
    follows: bool


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page. A fence may be indented, as in a list; its text is indented as much."""
    word, indent, start, held = None, "", 0, list[str]()
    follows = False
    for at, line in enumerate(page.splitlines(), 1):
        fence = re.match(r"(\s*)```(.*)$", line)
        if word is None and fence:
            word, indent, start, held = fence[2].strip(), fence[1], at + 1, []
        elif word is not None and fence and not fence[2].strip():
            yield Block(
                word, "".join(text.removeprefix(indent) + "\n" for text in held), start, follows
            )
            word, follows = None, True
        elif word is not None:
            held.append(line)
        elif line.strip():
            follows = False
    if word is not None:
        raise PageError(f"line {start}: the block is not closed")


def agrees(wanted: str, got: str) -> bool:
    """Whether an output is what the page shows of it."""
    pattern = "".join(
        r"(?:.*\n)*"
        if line.strip() == "..."
        else ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
        for line in wanted.rstrip().splitlines()
    )
    return re.fullmatch(pattern, got.rstrip() + "\n" if got.strip() else "") is not None


def compare(line: int, wanted: str, got: str) -> None:
    """Raise if they differ."""
    if not agrees(wanted, got):
        raise PageError(f"line {line}: the page shows\n{wanted}\nbut what came is\n{got}")


def run_python(block: Block, names: dict[str, object]) -> str:
    """What a block prints. Its lines keep the page's numbers, so that a traceback points there."""
    code = compile("\n" * (block.line - 1) + block.text, "<page>", "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, names)  # noqa: S102  # running the page is the test
        except Exception as error:
            raise PageError(f"the block at line {block.line} raised {error!r}") from error
    return printed.getvalue()


def run_console(block: Block, root: Path) -> None:
    """Run the commands of a block and compare what they print."""
    commands: list[tuple[int, str, list[str]]] = []
    for at, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            commands.append((at, line[2:], []))
        elif not commands:
            raise PageError(f"line {at}: a console block starts with '$ '")
        elif commands[-1][1].endswith("\\"):
            commands[-1] = (commands[-1][0], commands[-1][1] + "\n" + line.removeprefix("> "), [])
        else:
            commands[-1][2].append(line)
    if not commands:
        raise PageError(f"line {block.line}: nothing to run")
    # After each command a line of our own, with its status, which the next command sees in $? as it was.
    script = "".join(
        f"{command}\n_s=$?; printf '\\n\\036%d\\n' $_s; (exit $_s)\n" for _, command, _ in commands
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=root,
        env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=CONSOLE_SECONDS_MAX,
    )
    results = re.findall(r"(.*?)\n\x1e(\d+)\n", done.stdout, re.DOTALL)
    for number, (at, command, wanted) in enumerate(commands):
        if number >= len(results):
            raise PageError(f"line {at}: the shell did not get to: {command}\n{done.stdout}")
        printed, status = results[number]
        asked = number + 1 < len(commands) and commands[number + 1][1] == "echo $?"
        if status != "0" and not asked:
            raise PageError(f"line {at}: status {status} from: {command}\n{printed}")
        if any(line.strip() for line in wanted):
            compare(at, "\n".join(wanted), printed)


def run_page(page: str, root: Path) -> int:
    """Run every block of a page in order; how many there were."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None
    count = 0
    for block in blocks(page):
        count += 1
        if block.word == "output":
            if printed is None or not block.follows:
                raise PageError(f"line {block.line}: output stands directly after a python block")
            compare(block.line, block.text, printed)
        printed = run_python(block, names) if block.word == "python" else None
        if block.word == "console":
            run_console(block, root)
        elif block.word == "bash":
            for at, line in enumerate(block.text.splitlines(), block.line):
                if line.strip() and not line.startswith(tuple(SHOWN)):
                    raise PageError(f"line {at}: a line that is not run, and not in SHOWN: {line}")
        elif block.word not in {"python", "output"} | INERT:
            raise PageError(f"line {block.line}: a block of an unknown kind: '{block.word}'")
    return count


# Wireshark runs no plug-in for root from 4.4 on: where the tests are root's, the shell calls tshark for nobody, in a folder
# that has what the page names and that everybody can read.
AS_NOBODY = """tshark() { HOME=/ setpriv --reuid=65534 --regid=65534 --clear-groups tshark "$@"; }; export -f tshark"""


@contextlib.contextmanager
def readable() -> Iterator[Path]:
    """Such a folder."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("captures", "pyddsi/share/wireshark"):
            shutil.copytree(ROOT / name, Path(folder, name))
        Path(folder, "tshark.sh").write_text(AS_NOBODY, encoding="ascii")
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        yield Path(folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader copies a block out of this page, and it does not do what the page says."""
    monkeypatch.chdir(ROOT)
    if (
        page.name != "config.md"
    ):  # which shows what the environment does; all others meet there alone
        monkeypatch.setenv("PYDDSI_GROUP", group())
    text = page.read_text(encoding="utf-8")
    if "lua_script:" in text and os.geteuid() == 0:
        with readable() as folder:
            monkeypatch.setenv("BASH_ENV", str(folder / "tshark.sh"))
            run_page(text, folder)
    else:
        run_page(text, ROOT)


RIGHT = [
    "```python\nx = 2\n```\nwords\n```python\nprint(x)\n```\n\n```output\n2\n```",
    "```python\nprint('a\\nb\\nc')\n```\n```output\na\n...\nc\n```",
    "```python\nprint('took 12 ms')\n```\n```output\ntook ... ms\n```",
    "```console\n$ echo one\none\n$ echo two\n```",
    "```console\n$ cd csrc; false\n$ echo $?\n1\n$ pwd\n...csrc\n```",
    "```console\n$ echo \\\n> one\none\n```",
    "- a list\n  ```console\n  $ printf 'a\\n\\nb'\n  a\n\n  b\n  ```",
    "```bash\n./run demo\n```\n```text\nwords\n```",
]
WRONG = [
    ("```python\nx = 1\nassert x == 2\n```", "line 2 raised AssertionError"),
    ("```python\nprint(1)\n```\n```output\n2\n```", "line 5: the page shows"),
    ("```python\nprint(1)\n```\n```output\n1\n2\n```", "line 5: the page shows"),
    ("```python\nprint(1)\n```\nwords\n```output\n1\n```", "line 6: output stands directly"),
    ("```console\n$ false\n```", "line 2: status 1 from: false"),
    ("```console\n$ echo a\nb\n```", "line 2: the page shows"),
    ("```console\n$ echo a\n$ exit 3\n$ echo b\n```", "line 3: the shell did not get to: exit 3"),
    ("```console\necho a\n```", "line 2: a console block starts"),
    ("```bash\nrm -rf x\n```", "line 2: a line that is not run"),
    ("```pyhton\n1\n```", "unknown kind: 'pyhton'"),
    ("```\n1\n```", "unknown kind: ''"),
    ("```text\n1", "is not closed"),
]


@pytest.mark.parametrize("page", RIGHT)
def test_right_page_passes(page: str) -> None:
    """A page that is right cannot be written."""
    assert run_page(page, ROOT) > 0


@pytest.mark.parametrize(("page", "complaint"), WRONG)
def test_wrong_page_fails(page: str, complaint: str) -> None:
    """A page may show anything: what it shows is not what is compared."""
    with pytest.raises(PageError, match=re.escape(complaint)):
        run_page(page, ROOT)
