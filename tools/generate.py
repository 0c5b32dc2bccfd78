"""
Writes what is made from tables and from the source: the Python classes of the protocol's messages, the tables in the Wireshark
plug-in, and the reference pages of the wire, the drop ledger, the settings, the tables of captures and the Python API.

    python tools/generate.py            write the files
    python tools/generate.py --check    say which of them are not what the tables say, and exit 1

The tables are csrc/wire/table.c and the words of csrc/flow/ledger.c, both read through the compiled core, and that of
pyddsi/config.py, and the columns of csrc/capture/table.c; the API's page is made of signatures and docstrings. The files are in the tree so that people and type
checkers can read them, and a test runs --check so that they cannot drift.
"""

from __future__ import annotations

import sys
from pathlib import Path

import api_page
import config_page
import ledger_page
import lua_tables
import tables_page

from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, Field, Spec, spec

ROOT = Path(__file__).resolve().parent.parent
CLASSES = ROOT / "pyddsi" / "wire" / "messages.py"
PAGE = ROOT / "docs" / "reference" / "wire.md"
LEDGER = ROOT / "docs" / "reference" / "ledger.md"
CONFIG = ROOT / "docs" / "reference" / "config.md"
API = ROOT / "docs" / "reference" / "api.md"
TABLES = ROOT / "docs" / "reference" / "captures.md"
PLUGIN = lua_tables.FILE

# Names that are not their capitalised words.
CLASS_NAMES = {
    "SDATA": "SData",
    "BDATA": "BData",
    "WDATA": "WData",
    "ACKNACK": "AckNack",
    "KEEPALIVE": "KeepAlive",
    "RSPACE": "RSpace",
}

# Enumerations, each from the named values of one field.
ENUMS = {
    "Role": ("IntFlag", "SCOUT", "mask", "What a node is, or looks for."),
    "Reason": ("IntEnum", "CLOSE", "reason", "Why a session ended or was refused."),
    "Mode": ("IntEnum", "SUBSCRIPTION", "mode", "How samples come to a subscription."),
    "Status": ("IntEnum", "RESULT", "status", "How a transaction went."),
    "PropertyId": (
        "IntEnum",
        "PROPERTY",
        "id",
        "The properties with a meaning; odd ids are vendors'.",
    ),
}

TYPES = {
    "RID": "int",
    "SID": "int",
    "ID": "int",
    "ID_NONE": "int",
    "BYTES": "Buffer",
    "PEER_ID": "Buffer",
    "TEXT": "str",
    "LOCATORS": "Sequence[str]",
    "PROPERTIES": "Sequence[Property]",
    "SAMPLES": "Sequence[Sample]",
    "DECLARATIONS": "Sequence[Declaration]",
}

HEAD = '''"""
The protocol's messages as classes. Made by tools/generate.py from csrc/wire/table.c; do not change it by hand.

A field that a flag announces is optional here: None means that it is absent and the flag clear. `undefined` holds
flags that mean nothing, so that a message that carries them can be written again as it was. The file is long because
the protocol has that many messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import ClassVar

from pyddsi.wire._record import Buffer, Declaration, Item, Message, SelectionId
'''


def class_name(row: Spec) -> str:
    """The Python name of a row."""
    return CLASS_NAMES.get(row.name) or "".join(word.capitalize() for word in row.name.split())


def python_type(field: Field) -> str:
    """The type of a field's value."""
    return TYPES.get(field.type, "int")


def listed(field: Field) -> bool:
    """Whether the field is kept as a tuple."""
    return python_type(field).startswith("Sequence")


def options(row: Spec) -> list[tuple[str, str]]:
    """The keyword-only arguments of a row: (declaration, name)."""
    found = [
        (f"{f.name}: {python_type(f)} | None = None", f.name) for f in row.fields if f.optional
    ]
    found += [(f"{f.name}: bool = False", f.name) for f in row.flags if f.name]
    if any(f.type == "MARKER" for f in row.fields):
        found.append(("long: bool = False", "long"))
    return found


