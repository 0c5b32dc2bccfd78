"""
The options of the source `pyddsi`: which there are, how each is read, and what is said of one that cannot be.

Spark hands options over as texts, and does not care for the case of their names; here underscores do not matter either, so that
`splitSize`, `split_size` and `SPLITSIZE` are one option. Everything is read when the source is made, that is in `load()`: a slip
is found before a job runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyddsi import capture
from pyddsi._values import closest
from pyddsi.capture._scan import MEMORY_RANGE
from pyddsi.capture._where import compile_where
from pyddsi.spark.schema import TIMED, columns_of, schema_of

__all__ = ["KNOWN", "Asked", "read"]

OF_CATALOGS = {"owner", "provider", "location"}
"""What Spark adds for a table of a catalog (CREATE TABLE ... USING pyddsi), which it reads without any of its options (seen in 4.3)."""
UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
SPLIT_MIN = 64 * 1024
PAYLOAD_MAX = 65535
ADDRESSES = {"src", "dst", "opener", "acceptor", "declarer"}  # as texts


@dataclass(frozen=True)
class Asked:
    """
    What somebody wants of the source, read from options.

    paths: absolute, of files, folders and patterns
    columns: names in their order; None: the usual ones
    named: those of the option columns; None: it is not there
    split_bytes: of a partition; None: as the size of the capture suggests
    settings: how captures are read, as `pyddsi.capture.open` takes it
    payload: bytes of each; None: no column of them unless it is named
    """

    paths: tuple[str, ...]
    table: str = "messages"
    columns: tuple[str, ...] | None = None
    named: tuple[str, ...] | None = None
    split: str = "index"
    split_bytes: int | None = None
    start: str | None = None
    stop: str | None = None
    where: str | None = None
    failfast: bool = False
    payload: int | None = None
    window: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_files: int = 1000
    max_bytes: int | None = None
    settle: float = 2.0
    tail: bool = False
    skip_missing: bool = False
    bad_fails: bool = False
    log: str | None = None
    file_age: float = 7 * 86400.0

    def open(self, paths: tuple[str, ...] | None = None) -> capture.Capture:
        """The captures, on the machine where this runs."""
        return capture.open(self.paths if paths is None else paths, **self.settings)


# ---- how a value is read ----


def _one_of(*words: str) -> Callable[[str, str], str]:
    def take(name: str, value: str) -> str:
        if value.lower() not in words:
            raise ValueError(f"option {name} cannot be {value!r}; {closest(value, words)}")
        return value.lower()

    return take


def _switch(name: str, value: str) -> bool:
    return _one_of("on", "off", "true", "false")(name, value) in {"on", "true"}


def _bytes(least: int) -> Callable[[str, str], int]:
    def take(name: str, value: str) -> int:
        match = re.fullmatch(r"(\d+)([bkmg]?)(?:i?b)?", value.strip().lower())
        if match is None or int(match[1]) * UNITS[match[2]] < least:
            raise ValueError(
                f"option {name} is a number of bytes from {least} on, such as 64k or 128m, not {value!r}"
            )
        return int(match[1]) * UNITS[match[2]]

    return take


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value)):
        raise ValueError(f"option {name} is a whole number from 1 on, not {value!r}")
    return int(value)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 1e9:
        raise ValueError(f"option {name} is a number of seconds, such as 0.5 or 10, not {value!r}")
    return seconds


def _window(name: str, value: str) -> float:
    seconds = _seconds(name, value)
    if seconds < 0.000001:
        raise ValueError(f"option {name} is from 0.000001 seconds on, not {value!r}")
    return seconds


def _payload(name: str, value: str) -> int | None:
    match = re.fullmatch(r"none|full|prefix:(\d{1,5})", value.lower())
    size = PAYLOAD_MAX if match is None or match[1] is None else int(match[1])
    if match is None or size > PAYLOAD_MAX:
        raise ValueError(
            f"option {name} is none, full, or prefix:N with N up to {PAYLOAD_MAX}, not {value!r}"
        )
    return None if value.lower() == "none" else size


def _list(name: str, value: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in value.split(",") if word.strip())
    if not found:
        raise ValueError(f"option {name} is a list with commas, such as ts,kind,rid; it is empty")
    return found


def _ports(name: str, value: str) -> tuple[int, ...]:
    return tuple(_number(name, word) for word in _list(name, value))


def _bits(name: str, value: str) -> int | None:
    return None if value.lower() == "auto" else _number(name, value)


def _text(name: str, value: str) -> str:
    if not value.strip():
        raise ValueError(f"option {name} is empty; leave it out instead")
    return value


_READ: dict[str, Callable[[str, str], Any]] = {
    "path": _text,
    "paths": _text,
    "table": _text,
    "columns": _list,
    "split": _one_of("index", "file"),
    "splitSize": _bytes(SPLIT_MIN),
    "index": _switch,
    "indexDir": _text,
    "from": _text,
    "to": _text,
    "where": _text,
    "mode": _one_of("permissive", "failfast"),
    "payload": _payload,
    "addresses": _one_of("id", "string"),
    "window": _window,
    "ports": _ports,
    "seqBits": _bits,
    "learn": _switch,
    "extensions": _text,
    "dedupe": _switch,
    "memory": _bytes(MEMORY_RANGE[0]),
    "chain": _text,
    "maxFilesPerTrigger": _number,
    "maxBytesPerTrigger": _bytes(1),
    "settle": _seconds,
    "tail": _switch,
    "onMissing": _one_of("fail", "skip"),
    "onBad": _one_of("skip", "fail"),
    "logDir": _text,
    "maxFileAge": _seconds,
}
KNOWN = tuple(name for name in _READ if name != "paths")
"""The names of all options, as the documents write them."""


def plain(name: str) -> str:
    """What a name is compared by."""
    return name.lower().replace("_", "")


_NAMES = {plain(name): name for name in _READ}


# ---- all of them ----


def _values(options: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given, value in options.items():
        if plain(given) in OF_CATALOGS or given.startswith("option."):
            raise ValueError(
                "a table of a catalog cannot be of captures, since Spark reads it without its options, the path among them; "
                "write CREATE TEMPORARY VIEW ... USING pyddsi OPTIONS (path ...), or pyddsi.spark.register_views"
            )
        name = _NAMES.get(plain(given))
        if name is None:
            near = closest(plain(given), [plain(known) for known in KNOWN])
            for known in KNOWN:  # as it is written, not as it is compared
                near = near.replace(repr(plain(known)), repr(known))
            raise ValueError(f"source 'pyddsi' has no option {given!r}; {near}")
        found[name] = _READ[name](name, value)
    return found


def _path(name: str) -> str:
    """A path of this machine's file systems, absolute: those who read it have another working directory."""
    scheme = urlsplit(name).scheme if "://" in name or name.startswith("file:") else ""
    if scheme == "file":
        name = unquote(urlsplit(name).path)
    elif scheme:
        raise ValueError(
            f"{name}: captures are read from file systems that are mounted where they are read, and {scheme}:// is none; "
            f"mount the store (s3fs, gcsfuse, hdfs-nfs), or copy the captures to a shared folder"
        )
    return str(Path(name).expanduser().absolute())


