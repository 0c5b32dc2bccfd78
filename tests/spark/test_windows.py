"""
The columns that the core computes, held against an SQL plan with window functions over the raw columns (windows.py, which says what
it leaves out): on captures of zhe, on made-up ones whose counters wrap around at every length, with one flow that has nearly all of it,
with senders that begin again or move, and on a world of the simulator.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pyddsi.spark import read
from pyddsi.testing import run_scenario, write_pcap
from tests.capture.traffic import traffic, write
from tests.py.golden import CAPTURES
from tests.spark.lives import lives
from tests.spark.windows import COLUMNS, by_windows

KEYS = ["file", "pkt", "msg"]


def captures(folder: Path) -> list[Path]:
    """Made up, played, and captured of zhe."""
    made: list[Path] = []
    for i, bits in enumerate((7, 14, 28, 56)):
        options = {"packets": 400, "loss": 0.1, "repeat": 0.1, "skew": 0.95, "answers": 0.3}
        made.append(write(folder / f"skew{bits}.pcap", traffic(i, bits=bits, **options).frames))  # type: ignore[arg-type]
        made.append(write(folder / f"lives{bits}.pcap", lives(10 * i, bits, packets=100)))
    played = folder / "played.pcap"
    write_pcap(played, run_scenario("loss", 5, keep_packets=True).sent)
    made.append(played)
    return [
        *made,
        *(
            CAPTURES / f"{name}.pcap"
            for name in ("p2p_loss5", "p2p_three_peers", "v_seq7", "client_large_udp")
        ),
    ]


def forgotten(core: DataFrame) -> DataFrame:
    """Repeats without a time, of numbers that nobody had acknowledged before: there should be none."""
    at = f.col("pkt") * 65536 + f.col("msg")
    acks = core.where("ack_usn IS NOT NULL").select(
        "file", "flow", "epoch", f.col("ack_usn").alias("ack"), at.alias("ack_at")
    )
    untimed = core.where("seq_event IN (3, 8) AND since_first_us IS NULL").withColumn("at", at)
    known = (f.col("ack_at") < f.col("at")) & (f.col("ack") > f.col("usn"))
    same = [acks[name] == untimed[name] for name in ("file", "flow", "epoch")]
    return untimed.join(acks, [*same, known], "left_anti")


def test_the_core_s_columns(spark: SparkSession, tmp_path: Path) -> None:
    """The core would say something of a number, a repeat or an acknowledgement that does not follow from the raw columns."""
    paths = captures(tmp_path)
    core = read(spark, paths, "messages", [*KEYS, "kind", "flow", "epoch", "decode", *COLUMNS])
    core = core.where(
        "decode = 0 AND (kind IN (6, 7, 8, 9, 11) OR kind = 15 AND flow IS NOT NULL)"
    ).cache()
    names = [f.col(name).alias(f"sql_{name}") for name in COLUMNS]
    plan = by_windows(spark, paths).select(*KEYS, *names, f.lit(1).alias("there"))
    both = core.join(plan, KEYS, "full").cache()
    same = {name: f"{name} <=> sql_{name}" for name in COLUMNS}
    same["since_first_us"] += " OR seq_event IN (3, 8) AND since_first_us IS NULL"
    same["row"] = "there IS NOT NULL AND kind IS NOT NULL"
    [wrong] = both.agg(
        *(f.count_if(f.expr(f"NOT ({text})")).alias(name) for name, text in same.items())
    ).collect()
    examples = (
        both.where(" OR ".join(f"NOT ({text})" for text in same.values())).orderBy(*KEYS).limit(5)
    )
    assert not any(wrong), (wrong, [row.asDict() for row in examples.collect()])
    assert forgotten(core).count() == 0
    assert both.count() > 12_000
    seen = {row["seq_event"] for row in both.select("seq_event").distinct().collect()}
    assert seen >= {0, 1, 2, 3, 4, 6, 8}
    assert {row["epoch"] for row in both.select("epoch").distinct().collect()} >= {0, 1, 2}
    core.unpersist()
    both.unpersist()