def assignment(name: str, field: Field | None) -> str:
    """The line of a constructor that keeps one value."""
    if field is not None and listed(field):
        value = f"tuple({name})"
        return f"{value} if {name} is not None else None" if field.optional else value
    if field is not None and field.type == "SID":
        return f"SelectionId({name})"
    return name


def render_class(row: Spec, base: str) -> str:
    """One class."""
    required = [f for f in row.fields if not f.optional]
    keywords = options(row)
    arguments = [f"{f.name}: {python_type(f)}" for f in required]
    has_flags = base != "Item"
    if has_flags:
        keywords = [*keywords, ("undefined: int = 0", "undefined")]
    signature = ["self", *arguments, *(["*"] if keywords else []), *(text for text, _ in keywords)]
    by_name = {f.name: f for f in row.fields}
    names = [f.name for f in row.fields] + [n for _, n in keywords if n not in by_name]
    inherited = {"undefined"} | ({"conduit", "space"} if base == "Message" else set())
    slots = [name for name in names if name not in inherited]
    lines = [f"class {class_name(row)}({base}):"]
    lines.append('    """')
    lines.append(f"    {row.name}: {row.text}.")
    lines.append("")
    for f in row.fields:
        lines.append(f"    {f.name}: {f.text}")
    for flag in row.flags:
        if flag.name:
            lines.append(f"    {flag.name}: {flag.text}")
    if any(f.type == "MARKER" for f in row.fields):
        lines.append("    long: written in the long form although there is a short one")
    lines.append('    """')
    lines.append("")
    lines.append(f"    __slots__ = {tuple(slots)!r}")
    lines.append(f"    __match_args__ = {tuple(f.name for f in required)!r}")
    lines.append(f"    KIND: ClassVar[int] = {row.number}")
    lines.append(f"    NAME: ClassVar[str] = {row.name!r}")
    lines.append(f"    FIELDS: ClassVar[tuple[str, ...]] = {tuple(names)!r}")
    lines.append("")
    lines.append(f"    def __init__({', '.join(signature)}) -> None:")
    if base == "Message":
        lines.append("        super().__init__()")
    for name in names:
        lines.append(f"        self.{name} = {assignment(name, by_name.get(name))}")
    return "\n".join(lines)


def render_enum(name: str) -> str:
    """One enumeration."""
    base, row_name, field_name, doc = ENUMS[name]
    rows = [r for table in (MESSAGES, DECLARATIONS, ITEMS) for r in spec(table).values()]
    field = next(f for r in rows if r.name == row_name for f in r.fields if f.name == field_name)
    members = [
        f"    {label.upper().replace('-', '_')} = {number}"
        for number, label in field.values.items()
    ]
    return "\n".join([f"class {name}({base}):", f'    """{doc}"""', "", *members])


def bodies(table: str) -> list[Spec]:
    """The rows that have a body, in the order of their numbers."""
    return [row for _, row in sorted(spec(table).items()) if row.part != "R"]