def _paths(values: Mapping[str, Any]) -> tuple[str, ...]:
    names = [str(name) for name in json.loads(values["paths"])] if "paths" in values else []
    if "path" in values:
        names.append(values["path"])
    return tuple(_path(name) for name in names)


def _usual(values: Mapping[str, Any], table: str) -> tuple[str, ...] | None:
    """The columns if none are named: those that cost much are there if an option asks for them."""
    addresses = values.get("addresses") == "string"
    payload = values.get("payload") is not None
    if not addresses and not payload:
        return None
    return tuple(
        column.name
        for column in columns_of(table)
        if not column.dear
        or (addresses and column.name in ADDRESSES)
        or (payload and column.name == "payload")
    )


def read(options: Mapping[str, str]) -> Asked:
    """The options, read and checked; ValueError says what is wrong with one, and what would be right."""
    values = _values(options)
    table = values.get("table", "messages").lower()
    columns_of(table)  # if there is no such table, it says so
    listed = tuple(map(str.lower, values["columns"])) if "columns" in values else None
    columns = listed or _usual(values, table)
    if columns is not None:
        schema_of(table, columns)
        if "payload" in columns and values.get("payload", PAYLOAD_MAX) is None:
            raise ValueError(
                "columns names 'payload', and option payload is none; leave one of them out"
            )
    for name in ("from", "to"):
        if name in values and table not in TIMED:
            raise ValueError(
                f"option {name} means nothing to table {table!r}, whose rows stand for more than a moment; "
                f"the tables with a time are {', '.join(TIMED)}"
            )
    if "where" in values:
        if table == "files":
            raise ValueError("option where means nothing to table 'files'; filter what was read")
        compile_where(table, values["where"])  # says what is wrong with it
    settings: dict[str, Any] = {
        word: values[name]
        for name, word in (
            ("ports", "ports"),
            ("seqBits", "seq_bits"),
            ("learn", "learn"),
            ("extensions", "extensions"),
            ("dedupe", "dedupe"),
            ("memory", "memory"),
            ("chain", "chain"),
            ("indexDir", "index"),
            ("index", "keep_index"),
        )
        if name in values
    }
    if "index" in settings:
        settings["index"] = _path(settings["index"])
    capture.open([], **settings)  # checks them
    asked = Asked(
        paths=_paths(values),
        table=table,
        columns=columns,
        named=listed,
        split=values.get("split", "index"),
        split_bytes=values.get("splitSize"),
        start=values.get("from"),
        stop=values.get("to"),
        where=values.get("where"),
        failfast=values.get("mode") == "failfast",
        payload=values.get("payload"),
        window=values.get("window", 1.0),
        settings=settings,
        max_files=values.get("maxFilesPerTrigger", 1000),
        max_bytes=values.get("maxBytesPerTrigger"),
        settle=values.get("settle", 2.0),
        tail=values.get("tail", False),
        skip_missing=values.get("onMissing") == "skip",
        bad_fails=values.get("onBad") == "fail",
        log=_path(values["logDir"]) if "logDir" in values else None,
        file_age=values.get("maxFileAge", 7 * 86400.0),
    )
    if not asked.paths:
        raise ValueError(
            'option path is missing: spark.read.format("pyddsi").load("run.pcapng"), a folder, or a pattern'
        )
    return asked
