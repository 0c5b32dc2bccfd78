"""What is made from the core's tables: it lies in the tree, and must be what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import generate
import ledger_page
import pytest
from cbuild import ROOT

from pyddsi import Config
from pyddsi._native import ffi, lib, text
from pyddsi._opening import fill


def test_files_are_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    """A table was changed, and the classes or the reference pages were not made again."""
    assert generate.main(["--check"]) == 0
    assert not capsys.readouterr().out


@pytest.mark.parametrize("name", ["CLASSES", "PAGE", "LEDGER", "CONFIG", "API", "PLUGIN"])
def test_change_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that was changed by hand, or lost, would pass for what the table says."""
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(
        generate, "formatted", lambda source: source
    )  # the formatter's folder has moved
    for each in ("CLASSES", "PAGE", "LEDGER", "CONFIG", "API", "PLUGIN"):
        monkeypatch.setattr(generate, each, tmp_path / Path(getattr(generate, each)).name)
    assert generate.main([]) == 0
    capsys.readouterr()
    copy = Path(getattr(generate, name))
    written = copy.read_text(encoding="utf-8")
    assert generate.main(["--check"]) == 0
    for changed in (written.replace(" is ", " was ", 1), written + "\n", written[:-1]):
        copy.write_text(changed, encoding="utf-8")
        assert generate.main(["--check"]) == 1
        assert f"{copy.name} is not what the tables and the source say" in capsys.readouterr().out
        assert copy.read_text(encoding="utf-8") == changed
    copy.unlink()
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert copy.read_text(encoding="utf-8") == written


def test_ledger_page_has_every_line() -> None:
    """The core drops something with a place and a reason that the page of the ledger does not know."""
    known = {(place, reason) for place, reason, *_ in ledger_page.LINES}
    found = set[tuple[str, str]]()
    for path in sorted((ROOT / "csrc" / "node").glob("*.c")):
        source = path.read_text(encoding="utf-8")
        for place, rest in re.findall(r"pdi_drop\(\s*node,\s*PYDDSI_AT_(\w+),([^;]*);", source):
            found |= {(place.lower(), by.lower()) for by in re.findall(r"PYDDSI_BY_(\w+)", rest)}
    assert len(found) > 20
    assert found <= known
    # Those whose reason is handed on are not seen above; of all the words there must be such.
    places = {text(lib.pyddsi_place_name(i)) for i in range(lib.PYDDSI_PLACE_COUNT)}
    reasons = {text(lib.pyddsi_reason_name(i)) for i in range(lib.PYDDSI_REASON_COUNT)}
    assert {place for place, _ in known} <= places
    assert {reason for _, reason in known} == reasons


def numbers_of(config: Any) -> dict[str, int]:
    """The fields of a node's configuration that are numbers."""
    fields = dict(ffi.typeof("pyddsi_config").fields)
    numbers = {name for name, field in fields.items() if field.type.kind == "primitive"}
    values = {name: int(getattr(config, name)) for name in numbers}
    arrays = ("multicast_bytes", "multicast_samples")
    return values | {name: int(getattr(config, name)[0]) for name in arrays}


def config_defaults() -> dict[str, int]:
    """What a node is told if nothing else is said."""
    config = ffi.new("pyddsi_config *")
    lib.pyddsi_config_init(config)
    return numbers_of(config)


def session_defaults() -> dict[str, int]:
    """The same of the node that a session begins."""
    options = ffi.new("pyddsi_session_options *")
    fill(options, Config())
    found = numbers_of(options.node)
    return found | {"order_max": found["unicast_samples"]}  # keep_enough() in session.c


def constants() -> dict[str, int]:
    """The numbers that the core's sources give a name."""
    found = dict[str, int]()
    number = r"\(?(?:UINT32_C\()?(\d+)U?\)?(?: << (\d+))?\)?"
    for path in sorted((ROOT / "csrc").rglob("*.[ch]")):
        source = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for name, value, shift in re.findall(
            rf"(?:#define +|^ +)((?:PDI|PYDDSI)_\w+)(?: +| = +){number}(?:,|$| +/\*)",
            source,
            re.MULTILINE,
        ):
            found[name] = int(value) << int(shift or 0)
    return found


def test_limits_page_is_true() -> None:
    """A limit was changed, and the page that people size their nodes by still has the old number."""
    page = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
    known = config_defaults() | constants()
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", page, re.MULTILINE)
    wrong = [
        f"{name}: {shown}, but it is {known.get(name)}"
        for name, shown in rows
        if known.get(name) != int(shown.replace(",", ""))
    ]
    assert len(rows) > 40
    assert not wrong
    ours = session_defaults()
    rows = re.findall(r"^\| `(\w+)` \| [\d,]+ \| ([\d,]+) \|", page, re.MULTILINE)
    assert len(rows) > 20
    assert {name: shown for name, shown in rows if f"{ours[name]:,}" != shown} == {}
