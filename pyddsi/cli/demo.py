"""`pyddsi demo`: what pyddsi does, with three processes, one of which does not survive it."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyddsi
from pyddsi.cli import _arguments as read
from pyddsi.cli._session import terminable
from pyddsi.cli._show import Paint, duration, many

DESCRIPTION = """\
Show what pyddsi does, and explain it on the way: this process and two others find each other, samples go through shared
memory and through sockets, one process is killed, and what it did not get is in the ledger. In the end there is a recording
of it, which --output keeps, and a page that says what was odd. Takes a few seconds, needs no network, and meets nobody else.
"""

EXAMPLES = """\
examples:
  pyddsi demo
  pyddsi demo --output demo/     the recording, and the page that is made of it
  pyddsi demo --captures         the protocol on the wire; needs a source tree
"""

COUNT = 1000
LATE = 10
LEASE = 1.0
PATIENCE = 10.0
ATTACH_SECONDS = 2.0
NAME = "demo/robot/7/pose"
PATTERN = "demo/robot/*/pose"
WIDTH = 100
COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
LINE = 126  # of what was seen


def add(parser: read.Parser) -> None:
    """Its options."""
    parser.add_argument(
        "--captures",
        type=Path,
        metavar="FOLDER",
        nargs="?",
        const=Path("captures"),
        help="show the golden captures of a source tree instead",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where the recording and its page stay (default: nothing stays)",
    )
    read.add_json(parser, "one JSON object a step, without the explanations")


class Teller:
    """Says what happens: for people, or for programs."""

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        self._paint = Paint(sys.stdout)
        self._steps = 0

    def step(self, title: str, text: str) -> None:
        """A new part of the story."""
        if self._plain:
            return
        import textwrap  # noqa: PLC0415 - only people need it

        self._steps += 1
        print("\n" + self._paint("bold", f"{self._steps}. {title}"))
        print(textwrap.fill(" ".join(text.split()), WIDTH), flush=True)

    def show(self, line: str, colour: str = "cyan", **facts: Any) -> None:
        """What was seen."""
        if self._plain:
            print(json.dumps(facts), flush=True)
        else:
            import textwrap  # noqa: PLC0415 - as above

            for part in textwrap.wrap(line, LINE, subsequent_indent="  ") or [""]:
                print(f"   {self._paint(colour, part)}", flush=True)


class _Other:
    """Another process: `pyddsi sub`, whose output is read here."""

    def __init__(self, name: str, group: str, *options: str) -> None:
        self.name = name
        self.words = ["pyddsi", "sub", PATTERN, "--json", *options]
        root = str(Path(pyddsi.__file__).parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        mine = {"PYDDSI_GROUP": group, "PYDDSI_LEASE": str(LEASE), "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self.words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | mine,
        )

    def take(self, count: int) -> list[dict[str, Any]]:
        """The next samples that it prints."""
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        lines = [self.process.stdout.readline() for _ in range(count)]
        return [json.loads(line) for line in lines if line]

    def end(self) -> None:
        """Whatever it does."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def _started() -> Iterator[list[_Other]]:
    """A list for those that are started; at the end they end, too."""
    made: list[_Other] = []
    try:
        yield made
    finally:
        for one in made:
            one.end()


def _start(tell: Teller, session: pyddsi.Session, other: _Other) -> None:
    """Say what was started, and wait until it is found."""
    tell.show(f"$ {shlex.join(other.words)}     # process {other.name}", started=other.words)
    event = session.wait_event("connected", timeout=PATIENCE)
    tell.show(
        f"connected: {event.peer} at {event.endpoint}",
        event="connected",
        peer=event.peer,
        endpoint=str(event.endpoint),
    )


