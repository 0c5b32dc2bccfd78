"""
Filters: `kind == SDATA and rid == 7`, written as Python writes conditions, run by the core over each row.

    names        columns of the table, kinds of messages (SDATA), and the words TRUE, FALSE, NULL
    values       whole numbers, texts in quotes, times of day as texts: ts_ns >= '2026-11-18T12:00:00'
    compare      == != < <= > >=, chains of them, `is None`, `is not None`, in (1, 2, 3)
    match        uri in '/plant/**' (a pattern of resource names), or not in
    join         and, or, not, parentheses

Python's own parser reads the text; of what it finds only the above is taken, and turned into steps for a little machine with
a stack. Nothing of the text is ever run by Python.
"""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from typing import NamedTuple

from pyddsi._native import MESSAGES, lib, members, spec
from pyddsi._values import closest
from pyddsi.capture._table import Column, columns, table_number

__all__ = ["Step", "WhereError", "compile_where"]

TEXTS_MAX = 2048


class WhereError(ValueError):
    """A filter cannot be; the text says where and what would be right."""


class Step(NamedTuple):
    """A step as the core takes it."""

    step: int
    a: int = 0
    size: int = 0
    number: int = 0


def _steps() -> dict[str, int]:
    return {name: number for number, name in members("pyddsi_step", "PYDDSI_STEP_").items()}


_COMPARE = {
    ast.Eq: "EQ",
    ast.NotEq: "NE",
    ast.Lt: "LT",
    ast.LtE: "LE",
    ast.Gt: "GT",
    ast.GtE: "GE",
}


