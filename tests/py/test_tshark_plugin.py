"""The Wireshark plug-in says the same every time it is asked, has words for everything, and its profile fits it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, spec
from tests.py.golden import CAPTURES, load
from tests.py.make_traffic import FRAMED, connection, written
from tests.py.tshark import COMPUTED, compare, fields, tshark

KIND, FLOW = "pyddsi.kind", "pyddsi.flow"

# ---- the same every time ------------------------------------------------------------------------------------------

AGAIN = ["p2p_loss5.pcap", "p2p_conflict_hist.pcap", "tcp_throughput.pcap", "probes/unknown.pcap"]


@pytest.mark.parametrize("name", AGAIN)
def test_second_pass(name: str) -> None:
    """When Wireshark dissects a packet again, as it does when one is clicked, other things would be said of it."""
    compare(CAPTURES / name, load(name), "-2")


@pytest.mark.parametrize("name", AGAIN)
def test_without_a_tree(name: str) -> None:
    """When a file is loaded and nobody looks at details, the column would say other things than the details do later."""
    columns = tshark("-o", 'gui.column.format:"Info","%i"', capture=CAPTURES / name)
    details = tshark("-T", "fields", "-e", "_ws.col.Info", capture=CAPTURES / name)
    assert [line.strip() for line in columns.splitlines()] == [
        line.strip() for line in details.splitlines()
    ]


def test_info(tmp_path: Path) -> None:
    """Of a segment that ends a packet and has another, the column would show one of them, or of hundreds all."""
    path = written(tmp_path / "run.pcap", connection([FRAMED[:3], FRAMED[3:]]))
    [info] = fields(path, ["_ws.col.Info"], "-Y", KIND).values()
    [text] = info["_ws.col.Info"]
    assert [
        f"sn={n} " in part for n, part in zip((0, 1, 3, 4), text.split(" | "), strict=True)
    ] == [True] * 4
    name = CAPTURES / "tcp_throughput.pcap"
    texts = fields(name, ["_ws.col.Info"], "-Y", "pyddsi.sn").values()
    assert max(len(got["_ws.col.Info"][0]) for got in texts) < 300


def test_names_of_addresses() -> None:
    """With names for addresses, flows would fall apart."""
    hosts = "10.77.0.1 robot\n10.77.0.2 watcher\n"
    asked = ["pyddsi.seq_event", "pyddsi.usn", "pyddsi.answer_us", FLOW]
    named = fields(CAPTURES / "p2p_loss5.pcap", asked, "-N", "n", hosts=hosts)
    plain = fields(CAPTURES / "p2p_loss5.pcap", asked)
    flows = [got.pop(FLOW) for got in named.values()]
    assert any("robot" in flow for each in flows for flow in each)
    for got in plain.values():
        del got[FLOW]
    assert named == plain


# ---- what there is ------------------------------------------------------------------------------------------------


def described() -> dict[str, tuple[str, str]]:
    """Our fields, with their names and what is said of them."""
    found = {}
    for line in tshark_fields():
        _, label, name, _kind, _of, _base, _mask, *text = line.split("\t")
        found[name.removeprefix("pyddsi.")] = label, "".join(text)
    return found


def tshark_fields() -> list[str]:
    """The lines of tshark's list of fields that are ours."""
    printed = tshark("-G", "fields").splitlines()
    return [line for line in printed if line.startswith("F") and "\tpyddsi." in line]


def test_fields_are_described() -> None:
    """A field would have the name or the words of another, or none; Wireshark shows them side by side."""
    found = described()
    labels = [label for label, _ in found.values()]
    texts = [text for name, (_, text) in found.items() if not name.startswith("expert.")]
    assert len(set(labels)) == len(labels)
    assert all(texts)
    assert len(set(texts)) == len(texts)


def test_every_row_has_its_fields() -> None:
    """A message, marker or declaration that was added would have a field that Wireshark does not show."""
    found = described()
    assert set(COMPUTED) | {"seq.missing", "ack.rtt", "kind", "sn", "solicit", "reliable"} <= set(
        found
    )
    for rows, prefix in ((MESSAGES, ""), (DECLARATIONS, "declaration."), (ITEMS, "")):
        for row in spec(rows).values():
            for field in row.fields:
                said = f"{row.name}: "
                texts = [t for _, t in found.values() if field.text in t and row.name in t]
                assert texts or field.type in {
                    "LOCATORS",
                    "PROPERTIES",
                    "SAMPLES",
                    "DECLARATIONS",
                }, (
                    prefix,
                    said,
                    field.name,
                )


def test_profile() -> None:
    """The profile's columns or colours would be refused, for a field that is called otherwise."""
    asked = ["frame.coloring_rule.name"]
    found = fields(CAPTURES / "p2p_loss5.pcap", asked, "--color", profile=True)
    rules = {got["frame.coloring_rule.name"][0] for got in found.values()}
    assert len(rules) > 4
    assert all(rule.startswith("pyddsi") for rule in rules)
    lines = tshark(capture=CAPTURES / "p2p_uri.pcap", profile=True).splitlines()
    assert any("repeat" in line and "DECLARE" in line for line in lines)
