"""
The tables in the Wireshark plug-in: the rows of csrc/wire/table.c, and the rules that the tolerant reading has, as Lua.

    MESSAGES[7] = {name = "SDATA", part = "A", flags = {{bit = 0x20, letter = "S", name = "sync"}, ...},
                   fields = {{"sn", "SN", text = "..."}, {"data_rid", "ID_NONE", flag = 0x80, ...}, ...}}

They stand in the file itself, between two lines that say so, because a plug-in is one file.
"""

from __future__ import annotations

import json
from pathlib import Path

from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, Field, Spec, lib, spec, text

FILE = Path(__file__).resolve().parent.parent / "pyddsi" / "share" / "wireshark" / "pyddsi.lua"
BEGIN = "-- made by tools/generate.py"
END = "-- end of what is made"

# What a packet or a stream can break without being judged: the other rules are the strict reading's and zhe's.
RULES = (
    "CUT",
    "KIND_UNKNOWN",
    "KIND_RESERVED",
    "KIND_EXTENSION",
    "NUMBER_WIDE",
    "SN_RANGE",
    "LENGTH_WIDE",
    "ID_WIDE",
    "DECLARATION_KIND",
    "MODE",
    "FRAME_LENGTH",
    "FRAME_LIMIT",
)


def quoted(value: str) -> str:
    """A string of Lua; what the tables hold needs no more than JSON's."""
    return json.dumps(value)


def field(one: Field) -> str:
    """A field of a row."""
    parts = [quoted(one.name), quoted(one.type)]
    if one.presence == "IF_FLAG":
        parts.append(f"flag = 0x{one.flag:02x}")
    elif one.presence != "ALWAYS":
        parts.append(f"when = {quoted(one.presence)}")
    if one.values:
        values = ", ".join(f"[{number}] = {quoted(name)}" for number, name in one.values.items())
        parts.append(f"values = {{{values}}}")
    if one.bits:
        parts.append("bits = true")
    return f"{{{', '.join(parts)}, text = {quoted(one.text)}}}"


def row(one: Spec) -> str:
    """A row."""
    lines = [f"name = {quoted(one.name)}, part = {quoted(one.part)},"]
    if one.marker:
        lines[0] += " marker = true,"
    flags = [
        f"{{bit = 0x{flag.bit:02x}, letter = {quoted(flag.letter)}"
        + (f", name = {quoted(flag.name)}}}" if flag.name else "}")
        for flag in one.flags
    ]
    lines.append(f"flags = {{{', '.join(flags)}}},")
    lines.append("fields = {" + ",\n      ".join(field(each) for each in one.fields) + "}")
    return "{" + "\n    ".join(lines) + "}"


def table(name: str, rows: dict[str, Spec]) -> str:
    """A table of rows."""
    body = "".join(f"  [{key}] = {row(one)},\n" for key, one in rows.items())
    return f"local {name} = {{\n{body}}}"


def tables() -> str:
    """All of them."""
    parts = [
        table("MESSAGES", {str(number): one for number, one in spec(MESSAGES).items()}),
        table("DECLARATIONS", {str(number): one for number, one in spec(DECLARATIONS).items()}),
        table("ITEMS", {quoted(one.name): one for one in spec(ITEMS).values()}),
    ]
    said = {text(lib.pyddsi_rule_name(i)): text(lib.pyddsi_rule_text(i)) for i in rule_numbers()}
    rules = "".join(f"  {name} = {quoted(said[name])},\n" for name in RULES)
    return "\n\n".join([*parts, f"local RULES = {{\n{rules}}}"])


def rule_numbers() -> range:
    """The rules as the core counts them."""
    return range(lib.PYDDSI_RULE_COUNT)


def render() -> str:
    """The whole file, with the tables as they have to be."""
    before, _, rest = FILE.read_text(encoding="utf-8").partition(BEGIN + "\n")
    _, _, after = rest.partition(END + "\n")
    return f"{before}{BEGIN}\n{tables()}\n{END}\n{after}"
