"""
Lists of messages at random, made from the protocol's table, so that a row that is added there is covered at once.

hypothesis gives a run of bytes, and `Maker` takes one choice after another from it: which row, which flags, which value
of a pool that holds the limits of each type. Where the bytes are used up every choice is the first, which is the
simplest; so hypothesis, which shortens and lowers bytes, shrinks messages. One draw for a whole list keeps an example
cheap enough to take a hundred thousand of them.

A `Maker` makes what can be written at all (TOLERANT), what a correct sender writes (STRICT), or what zhe takes (ZHE).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from pyddsi import wire
from pyddsi._native import DECLARATIONS, ITEMS, MESSAGES, Field, Spec, lib, spec

Kind = Literal["tolerant", "strict", "zhe"]
KINDS: tuple[Kind, ...] = get_args(Kind)

LIST_MAX = 3
BORDERS = [0, 1, 2, 126, 127, 128, 129, 2**14 - 1, 2**14, 2**16 - 1, 2**16, 2**21 - 1, 2**21]
BORDERS += [2**28 - 1, 2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**56 - 1, 2**56]
BORDERS += [2**63 - 1, 2**63, 2**64 - 1]
WIDTHS = {"NUMBER64": 64, "NUMBER32": 32, "NUMBER16": 16, "HASH": 16, "SN": 64, "MARKER": 16}
SIZES = [0, 1, 2, 3, 4, 5, 8, 13, 20, 31, 32, 33, 60, 100, 127, 128, 129]
SIZES_RARE = [16383, 16384, 65535]
TEXTS = [
    "",
    "/",
    "a",
    "/a",
    "/plant/robot",
    "**",
    "/a/**/b?",
    "\x00",
    "ä€😀",
    "\udcff\udc80",
    "x" * 200,
]
NAMES = ["/a", "/plant/robot", "**", "/a/**/b?", "/A-Z/0_9", "/*", "**/x"]
MARKERS: dict[int, type[wire.Message]] = {1: wire.Conduit, 2: wire.Frag, 4: wire.RSpace}


def bodies(table: str) -> list[Spec]:
    """The rows of a table that have a body."""
    return [row for row in spec(table).values() if row.part != "R"]


ROWS = bodies(MESSAGES)
ROWS_PLAIN = [row for row in ROWS if not row.marker]
ROWS_ZHE = [row for row in ROWS_PLAIN if row.part == "A"]
DECLARED = bodies(DECLARATIONS)


def markers(row: Spec) -> int:
    """The markers that may stand before a message, as bits."""
    return int(lib.pyddsi_spec_message(row.number).markers)


class Maker:
    """Makes messages out of a run of bytes."""

    def __init__(self, choices: bytes, kind: Kind = "tolerant") -> None:
        self.choices = choices
        self.at = 0
        self.kind = kind
        self.correct = kind != "tolerant"
        self.zhe = kind == "zhe"

    def below(self, limit: int) -> int:
        """A choice among `limit`, from one byte."""
        self.at += 1
        return self.choices[self.at - 1] % limit if self.at <= len(self.choices) else 0

    def some(self, size: int) -> bytes:
        """Bytes of this size."""
        taken = self.choices[self.at : self.at + min(size, 8)]
        self.at += len(taken)
        return (taken + bytes(size))[:size]

    def number(self, bits: int) -> int:
        """A number of up to so many bits, at its limits or anywhere."""
        choice = self.below(len(BORDERS) + 3)
        if choice < len(BORDERS):
            return min(BORDERS[choice], (1 << bits) - 1)
        bits = min(bits, 14 * (choice - len(BORDERS) + 1))
        return int.from_bytes(self.some(8), "big") & ((1 << bits) - 1)

    def sized(self) -> bytes:
        """A byte vector; a large one is rare."""
        choice = self.below(256)
        if choice >= 254:
            return self.some(SIZES_RARE[self.below(3)])
        return self.some(SIZES[choice % len(SIZES)])

    def id(self, kind: str) -> int:
        """An id, with half of the selections as such; as wide as can be doubled."""
        least = 1 if self.correct else 0
        value = max(self.number(31 if self.zhe else 63), least)
        selection = kind == "SID" or ((kind != "RID" or not self.correct) and self.below(4) == 3)
        if self.zhe:
            selection = kind == "SID"
        return wire.SelectionId(value) if selection else value

    def value(self, field: Field, flags: int, row: Spec) -> Any:
        """A value of any field."""
        if row.name == "OPEN" and self.correct and field.name in {"version", "lease"}:
            return 1 if field.name == "version" else min(self.number(32), 21_474_836)
        match field.type:
            case "SN" if self.zhe:
                return self.number(14)
            case "NUMBER64" | "NUMBER32" | "NUMBER16" | "HASH" | "SN" | "MARKER":
                return self.number(WIDTHS[field.type])
            case "RID" | "SID" | "ID":
                return self.id(field.type)
            case "ID_NONE":
                return 0 if self.below(4) == 3 else self.id("ID")
            case "BYTE" if row.name == "SUBSCRIPTION":
                return 1 + self.below(5)
            case "BYTE":
                return [0, 1, 2, 127, 128, 254, 255][self.below(7)]
            case "BYTES":
                return self.sized()
            case "PEER_ID":
                return self.some(1 + self.below(16)) if self.correct else self.sized()
            case "TEXT" if row.name == "WDATA" and self.correct:
                return NAMES[self.below(len(NAMES))]
            case "TEXT":
                return TEXTS[self.below(len(TEXTS))]
            case "LOCATORS":
                return tuple(TEXTS[self.below(len(TEXTS))] for _ in range(self.below(LIST_MAX + 1)))
            case "PROPERTIES" | "SAMPLES":
                return self.items(field.type, flags)
            case "DECLARATIONS":
                return self.declarations()
        raise NotImplementedError(f"the type {field.type} is new: say how to make a value of it")

    def items(self, kind: str, flags: int) -> tuple[Any, ...]:
        """A list of properties or samples."""
        row = spec(ITEMS)[getattr(lib, f"PYDDSI_TYPE_{kind}")]
        cls = getattr(wire, row.name.capitalize())
        made = []
        for _ in range(self.below(LIST_MAX + 1)):
            values = self.values(row, flags)
            if self.zhe and values.get("id") == 4:
                values["value"] = b"\x0e"
            made.append(cls(**values))
        return tuple(made)

    def declarations(self) -> tuple[wire.Declaration, ...]:
        """A list of declarations; in a correct one a commit stands last, and a window fits its period."""
        made = [
            self.record(DECLARED[self.below(len(DECLARED))], wire.messages.DECLARATIONS)
            for _ in range(self.below(LIST_MAX + 1))
        ]
        if self.correct:
            made.sort(key=lambda item: isinstance(item, wire.Commit))
            commits = sum(isinstance(item, wire.Commit) for item in made)
            del made[len(made) - max(commits - 1, 0) :]
            for item in made:
                if isinstance(item, wire.Subscription) and item.period is not None:
                    assert item.duration is not None
                    item.period = max(item.period, 1)
                    item.duration = min(item.duration, item.period - 1)
        return tuple(made)

    def values(self, row: Spec, flags: int) -> dict[str, Any]:
        """The fields of a row that are there."""
        found: dict[str, Any] = {}
        for field in row.fields:
            there = {
                "ALWAYS": True,
                "IF_FLAG": bool(flags & field.flag),
                "IF_PERIODIC": found.get("mode") in {3, 4},
                "IF_FAILED": found.get("status") != 0,
            }[field.presence]
            if there:
                found[field.name] = self.value(field, flags, row)
        return found

    def record(self, row: Spec, classes: dict[int, type[Any]]) -> Any:
        """A message or declaration of this row."""
        defined = sum(flag.bit for flag in row.flags)
        flags = (self.below(8) << 5) & defined
        if row.name == "OPEN" and self.correct:
            flags |= 0x20
        values = self.values(row, flags)
        values |= {flag.name: bool(flags & flag.bit) for flag in row.flags if flag.name}
        undefined = 0 if self.correct or self.below(4) != 3 else (self.below(8) << 5) & ~defined
        if row.fields[0].type == "MARKER":
            short = 1 <= values[row.fields[0].name] <= 4
            values["long"] = short and not self.correct and self.below(2) == 1
            undefined = 0 if short and not values["long"] else undefined & 0x60
        return classes[row.number](**values, undefined=undefined)

    def marked(self) -> list[wire.Message]:
        """A message with markers that may stand before it, in their order."""
        rows = ROWS_ZHE if self.zhe else ROWS_PLAIN
        row = rows[self.below(len(rows))]
        allowed = markers(row) & (1 if self.zhe else 7) & self.below(8)
        found = [
            self.record(spec(MESSAGES)[cls.KIND], wire.messages.MESSAGES)
            for bit, cls in MARKERS.items()
            if allowed & bit
        ]
        return [*found, self.record(row, wire.messages.MESSAGES)]

    def messages(self) -> list[wire.Message]:
        """A list of messages."""
        made: list[wire.Message] = []
        for _ in range(1 + self.below(LIST_MAX)):
            if self.correct:
                made += self.marked()
            else:
                row = ROWS[self.below(len(ROWS))]
                made.append(self.record(row, wire.messages.MESSAGES))
        return made
