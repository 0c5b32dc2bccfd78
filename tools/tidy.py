"""
The house's rules, read off the sources: which room may include which, what the core never calls, what no file holds.

A rule is a function that gets one file and yields what is wrong in it, by line. RULES says which files each is for.
tests/py/test_tidy.py runs them over this tree, and shows of each rule that it sees what it is there to see.
ARCHITECTURE.md draws ROOMS; they change together.
"""

import ast
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cbuild import ROOT

# Rooms without a system behind them, in the order in which they build on each other.
PURE = ("base", "wire", "flow", "capture", "proto", "store", "sched", "feed", "route")

# Who may include whom; a room's own headers go without saying. Every room may include pyddsi.h, which holds the plain
# words that all of them speak. env.h is the back door, through which the node reaches the system or the simulator.
ROOMS = {
    "base": set[str](),
    "wire": {"base"},
    "flow": {"base"},
    "capture": {"base", "wire"},
    "proto": {"base", "wire", "flow"},
    "store": {"base", "flow"},
    "sched": {"base", "flow"},
    "feed": {"base", "wire", "flow", "store", "sched"},
    "route": {"base", "wire", "flow"},
    "node": {*PURE, "env.h"},
    "host": {"base", "wire", "env.h"},
    "sim": {"base", "env.h", "node"},
    # the front door: it opens onto the pure rooms as well, for those who only want to read bytes or captures
    "api": {"base", "wire", "flow", "capture", "proto", "node", "host", "sim", "env.h"},
}

# Rooms that get bytes and the time and give bytes and the next deadline: they ask the system for nothing.
CORE = (*PURE, "node")
SYSTEM_CALLS = {
    "reads a clock": "time clock clock_gettime gettimeofday timespec_get",
    "sleeps": "sleep usleep nanosleep clock_nanosleep thrd_sleep",
    "touches a socket": "socket bind listen accept connect send sendto sendmsg sendmmsg recv recvfrom recvmsg "
    "recvmmsg select poll ppoll epoll_wait epoll_ctl",
    "touches a file": "open openat fopen fread fwrite fclose mmap munmap ioctl fcntl",
    "allocates": "malloc calloc realloc free aligned_alloc posix_memalign alloca strdup",
    "starts a thread or a process": "pthread_create thrd_create fork vfork clone",
    "prints": "printf fprintf vprintf vfprintf puts fputs putchar fputc putc perror",
    "ends its user's process": "abort exit _exit quick_exit assert",
}
# A failed check has to say so, in the builds that look for one.
SPEAKS = {"csrc/base/check.h"}

LINES_MAX = 400

# Written in pieces, so that this file does not hold what it looks for.
MARKS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
PLACES = [f"/{name}/" for name in ("work", "tmp", "root", "Users")]
PLACES += [f"{place}/" for place in {str(Path.home()), str(ROOT)} if len(place) > 1]

Finding = tuple[int, str]


def without_comments(text: str) -> str:
    """C text with its comments blanked, line for line."""
    pattern = r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*'
    return re.sub(
        pattern,
        lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]),
        text,
        flags=re.DOTALL,
    )


def bare(text: str) -> str:
    """C text with its comments and the insides of its literals blanked, line for line."""
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', '""', without_comments(text))


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text, counted as an editor does."""
    return enumerate(text.splitlines(), 1)


def include_arrows(path: str, text: str) -> Iterator[Finding]:
    """What a room includes is what the table allows."""
    room = path.split("/")[1]
    for at, line in numbered(without_comments(text)):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]*)[>"]', line)
        if match is None:
            continue
        target = match[2]
        first = target.split("/")[0]
        if match[1] == "<":
            if target == "Python.h" and room != "api":
                yield at, f"{room} may not include Python.h"
        elif room in {"include", "env.h"}:
            yield at, f"{path} is a door and includes no room"
        elif room not in ROOMS:
            yield at, f"{room} is no room"
        elif target != "pyddsi.h" and first != room and first not in ROOMS[room]:
            yield at, f"{room} may not include {first}"


def system_calls(path: str, text: str) -> Iterator[Finding]:
    """The core asks the system for nothing."""
    if path.split("/")[1] not in CORE or path in SPEAKS:
        return
    for at, line in numbered(bare(text)):
        for what, names in SYSTEM_CALLS.items():
            for name in names.split():
                if re.search(rf"(?<![\w.>]){name}\s*\(", line):
                    yield at, f"{name}: the core never {what}"


def unfinished(_path: str, text: str) -> Iterator[Finding]:
    """No mark of unfinished work stays in the tree."""
    for at, line in numbered(text):
        if match := MARKS.search(line):
            yield at, f"a mark of unfinished work: {match[0]}"


def places(_path: str, text: str) -> Iterator[Finding]:
    """Nothing names a folder of somebody's machine."""
    for at, line in numbered(text):
        for place in sorted(PLACES, key=len, reverse=True):
            if re.search(r"(?<![\w.*{}])" + re.escape(place), line):
                yield at, f"a folder of somebody's machine: {place}"
                break


