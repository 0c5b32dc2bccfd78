"""
A stream beside a recorder, for minutes or hours, and its driver killed all the time: what was recorded is in the Parquet files, each row once.

    python -m tests.spark.follow 60                   an hour of `pyddsi record` with a ring under load; a kill every minute,
                                                      once a batch is done
    python -m tests.spark.follow 5 --kill 30          five minutes, a kill every half
    python -m tests.spark.follow 5 --copies           recordings of three hosts that are copied there side by side, in pieces, times kept

    publisher ─► recorder ─► ring of files ─► stream ─► Parquet, a folder for each kind of message
                               └► links to all of them, which the ring does not delete: the books

Ends with the count of rows of both sides, and what is missing or there twice; and with status 1 if anything is.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

from pyddsi import capture
from pyddsi.capture._files import is_named, order_of, series_of
from tests.capture.traffic import traffic
from tests.spark.recorders import by_pyddsi

COLUMNS = ["ts_ns", "pkt", "msg", "src_ep", "kind"]
GROUP = "239.255.77.1:17847"
PIECE = 40_000
PAUSE = threading.Event()  # which never comes
Key = tuple[object, ...]


# ---- the driver, a process of its own that is killed ----


def drive(room: Path, *, once: bool) -> None:
    """A query from the folder to Parquet, until it is killed; or of all that there is."""
    import pyddsi.spark  # noqa: PLC0415 - for this process alone

    spark = pyddsi.spark.session(
        master="local[2]",
        conf={
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    inside = any(path.is_dir() for path in (room / "in").iterdir())
    reader = spark.readStream.format("pyddsi").options(
        columns=",".join(COLUMNS), logDir=str(room / "log"), onMissing="fail", settle="1"
    )
    writer = (
        reader.load(str(room / "in" / "*" / "*.pcapng") if inside else str(room / "in"))
        .writeStream.format("parquet")
        .partitionBy("kind")
        .option("checkpointLocation", str(room / "checkpoint"))
        .option("path", str(room / "out"))
    )
    trigger = {"availableNow": True} if once else {"processingTime": "1 second"}
    writer.trigger(**trigger).start().awaitTermination()
    if once:
        rows = spark.read.parquet(str(room / "out")).select(*COLUMNS).toArrow()
        import pyarrow.parquet as pq  # noqa: PLC0415 - for this process alone

        pq.write_table(rows, room / "found.parquet")
    spark.stop()


def _driver(room: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.follow", "--drive", str(room), *words, "0"]
    with (room / "driver.log").open("ab") as log:
        return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)


def _kill(driver: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def _batches(room: Path) -> int:
    """How many are done: a driver that is killed before its first one would never get on, on a machine that is busy enough."""
    return sum(path.name.isdigit() for path in (room / "checkpoint").glob("commits/*"))


# ---- those who fill the folder ----


def _record(room: Path, seconds: float, rate: int, ring: int) -> list[subprocess.Popen[bytes]]:
    """A publisher, and a recorder with a ring."""
    pyddsi = str(Path(sys.executable).with_name("pyddsi"))
    common = ["--group", GROUP, "--no-shared"]
    record = [pyddsi, "record", *common, "-o", str(room / "in" / "run.pcapng"), "--quiet"]
    record += ["--max-size", "1M", "--keep", str(ring), "--duration", f"{seconds:.0f}s", "**"]
    publish = [pyddsi, "pub", *common, "--size", "100", "--rate", str(rate), "/load"]
    with (room / "recorder.log").open("ab") as log:
        return [subprocess.Popen(one, stdout=log, stderr=log) for one in (record, publish)]


def _keep(room: Path) -> None:
    """Links to all files of the ring."""
    for path in (room / "in").iterdir():
        if is_named(path.name) and not (room / "all" / path.name).exists():
            with suppress(FileNotFoundError):
                os.link(path, room / "all" / path.name)


def _copier(room: Path, host: int, until: float) -> None:
    """Some files at a time, a piece of each in turn; the clock of each is that of what it is a copy of."""
    rand = random.Random(host)
    waiting = sorted((room / f"host{host}").iterdir(), key=lambda path: order_of(path.name))
    pause = max(0.0, until - time.monotonic()) / max(
        1, sum(p.stat().st_size for p in waiting) // PIECE
    )
    at: dict[Path, int] = {}
    while waiting or at:
        while waiting and len(at) < 3:
            at[waiting.pop(rand.randrange(min(4, len(waiting))))] = 0
        path = rand.choice(list(at))
        piece = path.read_bytes()[at[path] : at[path] + PIECE]
        copy = room / "in" / f"host{host}" / path.name
        with copy.open("ab") as file:
            file.write(piece)
        os.utime(copy, (path.stat().st_mtime,) * 2)
        at[path] += len(piece)
        if at[path] >= path.stat().st_size:
            del at[path]
        PAUSE.wait(pause)


def _copies(room: Path, seconds: float) -> list[threading.Thread]:
    """Recordings of three hosts, and a copier for each."""
    threads = []
    for host in range(3):
        folder = room / f"host{host}"
        folder.mkdir()
        (room / "in" / f"host{host}").mkdir()
        by_pyddsi(folder, traffic(host, packets=60_000).frames)
        for path in folder.iterdir():
            os.utime(path, (time.time() - 7200, time.time() - 7200))
            os.link(path, room / "all" / f"host{host}-{path.name}")
    for host in range(3):
        threads.append(
            threading.Thread(target=_copier, args=(room, host, time.monotonic() + seconds))
        )
        threads[-1].start()
    return threads


# ---- all of it ----


def _rows(table: object) -> Counter[Key]:
    return Counter(zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True))  # type: ignore[attr-defined]


def _books(room: Path) -> Counter[Key]:
    """What one reader of each recording says: whose packets are ours, earlier files tell."""
    recordings: dict[str, list[str]] = {}
    for path in sorted((room / "all").iterdir(), key=lambda path: order_of(path.name)):
        recordings.setdefault(series_of(str(path))[0], []).append(str(path))
    wanted: Counter[Key] = Counter()
    for files in recordings.values():
        wanted += _rows(capture.open(files).table("messages", COLUMNS))
    return wanted


def follow(room: Path, options: argparse.Namespace, ends: ExitStack) -> int:
    """Play, then hold both sides against each other."""
    minutes, every, copies = options.minutes, options.kill, options.copies
    for name in ("in", "all"):
        (room / name).mkdir()
    threads = _copies(room, 60 * minutes) if copies else []
    until = time.monotonic() + 60 * minutes
    kills = 0
    others = [] if copies else _record(room, 60 * minutes, options.rate, options.ring)
    for one in others:
        ends.callback(one.kill)
    driver, done = _driver(room), 0
    ends.callback(lambda: _kill(driver))
    next_kill = time.monotonic() + every
    while time.monotonic() < until or any(thread.is_alive() for thread in threads):
        if not copies:
            _keep(room)
        if time.monotonic() >= next_kill and (now := _batches(room)) > done:
            _kill(driver)
            kills += 1
            driver, done = _driver(room), now
            next_kill = time.monotonic() + every
        elif driver.poll() is not None:
            print(f"the driver has ended by itself, see {room / 'driver.log'}", flush=True)
            return 1
        PAUSE.wait(0.1)
    for one in others[:1]:
        one.wait(timeout=60)
    for one in others[1:]:
        one.send_signal(signal.SIGINT)
        one.wait(timeout=60)
    _keep(room)
    _kill(driver)
    PAUSE.wait(2)  # until nothing changes, as `settle` says
    if _driver(room, "--once").wait(timeout=1800):
        print(f"the last driver failed, see {room / 'driver.log'}")
        return 1
    import pyarrow.parquet as pq  # noqa: PLC0415 - as the driver's

    found, wanted = _rows(pq.read_table(room / "found.parquet")), _books(room)
    missing, twice = wanted - found, found - wanted
    files = len(list((room / "all").iterdir()))
    print(
        f"{minutes:g} min, {kills} kills, {files} files, {len(list((room / 'log').glob('*/*.plan')))} batches kept: "
        f"{wanted.total():,} rows recorded, {found.total():,} found, {missing.total():,} missing, {twice.total():,} too many",
        flush=True,
    )
    return min(1, missing.total() + twice.total())


def main() -> int:
    """From the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("minutes", type=float)
    parser.add_argument("--kill", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--rate", type=int, default=2000, help="samples a second")
    parser.add_argument("--ring", type=int, default=40, help="files of 1 MB")
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--keep", action="store_true", help="all files, to look at")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(options.drive, once=options.once)
        return 0
    room = Path(tempfile.mkdtemp(prefix="pyddsi-follow-"))
    status = 1
    try:
        with ExitStack() as ends:
            status = follow(room, options, ends)
    finally:
        if status == 0 and not options.keep:
            shutil.rmtree(room)
        else:
            print(f"all of it is in {room}")
    return status


if __name__ == "__main__":
    sys.exit(main())
