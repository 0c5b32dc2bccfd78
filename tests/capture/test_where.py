"""Filters: what they let through, and what is said of those that cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyddsi import capture
from pyddsi.capture import WhereError
from tests.capture.rows import Row, rows
from tests.py.golden import CAPTURES

URI = CAPTURES / "p2p_uri.pcap"
LOSS = CAPTURES / "p2p_loss5.pcap"

HOLDS: list[tuple[str, Callable[[Row], object]]] = [
    ("kind == SDATA", lambda r: r["kind"] == 7),
    ("kind == SDATA and rid == 1", lambda r: r["kind"] == 7 and r["rid"] == 1),
    ("kind == 6 or solicit", lambda r: r["kind"] == 6 or r["solicit"]),
    ("not (kind in (SDATA, WDATA))", lambda r: r["kind"] not in {7, 9}),
    ("kind not in [SDATA, ACKNACK]", lambda r: r["kind"] not in {7, 15}),
    ("2 <= pkt < 9", lambda r: 2 <= r["pkt"] < 9),
    ("rid is None", lambda r: r["rid"] is None),
    ("rid is not None and rid > 1", lambda r: r["rid"] is not None and r["rid"] > 1),
    ("rid != 1", lambda r: r["rid"] != 1),
    ("rid not in (1,)", lambda r: r["rid"] != 1),
    ("rid != 1 and rid is not None", lambda r: r["rid"] not in {None, 1}),
    ("reliable == False", lambda r: not r["reliable"]),
    ("uri == '/t/data'", lambda r: r["uri"] == "/t/data"),
    ("uri in '/t/**'", lambda r: r["uri"] is not None and r["uri"].startswith("/t/")),
    ("uri not in '/t/**'", lambda r: not (r["uri"] is not None and r["uri"].startswith("/t/"))),
    ("src == '10.77.0.1:39366'", lambda r: r["src"] == "10.77.0.1:39366"),
    ("seq_event == 8", lambda r: r["seq_event"] == 8),
    ("usn >= -1", lambda r: r["usn"] is not None),
    ("ts_ns > '2026-11-18T09:55:59'", lambda r: r["ts_ns"] > 1794995759000000000),
    ("ts > '2026-11-18T09:55:59.5Z'", lambda r: r["ts_ns"] // 1000 > 1794995759500000),
    ("payload == ''", lambda r: r["payload"] == b""),
]


@pytest.mark.parametrize(("where", "holds"), HOLDS, ids=[where for where, _ in HOLDS])
def test_lets_through(where: str, holds: Callable[[Row], object]) -> None:
    """A filter would let other rows through than the condition says in Python."""
    every = rows(URI, "messages")
    wanted = [row for row in every if holds(row)]
    assert rows(URI, "messages", where=where) == wanted
    assert 0 < len(wanted) < len(every) or where in {"payload == ''", "reliable == False"}


def test_packets_go_by_the_same(tmp_path: object) -> None:  # noqa: ARG001
    """`decode --where` would show other messages than the table of messages has."""
    for where, _ in HOLDS:
        found = [
            (packet.number, at)
            for packet in capture.open(URI).packets(where=where)
            for at, note in enumerate(packet.notes)
            if note.passes
        ]
        assert found == [(row["pkt"], row["msg"]) for row in rows(URI, "messages", where=where)], (
            where
        )


WRONG = [
    ("knd == 7", "'knd' is no column of 'messages'; did you mean 'kind'?"),
    ("kind == SDTA", "did you mean 'SDATA'?"),
    ("kind", "is no condition; compare it with something"),
    ("kind == 'SDATA'", "is a text, and column 'kind' holds numbers"),
    ("uri == 7", "compares a text with a number"),
    ("ts_ns > 'noon'", "is no time; write it as"),
    ("kind == 1.5", "is neither a column nor a whole number nor a text"),
    ("kind == rid + 1", "is neither a column nor a whole number"),
    ("kind in 7", "needs a list of values, or a pattern"),
    ("kind in '/t'", "matches a pattern with what is no text"),
    ("kind is 7", "may only ask `is None`"),
    ("kind == 99999999999999999999", "is larger than any column"),
    ("kind ==", "cannot be read"),
    ("", "cannot be read"),
    ("__import__('os')", "is no condition"),
    ("kind == (lambda: 7)()", "is neither a column"),
    (" and ".join(["kind == 7"] * 40), "too long"),
]


@pytest.mark.parametrize(("where", "why"), WRONG, ids=[where[:30] for where, _ in WRONG])
def test_wrong(where: str, why: str) -> None:
    """A filter with a slip would be taken for another one, or the error would not say what is right."""
    with pytest.raises(WhereError, match=r".") as caught:
        list(capture.open(URI).batches("messages", where=where or " "))
    assert why in str(caught.value)


def test_other_tables() -> None:
    """Only messages could be filtered."""
    assert len(rows(LOSS, "events", where="type == 'repeat' and value_us > 1000")) == sum(
        row["type"] == "repeat" and row["value_us"] > 1000 for row in rows(LOSS, "events")
    )
    assert {row["dst_port"] for row in rows(LOSS, "packets", where="dst_port != 7447")} == {
        row["dst_port"] for row in rows(LOSS, "packets") if row["dst_port"] != 7447
    }
