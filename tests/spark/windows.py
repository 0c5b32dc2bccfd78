"""
docs/inside/capture.md as SQL: from what stands in the messages (kind, flags, sn) and which counter they belong to, by window
functions over all rows of a counter, to usn, seq_event, gap, since_first_us, ack_usn, answer_us and delivery_us.

It is the pure-SQL plan: it sorts and shuffles every row, one counter is one task, and it shares no line with the core. What it takes
from the core and does not find out by itself:

- `flow` and `epoch`, because both depend on what is in handshakes (ids of peers), which no column tells;
- the bits of a counter, which an OPEN tells;
- that a number is 2^31 or more away from the highest. No capture here has such a number.

In one place the core remembers less than the page: when what all have acknowledged is repeated, it may have forgotten when
that first came (test_windows.py checks that it is only then).

Where the page speaks of the highest number so far, a sum of differences is as good, as long as no two messages in a row are half a
circle apart; otherwise SQL would have to go row by row.
"""

# ruff: noqa: S608 - no query here has anything from outside
from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from pyddsi.spark import read
from pyddsi.spark.views import added

__all__ = ["COLUMNS", "RAW", "by_windows"]

COLUMNS = ("usn", "seq_event", "gap", "since_first_us", "ack_usn", "answer_us", "delivery_us")
"""What both compute."""

RAW = (
    "file",
    "pkt",
    "msg",
    "ts_ns",
    "src_ep",
    "dst_ep",
    "kind",
    "solicit",
    "reliable",
    "conduit",
    "flow",
    "epoch",
    "sn",
    "multicast",
)
COUNTED = "kind IN (6, 7, 8, 9, 11)"  # DECLARE, SDATA, BDATA, WDATA, PULL
HANDSHAKE = "kind IN (2, 3, 4)"  # HELLO, OPEN, ACCEPT
OWN = "file, flow, epoch"

