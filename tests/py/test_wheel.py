"""
What a user downloads: the source archive builds the wheel, the wheel holds what it should and nothing else, and it
works on every Python that it claims, in an environment with nothing in it.

The wheel is built from the source archive, so that a file missing there is noticed. PYDDSI_PYTHONS names the
versions that have to be at hand ("3.11 3.12 3.13"); without it, those that are.
"""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from cbuild import ROOT

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
DEMANDED = os.environ.get("PYDDSI_PYTHONS", "").split()

# Run far from the tree, so that it is the installed package that answers.
SMOKE = """
import pathlib, sys, pyddsi
from pyddsi._core import ffi, lib
assert pathlib.Path(pyddsi.__file__).is_relative_to(sys.prefix), pyddsi.__file__
assert lib.PYDDSI_OK == 0
assert ffi.sizeof("pyddsi_bytes") == 16
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def usable(python: str) -> bool:
    """Whether a Python of that name runs here and can make environments."""
    if shutil.which(python) is None:
        return False
    command = [python, "-c", "import ensurepip, venv"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def pythons() -> list[str]:
    """The interpreters to try the wheel with: this one, and every other version that is demanded or here."""
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    others = [f"python{version}" for version in DEMANDED or VERSIONS if version != this]
    return [sys.executable, *(name for name in others if DEMANDED or usable(name))]


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive of this tree."""
    folder = tmp_path_factory.mktemp("sdist")
    # The list of files from an earlier build would be taken as one more source of what belongs in.
    shutil.rmtree(ROOT / "pyddsi.egg-info", ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", folder)
    [archive] = folder.iterdir()
    return archive


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source archive."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, sdist, cwd=folder)
    [built] = folder.iterdir()
    return built


def test_sdist_holds_the_tree(sdist: Path) -> None:
    """Who has only the source archive cannot build, test or read the licence."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for glob in (
            "csrc/**/*.[ch]",
            "tests/**/*.[ch]",
            "tests/**/*.py",
            "fuzz/*.c",
            "tools/*.py",
            "captures/*.pcap",
        )
        for path in ROOT.glob(glob)
    } | {
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "setup.py",
        "run",
        "pyddsi/_build.py",
        "pyddsi/py.typed",
        "pyddsi/share/wireshark/pyddsi.lua",
        "pyddsi/share/wireshark/profile/preferences",
    }
    assert wanted - held == set()
    assert not [name for name in held if name.endswith((".so", ".pyc"))]


def test_wheel_fits_every_python_from_3_11(wheel: Path) -> None:
    """The name promises less than the limited API keeps, and every Python wants a wheel of its own."""
    assert re.fullmatch(r"pyddsi-[\w.]+-cp311-abi3-linux_\w+\.whl", wheel.name)


def test_wheel_holds_the_package_alone(wheel: Path) -> None:
    """Tests, C sources or a forgotten file are shipped, or the types are not."""
    names = zipfile.ZipFile(wheel).namelist()
    package = {name for name in names if not re.match(r"pyddsi-[\w.]+\.dist-info/", name)}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for glob in (
            "*.py",
            "*.pyi",
            "py.typed",
            "share/wireshark/*.lua",
            "share/wireshark/profile/*",
        )
        for path in (ROOT / "pyddsi").rglob(glob)
    }
    assert package == wanted | {"pyddsi/_core.abi3.so", "pyspark_pyddsi.py"}
    assert "pyddsi/py.typed" in package


def test_wheel_says_what_it_is(wheel: Path) -> None:
    """The licence or the version is lost, or an extra has become a dependency."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        meta = email.message_from_bytes(archive.read(name))
    required = [line for line in meta.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [re.split(r"[<>=]", line)[0] for line in required] == ["cffi"]
    assert meta["License-Expression"] == "Apache-2.0 AND GPL-2.0-or-later"  # the latter for scapy
    assert meta["Requires-Python"] == ">=3.11"


def test_extension_exports_the_front_door_alone(wheel: Path, tmp_path: Path) -> None:
    """A symbol of ours can collide with one of another library in the same process."""
    library = zipfile.ZipFile(wheel).extract("pyddsi/_core.abi3.so", tmp_path)
    symbols = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    assert "PyInit__core" in symbols
    assert [
        name for name in symbols if name != "PyInit__core" and not name.startswith("pyddsi_")
    ] == []


def test_extension_keeps_to_the_limited_api(wheel: Path) -> None:
    """The extension uses something of Python that a later version may take away."""
    said = " ".join(run(sys.executable, "-m", "abi3audit", "--strict", "--verbose", wheel).split())
    assert "1 extensions scanned; 0 ABI version mismatches and 0 ABI violations" in said, said


@pytest.mark.parametrize("python", pythons(), ids=lambda python: Path(python).name)
def test_wheel_works_in_an_empty_environment(python: str, wheel: Path, tmp_path: Path) -> None:
    """A user who installs the wheel gets something that does not start, or more packages than cffi."""
    run(python, "-m", "venv", tmp_path / "venv")
    inside = tmp_path / "venv" / "bin" / "python"

    def installed() -> set[str]:
        return {
            package["name"]
            for package in json.loads(
                run(inside, "-m", "pip", "list", "--format=json").splitlines()[-1]
            )
        }

    before = installed()
    run(inside, "-m", "pip", "install", wheel, cwd=tmp_path)
    assert installed() - before == {"pyddsi", "cffi", "pycparser"}
    run(inside, "-W", "error", "-c", SMOKE, cwd=tmp_path)
    run(tmp_path / "venv" / "bin" / "pyddsi", "--version", cwd=tmp_path)
