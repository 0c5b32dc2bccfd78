"""
Runs the fuzz targets: every fuzz/NAME.c but standalone.c, each with its corpus in fuzz/corpus/NAME.

    python tools/cfuzz.py packet --seconds 60      look for new inputs with clang's libFuzzer
    python tools/cfuzz.py packet --file crash-1f…  run given inputs once, with the same sanitizers
    python tools/cfuzz.py --replay                 run every corpus with plain gcc, as the ordinary tests do

What a run finds stays out of the tree, in .pyddsi-build/fuzz/NAME/: `found` holds inputs that reached new code and are
seeds of the next run, `crashes` those that broke something, `log` what libFuzzer said. An input whose fault is mended
goes into the corpus, under a name that tells what it was, and is a test from then on.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from cbuild import ROOT, Build, BuildError, Config
from ctest import ENVIRONMENT

FILES_PER_RUN = 1000
REPLAY_SECONDS_MAX = 300
FUZZER = Config("clang", "fuzzer,address,undefined")
INPUT_SECONDS_MAX = 10  # one input that takes longer is a finding


class FuzzError(Exception):
    """A target broke, or there was nothing to run."""


def targets(root: Path = ROOT) -> list[str]:
    """Every fuzz target there is."""
    return sorted(path.stem for path in root.glob("fuzz/*.c") if path.stem != "standalone")


def corpus(target: str, root: Path = ROOT) -> list[Path]:
    """The files of a target's corpus."""
    files = sorted(
        path for path in (root / "fuzz" / "corpus" / target).rglob("*") if path.is_file()
    )
    if not files:
        raise FuzzError(f"fuzz/corpus/{target} holds no file")
    return files


def source(target: str, root: Path) -> Path:
    """The target's C file."""
    path = root / "fuzz" / f"{target}.c"
    if target not in targets(root):
        raise FuzzError(f"no target {target}; there are: {', '.join(targets(root)) or 'none'}")
    return path


def replay(target: str, config: Config, root: Path = ROOT) -> int:
    """Run a target over its corpus without a fuzzer; how many inputs that were."""
    build = Build(config, root)
    program = build.program(
        f"replay-{target}", [source(target, root), root / "fuzz" / "standalone.c"]
    )
    files = [str(path) for path in corpus(target, root)]
    for start in range(0, len(files), FILES_PER_RUN):
        done = subprocess.run(
            [str(program), *files[start : start + FILES_PER_RUN]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=REPLAY_SECONDS_MAX,
        )
        if done.returncode != 0:
            tail = done.stdout.decode(errors="replace").splitlines()[-20:]
            raise FuzzError(f"{target}: status {done.returncode}; it ends with\n" + "\n".join(tail))
    return len(files)


def fuzzer(target: str, root: Path) -> Path:
    """The target built for libFuzzer."""
    return Build(FUZZER, root).program(f"fuzz-{target}", [source(target, root)])


def environment() -> dict[str, str]:
    """The sanitizers' settings. libFuzzer looks for leaks by itself, at the end of a run."""
    return {**os.environ, **ENVIRONMENT}


def fuzz(target: str, seconds: int, root: Path = ROOT) -> str:
    """Look for new inputs for so long; one line about what came of it."""
    program = fuzzer(target, root)
    seeds = corpus(target, root)
    scratch = root / ".pyddsi-build" / "fuzz" / target
    found, crashes, log = scratch / "found", scratch / "crashes", scratch / "log"
    found.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(exist_ok=True)
    before = len(list(found.iterdir()))
    command = [
        str(program),
        f"-max_total_time={seconds}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
        str(found),
        str(root / "fuzz" / "corpus" / target),
    ]
    with log.open("wb") as output:
        done = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment(), check=False
        )
    text = log.read_text(errors="replace")
    if done.returncode != 0:
        kept = re.findall(r"Test unit written to (.*)", text)
        raise FuzzError(
            "\n".join(text.splitlines()[-60:])
            + "".join(f"\n{target}: again with: ./run fuzz {target} '{path}'" for path in kept)
        )
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    rate = re.search(r"stat::average_exec_per_sec:\s*(\d+)", text)
    if runs is None or rate is None or int(runs[1]) == 0:
        raise FuzzError(f"{target}: nothing was run; see {log}")
    fresh = len(list(found.iterdir())) - before
    return (
        f"{target}: {int(runs[1]):,} runs in {seconds} s, {int(rate[1]):,} per second; "
        f"{len(seeds)} seeds, {fresh} new inputs, no fault"
    )


def run_files(target: str, files: list[str], root: Path = ROOT) -> None:
    """Run given inputs once, under the fuzzer's sanitizers."""
    done = subprocess.run([str(fuzzer(target, root)), *files], env=environment(), check=False)
    if done.returncode != 0:
        raise FuzzError(f"{target}: status {done.returncode}")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run the fuzz targets.")
    parser.add_argument("target", nargs="?", help="a fuzz/NAME.c")
    parser.add_argument("--seconds", type=int, default=60, help="how long to look (default: 60)")
    parser.add_argument("--file", nargs="+", default=[], help="run these inputs once instead")
    parser.add_argument("--replay", action="store_true", help="run the corpora with plain gcc")
    chosen = parser.parse_args(arguments)
    if chosen.target is None and not chosen.replay:
        parser.error(f"name a target: {', '.join(targets())}")
    try:
        if chosen.replay:
            for target in [chosen.target] if chosen.target else targets():
                print(f"{target}: {replay(target, Config())} inputs, no fault")
        elif chosen.file:
            run_files(chosen.target, chosen.file)
        else:
            print(fuzz(chosen.target, chosen.seconds))
    except (BuildError, FuzzError) as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
