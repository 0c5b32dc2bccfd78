"""
The table of requirement rows tells the truth: what counts as a test of a row, what does not, and what is wrong in a list.

The rows here are of a section that no real list has.
"""

import json
from pathlib import Path

import pytest
import rows
from cbuild import ROOT

LIST = """# Rows

## Section 900: made up

| id | what must hold | due |
|---|---|---|
| 900-1 | it begins | |
| 900-2 | it lasts | stage 3 |
| 900-12 | it ends | |

## Section 901: another

| id | what must hold | due |
|---|---|---|
| 901-1 | it is apart | |
"""

C_TEST = """/* 900-2: what stands over the whole file proves nothing. */
#include "test.h"

/* 900-2: nor does what stands over a table. */
static const int table[] = {1};

/* 900-1: if it failed .. */
/* ..
 * 900-12: .. all would. */
static void test_both(int a,
                      int b)
{
    char one = '"'; /* 901-1: here as well. */ char two = '"';
    /* 900-1: named twice, and shown once. */
    CHECK("/* 900-2 in a text */");
}

/* 900-2: nor what stands over something before a function. */
static int variable;

static int helper(void)
{
    if (1) { /* 900-12 */
    }
}

/* 900-2: nor what stands at the end. */
"""

PY_TEST = '''"""Tests of 900-1."""

TEXT = """900-2 in a text"""


class TestEnd:
    """900-12: the end."""

    def test_end(self) -> None:
        """If it failed, 900-12 would not hold."""
        # 900-2 in a comment


async def test_late() -> None:
    """1900-2, 900-2.5, 900-20, x-900-2 and 901-1 are others, and 900-2x too."""
'''


def write(root: Path, path: str, text: str) -> None:
    """One file in a small tree."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree with a list of rows and no test."""
    write(tmp_path, rows.LIST, LIST)
    return tmp_path


def named_by(root: Path, row_id: str) -> list[str]:
    """The tests that name a row."""
    return [str(test) for test in rows.report(row_id[:3], root).tests[row_id]]


def test_c_functions_prove_rows(tree: Path) -> None:
    """A C test that names a row is not seen, or something that runs nothing is taken for a test."""
    write(tree, "tests/c/x.c", C_TEST)
    assert named_by(tree, "900-1") == ["tests/c/x.c:7 test_both"]
    assert named_by(tree, "900-12") == ["tests/c/x.c:9 test_both", "tests/c/x.c:23 helper"]
    assert named_by(tree, "900-2") == []
    assert named_by(tree, "901-1") == ["tests/c/x.c:13 test_both"]


def test_python_docstrings_prove_rows(tree: Path) -> None:
    """A Python test that names a row is not seen, or another text is taken for a docstring."""
    write(tree, "tests/py/test_x.py", PY_TEST)
    assert named_by(tree, "900-1") == ["tests/py/test_x.py:1 test_x"]
    assert named_by(tree, "900-12") == [
        "tests/py/test_x.py:6 TestEnd",
        "tests/py/test_x.py:9 test_end",
    ]
    assert named_by(tree, "900-2") == []
    assert named_by(tree, "901-1") == ["tests/py/test_x.py:14 test_late"]


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("tests/py/x.py", True),
        ("fuzz/x.py", True),
        ("benchmarks/deep/x.py", True),
        ("tools/x.py", False),
        ("pyddsi/tests/x.py", False),
        ("tests/py/x.txt", False),
        (".pyddsi-build/tests/x.py", False),
    ],
)
def test_only_tests_count(path: str, counts: bool, tree: Path) -> None:  # noqa: FBT001  # a case's answer
    """A row counts as tested because some other file speaks of it."""
    write(tree, path, '"""900-1."""\n')
    assert bool(named_by(tree, "900-1")) == counts