PLAN = f"""
WITH raw AS (
    SELECT m.*, pkt * 65536 + msg AS pos, shiftleft(1L, b.bits) AS ring, shiftleft(1L, b.bits - 1) AS half
    FROM m_raw m LEFT JOIN m_bits b USING (file, flow)
),
steps AS (
    SELECT *, pmod(sn - lag(sn) OVER w + half, ring) - half AS step, first(sn) OVER w AS begin
    FROM raw WHERE {COUNTED} AND sn < ring WINDOW w AS (PARTITION BY {OWN} ORDER BY pos)
),
unwrapped AS (
    SELECT *, begin + coalesce(sum(step) OVER w, 0) AS u FROM steps WINDOW w AS (PARTITION BY {OWN} ORDER BY pos)
),
begun AS (  -- since when a SYNCH counts for an epoch that is not the first: the sender's last handshake before it
    SELECT e.file, e.flow, e.epoch, any_value(e.src_ep) AS src_ep, any_value(e.dst_ep) AS dst_ep, any_value(e.conduit) AS conduit,
           bool_or(e.multicast) AS multicast, max(IF(e.epoch = 0 OR h.pos > e.pos, NULL, h.pos)) AS since
    FROM (SELECT {OWN}, min(pos) AS pos, min_by(src_ep, pos) AS src_ep, min_by(dst_ep, pos) AS dst_ep,
                 min_by(conduit, pos) AS conduit, bool_or(multicast) AS multicast FROM unwrapped GROUP BY {OWN}) e
    LEFT JOIN (SELECT file, src_ep, pos FROM raw WHERE {HANDSHAKE}) h ON h.file = e.file AND h.src_ep = e.src_ep
    GROUP BY e.file, e.flow, e.epoch
),
synched AS (
    SELECT b.file, b.flow, b.epoch, min(s.pos) AS synch
    FROM begun b JOIN (SELECT * FROM raw WHERE kind = 14) s
      ON s.file = b.file AND s.src_ep = b.src_ep AND s.conduit = b.conduit AND (b.multicast OR s.dst_ep = b.dst_ep)
         AND s.pos > coalesce(b.since, -1)
    GROUP BY b.file, b.flow, b.epoch
),
placed AS (
    SELECT *, first(u) OVER w AS base, row_number() OVER w AS n,
           max(u) OVER (PARTITION BY {OWN} ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest,
           row_number() OVER same AS nth, first(pos) OVER same AS first_pos, first(ts_ns) OVER same AS first_ns
    FROM unwrapped
    WINDOW w AS (PARTITION BY {OWN} ORDER BY pos), same AS (PARTITION BY {OWN}, u ORDER BY pos)
),
told AS (
    SELECT p.*, CASE
        WHEN n = 1 THEN IF(epoch = 0, 1, 6)
        WHEN u = highest + 1 THEN 0
        WHEN u > highest THEN 2
        WHEN NOT reliable THEN 5
        WHEN u <= highest - 2048 OR u < base THEN 7
        WHEN nth = 1 THEN 4
        WHEN synch IS NULL OR first_pos < synch THEN 8
        ELSE 3 END AS event
    FROM placed p LEFT JOIN synched USING (file, flow, epoch)
),
both AS (
    SELECT {OWN}, pos, pkt, msg, ts_ns, src_ep, kind = 15 AS ack, sn, ring, half, CAST(NULL AS BIGINT) AS u,
           solicit AS asks FROM raw WHERE kind IN (14, 15) AND flow IS NOT NULL
    UNION ALL
    SELECT {OWN}, pos, pkt, msg, ts_ns, src_ep, FALSE, sn, ring, half, u, solicit FROM unwrapped
),
known AS (
    SELECT *, max(u) OVER w AS highest, first(u, TRUE) OVER w AS base, count_if(asks AND NOT ack) OVER w AS asked,
           last(IF(asks AND NOT ack, ts_ns, NULL), TRUE) OVER w AS asked_ns
    FROM both WINDOW w AS (PARTITION BY {OWN} ORDER BY pos ROWS UNBOUNDED PRECEDING)
),
acks AS (
    SELECT *, CASE WHEN sn >= ring THEN NULL WHEN highest IS NULL THEN sn
                   ELSE highest + pmod(sn - highest + half, ring) - half END AS ack_u,
           asked <> lag(asked, 1, 0L) OVER (PARTITION BY {OWN}, src_ep ORDER BY pos) AS answers
    FROM known WHERE ack
),
covering AS (
    SELECT *, least(ack_u, highest + 1) AS upto FROM acks
),
covered AS (
    SELECT *, greatest(base, max(upto) OVER (PARTITION BY {OWN} ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
              AS before FROM covering
),
firsts AS (
    SELECT file AS of_file, flow AS of_flow, epoch AS of_epoch, u AS of_u, min(pos) AS of_pos, min_by(ts_ns, pos) AS of_ns
    FROM told WHERE event IN (0, 1, 2, 4, 6) GROUP BY file, flow, epoch, u
)
SELECT file, pkt, msg, u AS usn, event AS seq_event, IF(event = 2, u - highest - 1, 0) AS gap,
       IF(event IN (3, 8) AND ts_ns >= first_ns, (ts_ns - first_ns) div 1000, NULL) AS since_first_us,
       NULL AS ack_usn, NULL AS answer_us, NULL AS delivery_us
FROM told
UNION ALL
SELECT file, pkt, msg, NULL, NULL, 0, NULL, ack_u,
       IF(answers AND ts_ns >= asked_ns, (ts_ns - asked_ns) div 1000, NULL),
       IF(upto > before AND of_pos < pos AND of_u > highest - 2048 AND ts_ns >= of_ns, (ts_ns - of_ns) div 1000, NULL)
FROM covered LEFT JOIN firsts ON of_file = file AND of_flow = flow AND of_epoch = epoch AND of_u = upto - 1
"""


def by_windows(spark: SparkSession, path: object) -> DataFrame:
    """The columns that can be computed, of messages that count and of ACKNACKs in a flow."""
    rows = read(spark, path, "messages", RAW).cache()  # type: ignore[arg-type]
    rows.createOrReplaceTempView("m_raw")
    flows = added("flows", read(spark, path, "flows", ["recording", "flow", "seq_bits", "last_ns"]))  # type: ignore[arg-type]
    # each file is a recording of its own here
    flows.selectExpr(
        "recording AS file", "flow", "CAST(seq_bits AS INT) AS bits"
    ).createOrReplaceTempView("m_bits")
    return spark.sql(PLAN)
