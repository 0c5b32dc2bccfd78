"""
The analyses against SQL that says the same in other words: over the raw rows, with sorting and window functions where the analyses add
up histograms and counts. One made-up capture has 95 % of its traffic in one flow; what differs is printed row by row.
"""

# ruff: noqa: S608 - no query here has anything from outside
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyddsi.spark import analysis, read
from tests.capture.traffic import Frame, traffic, write
from tests.py.golden import CAPTURES
from tests.spark.frames import rows_of

MESSAGES = (
    "file", "recording", "pkt", "msg", "ts", "ts_ns", "src_ep", "kind", "reliable", "conduit", "flow", "epoch", "usn", "rid", "samples",
    "payload_len", "seq_event", "gap", "since_first_us", "ack_usn", "answer_us", "delivery_us",
)  # fmt: skip

# The least value of the place of x in a histogram: its highest five bits.
PLACE = "IF({0} < 16, {0}, shiftleft(shiftright({0}, length(bin({0})) - 5), length(bin({0})) - 5))"


def percentiles_of(values: str, keys: str, column: str) -> str:
    """p50, p99 and max of a column by keys: the value at that place of all in order."""
    place = PLACE.format(column)
    return f"""
        SELECT {keys}, max(n) AS count, max(IF(i = ceil(n * 0.5D), {place}, NULL)) AS p50,
               max(IF(i = ceil(n * 0.99D), {place}, NULL)) AS p99, max({column}) AS max
        FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {column}) AS i, count(*) OVER (PARTITION BY {keys}) AS n
              FROM {values} WHERE {column} IS NOT NULL) GROUP BY {keys}"""


@pytest.fixture(scope="module")
def messages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """The messages of a capture with skew and of two of zhe, also as the view `m`."""
    made = traffic(3, packets=3000, loss=0.1, repeat=0.1, skew=0.95, answers=0.3)
    path = write(tmp_path_factory.mktemp("analysis") / "skew.pcap", made.frames)
    paths = [path, *(CAPTURES / f"{name}.pcap" for name in ("p2p_loss5", "three_multicast_loss"))]
    found = read(spark, paths, "messages", MESSAGES).cache()
    found.createOrReplaceTempView("m")
    yield found
    found.unpersist()


def same(
    found: DataFrame, query: str, spark: SparkSession, *, ordered: bool = False
) -> list[dict[str, object]]:
    """They have the same rows, some at least; answers them."""
    wanted = spark.sql(query)
    assert set(found.columns) == set(wanted.columns)
    rows, others = rows_of(found), rows_of(wanted.select(*found.columns))
    if not ordered:
        rows, others = (sorted(one, key=str) for one in (rows, others))
    assert rows == others
    assert rows
    return rows


def test_repeats(spark: SparkSession, messages: DataFrame) -> None:
    """Repeats of a flow, or how long their repair took, would be others than the rows say; the known 401 and 623 among them."""
    times = percentiles_of(
        "(SELECT * FROM m WHERE seq_event = 3)", "recording, flow, epoch", "since_first_us"
    )
    same(
        analysis.repeats(messages),
        f"""SELECT s.*, p50 AS repair_p50_us, p99 AS repair_p99_us, t.max AS repair_max_us FROM
            (SELECT recording, flow, epoch, count(*) AS messages, sum(IF(seq_event IN (3, 8), 1, 0)) AS repeats,
                    sum(IF(seq_event = 8, 1, 0)) AS pre_sync, sum(IF(seq_event = 3, 1, 0)) / count(*) AS lost_share
             FROM m WHERE seq_event IS NOT NULL GROUP BY recording, flow, epoch) s LEFT JOIN ({times}) t USING (recording, flow, epoch)""",
        spark,
    )
    data = messages.where("kind = 7")
    for file, known in ((1, 401), (2, 623)):
        rows = analysis.repeats(data.where(f"file = {file}"))
        assert sum(row["repeats"] for row in rows.collect()) == known


def test_gaps(spark: SparkSession, messages: DataFrame) -> None:
    """A flow would miss other numbers than were passed over."""
    same(
        analysis.gaps(messages),
        """SELECT recording, flow, epoch, count(*) AS messages, count_if(event = 2) AS gaps, sum(gap) AS passed_over, max(gap) AS largest,
                  count_if(event = 4) AS fills, min(IF(event = 2, struct(file, pkt), NULL)) AS first,
                  sum(gap) - count_if(event = 4) AS missing
           FROM (SELECT *, seq_event AS event FROM m) WHERE event IS NOT NULL GROUP BY recording, flow, epoch HAVING gaps > 0""",
        spark,
    )


@pytest.mark.parametrize("window", [None, "10 seconds"])
def test_latency(spark: SparkSession, messages: DataFrame, window: str | None) -> None:
    """A percentile would not be the value at its place of all values in order."""
    what = "stack(2, 'answer', answer_us, 'delivery', delivery_us) AS (what, us)"
    begin = "" if window is None else ", window"
    start = (
        "" if window is None else ", timestamp_seconds(floor(ts_ns / 10000000000) * 10) AS window"
    )
    values = f"(SELECT recording, flow, src_ep{start}, {what} FROM m WHERE kind = 15)"
    found = analysis.latency(messages, ["flow", "src_ep"], window)
    same(found, percentiles_of(values, f"recording, flow, src_ep{begin}, what", "us"), spark)


