"""The reference page of the Python API, from signatures and docstrings as they stand in the source. tools/generate.py writes it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "pyddsi"

HEAD = """\
# The Python API

Made by `tools/generate.py` from the source. All of it is typed, for mypy and pyright; [the quick start](../guide/quickstart.md) shows
it at work, [config.md](config.md) has the settings.

Times are in seconds, `timeout=None` waits for ever, and every wait that takes too long raises the builtin `TimeoutError`. All
calls may be made by any thread. What is closed says so with `ClosedError`. What begins with `capture.` is in
`pyddsi.capture` ([guide](../guide/captures.md)), what begins with `replay.` in `pyddsi.capture.replay`
([how-to](../how-to/replay.md)); those are used by one thread.
"""

# Each section: its title, and where its members stand; of a class the first gives the docstring.
Part = tuple[str, str]
SECTIONS: list[tuple[str, list[Part]]] = [
    ("pyddsi.open", [("session.py", "open")]),
    (
        "Session",
        [
            ("session.py", "Session"),
            ("_by_name.py", "ByName"),
            ("_recorded.py", "Recorded"),
            ("_declare.py", "Declaring"),
            ("_looking.py", "Looking"),
        ],
    ),
    (
        "Publisher",
        [("publisher.py", "Publisher"), ("_core.pyi", "Writer"), ("_declared.py", "Declared")],
    ),
    (
        "Subscriber",
        [("subscriber.py", "Subscriber"), ("_core.pyi", "Reader"), ("_declared.py", "Declared")],
    ),
    ("Sample", [("_core.pyi", "Sample")]),
    ("Loan", [("_core.pyi", "Loan")]),
    ("Resource", [("_declared.py", "Resource"), ("_declared.py", "Declared")]),
    ("Config", [("config.py", "Config")]),
    ("Event", [("_looks.py", "Event")]),
    ("Drop", [("_looks.py", "Drop")]),
    ("Peer", [("_looks.py", "Peer")]),
    ("Known", [("_known.py", "Known")]),
    ("Window", [("_looks.py", "Window")]),
    ("Stats", [("_looks.py", "Stats")]),
    ("Metrics", [("metrics.py", "Metrics"), ("metrics.py", "Metric")]),
    ("capture.open", [("capture/_capture.py", "open")]),
    ("capture.Capture", [("capture/_capture.py", "Capture")]),
    ("capture.Packet", [("capture/_packet.py", "Packet")]),
    ("capture.Note", [("capture/_packet.py", "Note")]),
    ("capture.Index", [("capture/_index.py", "Index")]),
    ("capture.Info", [("capture/info.py", "Info")]),
    ("capture.Datagram", [("capture/_datagram.py", "Datagram")]),
    ("capture.Segment", [("capture/_datagram.py", "Segment")]),
    ("capture.read_datagrams", [("capture/_datagram.py", "read_datagrams")]),
    ("capture.record", [("capture/_record.py", "record")]),
    ("capture.Recorder", [("capture/_record.py", "Recorder"), ("capture/_record.py", "Counts")]),
    ("capture.Live", [("capture/_live.py", "Live")]),
    ("replay.Recording", [("capture/replay/_source.py", "Recording")]),
    ("replay.Pace", [("capture/replay/_pace.py", "Pace")]),
    ("replay.Route", [("capture/replay/_route.py", "Route")]),
    ("replay.SessionReplay", [("capture/replay/_session.py", "SessionReplay")]),
    ("replay.Published", [("capture/replay/_session.py", "Published")]),
    ("replay.RawReplay", [("capture/replay/_raw.py", "RawReplay")]),
    ("replay.Sent", [("capture/replay/_raw.py", "Sent")]),
    ("replay.CoreReplay", [("capture/replay/_core.py", "CoreReplay")]),
    ("replay.Delivery", [("capture/replay/_core.py", "Delivery")]),
    ("replay.Lateness", [("capture/replay/_late.py", "Lateness")]),
]

# What the halves of a session ask of each other, and is no business of its users.
INNER = {
    "as_owner", "call", "closed_error", "dispatcher", "undispatch", "end", "pump", "running", "title", "wait", "conflict", "call_declaring", "unnamed", "matched_by", "rejections", "why_full",
    "DEPTH", "KIND", "things", "raw", "waker", "of", "rid_bits", "life", "name_of", "note", "packets_of_files",
}  # fmt: skip


# Constants and type variables, as people read them.
WORDS = {
    "TIMEOUT": "10.0",
    "CLOSE_TIMEOUT": "1.0",
    "P": "Publisher",
    "S": "Subscriber",
    "_Data": "Buffer",
    "Path_": "str | os.PathLike[str]",
    "Time": "str | float | int | None",
}


def tree(file: str) -> ast.Module:
    """A module of the package."""
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def find(part: Part) -> ast.ClassDef | ast.FunctionDef:
    """A class, or a function, of a module."""
    file, name = part
    for node in tree(file).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return node
    raise AssertionError(f"{file} has no {name}")


def prose(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A docstring as a paragraph or more: what is indented is code, and what explains an argument is in a list."""
    lines: list[str] = []
    fenced = False
    for line in (ast.get_docstring(node) or "").splitlines():
        code = line.startswith("    ") and (fenced or not lines[-1].strip())
        if code and not fenced:
            lines.append("```text")
        elif fenced and line.strip() and not code:
            lines[-1:] = ["```", ""] if not lines[-1] else [lines[-1], "```", ""]
        fenced = code or (fenced and not line.strip())
        word, colon, rest = line.partition(": ")
        names = [name.strip() for name in word.split(",")]
        if not fenced and colon and all(name.isidentifier() for name in names):
            lines.append(f"- {', '.join(f'`{name}`' for name in names)}: {rest}")
        elif line.startswith("    ") and not fenced:
            lines.append("  " + line.strip())
        else:
            lines.append(line.removeprefix("    ") if fenced else line)
    if fenced:
        lines.append("```")
    return "\n".join(lines).strip()


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, of: str = "") -> str:
    """How it is called."""
    arguments = node.args
    for group in (arguments.posonlyargs, arguments.args):
        if group and group[0].arg in {"self", "cls"}:
            del group[0]
            break
    answer = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    word = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    text = ast.unparse(arguments)
    for name, value in WORDS.items():
        text, answer = (re.sub(rf"\b{name}\b", value, part) for part in (text, answer))
    text = text.removeprefix("/, ")
    return f"{word}{of}{node.name}({'' if text == '/' else text}){answer}"


