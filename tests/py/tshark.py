"""
Captures as tshark reads them with the plug-in, and as they should be read.

    fields(path, ["pyddsi.kind", "pyddsi.sn"]) ──► {4: {"pyddsi.kind": ["7", "7"], "pyddsi.sn": ["0", "1"]}, ...}
    compare(path, load(...))                       every field of every frame against the core, and the rules of the page

Whoever runs the tests may have settings of their own for Wireshark; they are kept out. And newer versions run no plug-in of
root's, so root runs tshark as nobody, on copies that anybody can read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cbuild import ROOT

from pyddsi import wire
from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, Spec, spec
from pyddsi.capture.flows import MARKERS, Columns, Follower, Where, signed
from tests.py.golden import Packet

SHARE = ROOT / "pyddsi" / "share" / "wireshark"
BETWEEN = "\x1f"
SAID = {"<MISSING>": "", "True": "1", "False": "0"}  # how some versions print no bytes, and flags
ESCAPED = {
    ord(char): f"\\{letter}" for char, letter in zip("\a\b\t\n\v\f\r", "abtnvfr", strict=True)
}
ERROR = "_ws.lua.error"
NOBODY = 65534

RENAMED = {("SYNCH", "count"): "outstanding", ("ACKNACK", "mask"): "nack_mask"}
ITEM_ROWS = {row.name: row for row in spec(ITEMS).values()}
COMPUTED = (
    "conduit",
    "payload_len",
    "nacked",
    "flow",
    "epoch",
    "usn",
    "seq_event",
    "gap",
    "since_first_us",
    "first_frame",
    "ack_usn",
    "answer_us",
    "delivery_us",
)
NAMED_FLAGS = {"sync": "solicit"}

EVERY = {"kind", "marker", "flags", "fault", "fault.at", "seq.missing", "declaration"} | {
    *COMPUTED,
    *("solicit", "reliable", "uri", "locator"),
}

Fields = dict[str, list[Any]]


def tshark(
    *arguments: str, capture: Path | None = None, profile: bool = False, hosts: str = ""
) -> str:
    """What tshark prints about a capture; it has to succeed. With the profile or without any, and a file of hosts."""
    as_nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        plugin = Path(shutil.copy(SHARE / "pyddsi.lua", Path(folder)))
        Path(folder, "hosts").write_text(hosts, encoding="ascii")
        command = ["tshark", *arguments, "-X", f"lua_script:{plugin}"]
        if profile:
            shutil.copytree(SHARE / "profile", Path(folder, "profiles", "pyddsi"))
            command += ["-C", "pyddsi"]
        if capture is not None:
            command += ["-r", str(shutil.copy(capture, Path(folder, "capture")))]
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command,
            env={"PATH": os.environ["PATH"], "WIRESHARK_CONFIG_DIR": folder, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            **as_nobody if os.geteuid() == 0 else {},
        )
    said = done.stderr.decode("utf-8", "replace")
    assert done.returncode == 0, said
    assert not said, said
    return done.stdout.decode("utf-8", "replace")


def fields(
    path: Path, names: Iterable[str], *options: str, profile: bool = False, hosts: str = ""
) -> dict[int, dict[str, list[str]]]:
    """The frames that hold anything of ours, by number. The plug-in has to get through without an error of its own."""
    wanted = [*names, ERROR]
    asked = [part for name in ("frame.number", *wanted) for part in ("-e", name)]
    form = ["-T", "fields", "-E", "occurrence=a", "-E", f"aggregator={BETWEEN}"]
    found = {}
    printed = tshark(*options, *form, *asked, capture=path, profile=profile, hosts=hosts)
    for line in printed.split("\n")[:-1]:
        number, *values = line.split("\t")
        listed = [
            [SAID.get(each, each) for each in value.split(BETWEEN)] if value else []
            for value in values
        ]
        frame = dict(zip(wanted, listed, strict=True))
        assert not frame.pop(ERROR), (path, number)
        if any(values):
            found[int(number)] = frame
    return found


def text(kind: str, value: Any) -> str:
    """A value of a type of the table as tshark prints it."""
    if kind in {"RID", "SID", "ID", "ID_NONE"}:
        return str(signed(value))
    if kind in {"BYTES", "PEER_ID"}:
        return bytes(value).hex()
    return str(value)


def flags_of(record: Any, row: Spec) -> int:
    """The upper three bits of a header."""
    if row.fields and row.fields[0].type == "MARKER":
        value = getattr(record, row.fields[0].name)
        short = 1 <= value <= 4 and not record.long
        return 0x80 | value - 1 << 5 if short else int(record.undefined)
    bits = int(record.undefined)
    bits |= sum(flag.bit for flag in row.flags if flag.name and getattr(record, flag.name))
    present = {field.flag for field in row.fields if getattr(record, field.name) is not None}
    return bits | sum(present)


def name_of(row: Spec, prefix: str, name: str) -> str:
    """A field of a row as the plug-in calls it."""
    return prefix + RENAMED.get((row.name, name), name)


def collect(into: Fields, record: Any, row: Spec, prefix: str) -> None:
    """What a record adds to the fields of a frame."""
    if row.number:
        into.setdefault("flags", []).append(f"0x{flags_of(record, row):02x}")
    for flag in row.flags:
        if flag.name:
            name = prefix + NAMED_FLAGS.get(flag.name, flag.name)
            into.setdefault(name, []).append(str(int(getattr(record, flag.name))))
    for field in row.fields:
        value = getattr(record, field.name)
        if value is None:
            continue
        if field.type == "LOCATORS":
            into.setdefault("locator", []).extend(value)
        elif isinstance(value, tuple):
            for item in value:
                collect_item(into, item)
        else:
            into.setdefault(name_of(row, prefix, field.name), []).append(text(field.type, value))


def collect_item(into: Fields, item: Any) -> None:
    """The same for an item of a list."""
    if isinstance(item, wire.Declaration):
        into.setdefault("declaration", []).append(str(item.KIND))
        collect(into, item, spec(DECLARATIONS)[item.KIND], "declaration.")
    else:
        name = item.NAME.lower()
        collect(into, item, ITEM_ROWS[item.NAME], f"{name}.")


def followed(
    packets: list[Packet], seq_bits: int | None = None
) -> Iterator[tuple[Packet, list[Columns]]]:
    """Every packet with the columns of its messages, but the markers."""
    follower = Follower(seq_bits)
    for packet in packets:
        where = Where(packet.number, packet.time_ns, packet.source, packet.destination)
        yield packet, [found for m in packet.messages if (found := follower.follow(where, m))]


def expected(packets: Iterable[tuple[Packet, list[Columns]]]) -> dict[int, Fields]:
    """The fields of every frame."""
    frames: dict[int, Fields] = {}
    for packet, rows in packets:
        into = frames.setdefault(packet.number, {})
        following = iter(rows)
        for message in packet.messages:
            row = spec(MESSAGES)[message.KIND]
            if isinstance(message, MARKERS):
                into.setdefault("marker", []).append(str(message.KIND))
                collect(into, message, row, "marker.")
                continue
            into.setdefault("kind", []).append(str(message.KIND))
            collect(into, message, row, "")
            found = next(following)
            if not any(flag.name == "reliable" for flag in row.flags) and "reliable" in found:
                into.setdefault("reliable", []).append("1")
            for name in COMPUTED:
                if name in found:
                    into.setdefault(name, []).append(str(found[name]))
            if isinstance(message, wire.Synch) and message.count is None:
                into.setdefault("outstanding", []).append("0")
            if "missing" in found:
                into.setdefault("seq.missing", []).append(str(found["missing"]))
            if "uri" in found and not isinstance(message, wire.WData):
                into.setdefault("uri", []).append(found["uri"])
        if packet.error is not None:
            into.setdefault("fault", []).append(packet.error.rule)
            into.setdefault("fault.at", []).append(str(packet.error.at))
    return frames


def compare(path: Path, packets: list[Packet], *options: str, seq_bits: int | None = None) -> None:
    """Every field of every frame has the values that it should."""
    wanted = expected(followed(packets, seq_bits))
    names = sorted({name for found in wanted.values() for name in found} | EVERY)
    read = fields(path, [f"pyddsi.{name}" for name in names], *options)
    assert set(read) == {frame for frame, found in wanted.items() if found}
    for frame, got in read.items():
        for name in names:
            value = BETWEEN.join(map(readable, wanted[frame].get(name, [])))
            shown = BETWEEN.join(got[f"pyddsi.{name}"]).translate(ESCAPED)  # as some versions do
            assert shown == value, (path.name, frame, name)


def readable(value: str) -> str:
    """Text as tshark shows it: up to a zero, in escapes, and what is no UTF-8 replaced."""
    text = value.partition("\0")[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text.translate(ESCAPED)
