"""
The house's rules hold in this tree, and every rule can see: the rules themselves are in tools/tidy.py.

Two tests use each rule: one over this tree, which has to be clean, and one over a small wrong file, which has to be
reported, so that a rule that has gone blind is noticed.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from cbuild import COMPILER, ROOT
from tidy import RULES, types_twice

# rule, file, text, what has to be said about it
WRONG = [
    (
        "include arrows",
        "csrc/wire/x.c",
        '#include "proto/window.h"',
        "1: wire may not include proto",
    ),
    (
        "include arrows",
        "csrc/base/x.h",
        '\n# include "wire/table.h"',
        "2: base may not include wire",
    ),
    ("include arrows", "csrc/proto/x.c", '#include "env.h"', "1: proto may not include env.h"),
    ("include arrows", "csrc/wire/x.c", '#include "list.h"', "1: wire may not include list.h"),
    ("include arrows", "csrc/wire/x.c", "#include <Python.h>", "1: wire may not include Python.h"),
    ("include arrows", "csrc/attic/x.c", '#include "base/heap.h"', "1: attic is no room"),
    (
        "include arrows",
        "csrc/include/x.h",
        '#include "base/heap.h"',
        "1: csrc/include/x.h is a door and includes no room",
    ),
    ("system calls", "csrc/wire/x.c", "p = malloc(3);", "1: malloc: the core never allocates"),
    (
        "system calls",
        "csrc/base/x.h",
        "\nnow = time (NULL);",
        "2: time: the core never reads a clock",
    ),
    ("system calls", "csrc/proto/x.c", "sendto(s);", "1: sendto: the core never touches a socket"),
    ("system calls", "csrc/flow/x.c", "usleep(3);", "1: usleep: the core never sleeps"),
    ("system calls", "csrc/node/x.c", 'printf("free(");', "1: printf: the core never prints"),
    ("unfinished", "docs/x.md", "x\nTO" + "DO: y", "2: a mark of unfinished work: TO" + "DO"),
    ("places", "docs/x.md", "see /" + "tmp/x", "1: a folder of somebody's machine: /" + "tmp/"),
    ("places", "run", f"cd {ROOT}/csrc", f"1: a folder of somebody's machine: {ROOT}/"),
    (
        "size",
        "csrc/base/x.c",
        "/* x */\n" + "\n" * 400,
        "401: 401 lines, and the first comment does not say why it is so long",
    ),
    (
        "size",
        "pyddsi/x.py",
        '"""X."""\n' + "\n" * 400,
        "401: 401 lines, and the first comment does not say why it is so long",
    ),
    (
        "size",
        "run",
        "# x\n" + "\n" * 400,
        "401: 401 lines, and the first comment does not say why it is so long",
    ),
    ("sleeps", "tests/py/x.py", "import time\ntime.sleep(1)", "2: a test that sleeps: time.sleep"),
    ("sleeps", "tests/c/x.c", "usleep(1);", "1: a test that sleeps: usleep"),
    (
        "python arrows",
        "pyddsi/wire.py",
        "from pyddsi._core import lib",
        "1: only pyddsi/_native.py may import pyddsi._core",
    ),
    (
        "python arrows",
        "pyddsi/capture/x.py",
        "from .. import _core",
        "1: only pyddsi/_native.py may import pyddsi._core",
    ),
    (
        "python arrows",
        "pyddsi/wire.py",
        "import pyddsi.cli",
        "1: pyddsi.cli is a leaf, and pyddsi/wire.py builds on it",
    ),
    (
        "python arrows",
        "pyddsi/cli/x.py",
        "from pyddsi import scapy",
        "1: pyddsi.scapy is a leaf, and pyddsi/cli/x.py builds on it",
    ),
]

# rule, file, text with nothing wrong in it, though it looks a little like it
RIGHT = [
    (
        "include arrows",
        "csrc/wire/x.c",
        '/* #include "proto/x.h" */\n#include "base/x.h"\n#include "wire/y.h"\n#include "pyddsi.h"',
    ),
    ("include arrows", "csrc/node/x.c", '#include "env.h"\n#include <string.h>'),
    ("system calls", "csrc/wire/x.c", 'pdi_heap_open(h); x->free(y); p("malloc(3)"); // time(0)'),
    ("system calls", "csrc/host/x.c", "p = malloc(3);"),
    ("size", "csrc/base/x.c", "/* This file is long because it is one table. */\n" + "\n" * 400),
    ("sleeps", "tests/c/x.c", '/* sleep(1) */ f("sleep(1)");'),
    ("python arrows", "pyddsi/__main__.py", "from pyddsi.cli import main"),
    (
        "python arrows",
        "pyddsi/cli/x.py",
        "from pyddsi.cli.y import z\nfrom .y import a\nimport scapy.all",
    ),
    ("python arrows", "pyddsi/cli/x.py", "from pyddsi.spark import session"),
    ("python arrows", "pyddsi/_native.py", "from pyddsi._core import ffi, lib"),
]


def write(root: Path, path: str, text: str) -> None:
    """One file in a small tree."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", RULES)
