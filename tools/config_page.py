"""The page of a session's settings, from the table in pyddsi/config.py. tools/generate.py writes it."""

from __future__ import annotations

from typing import Any

from pyddsi.config import DEFAULTS, PREFIX, SETTINGS, Setting, checked
from pyddsi.errors import ConfigError

HEAD = """\
# Settings

Made by `tools/generate.py` from the table in `pyddsi/config.py`.

A session has these settings, and each has a default that suits most programs. They come from four places; what stands further
to the right wins:

```text
defaults ◄── file ◄── environment ◄── keywords
```

```python
import os
from pathlib import Path
from tempfile import mkdtemp

import pyddsi

file = Path(mkdtemp(), "pyddsi.toml")
file.write_text('group = "239.255.8.1:17448"\\nlease = 2\\n')    # TOML; a heading [pyddsi] may stand above
os.environ["PYDDSI_LEASE"] = "3"                               # the setting's name in capitals; lists with commas
config = pyddsi.Config.load(file, scout=0.5)
print(config.group, config.lease, config.scout)
del os.environ["PYDDSI_LEASE"]
```

```output
239.255.8.1:17448 3.0 0.5
```

`pyddsi.open()` takes the file that `PYDDSI_CONFIG` names, if it is set, then the environment, then its keywords.
`pyddsi.open(config)` takes the config as it is. A `Config` does not change; `config.replace(lease=1)` is another one. On the
command line `--config FILE` names the file.

| setting | default | limits | what it is |
|---|---|---|---|
"""

WRONG_HEAD = """
## When one is wrong

`ConfigError`, which is also a `ValueError`, says which setting, where it came from, and what would be right. Its `setting`
is the name.

| given | what is said |
|---|---|
"""

WRONG: dict[str, Any] = {
    "whole": -1,
    "seconds": -1.0,
    "yes": "maybe",
    "word": "boss",
    "address": "here",
    "addresses": "10.0.0.9:7447",
    "peers": ("here",),
    "places": ("here",),
    "text": 7,
    "id": "xyz",
    "words": ("bathc",),
}


def plain(value: Any) -> str:
    """A default as people write it."""
    if isinstance(value, frozenset):
        return "all"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, bytes, tuple)) and not value:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def size(value: float) -> str:
    """A number of bytes, in the unit that fits."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= unit and value % unit == 0:
            return f"{value / unit:g} {name}"
    return f"{value:g} byte{'' if value == 1 else 's'}"


def limits(setting: Setting) -> str:
    """From where to where."""
    if not setting.most:
        return ""
    if setting.unit == "bytes":
        return f"{size(setting.least)} to {size(setting.most)}"
    unit = f" {setting.unit}" if setting.unit else ""
    return f"{setting.least:g} to {setting.most:.12g}{unit}"


def row(name: str, setting: Setting) -> str:
    """A line of the first table."""
    default = DEFAULTS[name]
    shown = size(default) if setting.unit == "bytes" and default else plain(default)
    unit = f" {setting.unit}" if setting.unit and setting.unit != "bytes" else ""
    return f"| `{name}` | {shown}{unit} | {limits(setting)} | {setting.text} |"


def wrong_row(name: str, setting: Setting) -> str:
    """A line of the second one: what a wrong value is told."""
    value = WRONG[setting.kind]
    try:
        checked(name, value)
    except ConfigError as error:
        return f"| `{name}={value!r}` | {error} |"
    raise AssertionError(f"{name} can be {value!r}")


def render() -> str:
    """The whole page."""
    rows = [row(name, setting) for name, setting in SETTINGS.items()]
    wrong = [wrong_row(name, setting) for name, setting in SETTINGS.items()]
    environment = f"\nEach can be said in the environment as `{PREFIX}` and its name in capitals.\n"
    return HEAD + "\n".join(rows) + "\n" + environment + WRONG_HEAD + "\n".join(wrong) + "\n"
