"""
Compiles the C core and what is linked with it, for the C tests and the fuzz targets.

One rule decides what is compiled again: next to each output lies a key, the hash of everything that went into it (the
compiler's version, the flags, the source, and every header of the tree). Same key, same file; so nothing stale is ever
run, no list of dependencies has to be kept, and the cache holds one file per source and configuration and never grows.

    csrc/**/*.c ──► object ──┐
    tests/c/x.c ──► object ──┴──► .pyddsi-build/<configuration>/x

Files that include Python.h are left out: they belong to the extension module, and the core runs without Python.
"""

import hashlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDES = ("-Icsrc", "-Icsrc/include", "-Itests/c")
DEBUG = ("-std=c11", "-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "-DPDI_CHECKED")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow")
COMPILE_SECONDS_MAX = 300

# The compiler for those who do not care which.
COMPILER = next((cc for cc in ("gcc", "clang", "cc") if shutil.which(cc)), "cc")


class BuildError(Exception):
    """The compiler or the linker refused; the text is what it said."""


@dataclass(frozen=True)
class Config:
    """One way of compiling everything; its name is the folder its results lie in."""

    cc: str = "gcc"
    sanitize: str = "none"
    werror: bool = True

    @property
    def name(self) -> str:
        """A folder name that differs for every configuration."""
        strict = "strict" if self.werror else "plain"
        return "-".join([Path(self.cc).name, self.sanitize.replace(",", "+"), strict])

    @property
    def sanitizer(self) -> list[str]:
        """The flags that compiling and linking share."""
        if self.sanitize == "none":
            return []
        # gcc takes what a sanitizer adds for a use of what was not set; its plain build keeps that warning
        blind = ["-Wno-maybe-uninitialized"] if "gcc" in Path(self.cc).name else []
        return [f"-fsanitize={self.sanitize}", "-fno-sanitize-recover=all", *blind]

    @property
    def flags(self) -> list[str]:
        """Everything the compiler is told besides the files."""
        strict = ["-Werror"] if self.werror else []
        return [*DEBUG, *WARNINGS, *strict, *self.sanitizer, *INCLUDES]


@cache
def version(cc: str) -> str:
    """What the compiler says it is, so that an update of it empties the cache."""
    return run([cc, "--version"], Path.cwd())


def run(command: list[str], root: Path) -> str:
    """Run a build step and return what it printed."""
    try:
        done = subprocess.run(
            command,
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMPILE_SECONDS_MAX,
        )
    except FileNotFoundError:
        raise BuildError(f"{command[0]}: no such program on PATH") from None
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def digest(*parts: str | bytes) -> str:
    """One hash of many parts; each part's length goes in, so that no two lists of parts look the same."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()


class Build:
    """The core, compiled in one configuration, and programs linked with it."""

    def __init__(self, config: Config, root: Path = ROOT) -> None:
        self.config = config
        self.root = root
        self.folder = root / ".pyddsi-build" / config.name
        folders = ("csrc/**", "tests/c", "fuzz")
        headers = sorted(path for folder in folders for path in root.glob(f"{folder}/*.h"))
        contents = [part for path in headers for part in (str(path), path.read_bytes())]
        self.common = digest(version(config.cc), *config.flags, *contents)

    def core(self) -> list[Path]:
        """The sources of the core: all of csrc that does not need Python, by itself or through a header."""
        text = {path: path.read_text() for path in sorted(self.root.glob("csrc/**/*.[ch]"))}
        names = [
            path.relative_to(self.root / "csrc") for path in text if "<Python.h>" in text[path]
        ]
        needs = re.compile(rf"#\s*include\s*[<\"]({'|'.join(['Python.h', *map(str, names)])})[>\"]")
        return [path for path in text if path.suffix == ".c" and not needs.search(text[path])]

    def program(self, name: str, sources: Iterable[Path], link_flags: Iterable[str] = ()) -> Path:
        """Compile what changed, link it with the core, and return the program's path."""
        objects = self.objects([*sources, *self.core()])
        output = self.folder / name
        link = [*self.config.sanitizer, *link_flags]
        key = digest(self.common, *link, *[path.read_text() for _, path in objects])
        inputs = [str(path) for path, _ in objects]
        self.make(output, key, [self.config.cc, *inputs, "-pthread", *link])
        return output

    def objects(self, sources: list[Path]) -> list[tuple[Path, Path]]:
        """The object of each source, with the file that holds its key."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(self.object, sources))

    def object(self, source: Path) -> tuple[Path, Path]:
        """One source compiled."""
        relative = source.relative_to(self.root)
        output = self.folder / "objects" / relative.with_suffix(".o")
        key = digest(self.common, str(relative), source.read_bytes())
        return self.make(output, key, [self.config.cc, *self.config.flags, "-c", str(relative)])

    def make(self, output: Path, key: str, command: list[str]) -> tuple[Path, Path]:
        """
        Run the command if the output at hand was not made with this key. Another process may do the same meanwhile:
        both write files of their own and rename them, so a half-written one is never seen.
        """
        key_file = output.with_name(output.name + ".key")
        if output.exists() and key_file.exists() and key_file.read_text() == key:
            return output, key_file
        output.parent.mkdir(parents=True, exist_ok=True)
        fresh = output.with_name(f"{output.name}.{os.getpid()}-{threading.get_ident()}")
        fresh_key = output.with_name(f"{output.name}.key.{os.getpid()}-{threading.get_ident()}")
        run([*command, "-o", str(fresh)], self.root)
        fresh_key.write_text(key)
        key_file.unlink(missing_ok=True)
        fresh.replace(output)
        fresh_key.replace(key_file)
        return output, key_file
