"""
Builds and runs the C tests: every tests/c/NAME.c is a program, linked with the whole core.

    python tools/ctest.py                                         all, with gcc
    python tools/ctest.py -k heap                                 those whose name contains "heap"
    python tools/ctest.py --cc clang --sanitize address,undefined
    python tools/ctest.py --cc gcc --sanitize thread

One line per program, and under it the output of one that fails. Failing, a compiler's error and finding no test at all
end with status 1.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cbuild import ROOT, Build, BuildError, Config

RUN_SECONDS_MAX = 1200

# A sanitizer's finding ends the program, with the stack that led to it.
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclass(frozen=True)
class Outcome:
    """How one program ended."""

    name: str
    passed: bool
    seconds: float
    output: str

    def line(self) -> str:
        """The one line about it: its own last line tells how many checks it made."""
        lines = self.output.strip().splitlines()
        word = "ok  " if self.passed else "FAIL"
        return f"{word} {self.name:20} {self.seconds:7.2f} s  {lines[-1] if lines else ''}"


def names(root: Path = ROOT) -> list[str]:
    """Every C test program there is."""
    return sorted(path.stem for path in root.glob("tests/c/*.c"))


def run_one(build: Build, name: str) -> Outcome:
    """Build one test program if need be, and run it."""
    start = time.monotonic()
    try:
        program = build.program(name, [build.root / "tests" / "c" / f"{name}.c"])
        done = subprocess.run(
            [str(program)],
            cwd=build.root,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=RUN_SECONDS_MAX,
        )
        output = done.stdout.decode(errors="replace")
        passed = done.returncode == 0
        if done.returncode < 0:
            output += f"\nended by signal {-done.returncode}"
    except BuildError as error:
        passed, output = False, f"{error}\ndoes not compile"
    except subprocess.TimeoutExpired:
        passed, output = False, f"not done after {RUN_SECONDS_MAX} s"
    return Outcome(name, passed, time.monotonic() - start, output)


def run_all(build: Build, wanted: list[str]) -> bool:
    """Run the programs and print a line for each; true when there was one and all passed."""
    if not wanted:
        print("no C test found")
        return False
    try:
        build.objects(build.core())
    except BuildError as error:
        print(f"the core does not compile\n{error}")
        return False
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for outcome in pool.map(lambda name: run_one(build, name), wanted):
            print(outcome.line(), flush=True)
            if not outcome.passed:
                failed += 1
                print(f"\n--- {outcome.name} ---\n{outcome.output.rstrip()}\n", flush=True)
    print(f"{build.config.name}: {len(wanted) - failed} passed, {failed} failed")
    return not failed


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Build and run the C tests.")
    parser.add_argument("--cc", default="gcc", help="the compiler (default: gcc)")
    parser.add_argument(
        "--sanitize",
        default="none",
        choices=["none", "address,undefined", "thread"],
        help="(default: none)",
    )
    parser.add_argument(
        "-k", dest="part", default="", help="only the programs whose name contains this"
    )
    chosen = parser.parse_args(arguments)
    try:
        build = Build(Config(chosen.cc, chosen.sanitize), root)
        passed = run_all(build, [name for name in names(root) if chosen.part in name])
    except BuildError as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
