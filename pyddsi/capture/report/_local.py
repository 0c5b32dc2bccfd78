"""What a report shows, added up by one process: for captures that it reads in seconds, which is most of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyddsi.capture._found import COLUMNS, names_of
from pyddsi.capture.report._picture import (
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

__all__ = ["collect", "losses_of", "rank_of", "rates_of", "times_of"]

SECOND = 1_000_000_000


def _windows(picture: Picture) -> range:
    """The beginnings of all windows from the first frame to the last."""
    info = picture.info
    if info.first_ns is None or info.last_ns is None:
        return range(0)
    first = info.first_ns // picture.window_ns * picture.window_ns
    return range(first, info.last_ns + 1, picture.window_ns)


def rank_of(picture: Picture) -> dict[tuple[str, int | None], int]:
    """The place of each resource that has a line of its own, by its name, and its number if it has none. All others share the next."""
    return {
        (one.uri, None if one.uri else one.rid): i
        for i, one in enumerate(picture.info.resources[:RESOURCES_MAX])
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


def _names(capture: Capture) -> dict[int, dict[int, str]]:
    """What each recording calls its numbers."""
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for batch in capture.reader("resources", ["recording", *COLUMNS["resources"]]):
        for row in batch.to_pylist():
            rows[row["recording"]].append(row)
    return {
        recording: {rid: uri for rid, (_, uri) in names_of(found).items()}
        for recording, found in rows.items()
    }


def _rates(capture: Capture, picture: Picture) -> Iterable[tuple[int, int, int]]:
    window_ns, ranks, names = picture.window_ns, rank_of(picture), _names(capture)
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
    picture.rates = rates_of(picture, _rates(capture, picture))
    picture.losses = losses_of(picture, _losses(capture, picture.window_ns))
    picture.times = times_of(picture, _times(capture, picture.window_ns))
    return picture
