"""
Says which tests prove which requirement rows.

    python tools/rows.py --section 002                  the table
    python tools/rows.py --section 002 --json           the same for programs
    python tools/rows.py --section 002 --fail-missing   exit 1 if a row that is due has no test

The rows are listed in docs/reference/rows.md: an id, what must hold, and the stage that a row waits for, if it does. A
test in tests/, fuzz/ or benchmarks/ proves a row when it names the id: in Python in a docstring, in C in a comment inside
a function or directly above one. A comment that belongs to no function proves nothing, and each id is written out.

    docs/reference/rows.md ──► rows ─────┐
    tests/ fuzz/ benchmarks/ ──► names ──┴──► tested, due later, missing; and names of rows that do not exist
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cbuild import ROOT
from tidy import sources

LIST = "docs/reference/rows.md"
FOLDERS = ("tests/", "fuzz/", "benchmarks/")

ROW_ID = re.compile(r"(?<![\w.-])\d{3}-\d{1,3}(?![\w-]|\.\d)")
SECTION = re.compile(r"## Section (\d{3})\b")
ROW = re.compile(r"\| *(\d{3}-\d{1,3}) *\| *(.*?) *\| *(.*?) *\|")
DUE = re.compile(r"(stage \d+)?")

# What stands in C between functions, and the head of one; the formatter sees to it that a function ends with a brace in
# the first column.
C_PARTS = re.compile(
    r"""(?P<comment>/\*.*?\*/)
      | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
      | (?P<head>^[a-zA-Z_][^;{}()=#]*?\b(?P<name>\w+)\([^;{}]*\)\s*^\{)
      | (?P<end>^\})""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


class RowsError(Exception):
    """The list of rows, or what was asked of it, is wrong; the text says what would be right."""


@dataclass(frozen=True)
class Row:
    """One requirement."""

    id: str
    text: str
    due: str  # the stage it waits for; empty: this one


@dataclass(frozen=True)
class Naming:
    """A place where a test names a row."""

    id: str
    path: str
    line: int
    test: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.test}"


def read_rows(text: str) -> dict[str, dict[str, Row]]:
    """The rows of each section of the list, in its order."""
    sections: dict[str, dict[str, Row]] = {}
    rows: dict[str, Row] = {}
    prefix = ""
    for at, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            match = SECTION.match(line)
            if match is None or match[1] in sections:
                wrong = "a second section" if match else "no section"
                raise RowsError(f"{LIST}:{at}: {wrong}; write '## Section NNN: name', each once")
            prefix = match[1]
            rows = sections[prefix] = {}
        elif re.match(r"\| *\d", line):
            match = ROW.fullmatch(line.rstrip())
            if match is None or not match[2]:
                raise RowsError(f"{LIST}:{at}: not a row; write '| id | what must hold | due |'")
            row = Row(match[1], match[2], match[3])
            if row.id.partition("-")[0] != prefix:
                raise RowsError(f"{LIST}:{at}: {row.id} does not belong under this heading")
            if row.id in rows:
                raise RowsError(f"{LIST}:{at}: {row.id} is there already; give each row its own id")
            if not DUE.fullmatch(row.due):
                raise RowsError(f"{LIST}:{at}: due is '{row.due}'; write 'stage N', or nothing")
            rows[row.id] = row
    return sections