def members(parts: list[Part]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The methods and properties that people use, each once, as they stand."""
    seen = set(INNER)
    for part in parts:
        found = find(part)
        for node in found.body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if node.name.startswith("_") or node.name in seen or ast.get_docstring(node) is None:
                continue
            seen.add(node.name)
            yield node


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is read without being called."""
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)


def fields(part: Part) -> list[str]:
    """The fields of a dataclass, or a list of them."""
    found = find(part)
    names = [
        ast.unparse(node)
        for node in found.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) not in INNER
    ]
    return [name for name in names if not name.startswith("_")]


def section(title: str, parts: list[Part]) -> str:
    """A class or a function."""
    first = find(parts[0])
    lines = [f"## {title}", ""]
    if isinstance(first, ast.FunctionDef):
        place = "pyddsi." + title.removeprefix("pyddsi.").removesuffix(first.name)
        return "\n".join([*lines, f"`{signature(first, place)}`", "", prose(first)])
    lines += [prose(first), ""]
    file = parts[0][0]
    if file in {"_looks.py", "_known.py", "metrics.py"} or title == "capture.Note":
        rows = fields(parts[-1])
        lines += ["```text", *rows, "```", ""]
    for node in members(parts):
        shown = f"{node.name}: {ast.unparse(node.returns or ast.Constant(None))}"
        shown = shown if is_property(node) else signature(node)
        lines += [f"**`{shown}`**", "", prose(node), ""]
    return "\n".join(lines).strip()


def errors() -> str:
    """The tree of errors, as its module draws it."""
    text = ast.get_docstring(tree("errors.py")) or ""
    first, _, drawing = text.partition("\n\n")
    return "\n".join(["## Errors", "", first, "", "```text", textwrap.dedent(drawing), "```"])


def render() -> str:
    """The whole page."""
    parts = [HEAD, *(section(title, places) for title, places in SECTIONS), errors()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