def render_classes() -> str:
    """The whole of messages.py."""
    parts = [HEAD]
    parts += [render_enum(name) for name in ENUMS]
    items = [row for row in bodies(ITEMS) if row.name != "LOCATOR"]
    parts += [render_class(row, "Item") for row in items]
    parts += [render_class(row, "Declaration") for row in bodies(DECLARATIONS)]
    parts += [render_class(row, "Message") for row in bodies(MESSAGES)]
    names = sorted([class_name(row) for row in items] + list(ENUMS))
    names += sorted(class_name(r) for t in (DECLARATIONS, MESSAGES) for r in bodies(t))
    for variable, table, kind in (
        ("MESSAGES", MESSAGES, "Message"),
        ("DECLARATIONS", DECLARATIONS, "Declaration"),
    ):
        entries = "".join(f"    {row.number}: {class_name(row)},\n" for row in bodies(table))
        parts.append(f"{variable}: dict[int, type[{kind}]] = {{\n{entries}}}")
        names.append(variable)
    listing = "".join(
        f'    "{name}",\n' for name in sorted(names, key=lambda name: (not name.isupper(), name))
    )
    parts.append(f"__all__ = [\n{listing}]")
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def formatted(source: str) -> str:
    """The source as the project's formatter leaves it."""
    import subprocess  # noqa: PLC0415 - only here

    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(CLASSES), "-"]
    done = subprocess.run(
        command, input=source, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


WIRE_TYPES = {
    "NUMBER64": "number",
    "NUMBER32": "number below 2^32",
    "NUMBER16": "number below 2^16",
    "HASH": "number below 2^16",
    "SN": "sequence number",
    "RID": "resource id",
    "SID": "selection id",
    "ID": "resource or selection id",
    "ID_NONE": "id, or 0 for none",
    "MARKER": "in the flags if short, else number below 2^16",
    "BYTE": "byte",
    "BYTES": "byte vector",
    "PEER_ID": "byte vector, 1 to 16",
    "TEXT": "text vector",
    "LOCATORS": "list of LOCATOR",
    "PROPERTIES": "list of PROPERTY",
    "SAMPLES": "list of SAMPLE",
    "DECLARATIONS": "list of declarations",
}

PRESENCE = {
    "ALWAYS": "",
    "IF_PERIODIC": "mode 3 or 4",
    "IF_FAILED": "status not 0",
}

PAGE_HEAD = """\
# The wire, message by message

Made by `tools/generate.py` from `csrc/wire/table.c`, the table that decoder, encoder, printer, the classes of
`pyddsi.wire` and the layers of `pyddsi.scapy` all walk.

A *number* is a VLE number: seven bits a byte, least significant group first, the top bit set on all bytes but the
last. A *byte vector* is its length as a number below 2^16, then the bytes; a *list* is its count, likewise, then the
items. An *id* is written as twice the id, plus one if it is a selection's.

One header byte: the kind in its low five bits (in a declaration, four), the flags in the others.
"""


def render_row(row: Spec, name: str) -> str:
    """One section of the page."""
    title = f"### {row.name}" + (f" ({row.number})" if name else "")
    lines = [title, "", f"{row.text[0].upper()}{row.text[1:]}."]
    if row.part == "B":
        lines[-1] += " Beyond zhe: only sent to a peer that announced it."
    if name:
        lines[-1] += f" In Python: `wire.{name}`."
    if row.flags:
        lines += ["", "| flag | letter | meaning |", "|---|---|---|"]
        lines += [f"| {flag.bit:02x} | {flag.letter} | {flag.text} |" for flag in row.flags]
    lines += ["", "| field | on the wire | if | meaning |", "|---|---|---|---|"]
    letters = {flag.bit: flag.letter for flag in row.flags}
    for field in row.fields:
        when = PRESENCE.get(field.presence, f"flag {letters.get(field.flag, '')}")
        meaning = field.text
        if field.values:
            meaning += ": " + ", ".join(f"{n} {label}" for n, label in field.values.items())
        lines.append(f"| {field.name} | {WIRE_TYPES[field.type]} | {when} | {meaning} |")
    return "\n".join(lines)


def render_page() -> str:
    """The whole reference page."""
    parts = [PAGE_HEAD, "## Messages and markers"]
    parts += [render_row(row, class_name(row)) for row in bodies(MESSAGES)]
    reserved = [f"{row.number} {row.name}" for row in spec(MESSAGES).values() if row.part == "R"]
    parts.append(f"Reserved, with a name and no body: {', '.join(reserved)}.")
    parts.append("## Declarations")
    parts += [render_row(row, class_name(row)) for row in bodies(DECLARATIONS)]
    parts.append("## Items of lists")
    parts += [render_row(row, "") for row in bodies(ITEMS)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check the files."""
    wanted = {
        CLASSES: formatted(render_classes()),
        PAGE: render_page(),
        LEDGER: ledger_page.render(),
        CONFIG: config_page.render(),
        API: api_page.render(),
        TABLES: tables_page.render(),
        PLUGIN: lua_tables.render(),
    }
    stale = [
        path
        for path, source in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != source
    ]
    for path in stale:
        if "--check" in arguments:
            print(
                f"{path.relative_to(ROOT)} is not what the tables and the source say; run python tools/generate.py"
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