def test_reliability(spark: SparkSession, messages: DataFrame) -> None:
    """A receiver would have more of a counter, or less, than it acknowledged; or numbers were sent in fewer tries."""
    [*_] = same(
        analysis.reliability(messages),
        """WITH n AS (SELECT DISTINCT recording, flow, epoch, usn, count(*) OVER (PARTITION BY recording, flow, epoch, usn) AS tries
                      FROM m WHERE usn IS NOT NULL AND reliable),
           s AS (SELECT recording, flow, epoch, min(usn) AS lo, max(usn) - min(usn) + 1 AS numbers, sum(IF(tries = 1, 1, 0)) AS once,
                        sum(IF(tries = 2, 1, 0)) AS twice, sum(IF(tries > 2, 1, 0)) AS more FROM n GROUP BY recording, flow, epoch),
           a AS (SELECT DISTINCT recording, flow, epoch, src_ep AS peer, max(ack_usn) OVER (PARTITION BY recording, flow, epoch, src_ep) AS ack
                 FROM m WHERE kind = 15 AND ack_usn IS NOT NULL)
           SELECT recording, flow, epoch, peer, numbers, acknowledged, acknowledged / numbers AS share, once, twice, more FROM
               (SELECT *, least(greatest(ack - lo, 0), numbers) AS acknowledged FROM a JOIN s USING (recording, flow, epoch))""",
        spark,
    )


def test_stalls(spark: SparkSession, messages: DataFrame) -> None:
    """An answer that is far from usual would not be told, or one that is usual."""
    usual = percentiles_of(
        "(SELECT * FROM m WHERE kind = 15)", "recording, flow, src_ep", "answer_us"
    )
    columns = [name for name in MESSAGES if name != "ts"]
    found = analysis.stalls(messages.select(*columns), times=3, least_us=1000)
    same(
        found,
        f"""SELECT {", ".join(columns)}, p50 AS usual_us FROM m JOIN ({usual}) USING (recording, flow, src_ep)
            WHERE kind = 15 AND answer_us >= 1000 AND answer_us > 3 * greatest(p50, 1)""",
        spark,
    )


def test_volume(spark: SparkSession, messages: DataFrame) -> None:
    """Rates or the largest resources would be added up wrongly, or be in another order."""
    sums = """count(*) AS messages, sum(samples) AS samples, sum(payload_len) AS bytes,
              sum(IF(seq_event IN (3, 8), 1, 0)) AS repeats"""
    data = "m WHERE kind BETWEEN 7 AND 9"
    same(
        analysis.rates(messages, "10 seconds", ["flow", "rid"]),
        f"""SELECT recording, flow, rid, window, {sums} FROM (SELECT *, timestamp_seconds(floor(ts_ns / 10000000000) * 10) AS window
            FROM {data}) GROUP BY recording, flow, rid, window""",
        spark,
    )
    rows = same(
        analysis.top_resources(messages, 4),
        f"""SELECT *, bytes / (SELECT sum(payload_len) FROM {data}) AS share FROM (SELECT recording, rid, {sums} FROM {data}
            GROUP BY recording, rid) ORDER BY bytes DESC, recording, rid LIMIT 4""",
        spark,
        ordered=True,
    )
    assert len(rows) == 4


def test_leases(spark: SparkSession) -> None:
    """A peer that was near its lease, or over it, would not be seen."""
    wanted = [
        "recording", "session", "number", "end", "opener_ep", "acceptor_ep", "opener_lease_ms", "acceptor_lease_ms", "opener_silence_us",
        "acceptor_silence_us", "margin_us",
    ]  # fmt: skip
    paths = [
        CAPTURES / "p2p_three_peers.pcap",
        CAPTURES / "client_nbiot_udp.pcap",
        CAPTURES / "probes" / "maxpeers.pcap",
    ]
    sessions = read(spark, paths, "sessions", wanted).cache()
    sessions.createOrReplaceTempView("s")
    side = """SELECT recording, session, number, end, '{0}' AS role, {0}_ep AS ep, {0}_lease_ms * 1000 AS lease_us,
              {0}_silence_us AS silence_us, {0}_lease_ms * 1000 - {0}_silence_us AS margin_us FROM s WHERE {0}_lease_ms > 0"""
    found = analysis.leases(sessions)
    same(found, " UNION ALL ".join(side.format(role) for role in ("opener", "acceptor")), spark)
    least = {
        (row["session"], row["number"]): row["least"]
        for row in found.groupBy("session", "number")
        .agg({"margin_us": "min"})
        .toDF("session", "number", "least")
        .collect()
    }
    for row in sessions.where("margin_us IS NOT NULL").collect():
        assert least[row["session"], row["number"]] == row["margin_us"]
    sessions.unpersist()