def _publish(
    tell: Teller, session: pyddsi.Session, pub: pyddsi.Publisher, readers: list[_Other]
) -> None:
    """Put samples, look at what the readers print, and at how many packets it took."""
    before = session.stats().packets_out
    start = time.monotonic()
    pub.put_many([b"pose %d" % number for number in range(COUNT)])
    took = time.monotonic() - start
    for one in readers:
        found = [sample["text"] for sample in one.take(COUNT)]
        whole = found == [f"pose {number}" for number in range(COUNT)]
        how = "all, in order" if whole else f"{len(found)}, not as they were put"
        tell.show(
            f"{one.name} has received {how}", process=one.name, received=len(found), whole=whole
        )
    packets = session.stats().packets_out - before
    tell.show(
        f"{many(COUNT, 'sample')} put in {duration(took)}; since then {many(packets, 'packet')} went out",
        put=COUNT,
        seconds=round(took, 6),
        packets=packets,
    )


# ---- the story ---------------------------------------------------------------------------------------------------


def _by_memory(
    tell: Teller, session: pyddsi.Session, pub: pyddsi.Publisher, others: list[_Other]
) -> None:
    tell.step(
        "Samples go through shared memory",
        f"""We publish {COUNT} samples of {NAME!r}, which the pattern covers. A runs on the same machine and may read our
        memory: it takes its samples where we put them. Nothing is copied or sent; packets only say that we are still
        here.""",
    )
    pub.wait_matched(timeout=PATIENCE)
    session.wait(ATTACH_SECONDS, lambda: session.counts()["lane_readers"])
    _publish(tell, session, pub, others)
    count = session.counts()["lane_put"]
    tell.show(
        f"{many(count, 'sample')} went by memory" if count else "memory could not be shared here",
        by_memory=count,
    )


def _by_sockets(
    tell: Teller,
    session: pyddsi.Session,
    pub: pyddsi.Publisher,
    others: list[_Other],
    other: _Other,
) -> None:
    tell.step(
        "And through sockets",
        """Another process comes. It was told not to share memory (--no-shared), as if it ran on another machine. It gets the
        same samples in UDP packets, and acknowledges them; what is lost on the way is sent again.""",
    )
    _start(tell, session, other)
    pub.wait_matched(2, timeout=PATIENCE)
    _publish(tell, session, pub, [*others, other])


def _kill(
    tell: Teller, session: pyddsi.Session, pub: pyddsi.Publisher, others: list[_Other]
) -> None:
    survivor, victim = others
    tell.step(
        "One is killed, and what it did not get is written down",
        f"""B is stopped (kill -STOP), and we go on publishing: {LATE} samples more. A gets them. Then B is killed (kill -9)
        and can say no farewell. This machine tells us that its process has ended, so its session ends at once (on another
        machine: after its lease of {LEASE:g} s). What B had not acknowledged is not lost silently: the ledger has a line.""",
    )
    session.events()
    victim.process.send_signal(signal.SIGSTOP)
    os.waitpid(victim.process.pid, os.WUNTRACED)  # until it has stopped
    for number in range(LATE):
        pub.put(b"late %d" % number)
    survivor.take(LATE)
    victim.process.kill()
    start = time.monotonic()
    event = session.wait_event("disconnected", timeout=PATIENCE)
    seconds = time.monotonic() - start
    tell.show(
        f"disconnected: {event.peer} after {duration(seconds)}, as its process has {event.reason}",
        event="disconnected",
        peer=event.peer,
        reason=event.reason,
        seconds=round(seconds, 3),
    )
    for drop in session.drops():
        if drop.place == "window":
            tell.show(f"the ledger: {drop}", place=drop.place, reason=drop.reason, count=drop.count)


def _books(tell: Teller, session: pyddsi.Session, survivor: _Other) -> None:
    tell.step(
        "The books balance",
        """Every reliable message that somebody was to have is acknowledged, or forgiven with a line in the ledger, or
        still on its way: there is no fourth. The other process now ends as it should (SIGTERM, or Ctrl-C), says farewell,
        and we know it at once.""",
    )
    survivor.process.send_signal(signal.SIGTERM)
    event = session.wait_event("disconnected", timeout=PATIENCE)
    tell.show(
        f"disconnected: {event.peer}, an {event.reason} end",
        event="disconnected",
        peer=event.peer,
        reason=event.reason,
    )
    stats = session.stats()
    tell.show(
        f"{stats.owed} owed = {stats.acknowledged} acknowledged + {stats.forgiven} forgiven + {stats.in_flight} on their way",
        owed=stats.owed,
        acknowledged=stats.acknowledged,
        forgiven=stats.forgiven,
        in_flight=stats.in_flight,
    )


