"""
The C tests and the fuzz corpora, as ordinary tests: one for each program of tests/c, one for each fuzz target.

They are built here without a sanitizer and with whatever compiler is at hand; `./run ctest` runs the same programs
under the sanitizers. Warnings do not stop this build, since a newer compiler may have new ones; `./run lint` is for them.
"""

from pathlib import Path

import cfuzz
import ctest
import pytest
from cbuild import COMPILER, ROOT, Build, Config

CONFIG = Config(COMPILER, werror=False)

HARNESS = (ROOT / "tests" / "c" / "test.h").read_text()
STANDALONE = (ROOT / "fuzz" / "standalone.c").read_text()
DOUBLE_H = "int pdi_double(int x);\n"
DOUBLE_C = '#include "base/double.h"\nint pdi_double(int x)\n{\n    return 2 * x;\n}\n'
TARGET_C = """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == '!')
        abort();
    return 0;
}
"""


@pytest.mark.parametrize("name", ctest.names())
def test_program(name: str) -> None:
    """A C module does not do what its header says; the program's output tells which check."""
    outcome = ctest.run_one(Build(CONFIG), name)
    assert outcome.passed, outcome.output


@pytest.mark.parametrize("target", cfuzz.targets())
def test_corpus(target: str) -> None:
    """An input that once broke the decoder, or was seeded to, breaks it again."""
    assert cfuzz.replay(target, CONFIG) > 0


def tree(root: Path, wanted: int) -> Path:
    """A small core with one C test, which passes if `wanted` is 42, and one fuzz target."""
    test = (
        '#include "test.h"\n#include "base/double.h"\n'
        f"int main(void)\n{{\n    CHECK_EQ(pdi_double(21), {wanted});\n    return test_result();\n}}\n"
    )
    files = {
        "csrc/base/double.h": DOUBLE_H,
        "csrc/base/double.c": DOUBLE_C,
        "csrc/api/fast.h": "#include <Python.h>\n#error the core needs no Python\n",
        "csrc/api/fast.c": '#include "api/fast.h"\n',
        "csrc/api/module.c": "#include <Python.h>\n#error the core needs no Python\n",
        "tests/c/test.h": HARNESS,
        "tests/c/double.c": test,
        "fuzz/standalone.c": STANDALONE,
        "fuzz/target.c": TARGET_C,
        "fuzz/corpus/target/fine": "fine",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_passing_program_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A C test that is right is called wrong, or a file with Python.h is dragged into the core."""
    assert ctest.main(["--cc", COMPILER], tree(tmp_path, 42)) == 0
    assert "1 checks, 0 failures" in capsys.readouterr().out


def test_failing_program_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A C test that fails goes by unseen."""
    assert ctest.main(["--cc", COMPILER], tree(tmp_path, 43)) == 1
    assert "pdi_double(21) is 42, not 43" in capsys.readouterr().out


def test_no_program_fails(tmp_path: Path) -> None:
    """A misspelt name selects no C test, and that passes for success."""
    assert ctest.main(["--cc", COMPILER, "-k", "trouble"], tree(tmp_path, 42)) == 1


def test_changed_source_is_compiled_again(tmp_path: Path) -> None:
    """A test runs against what the cache kept of an older source or header."""
    root = tree(tmp_path, 42)
    assert ctest.main(["--cc", COMPILER], root) == 0
    (root / "csrc/base/double.c").write_text(DOUBLE_C.replace("2 * x", "x"))
    assert ctest.main(["--cc", COMPILER], root) == 1
    (root / "csrc/base/double.c").write_text(DOUBLE_C)
    assert ctest.main(["--cc", COMPILER], root) == 0
    (root / "csrc/base/double.h").write_text("#define pdi_double(x) (x)\n")
    assert ctest.main(["--cc", COMPILER], root) == 1


def test_crashing_input_fails(tmp_path: Path) -> None:
    """An input of the corpus that stops its target goes by unseen, or is not named."""
    root = tree(tmp_path, 42)
    assert cfuzz.replay("target", CONFIG, root) == 1
    (root / "fuzz/corpus/target/loud").write_text("!")
    with pytest.raises(cfuzz.FuzzError, match="corpus/target/loud"):
        cfuzz.replay("target", CONFIG, root)


def test_empty_corpus_fails(tmp_path: Path) -> None:
    """A target whose corpus was lost counts as tested."""
    root = tree(tmp_path, 42)
    (root / "fuzz/corpus/target/fine").unlink()
    with pytest.raises(cfuzz.FuzzError, match="holds no file"):
        cfuzz.replay("target", CONFIG, root)
