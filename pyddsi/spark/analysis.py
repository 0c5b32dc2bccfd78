"""
Questions to captures, as functions from DataFrames to DataFrames: of what was read as it is, or from Parquet, or as a part of it.

    messages ──► repeats, gaps, latency, reliability, stalls, rates, top_resources
    sessions ──► leases
    declarations ──► declare_errors
    two times messages, captured at two places ──► compare

Each names in its text the columns that it looks at; read those and no more. `recording` is among them always: what is called the same
in two recordings (a counter, a number of a resource, a transaction) are two things, and what a function answers has it, too. What the answers mean is said in
docs/inside/capture.md: a capture shows what senders sent, so that a gap was lost before it, and a repeat behind it.

How they cost little: the core has followed the numbers, so nothing is sorted by time. All else is counting, and counts are added up where
the rows are before they travel; a flow that has 95 % of the messages costs no more than another. Where single numbers must meet
(reliability, compare) they are spread by number, and not by flow. Nothing is collected.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pyddsi.spark._histogram import percentiles

__all__ = [
    "compare",
    "declare_errors",
    "gaps",
    "latency",
    "leases",
    "rates",
    "reliability",
    "repeats",
    "stalls",
    "top_resources",
]

COUNTER = ("recording", "flow", "epoch")
DATA = "kind IN (7, 8, 9)"  # SDATA, BDATA, WDATA
ACKNACK = "kind = 15"
SEVERAL = (
    "compare takes one recording of each place, and this has more: filter by the column recording"
)
GAP, REPEAT, FILL, OLD, PRE_SYNC = 2, 3, 4, 5, 8


def _many(condition: Column) -> Column:
    return f.count(f.when(condition, 1))


def _is(*events: int) -> Column:
    return f.col("seq_event").isin(*events)


def _share(part: Column, whole: Column) -> Column:
    return f.when(whole > 0, part / whole)


# ---- what was lost ----


def repeats(messages: DataFrame) -> DataFrame:
    """
    What was sent again, for each counter: how many of its messages, how many of these only because they came before the first
    SYNCH, and how long after the first transmission the others came (repair, microseconds).

    Of: recording, flow, epoch, seq_event, since_first_us.
    """
    counts = (
        messages.where("seq_event IS NOT NULL")
        .groupBy(*COUNTER)
        .agg(
            f.count("*").alias("messages"),
            _many(_is(REPEAT, PRE_SYNC)).alias("repeats"),
            _many(_is(PRE_SYNC)).alias("pre_sync"),
        )
    )
    times = percentiles(messages.where(_is(REPEAT)), COUNTER, "since_first_us").select(
        *COUNTER, *(f.col(name).alias(f"repair_{name}_us") for name in ("p50", "p99", "max"))
    )
    lost = f.col("repeats") - f.col("pre_sync")
    return counts.withColumn("lost_share", _share(lost, f.col("messages"))).join(
        times, list(COUNTER), "left"
    )


def gaps(messages: DataFrame) -> DataFrame:
    """
    What was passed over, for each counter: how many times, how many numbers, the most at once, how many of them came later (fills)
    or never did (missing), and the first frame that shows it.

    Of: recording, flow, epoch, seq_event, gap, file, pkt.
    """
    found = messages.where("seq_event IS NOT NULL").groupBy(*COUNTER)
    sums = found.agg(
        f.count("*").alias("messages"),
        _many(_is(GAP)).alias("gaps"),
        f.sum("gap").alias("passed_over"),
        f.max("gap").alias("largest"),
        _many(_is(FILL)).alias("fills"),
        f.min(f.when(_is(GAP), f.struct("file", "pkt"))).alias("first"),
    )
    return sums.withColumn("missing", f.col("passed_over") - f.col("fills")).where("gaps > 0")


def reliability(messages: DataFrame) -> DataFrame:
    """
    How far each receiver has each reliable counter, and at what price: how many numbers there are, how many of them this peer has
    acknowledged, and how many numbers were sent once, twice and more often. A receiver that never acknowledged has no row.

    Of: recording, flow, epoch, kind, reliable, src_ep, usn, ack_usn.
    """
    numbered = messages.where("usn IS NOT NULL AND reliable")
    tries = numbered.groupBy(*COUNTER, "usn").agg(f.count("*").alias("tries"))
    sent = tries.groupBy(*COUNTER).agg(
        f.min("usn").alias("first"),
        (f.max("usn") + 1 - f.min("usn")).alias("numbers"),
        *(
            _many(condition).alias(name)
            for name, condition in (
                ("once", f.col("tries") == 1),
                ("twice", f.col("tries") == 2),
                ("more", f.col("tries") > 2),
            )
        ),
    )
    has = messages.where(f"{ACKNACK} AND ack_usn IS NOT NULL").groupBy(
        *COUNTER, f.col("src_ep").alias("peer")
    )
    known = has.agg(f.max("ack_usn").alias("ack")).join(sent, list(COUNTER))
    acknowledged = f.least(f.greatest(f.col("ack") - f.col("first"), f.lit(0)), f.col("numbers"))
    return known.withColumn("acknowledged", acknowledged).select(
        *COUNTER,
        "peer",
        "numbers",
        "acknowledged",
        _share(f.col("acknowledged"), f.col("numbers")).alias("share"),
        "once",
        "twice",
        "more",
    )


# ---- how long things took ----


def latency(
    messages: DataFrame, by: Sequence[str] = ("flow",), window: str | None = None
) -> DataFrame:
    """
    Times until acknowledged (what = delivery) and until answered (what = answer), in microseconds: count, p50, p99, max.

    by: columns that rows are told apart by: flow; src_ep is who answers
    window: such as "10 seconds": one more column, its beginning

    Of: recording, kind, answer_us, delivery_us, those of `by`, and ts for windows.
    """
    pairs = f.explode(
        f.array(
            *(
                f.struct(f.lit(what).alias("what"), f.col(f"{what}_us").alias("us"))
                for what in ("answer", "delivery")
            )
        )
    ).alias("of")
    keys = list(dict.fromkeys(["recording", *by]))
    columns: list[Column] = [f.col(name) for name in keys]
    if window is not None:
        keys.append("window")
        columns.append(f.window("ts", window)["start"].alias("window"))
    each = messages.where(ACKNACK).select(*columns, pairs).select(*keys, "of.*")
    return percentiles(each, [*keys, "what"], "us")


def stalls(messages: DataFrame, times: float = 10, least_us: int = 10_000) -> DataFrame:
    """
    Answers that took so many times longer than is usual (the median) for this flow and peer, and longer than `least_us`.

    Of: recording, kind, flow, src_ep, answer_us, and whatever else is to be told of each: ts, file, pkt.
    """
    answers = messages.where(f"{ACKNACK} AND answer_us IS NOT NULL")
    pair = ["recording", "flow", "src_ep"]
    usual = percentiles(answers, pair, "answer_us").select(*pair, f.col("p50").alias("usual_us"))
    slow = answers.where(f.col("answer_us") >= least_us)
    late = f.col("answer_us") > f.greatest(f.col("usual_us"), f.lit(1)) * times
    return slow.join(usual, pair).where(late)


# ---- how much of what ----


def rates(messages: DataFrame, window: str = "1 second", by: Sequence[str] = ("rid",)) -> DataFrame:
    """
    Data by windows of time and resource, or by other columns; `repeats` are among the messages.

    Of: recording, ts, kind, samples, payload_len, seq_event, and those of `by`.
    """
    begin = f.window("ts", window)["start"].alias("window")
    return _volume(messages, *map(f.col, dict.fromkeys(["recording", *by])), begin)


def _volume(messages: DataFrame, *by: Column) -> DataFrame:
    return (
        messages.where(DATA)
        .groupBy(*by)
        .agg(
            f.count("*").alias("messages"),
            f.sum("samples").alias("samples"),
            f.sum("payload_len").alias("bytes"),
            _many(_is(REPEAT, PRE_SYNC)).alias("repeats"),
        )
    )


def top_resources(messages: DataFrame, count: int = 10, by: str = "bytes") -> DataFrame:
    """
    The resources that have the most bytes, messages, samples or repeats, the largest first, and their share of all.

    Of: recording, kind, rid, samples, payload_len, seq_event.
    """
    sums = _volume(messages, f.col("recording"), f.col("rid"))
    whole = sums.agg(f.sum(by).alias("_whole"))
    shares = sums.crossJoin(f.broadcast(whole)).withColumn(
        "share", _share(f.col(by), f.col("_whole"))
    )
    return (
        shares.drop("_whole")
        .orderBy(f.col(by).desc(), "recording", f.col("rid").asc_nulls_first())
        .limit(count)
    )


# ---- sessions and declarations ----


def leases(sessions: DataFrame) -> DataFrame:
    """
    Each side of each session with its lease, its longest silence, and how far that was from the lease (margin; negative: it was
    longer), all in microseconds; those without a lease are left out.

    Of: recording, session, number, end, opener_ep, acceptor_ep, opener_lease_ms, acceptor_lease_ms, opener_silence_us, acceptor_silence_us.
    """
    sides = f.explode(
        f.array(
            *(
                f.struct(
                    f.lit(role).alias("role"),
                    f.col(f"{role}_ep").alias("ep"),
                    (f.col(f"{role}_lease_ms") * 1000).alias("lease_us"),
                    f.col(f"{role}_silence_us").alias("silence_us"),
                )
                for role in ("opener", "acceptor")
            )
        )
    ).alias("side")
    each = sessions.select("recording", "session", "number", "end", sides).select(
        "recording", "session", "number", "end", "side.*"
    )
    return each.where("lease_us > 0").withColumn(
        "margin_us", f.col("lease_us") - f.col("silence_us")
    )


def declare_errors(declarations: DataFrame) -> DataFrame:
    """
    Declarations that somebody refused: what was declared, who refused it, where, and with which status.

    Of: recording, kind, src_ep, id, uri, status, transaction, file, pkt.
    """
    results = declarations.where("kind = 'RESULT' AND status <> 0").select(
        "recording",
        "transaction",
        f.col("src_ep").alias("refused_by"),
        f.col("pkt").alias("refused_pkt"),
        "status",
    )
    declared = declarations.where("kind NOT IN ('RESULT', 'COMMIT')").drop("status")
    return declared.join(results, ["recording", "transaction"])


# ---- two captures of one run ----


def compare(
    a: DataFrame, b: DataFrame, by: Sequence[str] = ("src_ep", "conduit", "reliable", "epoch")
) -> DataFrame:
    """
    One run captured at two places, counter by counter. Both captures have to begin with the run, or with a restart of the sender,
    and each is one recording: where there are more the query fails, since nothing tells which of one place goes with which of the other.

    by: columns that name a counter at both places; without src_ep where addresses are translated between them, if conduits or
        rid tell senders apart

    numbers_a, numbers_b, both      numbers seen at each place, and at both
    sent_a, sent_b                  transmissions of them
    lost, gained                    transmissions seen at a and not at b, and the other way round
    late_a, late_b                  messages out of order at each place
    shift_us                        least distance of a message's two times: delay, and difference of the clocks
    over_p50_us, over_p99_us        how much longer others took
    clock_us                        how far b's clock is ahead: the middle of the shifts of all counters. It needs traffic both ways
    delay_us                        what is left of the shift: the least delay, if both ways take the same time

    Of: recording, ts_ns, usn, seq_event, and those of `by`.
    """
    keys = list(by)

    def seen(rows: DataFrame, place: str) -> DataFrame:
        numbers = rows.where("usn IS NOT NULL AND seq_event IS NOT NULL").groupBy(*keys, "usn")
        return numbers.agg(
            f.count("*").alias(f"n_{place}"),
            _many(_is(FILL, OLD)).alias(f"late_{place}"),
            f.min("ts_ns").alias(f"ts_{place}"),
            f.min("recording").alias(f"first_{place}"),
            f.max("recording").alias(f"last_{place}"),
        )

    pairs = (
        seen(a, "a")
        .join(seen(b, "b"), [*keys, "usn"], "full")
        .fillna(0, ["n_a", "n_b", "late_a", "late_b"])
    )
    alone = (f.col("n_a") == 1) & (f.col("n_b") == 1)  # of several it is not known which is which
    # whole microseconds, rounded down
    shift = f.when(alone, f.expr("(ts_b - ts_a - pmod(ts_b - ts_a, 1000L)) div 1000L"))
    pairs = pairs.withColumn("shift_us", shift)
    n_a, n_b = f.col("n_a"), f.col("n_b")
    sums = pairs.groupBy(*keys).agg(
        _many(n_a > 0).alias("numbers_a"),
        _many(n_b > 0).alias("numbers_b"),
        _many((n_a > 0) & (n_b > 0)).alias("both"),
        f.sum(n_a).alias("sent_a"),
        f.sum(n_b).alias("sent_b"),
        f.sum(f.greatest(n_a - n_b, f.lit(0))).alias("lost"),
        f.sum(f.greatest(n_b - n_a, f.lit(0))).alias("gained"),
        *(f.sum(f"late_{place}").alias(f"late_{place}") for place in "ab"),
        f.min("shift_us").alias("shift_us"),
        *(f.min(f"first_{place}").alias(f"_first_{place}") for place in "ab"),
        *(f.max(f"last_{place}").alias(f"_last_{place}") for place in "ab"),
    )
    least = sums.select(*keys, f.col("shift_us").alias("_least"))
    over = pairs.join(least, keys).withColumn("_over", f.col("shift_us") - f.col("_least"))
    times = percentiles(over, keys, "_over").select(
        *keys, f.col("p50").alias("over_p50_us"), f.col("p99").alias("over_p99_us")
    )
    middle = f.floor((f.max("shift_us") + f.min("shift_us")) / 2)
    several = [f.min(f"_first_{place}") != f.max(f"_last_{place}") for place in "ab"]
    clock = sums.agg(
        f.when(several[0] | several[1], f.raise_error(f.lit(SEVERAL)).cast("bigint"))
        .otherwise(middle)
        .alias("clock_us")
    )
    sums = sums.drop("_first_a", "_first_b", "_last_a", "_last_b")
    told = sums.join(times, keys, "left").crossJoin(f.broadcast(clock))
    return told.withColumn("delay_us", f.abs(f.col("shift_us") - f.col("clock_us")))
