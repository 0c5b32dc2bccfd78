"""SQL views: what was read in ranges is added up, numbers have names, and names that nobody asks for cost nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyddsi.spark import register_views
from pyddsi.spark.schema import TABLES
from tests.capture.rows import everything, key
from tests.capture.traffic import traffic, write
from tests.py.golden import CAPTURES
from tests.spark.frames import indexed, long_capture, one_reader, rows_of

PEERS = CAPTURES / "p2p_three_peers.pcap"
NAMED = [PEERS, CAPTURES / "p2p_uri.pcap", CAPTURES / "tcp_pubsub.pcap"]


def joins(spark: SparkSession, query: str) -> int:
    """How many joins are left of a query."""
    plan = spark.sql(query)._jdf.queryExecution().optimizedPlan().toString()
    return int(plan.count("Join "))


@pytest.mark.parametrize("table", ["flows", "rates", "endpoints"])
def test_added_up(spark: SparkSession, tmp_path: Path, table: str) -> None:
    """Sums would depend on how the capture was cut: a median, a first time, a count of packets, whatever the column."""
    with pytest.MonkeyPatch.context() as patch:
        path = indexed(long_capture(tmp_path / "run.pcap", 4000, loss=0.05), 60_000, patch)
    columns = everything(table)
    register_views(
        spark, path, tables=[table], columns={table: columns}, prefix="cut_", split_size="64k"
    )
    found = rows_of(spark.table(f"cut_{table}").select(*columns))
    wanted = one_reader(path, table)
    assert sorted(map(key, found)) == sorted(map(key, wanted))
    assert len(wanted) >= 3


def test_recordings_are_not_mixed(spark: SparkSession, tmp_path: Path) -> None:
    """Two captures with the same peers would be taken for one, or the files of one recording for two."""
    frames = traffic(3, packets=300).frames
    half = len(frames) // 2
    write(tmp_path / "run_1.pcap", frames[:half])
    write(tmp_path / "run_2.pcap", frames[half:])
    write(tmp_path / "sum.pcap", frames)
    register_views(spark, tmp_path, tables=["flows"], prefix="two_")
    rows = rows_of(
        spark.sql("SELECT recording, flow, epoch, messages, repeats, gaps FROM two_flows")
    )
    by_file = {
        number: sorted(
            key({k: v for k, v in row.items() if k != "recording"})
            for row in rows
            if row["recording"] == number
        )
        for number in {row["recording"] for row in rows}
    }
    assert set(by_file) == {0, 2}  # the first file of the recording, and the other one
    assert by_file[0] == by_file[2]


@pytest.mark.parametrize("path", NAMED, ids=lambda path: path.stem)
def test_names_are_the_core_s(spark: SparkSession, path: Path) -> None:
    """A number would have another name in a view than the core gives it, or an endpoint another address."""
    register_views(spark, path, tables=["messages", "rates", "events"], prefix="n_")
    found = rows_of(spark.sql("SELECT pkt, msg, uri, src, dst FROM n_messages WHERE kind <> 9"))
    wanted = one_reader(
        path, "messages", ["pkt", "msg", "uri", "src", "dst"], where="kind != WDATA"
    )
    for row in wanted:
        row["uri"] = row["uri"] or None
    assert sorted(map(key, found)) == sorted(map(key, wanted))
    sums = Counter[str]()
    where = "kind == SDATA or kind == BDATA"
    for row in one_reader(path, "messages", ["rid", "uri", "payload_len"], where=where):
        sums[row["uri"] or f"rid {row['rid']}"] += row["payload_len"]
    query = "SELECT resource, sum(bytes) AS n FROM n_rates WHERE rid IS NOT NULL GROUP BY resource"
    assert {row["resource"]: row["n"] for row in rows_of(spark.sql(query))} == dict(sums)
    senders = rows_of(spark.sql("SELECT DISTINCT src FROM n_events WHERE type = 'repeat'"))
    assert {row["src"] for row in senders} <= {row["src"] for row in wanted}


def test_names_cost_nothing(spark: SparkSession) -> None:
    """A query that does not use a name would read the capture three times."""
    register_views(spark, PEERS, prefix="c_")
    for query in (
        "SELECT kind, count(*) FROM c_messages GROUP BY kind",
        "SELECT window, sum(messages) FROM c_rates GROUP BY window",
        "SELECT type, count(*) FROM c_events GROUP BY type",
        "SELECT decode, count(*) FROM c_packets GROUP BY decode",
        "SELECT src, sum(repeats) FROM c_flows GROUP BY src",
    ):
        assert joins(spark, query) == 0, query
    assert joins(spark, "SELECT src, count(*) FROM c_messages GROUP BY src") == 1
    assert joins(spark, "SELECT resource, sum(bytes) FROM c_rates GROUP BY resource") == 2


def test_all_views(spark: SparkSession) -> None:
    """A view could not be read."""
    made = register_views(
        spark, PEERS, prefix="all_", columns={"messages": ["kind", "rid"]}, from_="0.1"
    )
    assert made == tuple(f"all_{table}" for table in TABLES)
    counts = {name: spark.table(name).count() for name in made}
    assert all(counts.values()), counts
    assert spark.table("all_messages").columns == ["kind", "rid"]
    assert counts["all_messages"] == len(one_reader(PEERS, "messages", ["kind"], start=0.1))