def in_python(path: str, text: str) -> Iterator[Naming]:
    """Every row named in a docstring."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise RowsError(f"{path}:{error.lineno}: not Python, so its tests cannot be read") from None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        name = Path(path).stem if isinstance(node, ast.Module) else node.name
        line = 1 if isinstance(node, ast.Module) else node.lineno
        for row_id in ROW_ID.findall(ast.get_docstring(node) or ""):
            yield Naming(row_id, path, line, name)


def in_c(path: str, text: str) -> Iterator[Naming]:
    """Every row named in a comment inside a function or directly above one."""
    function = ""
    above: list[tuple[int, str]] = []  # what the comment before this place names
    above_end = 0
    for part in C_PARTS.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if part["comment"]:
            named = [
                (line + part[0].count("\n", 0, match.start()), match[0])
                for match in ROW_ID.finditer(part[0])
            ]
            if function:
                yield from (Naming(row_id, path, at, function) for at, row_id in named)
            else:
                joined = above if not text[above_end : part.start()].strip() else []
                above, above_end = [*joined, *named], part.end()
        elif part["head"]:
            function = part["name"]
            if not text[above_end : part.start()].strip():
                yield from (Naming(row_id, path, at, function) for at, row_id in above)
        elif part["end"]:
            function = ""
            above, above_end = [], part.end()


def namings(root: Path) -> list[Naming]:
    """Every row that some test names."""
    found: list[Naming] = []
    for path, text in sorted(sources(root)):
        if path.startswith(FOLDERS) and path.endswith(".py"):
            found += in_python(path, text)
        elif path.startswith(FOLDERS) and path.endswith((".c", ".h")):
            found += in_c(path, text)
    return found


@dataclass(frozen=True)
class Report:
    """The rows of one section, and who names them."""

    rows: dict[str, Row]
    tests: dict[str, list[Naming]]
    unknown: list[Naming]  # of this section, but not in the list

    def state(self, row: Row) -> str:
        """Where a row stands."""
        if self.tests[row.id]:
            return "tested"
        return f"due: {row.due}" if row.due else "MISSING"

    def missing(self) -> list[str]:
        """The rows that are due and have no test."""
        return [row.id for row in self.rows.values() if self.state(row) == "MISSING"]

    def summary(self) -> str:
        """One line about all."""
        tested = sum(1 for named in self.tests.values() if named)
        later = len(self.rows) - tested - len(self.missing())
        return f"{len(self.rows)} rows: {tested} tested, {later} due later, {len(self.missing())} missing"

    def table(self) -> str:
        """The table for people: a line for each row, and one below it for each test."""
        lines = []
        for row in self.rows.values():
            lines.append(f"{row.id:8} {self.state(row):13} {row.text}")
            lines += [f"{'':22} - {test}" for test in self.tests[row.id]]
        return "\n".join([*lines, "", self.summary()])

    def as_json(self) -> str:
        """The table for programs."""
        rows = [
            {
                **asdict(row),
                "state": self.state(row),
                "tests": [asdict(test) for test in self.tests[row.id]],
            }
            for row in self.rows.values()
        ]
        return json.dumps({"rows": rows, "unknown": [asdict(n) for n in self.unknown]}, indent=2)


def report(section: str, root: Path = ROOT) -> Report:
    """What the tests of a tree say about one section."""
    path = root / LIST
    if not path.is_file():
        raise RowsError(f"{LIST}: no such file; it lists the rows, one table for each section")
    sections = read_rows(path.read_text(encoding="utf-8"))
    if section not in sections:
        known = ", ".join(sections) or "none yet"
        raise RowsError(f"no section '{section}' in {LIST}; it has: {known}")
    rows = sections[section]
    tests: dict[str, list[Naming]] = {row_id: [] for row_id in rows}
    unknown = []
    for naming in namings(root):
        if naming.id in rows:
            if not any(
                naming.test == one.test for one in tests[naming.id] if one.path == naming.path
            ):
                tests[naming.id].append(naming)
        elif naming.id.partition("-")[0] == section:
            unknown.append(naming)
    return Report(rows, tests, unknown)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Say which tests prove which requirement rows.",
        epilog=f"The rows are in {LIST}. A test proves a row by naming its id in a docstring (Python) or in a comment "
        "inside or directly above a function (C).",
    )
    parser.add_argument("--section", required=True, help="which rows: the digits before the dash")
    parser.add_argument("--json", action="store_true", help="print JSON and not a table")
    parser.add_argument(
        "--fail-missing",
        action="store_true",
        help="exit 1 if a row has no test and waits for no later stage, or a test names a row that does not exist",
    )
    chosen = parser.parse_args(arguments)
    try:
        found = report(chosen.section, root)
    except RowsError as error:
        print(error, file=sys.stderr)
        return 2
    print(found.as_json() if chosen.json else found.table())
    for naming in found.unknown:
        print(f"{naming}: there is no row {naming.id}; see {LIST}", file=sys.stderr)
    if not chosen.fail_missing:
        return 0
    if found.missing():
        print(
            f"no test names {', '.join(found.missing())}; write one that does, or say in {LIST} for which stage it waits",
            file=sys.stderr,
        )
    return 1 if found.missing() or found.unknown else 0


if __name__ == "__main__":
    sys.exit(main())
