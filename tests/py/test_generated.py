"""What is made from the protocol's table: it lies in the tree, and must be what the table says."""

from __future__ import annotations

from pathlib import Path

import generate
import pytest


def test_files_are_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The table was changed, and the classes or the reference page were not made again."""
    assert generate.main(["--check"]) == 0
    assert not capsys.readouterr().out


@pytest.mark.parametrize("name", ["CLASSES", "PAGE"])
def test_change_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that was changed by hand, or lost, would pass for what the table says."""
    original = Path(getattr(generate, name))
    copy = tmp_path / original.name
    text = original.read_text(encoding="utf-8")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, name, copy)
    monkeypatch.setattr(
        generate, "formatted", lambda source: source
    )  # the formatter's folder has moved
    if name == "CLASSES":
        text = generate.render_classes()
        monkeypatch.setattr(generate, "PAGE", tmp_path / "page.md")
        generate.PAGE.write_text(generate.render_page(), encoding="utf-8")
    else:
        monkeypatch.setattr(generate, "CLASSES", tmp_path / "classes.py")
        generate.CLASSES.write_text(generate.render_classes(), encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    assert generate.main(["--check"]) == 0
    for changed in (text.replace("SCOUT", "SCOUTS", 1), text + "\n", text[:-1]):
        copy.write_text(changed, encoding="utf-8")
        assert generate.main(["--check"]) == 1
        assert f"{copy.name} is not what csrc/wire/table.c says" in capsys.readouterr().out
        assert copy.read_text(encoding="utf-8") == changed
    copy.unlink()
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert copy.read_text(encoding="utf-8") == text