def test_tree_keeps_rule(name: str) -> None:
    """002-4: A room has grown an arrow, a call or a mark that the house does not have."""
    assert RULES[name].files(ROOT), "the rule looks at no file"
    assert RULES[name].findings(ROOT) == []


@pytest.mark.parametrize(("name", "path", "text", "finding"), WRONG)
def test_rule_sees_wrong(name: str, path: str, text: str, finding: str, tmp_path: Path) -> None:
    """A rule has gone blind: it lets pass what it is there to find."""
    write(tmp_path, path, text)
    assert RULES[name].findings(tmp_path) == [f"{path}:{finding}"]


@pytest.mark.parametrize(("name", "path", "text"), RIGHT)
def test_rule_lets_right_pass(name: str, path: str, text: str, tmp_path: Path) -> None:
    """A rule reports what is right, and people start to work around it."""
    write(tmp_path, path, text)
    assert RULES[name].findings(tmp_path) == []


def headers_not_alone(root: Path) -> list[str]:
    """The headers that do not compile with nothing before them."""
    python = ["-isystem", sysconfig.get_path("include"), "-DPy_LIMITED_API=0x030B0000"]
    flags = ["-std=c11", "-Icsrc", "-Icsrc/include", *python, "-fsyntax-only", "-x", "c"]
    return [
        header
        for header in sorted(path.relative_to(root).as_posix() for path in root.glob("csrc/**/*.h"))
        if subprocess.run(
            [COMPILER, *flags, header], cwd=root, capture_output=True, check=False
        ).returncode
    ]


def test_every_header_compiles_alone() -> None:
    """A header works only after another one, so the order of includes decides what compiles."""
    assert list(ROOT.glob("csrc/**/*.h"))
    assert headers_not_alone(ROOT) == []


def test_header_that_leans_on_another_is_seen(tmp_path: Path) -> None:
    """The check above passes whatever the headers hold."""
    write(tmp_path, "csrc/base/leans.h", "uint8_t pdi_x(void);\n")
    write(tmp_path, "csrc/base/stands.h", "#include <stdint.h>\nuint8_t pdi_x(void);\n")
    assert headers_not_alone(tmp_path) == ["csrc/base/leans.h"]


def test_nothing_may_be_skipped(tmp_path: Path) -> None:
    """A test that skips itself, alone or with its file, passes for a test."""
    write(tmp_path, "conftest.py", (ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    write(tmp_path, "test_file.py", "import pytest\npytest.skip('f', allow_module_level=True)\n")
    write(
        tmp_path,
        "test_each.py",
        "import pytest\n"
        "def test_passes(): pass\n"
        "def test_skips(): pytest.skip('s')\n"
        "@pytest.mark.skip\ndef test_marked(): pass\n"
        "@pytest.mark.xfail\ndef test_expected(): assert 0\n"
        "@pytest.mark.xfail\ndef test_unexpected(): pass\n",
    )
    command = [sys.executable, "-m", "pytest", "-q", "--continue-on-collection-errors", "--rootdir"]
    done = subprocess.run(
        [*command, tmp_path, tmp_path], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "3 failed, 1 passed, 2 errors" in done.stdout, done.stdout


def test_types_once(tmp_path: Path) -> None:
    """Two headers would define one name, and nothing would say so until a file includes both."""
    assert types_twice(ROOT) == []
    for room, text in {
        "base": "struct pdi_x {\n};\nstruct pdi_y;\n",
        "wire": "/* struct pdi_y {\n */\nstruct pdi_x\n{\n};\n",
        "proto": "struct pdi_y {\n};\n",
    }.items():
        (tmp_path / "csrc" / room).mkdir(parents=True)
        (tmp_path / "csrc" / room / "x.h").write_text(text)
    assert types_twice(tmp_path) == ["struct pdi_x is in csrc/base/x.h and in csrc/wire/x.h"]