def look_back(tell: Teller, path: Path, *, kept: bool) -> None:
    """Analyse what was recorded of all this; if it is kept, the page is written beside it."""
    tell.step(
        "It was recorded, and can be looked at",
        """Whatever this session said and heard stands in a capture, which Wireshark reads as well. `pyddsi analyse` says what
        was odd about it.""",
    )
    from pyddsi.capture import open as opened  # noqa: PLC0415 - only here
    from pyddsi.capture.report import collect, render  # noqa: PLC0415

    for finding in opened(path).info().findings:
        tell.show(
            f"{finding.severity}: {finding.text}",
            COLOURS[finding.severity],
            finding=finding.kind,
            text=finding.text,
        )
    if not kept:
        tell.show("pyddsi demo --output FOLDER keeps the recording, and makes a page of it")
        return
    page = path.with_suffix(".html")
    try:
        page.write_text(render(collect(opened(path))), encoding="utf-8")
    except ModuleNotFoundError as error:
        tell.show(
            f"{path} is the capture; with {error.name} (pip install 'pyddsi[capture]'), pyddsi analyse makes a page of it",
            capture=str(path),
        )
        return
    tell.show(
        f"open {page} in a browser: all of it, with pictures", capture=str(path), report=str(page)
    )


def _group() -> str:
    """A group of our own: nobody else is to take part."""
    pid = os.getpid()
    return f"239.255.{pid >> 8 & 255}.{pid & 255}:{20000 + pid % 12000}"


def _story(tell: Teller, path: Path) -> None:
    """All of it, recorded."""
    group = _group()
    with (
        terminable(),
        pyddsi.open(pyddsi.Config(group=group, lease=LEASE), record=path) as session,
        _started() as others,
    ):
        pub = session.publisher(NAME)
        tell.step(
            "Two processes find each other",
            """This process has opened a session, and starts another one that subscribes to a pattern. There is no broker
            and nothing was configured: each says in a multicast group that it is there, and those who hear it open a
            session with it.""",
        )
        others.append(_Other("A", group))
        _start(tell, session, others[0])
        _by_memory(tell, session, pub, others)
        others.append(_Other("B", group, "--no-shared"))
        _by_sockets(tell, session, pub, others[:1], others[1])
        _kill(tell, session, pub, others)
        _books(tell, session, others[0])


def _tell_all(tell: Teller, folder: Path, *, kept: bool) -> None:
    """The story, and what can be seen of it afterwards."""
    path = folder / "demo.pcapng"
    _story(tell, path)
    look_back(tell, path, kept=kept)


def run(options: argparse.Namespace) -> int:
    """Tell the story."""
    if options.captures is not None:
        from pyddsi.cli._tour import show  # noqa: PLC0415 - it loads the decoder

        show(options.captures)
        return 0
    tell = Teller(plain=options.json)
    try:
        if options.output is not None:
            options.output.mkdir(parents=True, exist_ok=True)
            _tell_all(tell, options.output, kept=True)
        else:
            with tempfile.TemporaryDirectory(prefix="pyddsi-demo-") as folder:
                _tell_all(tell, Path(folder), kept=False)
    except TimeoutError as error:
        print(f"pyddsi: {error}\npyddsi: `pyddsi doctor` looks for the cause", file=sys.stderr)
        return 1
    if not options.json:
        print(
            "\nNow in two terminals:  pyddsi sub 'plant/**'   and   pyddsi pub plant/robot/7/pose hello\n"
            "Then:                  pyddsi scout, ping, perf, hz, ls; and pyddsi doctor if nothing comes"
        )
    return 0