class _Compiler:
    def __init__(self, table: str, source: str) -> None:
        table_number(table)
        self.table = table
        self.source = source
        self.names = {column.name: (i, column) for i, column in enumerate(columns(table))}
        self.kinds = {row.name: number for number, row in spec(MESSAGES).items()}
        self.steps: list[Step] = []
        self.texts = bytearray()
        self._step = _steps()

    def fail(self, node: ast.AST, why: str) -> WhereError:
        at = getattr(node, "col_offset", 0)
        part = ast.get_source_segment(self.source, node) or self.source
        return WhereError(f"filter {self.source!r}, character {at + 1}: {part!r} {why}")

    def put(self, name: str, a: int = 0, size: int = 0, number: int = 0) -> None:
        self.steps.append(Step(self._step[name], a, size, number))

    def text(self, value: str) -> None:
        data = value.encode()
        at = self.texts.find(data)
        if at < 0:
            at = len(self.texts)
            self.texts += data
        self.put("TEXT", at, len(data))

    # ---- conditions ----

    def condition(self, node: ast.expr) -> None:
        """Something that is true or false."""
        match node:
            case ast.BoolOp():
                self.condition(node.values[0])
                for value in node.values[1:]:
                    self.condition(value)
                    self.put("AND" if isinstance(node.op, ast.And) else "OR")
            case ast.UnaryOp(op=ast.Not()):
                self.condition(node.operand)
                self.put("NOT")
            case ast.Compare():
                self.comparison(node)
            case ast.Name(id=name) if name in self.names and self.names[name][1].type == "bool":
                self.put("COLUMN", self.names[name][0])
            case _:
                raise self.fail(node, "is no condition; compare it with something: kind == SDATA")

    def comparison(self, node: ast.Compare) -> None:
        left = node.left
        for i, (operator, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            self.compare(node, left, operator, right)
            if i:
                self.put("AND")
            left = right

    def compare(self, node: ast.AST, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> None:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise self.fail(node, "may only ask `is None` or `is not None`; use == for values")
            self.value(left, None)
            self.put("NULL")
            if isinstance(operator, ast.IsNot):
                self.put("NOT")
        elif isinstance(operator, (ast.In, ast.NotIn)):
            self.membership(node, left, right)
            if isinstance(operator, ast.NotIn):
                self.put("NOT")
        else:
            one, two = self.kind_of(left), self.kind_of(right)
            if one and two and one != two:
                raise self.fail(node, f"compares a {one} with a {two}, which are never equal")
            self.value(left, right)
            self.value(right, left)
            self.put(_COMPARE[type(operator)])

    def membership(self, node: ast.AST, left: ast.expr, right: ast.expr) -> None:
        match right:
            case ast.Constant(value=str()):
                if self.kind_of(left) != "text":
                    raise self.fail(node, "matches a pattern with what is no text")
                self.value(left, None)
                self.value(right, None)
                self.put("MATCH")
            case ast.Tuple() | ast.List() | ast.Set() if right.elts:
                for i, item in enumerate(right.elts):
                    self.value(left, item)
                    self.value(item, left)
                    self.put("EQ")
                    if i:
                        self.put("OR")
            case _:
                raise self.fail(node, "needs a list of values, or a pattern, on the right of `in`")

    # ---- values ----

    def kind_of(self, node: ast.expr) -> str:
        """Text, number, or nothing if that depends."""
        match node:
            case ast.Name(id=name) if name in self.names:
                kind = self.names[name][1].type
                return "text" if kind in {"string", "binary"} else "number"
            case ast.Name():
                return "number"
            case ast.Constant(value=str()):
                return ""  # may be a time
            case _:
                return "number"

    def value(self, node: ast.expr, other: ast.expr | None) -> None:
        """A column or a constant; what it is compared with says how a text is meant."""
        match node:
            case ast.Name(id=name):
                self.name(node, name)
            case ast.Constant(value=bool() as truth):
                self.put("NUMBER", number=int(truth))
            case ast.Constant(value=int() as number):
                self.number(node, number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                self.number(node, -number)
            case ast.Constant(value=str() as word):
                column = self.column(other)
                if column is not None and column.type not in {"string", "binary"}:
                    self.number(node, self.time(node, word, column))
                else:
                    self.text(word)
            case _:
                raise self.fail(node, "is neither a column nor a whole number nor a text in quotes")

    def column(self, node: ast.expr | None) -> Column | None:
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.names[node.id][1]
        return None

    def name(self, node: ast.expr, name: str) -> None:
        if name in self.names:
            if self.names[name][1].type.startswith("list"):
                raise self.fail(node, "is a list, and cannot be compared")
            self.put("COLUMN", self.names[name][0])
        elif name in self.kinds:
            self.put("NUMBER", number=self.kinds[name])
        else:
            raise self.fail(
                node, f"is no column of {self.table!r}; {closest(name, [*self.names, *self.kinds])}"
            )

    def number(self, node: ast.expr, number: int) -> None:
        if not -(2**63) <= number < 2**63:
            raise self.fail(node, "is larger than any column")
        self.put("NUMBER", number=number)

    def time(self, node: ast.expr, word: str, column: Column) -> int:
        if not (column.name in {"ts", "window"} or column.name.endswith("_ns")):
            raise self.fail(node, f"is a text, and column {column.name!r} holds numbers")
        moment = parse_time(word)
        if moment is None:
            raise self.fail(node, "is no time; write it as 2026-11-18T12:00:00 (UTC)")
        return moment // 1000 if column.type == "timestamp" else moment


def parse_time(word: str) -> int | None:
    """A time of ISO 8601 in nanoseconds since 1970; without a zone it is UTC. None: it is no time."""
    head, dot, rest = word.partition(".")
    digits = ""
    while rest[:1].isdigit():
        digits, rest = digits + rest[0], rest[1:]
    try:
        moment = datetime.fromisoformat(head + rest)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = round(moment.timestamp())
    return seconds * 1_000_000_000 + (int(digits[:9].ljust(9, "0")) if dot and digits else 0)


def compile_where(table: str, source: str) -> tuple[list[Step], bytes]:
    """The steps of a filter and its texts. WhereError if it cannot be."""
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        at = getattr(error, "offset", None)
        where = f", character {at}" if at else ""
        raise WhereError(
            f"filter {source!r}{where}: cannot be read; write it as kind == SDATA and rid == 7"
        ) from None
    compiler = _Compiler(table, source.strip())
    compiler.condition(tree.body)
    if len(compiler.steps) > lib.PYDDSI_WHERE_MAX or len(compiler.texts) > TEXTS_MAX:
        raise WhereError(
            f"filter {source!r} is too long: {len(compiler.steps)} steps, "
            f"and {lib.PYDDSI_WHERE_MAX} are the most; filter coarsely here, and the rest in what reads the rows"
        )
    return compiler.steps, bytes(compiler.texts)
