"""
Two recordings in one path, with books kept by whoever sent (tests/capture/bookkeeper.py): every view and every function of `analysis`
has to say what the books say, recording by recording. The two have the same endpoints, counters, numbers and transactions, and
other names, losses and ends, so that whatever joins them is wrong. It is long because it has a test for each view and each function.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyddsi import capture
from pyddsi.capture.report import _local, collect, render
from pyddsi.capture.report._local import jitters_of
from pyddsi.spark import analysis, read, register_views
from pyddsi.spark.report import picture
from tests.capture.bookkeeper import LEASE_MS, PUBLISHERS, RECEIVER, Book, Sample, address, keep
from tests.capture.bookkeeper import text as name_of
from tests.capture.traffic import BEGIN, write
from tests.spark.frames import Row, rows_of

GROUP = "239.255.0.1:7447"
DAY = 86_400 * 10**9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days, of three files and of one."""
    return tmp_path_factory.mktemp("books")


@pytest.fixture(scope="module")
def books(folder: Path) -> dict[int, Book]:
    """Each by the number of its recording."""
    monday = keep(1, {1: "/plant/a", 2: "/plant/b", 3: "/plant/c"})
    tuesday = keep(2, {1: "/plant/x", 2: "/plant/a"}, rounds=700, begin_ns=BEGIN + DAY)
    monday.write(folder, [f"monday_{i}.pcap" for i in range(3)], 0)
    tuesday.write(folder, ["tuesday.pcap"], 3)
    return {0: monday, 3: tuesday}


@pytest.fixture(scope="module")
def sql(
    spark: SparkSession, folder: Path, books: dict[int, Book]
) -> Callable[[str], list[tuple[Any, ...]]]:
    """Questions to the views `b_...`, whose answers are sorted."""
    assert len(books) == 2
    # one column of all that there is more than one part of the captures for
    register_views(spark, folder, prefix="b_", split_size="64k")

    def ask(query: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in rows_of(spark.sql(query)))

    return ask


def each(books: dict[int, Book], of: Callable[[Book], Iterable[tuple[Any, ...]]]) -> list[Any]:
    """What the books say, with the number of the recording in front."""
    return sorted((number, *row) for number, book in books.items() for row in of(book))


def resource_of(book: Book, one: Sample) -> str:
    """What it was called that day."""
    return book.names[one.rid or 0]


def place(value: int) -> int:
    """The least value that a histogram tells from this one: its highest five bits."""
    drop = max(0, value.bit_length() - 5)
    return value >> drop << drop


