"""The page of a capture's tables, from the list in csrc/capture/table.c. tools/generate.py writes it."""

from __future__ import annotations

from pyddsi.capture import TABLES, columns

HEAD = """\
# The tables of a capture

Made by `tools/generate.py` from the list in `csrc/capture/table.c`. [The guide](../guide/captures.md) shows how to read them;
[inside/capture.md](../inside/capture.md) says how numbers, gaps, repeats and times are found.

All numbers are integers. An id of an endpoint, a flow or a session is a number made of what it names, so that files, ranges and
machines agree on it; read it as a name and not as a size. Columns marked *dear* are texts and payloads, and are left out
unless they are asked for. A large file is read in ranges, side by side: rows of *flows*, *rates* and *endpoints* stand
for one range each and are added up (`pyddsi.spark` does so), all others stand for themselves.

In filters, kinds of messages may be written as words (`kind == SDATA`).
"""

TEXTS = {
    "packets": "Every frame of the file, whosever it is.",
    "messages": "Every message of the protocol. Markers are no rows: what they say is in columns. A packet that breaks a rule has its "
    "messages before that, and one row with `decode` set for the one that cannot be read.",
    "events": "What is worth a look, and only that: the table for dashboards.",
    "flows": "What each counter adds up to: a sender, a conduit, reliable or not, one receiver or the groups.",
    "sessions": "What two endpoints agreed on. A row comes when the capture, or the session's place in memory, ends.",
    "rates": "Data by window of time, flow, resource and kind.",
    "resources": "Which number means which name, in whose mouth, and when.",
    "declarations": "Every declaration, and the commits and results of transactions, which share a number with them.",
    "endpoints": "Who was heard or spoken to.",
}


def render() -> str:
    """The page."""
    parts = [HEAD]
    for table in TABLES:
        parts.append(
            f"\n## {table}\n\n{TEXTS[table]}\n\n| column | type | what it is |\n|---|---|---|\n"
        )
        for column in columns(table):
            kind = (
                column.type + ("?" if column.nullable else "") + (", dear" if column.dear else "")
            )
            parts.append(f"| `{column.name}` | {kind} | {column.text} |\n")
    return "".join(parts)