def test_declare_errors(spark: SparkSession) -> None:
    """A declaration that was refused would not be told, or not by whom."""
    wanted = ["recording", "kind", "src_ep", "id", "uri", "status", "transaction", "file", "pkt"]
    declared = read(spark, CAPTURES / "result_conflict.pcap", "declarations", wanted)
    declared.createOrReplaceTempView("d")
    same(
        analysis.declare_errors(declared),
        """SELECT d.recording, d.transaction, d.kind, d.src_ep, d.id, d.uri, d.file, d.pkt, r.src_ep AS refused_by, r.pkt AS refused_pkt, r.status
           FROM d, d AS r WHERE r.transaction = d.transaction AND r.kind = 'RESULT' AND r.status <> 0
             AND d.kind NOT IN ('RESULT', 'COMMIT')""",
        spark,
    )


def two_places(folder: Path) -> tuple[Path, Path]:
    """A run at its sender and 3 ms further, where one packet in twenty is lost and the clock is 7 s ahead."""
    frames = traffic(8, packets=1500, loss=0, repeat=0.05, skew=0.95).frames
    ahead, delay = 7_000_000_000, 3_000_000
    further = [
        Frame(
            one.time_ns + ahead + (delay if i % 3 else 2 * delay), one.source, one.target, one.data
        )
        for i, one in enumerate(frames)
        if i % 20 or i < 20
    ]
    return write(folder / "a.pcap", frames), write(
        folder / "b.pcap", sorted(further, key=lambda one: one.time_ns)
    )


def test_compare(spark: SparkSession, tmp_path: Path) -> None:
    """What is lost between two places would be sought at the wrong one, or the clocks' difference be taken for delay."""
    columns = ["recording", "src_ep", "conduit", "reliable", "epoch", "usn", "seq_event", "ts_ns"]
    frames = [read(spark, path, "messages", columns).cache() for path in two_places(tmp_path)]
    for name, frame in zip("ab", frames, strict=True):
        frame.createOrReplaceTempView(f"at_{name}")
    own = "src_ep, conduit, reliable, epoch"
    one = f"""SELECT {own}, usn, count(*) AS n, count_if(seq_event IN (4, 5)) AS late, min(ts_ns) AS ts
              FROM at_{{0}} WHERE seq_event IS NOT NULL GROUP BY {own}, usn"""
    query = f"""
        WITH a AS ({one.format("a")}), b AS ({one.format("b")}),
        p AS (SELECT {own}, usn, a.n AS na, b.n AS nb, coalesce(a.late, 0) AS la, coalesce(b.late, 0) AS lb,
                     IF(a.n = 1 AND b.n = 1, CAST(floor((b.ts - a.ts) / 1000) AS BIGINT), NULL) AS shift
              FROM a FULL JOIN b USING ({own}, usn)),
        o AS (SELECT *, shift - min(shift) OVER (PARTITION BY {own}) AS over FROM p),
        t AS ({percentiles_of("o", own, "over")}),
        s AS (SELECT {own}, count(na) AS numbers_a, count(nb) AS numbers_b, count(na + nb) AS both, sum(coalesce(na, 0)) AS sent_a,
                     sum(coalesce(nb, 0)) AS sent_b, sum(greatest(coalesce(na, 0) - coalesce(nb, 0), 0)) AS lost,
                     sum(greatest(coalesce(nb, 0) - coalesce(na, 0), 0)) AS gained, sum(la) AS late_a, sum(lb) AS late_b,
                     min(shift) AS shift_us FROM p GROUP BY {own}),
        c AS (SELECT CAST(floor((max(shift_us) + min(shift_us)) / 2) AS BIGINT) AS clock_us FROM s)
        SELECT s.*, p50 AS over_p50_us, p99 AS over_p99_us, clock_us, abs(shift_us - clock_us) AS delay_us
        FROM s LEFT JOIN t USING ({own}) CROSS JOIN c"""
    rows = same(analysis.compare(frames[0], frames[1]), query, spark)
    assert sum(int(str(row["lost"])) for row in rows) > 100
    assert {row["gained"] for row in rows} == {0}
    assert {row["shift_us"] for row in rows} == {7_003_000}
    for frame in frames:
        frame.unpersist()


def test_filters_do_not_stay(spark: SparkSession) -> None:
    """
    A query would have the filter of another: of the one before it, or of the other branch of its own. Spark keeps what a reader
    planned with filters, so the source must not take any, whatever the session allows.
    """
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    try:
        rows = read(spark, CAPTURES / "p2p_loss5.pcap", "messages", ["kind"])
        rows.createOrReplaceTempView("filtered")
        assert [rows.count(), rows.where("kind = 15").count(), rows.count()] == [1813, 197, 1813]
        query = "SELECT count(*) FROM filtered"
        ends = ("", " WHERE kind = 15", "")
        assert [spark.sql(query + end).collect()[0][0] for end in ends] == [*(1813, 197, 1813)]
        both = rows.where("kind = 7").unionAll(rows.where("kind = 15"))
        counts = both.groupBy("kind").count().collect()
        assert {row["kind"]: row["count"] for row in counts} == {7: 1601, 15: 197}
    finally:
        spark.conf.set(setting, str(before))