def times(values: list[int]) -> tuple[Any, ...]:
    """How many, the median, the 99th percentile, and the greatest."""
    values = sorted(values)
    ranks = (-(-len(values) * share // 100) - 1 for share in (50, 99))
    return (len(values), *(place(values[rank]) for rank in ranks), values[-1])


def test_packets_and_files(sql: Callable[[str], Any], books: dict[int, Book]) -> None:
    """Packets of one recording would be counted in another."""
    found = sql("SELECT recording, src, count(*) FROM b_packets GROUP BY ALL")

    def packets(book: Book) -> Any:
        return Counter(f"{frame.source[0]}:{frame.source[1]}" for frame in book.frames).items()

    assert found == each(books, packets)
    files = sql("SELECT recording, path, frames, messages FROM b_files")
    assert files == each(
        books,
        lambda book: (
            (str(path), book.cuts[i + 1] - book.cuts[i], book.cuts[i + 1] - book.cuts[i])
            for i, path in enumerate(book.files)
        ),
    )


def test_messages(sql: Callable[[str], Any], books: dict[int, Book]) -> None:
    """A number would have the name that another recording gave it, or the wrong sender."""
    found = sql(
        "SELECT recording, resource, src, count(*), sum(payload_len) FROM b_messages WHERE rid IS NOT NULL GROUP BY ALL"
    )

    def data(book: Book) -> Any:
        sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        for one in book.samples:
            if one.rid is not None:
                held = sums[resource_of(book, one), name_of(one.who)]
                held[0] += 1
                held[1] += one.size
        return ((*key, *value) for key, value in sums.items())

    assert found == each(books, data)


def test_events(sql: Callable[[str], Any], books: dict[int, Book]) -> None:
    """Gaps, repeats and fills of one recording would be those of another's counter."""
    found = sql(
        "SELECT recording, src, dst, type, count(*) FROM b_events WHERE type IN ('gap', 'repeat', 'fill') GROUP BY ALL"
    )
    told = ("gap", "repeat", "fill")
    assert found == each(
        books,
        lambda book: (
            (*key, n)
            for key, n in Counter(
                (name_of(one.who), GROUP, one.event) for one in book.samples if one.event in told
            ).items()
        ),
    )


def counted(book: Book, samples: list[Sample]) -> dict[str, Any]:
    """What a counter adds up to."""
    events = Counter(one.event for one in samples)
    passed = sum(one.gap for one in samples)
    first = {
        event: next((book.place(one.frame) for one in samples if one.event == event), None)
        for event in ("gap", "repeat")
    }
    return {
        "messages": len(samples),
        "gaps": events["gap"],
        "passed": passed,
        "missing": passed - events["fill"],
        "repeats": events["repeat"],
        "fills": events["fill"],
        "largest": max(one.gap for one in samples),
        "first": first,
    }


def ends(who: int, to: int | None) -> tuple[str, str]:
    """Of a counter, as texts."""
    return name_of(who), GROUP if to is None else name_of(to)


def test_flows(sql: Callable[[str], Any], books: dict[int, Book]) -> None:
    """Counters of two recordings would be added up, or a frame be sought in another file than it is in."""
    found = sql(
        """SELECT recording, src, dst, messages, gaps, missing, repeats, fills, struct(gap_file, gap_pkt), struct(repeat_file, repeat_pkt)
           FROM b_flows WHERE messages > 0"""
    )

    def flows(book: Book) -> Any:
        for (who, to), samples in book.counters().items():
            sums = counted(book, samples)
            first = [sums["first"][event] or (0, None) for event in ("gap", "repeat")]
            yield (
                *ends(who, to),
                *(sums[name] for name in ("messages", "gaps", "missing", "repeats", "fills")),
                {"gap_file": first[0][0], "gap_pkt": first[0][1]},
                {"repeat_file": first[1][0], "repeat_pkt": first[1][1]},
            )

    def plain(rows: Any) -> list[str]:
        return sorted(map(str, rows))

    assert plain(found) == plain(
        (number, *row) for number, book in books.items() for row in flows(book)
    )
    files = {row[-2]["gap_file"] for row in found}
    assert 3 in files


def test_rates(sql: Callable[[str], Any], books: dict[int, Book]) -> None:
    """The guide's first query would add one resource to another that has its number elsewhere."""

    def data(book: Book) -> Any:
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for one in book.samples:
            if one.rid is not None:
                held = sums[resource_of(book, one)]
                held[0] += 1
                held[1] += one.size
                held[2] += one.event == "repeat"
        return ((name, *value) for name, value in sums.items())

    query = "SELECT {}resource, sum(messages), sum(bytes), sum(repeats) FROM b_rates GROUP BY ALL"
    assert sql(query.format("recording, ")) == each(books, data)
    together: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for _, name, *value in each(books, data):
        together[name] = [a + b for a, b in zip(together[name], value, strict=True)]
    assert sql(query.format("")) == sorted((name, *value) for name, value in together.items())


def test_sessions_and_leases(
    spark: SparkSession, sql: Callable[[str], Any], folder: Path, books: dict[int, Book]
) -> None:
    """A session would end with another recording, its frames be sought in the wrong file, or a silence last over a night."""
    found = sql(
        """SELECT recording, opener, end, open_ns, accept_ns, coalesce(end_ns, 0), until_ns, open_file, open_pkt, file,
                  coalesce(end_pkt, 0) FROM b_sessions"""
    )

    def sessions(book: Book) -> Any:
        for one in book.sessions.values():
            last = len(book.frames) - 1
            end = book.place(last if one.end_frame is None else one.end_frame)
            yield (
                *(name_of(one.who), one.end, one.open_ns, one.accept_ns, one.end_ns or 0),
                one.end_ns or book.end_ns,
                *book.place(one.open_frame),
                *(end if one.end_frame is not None else (end[0], 0)),
            )

    assert found == each(books, sessions)
    rows = analysis.leases(read(spark, folder, "sessions"))
    sides = sorted(
        (row["recording"], row["end"], row["role"], row["lease_us"], row["silence_us"])
        for row in rows_of(rows)
    )
    assert sides == each(
        books,
        lambda book: (
            (one.end, role, LEASE_MS * 1000, book.silence_us(who, one))
            for one in book.sessions.values()
            for role, who in (("opener", one.who), ("acceptor", RECEIVER))
        ),
    )


def test_names_and_declarations(
    spark: SparkSession, sql: Callable[[str], Any], folder: Path, books: dict[int, Book]
) -> None:
    """A refusal of one recording would be of what another declared, whose transactions have the same numbers."""
    found = sql("SELECT recording, uri, declarer FROM b_resources")
    assert found == each(
        books,
        lambda book: (
            *((uri, name_of(who)) for who in PUBLISHERS for uri in book.names.values()),
            *{one.who: (one.uri, name_of(one.who)) for one in book.refused}.values(),
            *((one.uri, name_of(one.who)) for one in superseded(book)),
        ),
    )
    kinds = sql("SELECT recording, src, kind, count(*) FROM b_declarations GROUP BY ALL")
    assert kinds == each(
        books,
        lambda book: ((name_of(who), kind, n) for (who, kind), n in Counter(book.declared).items()),
    )
    rows = analysis.declare_errors(read(spark, folder, "declarations"))
    refused = sorted(
        (row["recording"], row["uri"], row["status"], row["file"], row["pkt"], row["refused_pkt"])
        for row in rows_of(rows)
    )
    assert refused == each(
        books,
        lambda book: (
            (one.uri, one.status, *book.place(one.frame), book.place(one.refused_frame)[1])
            for one in book.refused
        ),
    )


def superseded(book: Book) -> list[Any]:
    """Refused names whose publisher gave their number another one later: that is a row, too."""
    last = {one.who: one for one in book.refused}
    return [one for one in book.refused if one is not last[one.who]]


def test_endpoints(sql: Callable[[str], Any], books: dict[int, Book]) -> None:
    """Packets of a peer of one recording would be those of another's that has its port."""
    found = sql(
        "SELECT recording, address, port, peer_id, packets FROM b_endpoints WHERE NOT multicast"
    )

    def ports(book: Book) -> Any:
        sent = Counter(frame.source for frame in book.frames)
        for who in (*PUBLISHERS, RECEIVER):
            yield (*address(who), (b"id%d" % who).hex(), sent[address(who)])

    assert found == each(books, ports)


# ---- the functions ----


@pytest.fixture(scope="module")
def messages(spark: SparkSession, folder: Path, books: dict[int, Book]) -> Any:
    """All messages of both, and the ends of each flow."""
    assert books
    frame = read(spark, folder, split_size="64k").cache()
    flows = rows_of(read(spark, folder, "flows", ["flow", "src", "dst"]))
    yield frame, {row["flow"]: (row["src"], row["dst"]) for row in flows}
    frame.unpersist()


def by_flow(found: Any, flows: dict[int, tuple[str, str]], *names: str) -> list[Any]:
    """Rows with texts in the place of a flow."""
    return sorted(
        (row["recording"], *flows[row["flow"]], *(row[name] for name in names))
        for row in rows_of(found)
    )


def test_repeats_and_gaps(messages: Any, books: dict[int, Book]) -> None:
    """What was sent again, or passed over, would be told of two recordings at once."""
    frame, flows = messages
    names = ("messages", "repeats", "pre_sync", "repair_max_us")

    def repeats(book: Book) -> Any:
        for key, samples in book.counters().items():
            since = [one.since_us for one in samples if one.since_us is not None]
            again = sum(one.event == "repeat" for one in samples)
            yield (*ends(*key), len(samples), again, 0, max(since, default=None))

    def gaps(book: Book) -> Any:
        for key, samples in book.counters().items():
            sums = counted(book, samples)
            if sums["gaps"]:
                yield (
                    *ends(*key),
                    *(sums[n] for n in ("messages", "gaps", "passed", "largest")),
                    *(sums[n] for n in ("fills", "missing")),
                    *sums["first"]["gap"],
                )

    found = by_flow(analysis.repeats(frame), flows, *names)
    assert sorted(map(str, found)) == sorted(map(str, each_unsorted(books, repeats)))
    told = analysis.gaps(frame).select("*", "first.file", "first.pkt")
    columns = ("messages", "gaps", "passed_over", "largest", "fills", "missing", "file", "pkt")
    assert by_flow(told, flows, *columns) == each(books, gaps)


def each_unsorted(books: dict[int, Book], of: Callable[[Book], Any]) -> list[Any]:
    """As `each`, where rows have nulls."""
    return [(number, *row) for number, book in books.items() for row in of(book)]


def test_reliability(messages: Any, books: dict[int, Book]) -> None:
    """Numbers that were sent once in each of two recordings would have been sent twice."""
    frame, flows = messages

    def reliable(book: Book) -> Any:
        for who in PUBLISHERS:
            samples = book.counters()[who, None]
            tries = Counter(one.number for one in samples)
            counts = Counter(min(n, 3) for n in tries.values())
            acks = [one.number for one in book.acks if one.of == who]
            numbers = max(tries) + 1
            if acks:
                acked = min(max(acks), numbers)
                yield (*ends(who, None), numbers, acked, counts[1], counts[2], counts[3])

    columns = ("numbers", "acknowledged", "once", "twice", "more")
    assert by_flow(analysis.reliability(frame), flows, *columns) == each(books, reliable)


def test_latency_and_stalls(messages: Any, books: dict[int, Book]) -> None:
    """A percentile would be one of two recordings, and an answer slow for the pace of the other day."""
    frame, flows = messages

    def latency(book: Book) -> Any:
        for who in PUBLISHERS:
            acks = [one for one in book.acks if one.of == who]
            for what in ("answer", "delivery"):
                values = [getattr(one, f"{what}_us") for one in acks]
                there = [one for one in values if one is not None]
                if there:
                    yield (*ends(who, None), what, *times(there))

    def stalls(book: Book) -> Any:
        for who in PUBLISHERS:
            answers = [one for one in book.acks if one.of == who and one.answer_us is not None]
            values = sorted(one.answer_us or 0 for one in answers)
            usual = max(1, place(values[-(-len(values) // 2) - 1])) if values else 0
            for one in answers:
                took = one.answer_us or 0
                if took >= 10_000 and took > 10 * usual:
                    yield (*ends(who, None), *book.place(one.frame), took)

    columns = ("what", "count", "p50", "p99", "max")
    assert by_flow(analysis.latency(frame), flows, *columns) == each(books, latency)
    found = by_flow(analysis.stalls(frame), flows, "file", "pkt", "answer_us")
    assert found == each(books, stalls)


def test_rates_and_the_largest(messages: Any, books: dict[int, Book]) -> None:
    """Bytes of one name would be added to those of another that has its number the other day."""
    frame, _ = messages

    def volume(book: Book) -> dict[int, tuple[int, int, int]]:
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for one in book.samples:
            if one.rid is not None:
                held = sums[one.rid]
                held[0] += 1
                held[1] += one.size
                held[2] += one.event == "repeat"
        return {rid: (a, b, c) for rid, (a, b, c) in sums.items()}

    rows = rows_of(analysis.rates(frame, "1 hour"))
    names = ("recording", "rid", "messages", "bytes", "repeats")
    found = sorted(tuple(row[name] for name in names) for row in rows)
    wanted = each(books, lambda book: ((rid, *sums) for rid, sums in volume(book).items()))
    assert found == wanted
    largest = rows_of(analysis.top_resources(frame, 3))
    most = sorted(wanted, key=lambda row: (-row[3], row[0], row[1]))
    whole = sum(row[3] for row in wanted)
    assert [(row["recording"], row["rid"], row["bytes"], row["share"]) for row in largest] == [
        (number, rid, size, size / whole) for number, rid, _, size, _ in most[:3]
    ]


def test_compare(spark: SparkSession, folder: Path, tmp_path: Path, books: dict[int, Book]) -> None:
    """What was lost between two places would be sought in another day's recording; two of them at once would be one."""
    book = books[3]
    lost = {one.frame for one in book.samples if one.number % 9 == 5 and one.to is None}
    kept = [frame for i, frame in enumerate(book.frames) if i not in lost]
    other = write(tmp_path / "other.pcap", kept)
    columns = ["recording", "src_ep", "conduit", "reliable", "epoch", "usn", "seq_event", "ts_ns"]
    a = read(spark, folder, columns=columns)
    b = read(spark, other, columns=columns)
    with pytest.raises(Exception, match="compare takes one recording of each place"):
        analysis.compare(a, b).collect()
    rows = rows_of(analysis.compare(a.where("recording = 3"), b))
    assert sum(row["lost"] for row in rows) == len(lost)
    assert sum(row["sent_a"] for row in rows) == len(book.samples)
    # the receiver's answers to refusals are several counters, which have one key here: their numbers are not told apart
    assert {row["shift_us"] for row in rows if row["numbers_a"] > 10} == {0}


# ---- one process ----


def test_info_and_report(folder: Path, books: dict[int, Book]) -> None:
    """The report of both would name one day's numbers as the other does, and its findings a frame without its file."""
    run = capture.open(folder)
    info = run.info()
    sums: dict[str, Row] = defaultdict(lambda: {"messages": 0, "bytes": 0, "repeats": 0})
    for book in books.values():
        for one in book.samples:
            if one.rid is not None:
                held = sums[resource_of(book, one)]
                held["messages"] += 1
                held["bytes"] += one.size
                held["repeats"] += one.event == "repeat"
    found = {one.uri: (one.messages, one.bytes, one.repeats) for one in info.resources}
    assert found == {name: tuple(held.values()) for name, held in sums.items()}
    ends_at = sorted((one.end, one.until_ns) for one in info.sessions)
    assert ends_at == sorted(
        (one.end, one.end_ns or book.end_ns)
        for book in books.values()
        for one in book.sessions.values()
    )
    for finding in info.findings:
        assert len(finding.files) == len(finding.packets)
        for file, packet in zip(finding.files, finding.packets, strict=True):
            name = Path(info.files[file]).name
            assert f"of {info.files[file]}" in info.frames_of(finding), name
            [row] = (
                capture.open(info.files[file])
                .table("packets", ["pkt"], where=f"pkt == {packet}")
                .to_pylist()
            )
            assert row
    shown = [finding for finding in info.findings if finding.kind in {"repeats", "gaps"}]
    firsts = {
        (who, event): counted(book, book.counters()[who, None])["first"][event]
        for book in (books[0],)
        for who in PUBLISHERS
        for event in ("repeat", "gap")
    }
    for finding in shown:
        event = finding.kind.removesuffix("s")
        assert (finding.files[0], finding.packets[0]) in {
            place for (_, what), place in firsts.items() if what == event
        }
    assert {finding.kind for finding in shown} == {"repeats", "gaps"}


class Small:
    """A capture whose batches have a few rows."""

    def __init__(self, run: capture.Capture) -> None:
        self.run = run

    def reader(self, table: str, columns: list[str], **options: Any) -> Any:
        """The same rows."""
        return self.run.table(table, columns, **options).to_batches(max_chunksize=7)


def test_jitter(spark: SparkSession, folder: Path, books: dict[int, Book]) -> None:
    """How evenly a resource comes would be told over two recordings, publishers or resources, or not over the end of a batch."""
    sums: dict[str, list[int]] = defaultdict(list)
    for book in books.values():
        came: dict[tuple[int, int], list[int]] = defaultdict(list)
        for one in book.samples:
            if one.rid is not None and one.event in {"first", "next", "gap"}:
                came[one.who, one.rid].append(one.time_ns)
        for (_, rid), moments in came.items():
            gaps = [b - a for a, b in pairwise(moments)]
            sums[book.names[rid]] += [abs(b - a) for a, b in pairwise(gaps)]
    run = capture.open(folder)
    found = collect(run)
    names = [one.uri for one in found.info.resources]
    wanted = [sum(sums[name]) / len(sums[name]) / 1000 for name in names]
    assert found.jitters == wanted
    parts: Any = Small(run)
    assert jitters_of(found, _local._jitters(parts, _local._names(run))) == wanted
    assert picture(spark, folder, split_size="64k") == found
    page = render(found)
    assert f">{wanted[0] / 1000:,.1f} ms<" in page
    assert "monday_0.pcap -Y" in page or "tuesday.pcap -Y" in page
