"""
The tool that breaks the core on purpose: that it breaks what it says, judges rightly, and never passes in silence.

The mutants themselves are run by `python tools/mutants.py`; here each must only still have its place in the tree.
"""

from __future__ import annotations

from pathlib import Path

import mutants
import pytest
from cbuild import ROOT
from mutants import MUTANTS, Mutant, MutantError

HARNESS = (ROOT / "tests" / "c" / "test.h").read_text()

# A core of one function, and a world whose only check is that the function doubles. Seed 2 fails in any case.
PYDDSI_H = """
#include <stdint.h>
enum { PYDDSI_OK = 0 };
typedef struct {
    uint64_t violations;
    char violation[256];
} pyddsi_report;
const char *pyddsi_scenario_name(int scenario);
int pyddsi_scenario_run(int scenario, uint64_t seed, pyddsi_report *report, void **sim);
"""
DOUBLE_H = "static inline int pdi_one(void)\n{\n    return 1;\n}\nint pdi_double(int x);\n"
DOUBLE_C = """#include "base/double.h"
int pdi_double(int x)
{
    return 2 *
           x;
}
"""
SCENARIO_C = """#include <string.h>
#include "base/double.h"
#include "pyddsi.h"
const char *pyddsi_scenario_name(int scenario)
{
    return scenario == 0 ? "doubles" : 0;
}
int pyddsi_scenario_run(int scenario, uint64_t seed, pyddsi_report *report, void **sim)
{
    (void)scenario;
    (void)sim;
    memset(report, 0, sizeof(*report));
    report->violations = seed == 2 || (seed > 4 && pdi_double((int)seed) != 2 * (int)seed * pdi_one());
    strcpy(report->violation, report->violations != 0 ? "it does not double" : "");
    return 0;
}
"""


def tree(root: Path, wanted: int = 42) -> Path:
    """A small core with one test program, which passes if `wanted` is 42, and one scenario."""
    test = (
        '#include "test.h"\n#include "base/double.h"\n'
        f"int main(void)\n{{\n    CHECK_EQ(pdi_double(21), {wanted});\n    return test_result();\n}}\n"
    )
    files = {
        "csrc/include/pyddsi.h": PYDDSI_H,
        "csrc/base/double.h": DOUBLE_H,
        "csrc/base/double.c": DOUBLE_C,
        "csrc/sim/scenario.c": SCENARIO_C,
        "csrc/api/fast.h": "#include <Python.h>\n",
        "tests/c/test.h": HARNESS,
        "tests/c/double.c": test,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def mutant(old: str, new: str, proof: str, seeds: int = 9) -> Mutant:
    """A mutant of the small core."""
    return Mutant("a mutant", "base", old, new, proof, seeds)


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_text_is_there(one: Mutant) -> None:
    """A mutant's text has left the tree, so that from then on it proves nothing."""
    path, text = mutants.place(ROOT, one)
    assert path.is_relative_to(ROOT / "csrc" / one.room)
    assert text != path.read_text()
    if one.proof.startswith("tests/"):
        assert (ROOT / "tests" / "c" / f"{one.proof.removeprefix('tests/')}.c").exists()


def test_names_differ() -> None:
    """Two mutants have one name, and the output does not say which of them was missed."""
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


def test_white_space_does_not_matter(tmp_path: Path) -> None:
    """The formatter wraps a line, and the mutant in it is lost."""
    root = tree(tmp_path)
    path, text = mutants.place(root, mutant("return 2 * x;", "return x;", "doubles"))
    assert path == root / "csrc/base/double.c"
    assert text == DOUBLE_C.replace("return 2 *\n           x;", "return x;")


@pytest.mark.parametrize(("old", "where"), [("no such text", "nowhere"), ("int", "csrc/base/")])
def test_text_that_is_not_there_once(tmp_path: Path, old: str, where: str) -> None:
    """A mutant whose text is gone, or stands in several places, goes by unseen."""
    with pytest.raises(MutantError, match=f"it stands {where}"):
        mutants.place(tree(tmp_path), mutant(old, "", "doubles"))


def hunt(root: Path, one: Mutant, capsys: pytest.CaptureFixture[str]) -> tuple[bool, str]:
    """Whether the one mutant was caught, and what was printed."""
    caught = mutants.hunt([one], root)
    return caught, capsys.readouterr().out


def test_text_that_is_gone_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run ends well although one of its mutants could not be made."""
    caught, words = hunt(tree(tmp_path), mutant("no such text", "", "doubles"), capsys)
    assert not caught
    assert "MISSED" in words
    assert "nowhere" in words


@pytest.mark.parametrize(
    ("old", "new"), [("2 * x", "x"), ("return 1;", "return 2;"), ("2 * x", "*(volatile int *)0")]
)
def test_scenario_catches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    """A change of a source or a header does not get into the program, or the wrong seed is named for it."""
    root = tree(tmp_path)
    caught, words = hunt(root, mutant(old, new, "doubles"), capsys)
    assert caught, words
    assert "doubles seed 5" in words  # not 2, which fails by itself
    assert (root / "csrc/base/double.c").read_text() == DOUBLE_C
    assert (root / "csrc/base/double.h").read_text() == DOUBLE_H


def test_scenario_misses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A seed that fails by itself counts as proof, so a mutant that nothing notices is called caught."""
    caught, words = hunt(tree(tmp_path), mutant("2 * x", "x", "doubles", 4), capsys)
    assert not caught
    assert "seeds 1 to 4 pass" in words


def test_no_such_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt scenario catches everything."""
    caught, words = hunt(tree(tmp_path), mutant("2 * x", "x", "trebles"), capsys)
    assert not caught
    assert "no scenario trebles" in words


def test_program_catches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test program runs against the core as it was."""
    caught, words = hunt(tree(tmp_path), mutant("2 * x", "x", "tests/double"), capsys)
    assert caught, words
    assert "is 21, not 42" in words


@pytest.mark.parametrize("proof", ["doubles", "tests/double"])
def test_hang_is_caught(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    proof: str,
) -> None:
    """A mutant that runs for ever stops the whole run, or is called missed."""
    monkeypatch.setattr(mutants, "RUN_SECONDS_MAX", 1)
    monkeypatch.setattr(mutants, "HANG_SECONDS_MIN", 1)
    endless = "(x > 4 ? ({ for (;;) { } 0; }) : 2 * x)"
    caught, words = hunt(tree(tmp_path), mutant("2 * x", endless, proof), capsys)
    assert caught, words
    assert "does not end" in words


def test_program_misses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mutant that its test program does not notice is called caught."""
    caught, words = hunt(tree(tmp_path), mutant("2 * x", "x + x", "tests/double"), capsys)
    assert not caught
    assert "tests/double: passes" in words


def test_program_that_fails_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test program that is red anyway counts as having noticed."""
    caught, words = hunt(tree(tmp_path, 43), mutant("2 * x", "x", "tests/double"), capsys)
    assert not caught
    assert "fails by itself" in words


def test_mutant_that_does_not_compile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A compiler's error counts as caught."""
    caught, words = hunt(tree(tmp_path), mutant("2 * x", "2 *", "doubles"), capsys)
    assert not caught
    assert "cannot be judged" in words


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt name selects no mutant, and that passes for success; or the list leaves some out."""
    assert mutants.main(["-k", "trouble"], tree(tmp_path)) == 1
    assert mutants.main(["--list"], tmp_path) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(MUTANTS)