def size(path: str, text: str) -> Iterator[Finding]:
    """A file that is longer than others says why in its first comment, with the word "long"."""
    lines = text.count("\n")
    if lines <= LINES_MAX:
        return
    if path.endswith(".py"):
        first = ast.get_docstring(ast.parse(text)) or ""
    elif path.endswith((".c", ".h")):
        first = text.partition("*/")[0]
    else:
        first = re.match(r"(#[^\n]*\n)*", text)[0]  # type: ignore[index]  # it always matches
    if not re.search(r"\blong\b", first):
        yield lines, f"{lines} lines, and the first comment does not say why it is so long"


def sleeps(path: str, text: str) -> Iterator[Finding]:
    """No test sleeps: time is handed in, or an event is waited for."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func)).endswith("sleep"):
                yield node.lineno, f"a test that sleeps: {name}"
    else:
        for at, line in numbered(bare(text)):
            if match := re.search(r"\w*sleep(?=\s*\()", line):
                yield at, f"a test that sleeps: {match[0]}"


def imports(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Every module that a Python file names in an import, absolute."""
    package = list(Path(path).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


# A command may be about a leaf; nothing builds on commands but the program itself.
ON_TOP = {("cli", "__main__"), ("spark", "cli")}


def python_arrows(path: str, text: str) -> Iterator[Finding]:
    """One module touches the extension, and nothing builds on a leaf."""
    leaves = {"cli", "spark", "scapy", "web"}
    room = Path(path).with_suffix("").parts[1]
    for at, name in imports(path, text):
        if not name.startswith("pyddsi."):
            continue
        target = name.split(".")[1]
        if target == "_core" and path != "pyddsi/_native.py":
            yield at, "only pyddsi/_native.py may import pyddsi._core"
        if target in leaves and target != room and (target, room) not in ON_TOP:
            yield at, f"pyddsi.{target} is a leaf, and {path} builds on it"


def sources(root: Path) -> Iterator[tuple[str, str]]:
    """Path and text of every file of a tree, without what was built, installed, captured or found by a fuzzer."""
    for folder, below, names in os.walk(root):
        place = Path(folder)
        below[:] = [
            name
            for name in below
            if name == ".ci" or not re.match(r"\.|__pycache__$|build$|dist$|.*\.egg-info$", name)
            if not (place / name / "pyvenv.cfg").exists() and place / name != root / "fuzz/corpus"
        ]
        for name in names:
            data = (place / name).read_bytes()
            if b"\0" not in data:
                yield (place / name).relative_to(root).as_posix(), data.decode(errors="replace")


def types_twice(root: Path) -> list[str]:
    """Types of which two headers have one each under the same name: a compile error on the day that they meet."""
    found: dict[str, list[str]] = {}
    for path, text in sorted(sources(root)):
        if re.fullmatch(r"csrc/.*\.h", path):
            for name in re.findall(
                r"^(?:typedef )?((?:struct|enum|union) \w+)\s*\{", bare(text), re.MULTILINE
            ):
                found.setdefault(name, []).append(path)
    return [
        f"{name} is in {' and in '.join(paths)}" for name, paths in found.items() if len(paths) > 1
    ]


@dataclass(frozen=True)
class Rule:
    """A check, and a pattern for the paths of the files it is for."""

    check: Callable[[str, str], Iterator[Finding]]
    paths: str

    def files(self, root: Path) -> list[tuple[str, str]]:
        """Path and text of every file that is meant."""
        return sorted(
            (path, text) for path, text in sources(root) if re.fullmatch(self.paths, path)
        )

    def findings(self, root: Path) -> list[str]:
        """What is wrong in a tree, as an editor can jump to it."""
        return [
            f"{path}:{at}: {what}"
            for path, text in self.files(root)
            for at, what in self.check(path, text)
        ]


RULES = {
    "include arrows": Rule(include_arrows, r"csrc/.*\.[ch]"),
    "system calls": Rule(system_calls, r"csrc/.*\.[ch]"),
    "unfinished": Rule(unfinished, r".*"),
    "places": Rule(places, r".*"),
    "size": Rule(size, r".*\.[ch]|.*\.py|(.*/)?run"),
    "sleeps": Rule(sleeps, r"tests/.*\.([ch]|py)"),
    "python arrows": Rule(python_arrows, r"pyddsi/.*\.py"),
}
