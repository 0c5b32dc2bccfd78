"""What a report shows, added up by one process: for captures that it reads in seconds, which is most of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyddsi.capture._found import COLUMNS, names_of
from pyddsi.capture.report._picture import (
    RESOURCES_LISTED,
    RESOURCES_MAX,
    Losses,
    Picture,
    Point,
    Series,
    Times,
    percentile,
    place,
    window_of,
)

if TYPE_CHECKING:
    from pyddsi.capture import Capture

__all__ = ["JITTER", "collect", "jitters_of", "losses_of", "rank_of", "rates_of", "times_of"]

SECOND = 1_000_000_000


def _windows(picture: Picture) -> range:
    """The beginnings of all windows from the first frame to the last."""
    info = picture.info
    if info.first_ns is None or info.last_ns is None:
        return range(0)
    first = info.first_ns // picture.window_ns * picture.window_ns
    return range(first, info.last_ns + 1, picture.window_ns)


def rank_of(picture: Picture, count: int = RESOURCES_MAX) -> dict[tuple[str, int | None], int]:
    """The places of the first resources, each by its name, and by its number if it has none."""
    return {
        (one.uri, None if one.uri else one.rid): i
        for i, one in enumerate(picture.info.resources[:count])
    }


def rates_of(picture: Picture, rows: Iterable[tuple[int, int, int]]) -> list[Series]:
    """Lines from (window in ns, place of the resource, messages)."""
    resources = picture.info.resources
    names = [
        one.uri or ("by name" if one.rid is None else f"resource {one.rid}")
        for one in resources[:RESOURCES_MAX]
    ]
    if len(resources) > RESOURCES_MAX:
        names.append(f"{len(resources) - RESOURCES_MAX:,} others")
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for window, at, messages in rows:
        sums[window, at] += messages
    seconds = picture.window_ns / SECOND
    return [
        Series(
            name,
            tuple(
                Point(window, sums.get((window, at), 0) / seconds) for window in _windows(picture)
            ),
        )
        for at, name in enumerate(names)
    ]


Names = dict[int, dict[int, str]]
KINDS = {"repeat": 1, "pre_sync": 2, "gap": 3, "fill": 4}


def losses_of(picture: Picture, rows: Iterable[tuple[int, str, int]]) -> list[Losses]:
    """From (window in ns, kind, how many), where a kind is one of KINDS."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for window, kind, count in rows:
        sums[window][KINDS[kind] - 1] += count
    return [Losses(window, *sums[window]) for window in _windows(picture)]


def times_of(picture: Picture, rows: Iterable[tuple[int, str, int, int]]) -> list[Times]:
    """From (window in ns, answer or delivery, median, 99th percentile)."""
    found: dict[tuple[int, str], tuple[int | None, int | None]] = {
        (window, what): (p50, p99) for window, what, p50, p99 in rows
    }
    none = None, None
    return [
        Times(window, *found.get((window, "answer"), none), *found.get((window, "delivery"), none))
        for window in _windows(picture)
    ]


def _names(capture: Capture) -> Names:
    """What each recording calls its numbers."""
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for batch in capture.reader("resources", ["recording", *COLUMNS["resources"]]):
        for row in batch.to_pylist():
            rows[row["recording"]].append(row)
    return {
        recording: {rid: uri for rid, (_, uri) in names_of(found).items()}
        for recording, found in rows.items()
    }


def jitters_of(
    picture: Picture, rows: Iterable[tuple[str, int | None, int, int]]
) -> list[float | None]:
    """From (name, number where there is no name, nanoseconds by which intervals differed, how many did)."""
    ranks = rank_of(picture, RESOURCES_LISTED)
    sums = [(0, 0) for _ in ranks]
    for uri, number, apart, count in rows:
        rank = ranks.get((uri, number))
        if rank is not None:
            sums[rank] = sums[rank][0] + apart, sums[rank][1] + count
    return [apart / count / 1000 if count else None for apart, count in sums]


JITTER = "kind in (SDATA, BDATA) and seq_event in (0, 1, 2, 6)"
"""Which messages have a place in time of their own: those that come for the first time, and in order."""


