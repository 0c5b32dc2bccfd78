"""
What captures cost in Spark, and what the same costs without it, with dpkt, tshark and scapy: all in one run.

    ./run bench spark                                                   ten million packets, and 1 and 100 million messages
    ./run bench spark --packets 1000000 --messages 1000000 4000000 --rounds 1     in a minute or two, on a busy machine

Captures are made first (--folder keeps them): packets of one sample of 130 bytes in 400 flows, of which 40 % are the first one's, or
95 %; and packets full of 8-byte samples, by the million. Each way through them is timed in turn, N times over; the table
shows medians. The slow ones get the first --slow packets. Rates are of packets, but for the packed captures.

At the end stand the ratios that are aimed at. Small captures miss some: a query costs a fifth of a second whatever it reads, and a
hundredth of the time is less than a chunk.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import container
import pyarrow as pa
from _spark_queries import (
    BITS,
    added,
    by_events,
    by_resource,
    by_state,
    by_window,
    consume,
    cuts_of,
    share_read,
    worker_peak,
)
from _spark_tables import Goal, Times
from _spark_ways import TupleSource, by_dpkt, by_python, by_scapy, by_tshark
from pyspark.sql import DataFrame, SparkSession

import pyddsi.spark
from pyddsi import capture
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._scan import Scan, Settings

ROOT = Path(__file__).resolve().parent.parent
FLOWS = 400
PACKED = 112  # samples of 8 bytes in a packet
SCAPY_SHARE = 10  # it gets a tenth of what the other slow ones get
BLOCK = 8 << 20
PACKET_COLUMNS = [
    *("pkt", "offset", "ts", "src_ep", "dst_ep", "src_port", "dst_port"),
    *("transport", "cap_len", "wire_len", "payload_len", "messages", "decode"),
]
COLUMNS = [
    *("pkt", "offset", "ts", "src_ep", "dst_ep", "kind", "conduit"),
    *("flow", "sn", "usn", "rid", "payload_len", "seq_event"),
]
# It says its own peak: what a process has had before it became this one counts in what others say of it.
READER = """
import sys
from pyddsi import capture
for batch in capture.open(sys.argv[1]).batches("messages", sys.argv[2:]): pass
print(next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


# ---- captures ----


def make(folder: Path, name: str, packets: int, *numbers: int) -> Path:
    """A capture, unless it is there from another run. Numbers: samples in a packet, bytes in each, skew."""
    maker, path = folder / "make", folder / f"{name}_{packets}.pcap"
    if not maker.exists():
        source = str(ROOT / "benchmarks/_capture_make.c")
        subprocess.run(["cc", "-O2", source, "-o", str(maker)], check=True)  # noqa: S607
    if not path.exists():
        samples, size, skew = numbers
        every = (packets, FLOWS, samples, size, BITS, 2, 2, skew, 1)
        subprocess.run([str(maker), str(path), *map(str, every)], check=True)
    return path


def read_all(path: Path) -> None:
    """The file, block by block, from the page cache."""
    block = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while file.readinto(block):
            pass


def scan_all(path: Path, table: str | None, columns: list[str] | None) -> int:
    """How many rows one reader gives; without a table it walks, and knows at the end what is known there."""
    if table is not None:
        batches = capture.open(path).batches(table, columns)
        return sum(pa.record_batch(batch).num_rows for batch in batches)
    scan, source = Scan(Settings()), open_bytes(str(path))
    scan.begin(0)
    found = sum(1 for _ in scan.rows(source))
    source.close()
    return found


def walk_all(library: ctypes.CDLL, path: Path) -> None:
    """The headers of all frames, in C."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        data = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        library.container_walk(data, ctypes.c_uint64(len(mapped)), ctypes.byref(container.Times()))
        del data


def reader_peak(path: Path) -> float:
    """The most memory that a process has had that reads a capture alone."""
    command = [sys.executable, "-c", READER, str(path), *COLUMNS]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


# ---- the run ----


class Run:
    """Captures, a session, and what was found."""

    def __init__(self, options: argparse.Namespace, folder: Path, spark: SparkSession) -> None:
        self.options = options
        self.spark = spark
        self.folder = folder
        self.library = container.build(folder)
        packets, slow = options.packets, min(options.slow, options.packets)
        self.even = make(folder, "even", packets, 1, 130, 400)
        self.skewed = make(folder, "skewed", packets, 1, 130, 950)
        self.slow = make(folder, "slow", slow, 1, 130, 400)
        self.slowest = make(folder, "slowest", max(1, slow // SCAPY_SHARE), 1, 130, 400)
        self.packed = {
            count: make(folder, "packed", count // PACKED, PACKED, 8, 400)
            for count in sorted(options.messages)
        }
        self.times = Times()
        self.goals: list[Goal] = []

    def frame(self, path: Path, table: str, columns: list[str] | None) -> DataFrame:
        """A table in Spark."""
        return pyddsi.spark.read(self.spark, path, table, columns)

    def ways(self) -> dict[str, tuple[Path, Callable[[], Any]]]:
        """All but those of sequences: the capture, and what is done with it."""
        even, slow = self.even, self.slow
        tuples = self.spark.read.format("tuples").options(path=str(slow), cuts=cuts_of(slow, 8))
        target = str(self.folder / "parquet")

        def write() -> None:
            writer = self.frame(even, "messages", COLUMNS).write.option("compression", "zstd")
            writer.mode("overwrite").parquet(target)

        four = ["ts", "kind", "rid", "payload_len"]
        return {
            "read": (even, lambda: read_all(even)),
            "C: headers": (even, lambda: walk_all(self.library, even)),
            "C: index, with the state": (even, lambda: scan_all(even, None, None)),
            "C: packets, 13 columns": (even, lambda: scan_all(even, "packets", PACKET_COLUMNS)),
            "C: messages, 13 columns": (even, lambda: scan_all(even, "messages", COLUMNS)),
            "Spark: messages, 13 columns": (
                even,
                lambda: consume(self.frame(even, "messages", COLUMNS)),
            ),
            "Spark: 1 s by resource, 4 columns": (
                even,
                lambda: by_resource(self.frame(even, "messages", four)),
            ),
            "Spark: 1 s by resource, rates": (even, lambda: added(self.frame(even, "rates", None))),
            "Spark: to Parquet, 13 columns": (even, write),
            "Spark: 1 s by resource, from Parquet": (
                even,
                lambda: by_resource(self.spark.read.parquet(target)),
            ),
            "Spark: tuples, 13 columns": (slow, lambda: consume(tuples.load())),
            "Python": (slow, lambda: by_python(slow)),
            "dpkt": (slow, lambda: by_dpkt(slow)),
            "tshark": (slow, lambda: by_tshark(slow)),
            "scapy": (self.slowest, lambda: by_scapy(self.slowest)),
        }

    def packets_of(self, path: Path) -> int:
        """As many as were made, from its name; answers and repeats come on top, for all the same."""
        return int(path.stem.rpartition("_")[2])

    def compare(self) -> None:
        """Every way in turn, and the ratios."""
        ways = self.ways()
        for name, (_, call) in ways.items():
            if name.startswith("Spark"):
                call()  # so that its index is there, and Java's code is made
        for _ in range(self.options.rounds):
            for name, (path, call) in ways.items():
                self.times.add(name, self.packets_of(path), path.stat().st_size, call)
        times = self.times
        times.show(f"{self.options.packets:,} packets", ("dpkt", "tshark", "scapy"))
        all_columns = "Spark: messages, 13 columns"
        share = {name: 100 * times.of("read") / times.of(name) for name in ways}
        parquet = sum(file.stat().st_size for file in (self.folder / "parquet").glob("*.parquet"))
        self.goals += [
            Goal("C, packets, 13 columns: % of reading", share["C: packets, 13 columns"], 35),
            Goal("C, headers alone: % of reading", share["C: headers"], 40),
            Goal(
                "index with state: time x headers alone",
                times.of("C: index, with the state") / times.of("C: headers"),
                most=2.5,
            ),
            Goal("Spark, 13 columns: x dpkt", times.over(all_columns, "dpkt"), 25),
            Goal("Spark, 13 columns: x tshark", times.over(all_columns, "tshark"), 60),
            Goal("Spark, 13 columns: x scapy", times.over(all_columns, "scapy"), 350),
            Goal("Arrow: x tuples", times.over(all_columns, "Spark: tuples, 13 columns"), 8),
            Goal(
                "Spark, 1 s by resource: x dpkt",
                times.over("Spark: 1 s by resource, 4 columns", "dpkt"),
                35,
            ),
            Goal("Parquet: % of the capture", 100 * parquet / self.even.stat().st_size, most=8),
            Goal("a hundredth of the time: % of bytes read", share_read(self.even), most=3),
        ]

    def sequences(self) -> None:
        """Gaps, missing and late numbers, found in three ways, of which all say the same."""
        seen: dict[str, set[tuple[int, ...]]] = {}
        times = Times()
        plans: dict[str, tuple[str, list[str], Callable[[DataFrame], tuple[int, ...]]]] = {
            "window": ("messages", ["flow", "pkt", "msg", "kind", "sn"], by_window),
            "states": ("messages", ["kind", "seq_event", "gap"], by_state),
            "events": ("events", ["type", "usn_from", "usn_to"], by_events),
        }
        captures = {"40 %": self.even, "95 %": self.skewed}
        for round_ in range(self.options.rounds + 1):
            for skew, path in captures.items():
                for plan, (table, columns, ask) in plans.items():
                    frame = self.frame(path, table, columns)

                    def run(ask: Any = ask, frame: DataFrame = frame, at: str = skew) -> None:
                        seen.setdefault(at, set()).add(ask(frame))

                    if round_ == 0:
                        run()  # the first time makes the index
                        continue
                    size = path.stat().st_size
                    times.add(f"{plan}, {skew} in one flow", self.packets_of(path), size, run)
        times.show("gaps, missing and late numbers, in Spark")
        for skew, answers in seen.items():
            print(f"{skew}: gaps, missing, late: {' and '.join(map(str, answers))}")
            if len(answers) != 1:
                raise SystemExit("the ways do not agree")
        even, skewed = (f"{{}}, {skew} in one flow" for skew in captures)
        self.goals += [
            Goal(
                "sequences: states x window",
                times.over(even.format("states"), even.format("window")),
                3,
            ),
            Goal(
                "sequences: events x window",
                times.over(even.format("events"), even.format("window")),
                6,
            ),
            Goal(
                "sequences, states: time with 95 % in one flow x 40 %",
                times.of(skewed.format("states")) / times.of(even.format("states")),
                most=1.2,
            ),
        ]

    def growth(self) -> None:
        """The same from a small capture to a large one, in one task, and the memory that takes."""
        times, peaks = Times(), dict[str, float]()
        nothing = self.frame(self.slowest, "messages", COLUMNS).where("pkt < 0")
        in_c, in_spark = "C: 13 columns, {:,} messages", "Spark: 13 columns, {:,} messages"
        consume(nothing)
        for round_ in range(self.options.rounds + 1):
            for count, path in self.packed.items():
                size = path.stat().st_size
                frame = self.frame(path, "messages", COLUMNS).coalesce(1)
                if round_ == 0:
                    consume(frame)
                    peaks[f"a task of Spark, after {count:,} messages"] = worker_peak()
                    peaks[f"one reader, {count:,} messages"] = reader_peak(path)
                    continue
                for _ in range(3):
                    times.add("Spark: nothing", 1, 0, lambda: consume(nothing))

                def scan(path: Path = path) -> None:
                    scan_all(path, "messages", COLUMNS)

                def query(frame: DataFrame = frame) -> None:
                    consume(frame)

                times.add(in_c.format(count), count, size, scan)
                times.add(in_spark.format(count), count, size, query)
        small, large = min(self.packed), max(self.packed)
        python = Times()
        python.add("Python", small, 0, lambda: by_python(self.packed[small]))
        times.show("packed captures, one task")
        print()
        for name, size in peaks.items():
            print(f"{name:66} {size:8.0f} MB at most")
        fixed = times.of("Spark: nothing")

        def each(name: str, count: int, less: float) -> float:
            return (times.of(name.format(count)) - less) / count

        self.goals += [
            Goal("C, packed: million messages/s", times.rate(in_c.format(large)) / 1e6, 40),
            Goal("C, packed: x Python", times.rate(in_c.format(large)) / python.rate("Python"), 15),
            Goal(
                f"C: time for a message, {large:,} x {small:,}",
                each(in_c, large, 0) / each(in_c, small, 0),
                most=1.3,
            ),
            Goal(
                f"Spark, less a query of nothing: {large:,} x {small:,}",
                each(in_spark, large, fixed) / each(in_spark, small, fixed),
                most=1.3,
            ),
            Goal("the most memory of a process that reads, MB", max(peaks.values()), most=300),
        ]


def arguments() -> argparse.Namespace:
    """What is measured."""
    parser = argparse.ArgumentParser(description="What captures cost in Spark.")
    parser.add_argument("--packets", type=int, default=10_000_000)
    parser.add_argument("--messages", type=int, nargs="+", default=[1_000_000, 100_000_000])
    parser.add_argument("--slow", type=int, default=200_000, help="packets for the slow ones")
    parser.add_argument("--rounds", type=int, default=3, help="timings of each way (default: 3)")
    parser.add_argument("--cores", type=int, default=2, help="for Spark (default: 2)")
    parser.add_argument("--folder", type=Path, help="where captures are kept for the next run")
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path) -> None:
    """All of it."""
    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    memory = {"spark.driver.memory": "4g", "spark.local.dir": str(folder)}
    shuffle = {"spark.sql.shuffle.partitions": str(2 * options.cores)}
    spark = pyddsi.spark.session(master=f"local[{options.cores}]", conf=conf | memory | shuffle)
    spark.dataSource.register(TupleSource)
    spark.sparkContext.setLogLevel("ERROR")
    run = Run(options, folder, spark)
    run.compare()
    run.sequences()
    run.growth()
    print(f"\n{'':66} {'aim':>10} {'found':>10}")
    for goal in run.goals:
        print(goal.line())
    spark.stop()


def main() -> int:
    """Make captures, time every way, compare."""
    options = arguments()
    os.environ["PYTHONPATH"] = str(ROOT / "benchmarks")  # where workers find the source of tuples
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        measure(options, options.folder)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        measure(options, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
