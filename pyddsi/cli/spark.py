"""`pyddsi spark`: whether a Spark can read captures, and how to give it what it needs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pyddsi.cli import _arguments as read
from pyddsi.cli._machine import Finding
from pyddsi.cli._show import Paint, many
from pyddsi.cli.doctor import show

DESCRIPTION = """\
doctor runs tasks on the executors of a Spark and says which Python, which pyddsi and which files they see, and what mends
what does not fit. submit-help shows how jobs and pyddsi get to a cluster.
"""

EXAMPLES = """\
examples:
  pyddsi spark doctor /data/run.pcapng
  pyddsi spark doctor --master spark://head:7077 --conf spark.archives=env.tar.gz#env /data
  pyddsi spark doctor --remote sc://head:15002
  spark-submit --archives env.tar.gz#env $(command -v pyddsi) spark doctor /data
  pyddsi spark submit-help

exit status of doctor: 1 if something failed
"""

SUBMIT = """\
pyddsi has a compiled half, so it cannot go to a cluster with --py-files. Two ways work.

1. A packed environment, which Spark brings to every executor:

     python{version} -m venv env
     env/bin/pip install 'pyddsi[spark]' venv-pack
     env/bin/venv-pack -p env -o env.tar.gz
     export PYSPARK_PYTHON=./env/bin/python
     spark-submit --archives env.tar.gz#env job.py

   The executors need Python {version} at the place where this one has it, and the same kind of processor ({machine}).

2. The wheel on every machine, or in the image that executors run in:

     pip install 'pyddsi[spark]'

Captures have to lie where every executor sees them under the same name. Then look:

     pyddsi spark doctor /where/captures/are
"""


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.add_argument("what", choices=("doctor", "submit-help"), help="see above")
    parser.add_argument(
        "path", nargs="?", default="", help="a capture or folder that executors are to see"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--master", help="of the cluster (default: as Spark is set up, else this machine)"
    )
    where.add_argument("--remote", help="a Connect server, sc://HOST:PORT")
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark; may be repeated",
    )
    parser.add_argument(
        "--tasks",
        type=read.whole_number(1, 100_000),
        default=16,
        help="how many are run (default: 16)",
    )
    parser.add_argument("--quiet", action="store_true", help="leave out what is ok")
    read.add_json(parser, "one JSON object a line")


def _looked(options: argparse.Namespace) -> list[Finding]:
    """What there is to say, if Spark can be loaded and begun at all."""
    try:
        from pyddsi.spark import session  # noqa: PLC0415 - it takes long to load
        from pyddsi.spark.doctor import looks  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return [Finding("packages", "fail", str(error), ("pip install 'pyddsi[spark]'",))]
    conf = dict(setting.split("=", 1) for setting in options.conf)
    conf.setdefault("spark.ui.showConsoleProgress", "false")
    path = str(Path(options.path).absolute()) if options.path else ""
    try:
        spark = session(master=options.master, remote=options.remote, conf=conf)
    except Exception as error:  # noqa: BLE001 - Java's words, of many kinds
        mend = "Java 17 or newer: apt install openjdk-17-jre-headless; and JAVA_HOME, if it is elsewhere"
        return [Finding("session", "fail", str(error).strip().splitlines()[0], (mend,))]
    try:
        return [Finding(*look) for look in looks(spark, path, options.tasks)]
    finally:
        spark.stop()


def run(options: argparse.Namespace) -> int:
    """Look, or tell."""
    if options.what == "submit-help":
        import platform  # noqa: PLC0415 - for this alone

        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        text = SUBMIT.format(version=version, machine=platform.machine())
        print(
            json.dumps({"text": text}) if options.json else text, end="\n" if options.json else ""
        )
        return 0
    wrong = [setting for setting in options.conf if "=" not in setting]
    if wrong:
        raise read.UsageError(f"--conf takes NAME=VALUE, not {wrong[0]!r}")
    paint = Paint(sys.stdout)
    findings = _looked(options)
    for finding in findings:
        if options.json:
            line = {name: getattr(finding, name) for name in ("name", "level", "text", "mend")}
            print(json.dumps(line))
        elif not (options.quiet and finding.level == "ok"):
            show(finding, paint)
    bad = sum(finding.level == "fail" for finding in findings)
    if not options.json:
        print(f"{many(len(findings), 'look')}: {bad or 'nothing'} failed")
    return 1 if bad else 0