def _jitters(capture: Capture, names: Names) -> Iterable[tuple[str, int | None, int, int]]:
    """Each batch is put in order of publishers and resources, behind the last two samples of each from the batches before."""
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415

    keys = ["recording", "flow", "rid"]
    last: Any = None
    for batch in capture.reader("messages", [*keys, "ts_ns"], where=JITTER):
        new = pa.table(batch).filter(pc.field("ts_ns").is_valid() & pc.field("rid").is_valid())
        new = new.append_column("new", pa.repeat(pa.scalar(1), len(new)))
        rows = new if last is None else pa.concat_tables([last, new])
        order = pa.array(range(len(rows)), pa.int64())
        rows = rows.append_column("at", order).sort_by(
            [(key, "ascending") for key in [*keys, "at"]]
        )
        columns = [rows[name].combine_chunks() for name in keys]

        def same(back: int, columns: Any = columns) -> Any:
            """Whether the row so far before is of the same publisher and resource, for each row but the first."""
            alike = [pc.call_function("equal", [one[back:], one[:-back]]) for one in columns]
            both = pc.call_function("and", alike[:2])
            return pc.call_function("and", [both, alike[2]])

        if len(rows) > 2:
            times = rows["ts_ns"].combine_chunks()
            gaps = pc.call_function("subtract", [times[1:], times[:-1]])
            apart = pc.call_function("abs", [pc.call_function("subtract", [gaps[1:], gaps[:-1]])])
            counted = pc.call_function("equal", [rows["new"].combine_chunks()[2:], 1])
            counted = pc.call_function("and", [counted, same(2)])
            found = pa.table({"apart": apart} | {key: rows[key][2:] for key in keys[::2]})
            sums = found.filter(counted).group_by(keys[::2])
            for row in sums.aggregate([("apart", "sum"), ("apart", "count")]).to_pylist():
                uri = names.get(row["recording"], {}).get(row["rid"], "")
                yield uri, None if uri else row["rid"], row["apart_sum"], row["apart_count"]
            ends = pa.concat_arrays([pc.call_function("invert", [same(2)]), pa.array([True] * 2)])
            rows = rows.filter(ends)
        rows = rows.sort_by("at").drop_columns(["new", "at"])
        last = rows.append_column("new", pa.repeat(pa.scalar(0), len(rows)))


def _rates(capture: Capture, picture: Picture, names: Names) -> Iterable[tuple[int, int, int]]:
    window_ns, ranks = picture.window_ns, rank_of(picture)
    wanted = ["recording", "window", "rid", "messages"]
    for batch in capture.reader("rates", wanted, window=window_ns / SECOND):
        columns = [batch[name] for name in wanted]
        columns[1] = columns[1].cast("int64")
        for recording, window, rid, messages in zip(
            *(column.to_pylist() for column in columns), strict=True
        ):
            uri = names.get(recording, {}).get(rid, "")
            if window is not None:
                rank = ranks.get((uri, None if uri else rid), len(ranks))
                yield window * 1000, rank, messages


def _grouped(batch: Any, keys: list[str]) -> Iterable[tuple[Any, ...]]:
    """Rows that are alike, and how many they are."""
    import pyarrow as pa  # noqa: PLC0415 - capture.reader has asked for it

    table = pa.table(batch).group_by(keys).aggregate([([], "count_all")])
    return zip(*(table[name].to_pylist() for name in [*keys, "count_all"]), strict=True)


def _window_column(times: Any, window_ns: int) -> Any:
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    whole = pc.call_function("divide", [times, window_ns])
    return pc.call_function("multiply", [whole, window_ns])


def _losses(capture: Capture, window_ns: int) -> Iterable[tuple[int, str, int]]:
    import pyarrow as pa  # noqa: PLC0415 - as above

    where = "seq_event in (2, 3, 4, 8) and kind in (SDATA, BDATA, WDATA)"
    names = {2: "gap", 3: "repeat", 4: "fill", 8: "pre_sync"}
    for batch in capture.reader("messages", ["ts_ns", "seq_event", "gap"], where=where):
        rows = pa.table(
            {
                "window": _window_column(batch["ts_ns"], window_ns),
                "event": batch["seq_event"],
                "gap": batch["gap"],
            }
        )
        sums = rows.group_by(["window", "event"]).aggregate([("gap", "sum"), ([], "count_all")])
        for window, event, gap, count in zip(
            *(sums[name].to_pylist() for name in ("window", "event", "gap_sum", "count_all")),
            strict=True,
        ):
            if window is not None:
                yield window, names[event], gap if event == 2 else count


def _times(capture: Capture, window_ns: int) -> Iterable[tuple[int, str, int, int]]:
    import pyarrow as pa  # noqa: PLC0415 - as above

    sums: dict[tuple[int, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for batch in capture.reader(
        "messages", ["ts_ns", "answer_us", "delivery_us"], where="kind == ACKNACK"
    ):
        windows = _window_column(batch["ts_ns"], window_ns)
        for what in ("answer", "delivery"):
            rows = pa.table({"window": windows, "us": batch[f"{what}_us"]}).drop_null()
            for window, us, count in _grouped(rows, ["window", "us"]):
                sums[window, what][place(us)] += count
    for (window, what), counts in sums.items():
        p50, p99 = percentile(counts, 0.5), percentile(counts, 0.99)
        assert p50 is not None and p99 is not None  # noqa: S101, PT018 - nothing is counted 0 times
        yield window, what, p50, p99


def collect(capture: Capture, *, progress: Callable[[int, int], None] | None = None) -> Picture:
    """Read the capture, some times over, and add up. Needs pyarrow."""
    info = capture.info(progress=progress)
    picture = Picture(info, window_of(info))
    names = _names(capture)
    picture.rates = rates_of(picture, _rates(capture, picture, names))
    picture.jitters = jitters_of(picture, _jitters(capture, names))
    picture.losses = losses_of(picture, _losses(capture, picture.window_ns))
    picture.times = times_of(picture, _times(capture, picture.window_ns))
    return picture