def test_table(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table says of a row what is not so."""
    write(tree, "benchmarks/x.py", '"""900-12."""\n')
    assert rows.main(["--section", "900"], tree) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "900-1    MISSING       it begins",
        "900-2    due: stage 3  it lasts",
        "900-12   tested        it ends",
        "                       - benchmarks/x.py:1 x",
        "",
        "3 rows: 1 tested, 1 due later, 1 missing",
    ]
    assert not err


def test_json(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that reads the table gets something else than people do."""
    write(tree, "fuzz/x.c", "/* 900-2 and 900-3 */\nint main(void)\n{\n}\n")
    assert rows.main(["--section", "900", "--json"], tree) == 0
    got = json.loads(capsys.readouterr().out)
    assert [(row["id"], row["state"], len(row["tests"])) for row in got["rows"]] == [
        ("900-1", "MISSING", 0),
        ("900-2", "tested", 1),
        ("900-12", "MISSING", 0),
    ]
    assert got["rows"][1]["due"] == "stage 3"
    assert got["rows"][1]["text"] == "it lasts"
    where = {"path": "fuzz/x.c", "line": 1, "test": "main"}
    assert got["rows"][1]["tests"] == [{"id": "900-2", **where}]
    assert got["unknown"] == [{"id": "900-3", **where}]


def test_missing_rows_fail(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row without a test goes unnoticed, or one that waits for a later stage stops the work."""
    write(tree, "tests/x.py", '"""900-1."""\n')
    assert rows.main(["--section", "900", "--fail-missing"], tree) == 1
    error = capsys.readouterr().err
    assert "no test names 900-12;" in error
    assert "900-2" not in error
    write(tree, "tests/x.py", '"""900-1 900-12."""\n')
    assert rows.main(["--section", "900", "--fail-missing"], tree) == 0
    assert not capsys.readouterr().err


def test_unknown_rows_fail(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the pen in a row's id makes its test prove nothing, and nobody is told."""
    write(tree, "tests/x.py", '"""900-1 900-12 900-13 901-7."""\n')
    assert rows.main(["--section", "900"], tree) == 0
    assert rows.main(["--section", "900", "--fail-missing"], tree) == 1
    error = capsys.readouterr().err
    assert "tests/x.py:1 x: there is no row 900-13" in error
    assert "901-7" not in error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("## Section 900: a\n| 900-1 | a | |\n| 900-1 | b | |\n", ":3: 900-1 is there already"),
        ("## Section 900: a\n| 901-1 | a | |\n", ":2: 901-1 does not belong under this heading"),
        ("| 900-1 | a | |\n", ":1: 900-1 does not belong under this heading"),
        ("## Section 900: a\n| 900-1 | a | later |\n", ":2: due is 'later'"),
        ("## Section 900: a\n| 900-1 | a |\n", ":2: not a row"),
        ("## Section 900: a\n| 900-1 | | |\n", ":2: not a row"),
        ("## Section 900: a\n| 900-1234 | a | |\n", ":2: not a row"),
        ("## Section 900: a\n| 900-1 | a | | b |\n", ":2: due is '| b'"),
        ("## Section 900: a\n## Section 900: b\n", ":2: a second section"),
        ("## Rows\n", ":1: no section"),
        ("# Rows\n", "no section '900' in docs/reference/rows.md; it has: none yet"),
    ],
)
def test_wrong_lists_are_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip in the list makes a row vanish, and with it the need to test it."""
    write(tmp_path, rows.LIST, text)
    assert rows.main(["--section", "900"], tmp_path) == 2
    assert said in capsys.readouterr().err


def test_errors_say_what_to_do(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who mistypes a section, or has no list, is left alone with it."""
    assert rows.main(["--section", "90"], tree) == 2
    assert "it has: 900, 901" in capsys.readouterr().err
    write(tree, "tests/x.py", "def\n")
    assert rows.main(["--section", "900"], tree) == 2
    assert "tests/x.py:1: not Python" in capsys.readouterr().err
    (tree / rows.LIST).unlink()
    assert rows.main(["--section", "900"], tree) == 2
    assert "docs/reference/rows.md: no such file" in capsys.readouterr().err


def test_list_of_this_tree_is_whole() -> None:
    """002-1: a row has been lost from the list, or a test names one that is not there."""
    report = rows.report("002", ROOT)
    assert list(report.rows) == [f"002-{number}" for number in range(1, 130)]
    assert report.unknown == []
