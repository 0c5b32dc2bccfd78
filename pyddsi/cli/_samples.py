"""How a sample is shown: as text if it is one, else its first bytes; as JSON; or raw."""

from __future__ import annotations

import base64
import time
from typing import Any

from pyddsi import Sample
from pyddsi.cli._show import Paint

__all__ = ["content", "line", "plain", "shown", "text_of"]

SHOWN_MAX = 32
TEXT_MAX = 1000
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\t"}


def text_of(data: bytes) -> str | None:
    """The text that these bytes are, if they are one that can be printed."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    bare = text.translate({ord(mark): None for mark in ESCAPES})
    return text if bare.isprintable() else None


def shown(data: bytes, *, whole: bool = False) -> str:
    """Bytes for a person, in one line. A terminal never sees what would steer it."""
    text = text_of(data)
    if text is None:
        part = data if whole else data[:SHOWN_MAX]
        more = f" ... {len(data)} bytes" if len(part) < len(data) else ""
        return part.hex(" ") + more
    for mark, escape in ESCAPES.items():
        text = text.replace(mark, escape)
    if len(text) > TEXT_MAX and not whole:
        return f"{text[:TEXT_MAX]} ... {len(data)} bytes"
    return text


def line(sample: Sample, paint: Paint, *, whole: bool = False) -> str:
    """A line of the output: when, what, and the bytes."""
    seconds, rest = divmod(sample.time_ns, 1_000_000_000)
    clock = time.strftime("%H:%M:%S", time.localtime(seconds))
    name = shown(str(sample.resource).encode(), whole=True)
    return (
        paint("dim", f"{clock}.{rest // 1000:06d}")
        + f"  {paint('cyan', name)}  {shown(bytes(sample), whole=whole)}"
    )


def content(data: bytes) -> dict[str, str]:
    """Bytes for JSON: the text that they are, else base64."""
    text = text_of(data)
    if text is None:
        return {"base64": base64.b64encode(data).decode("ascii")}
    return {"text": text}


def plain(sample: Sample) -> dict[str, Any]:
    """The same for JSON."""
    return {
        "resource": sample.resource,
        "number": sample.number,
        "time_ns": sample.time_ns,
        "source": sample.source,
        "reliable": sample.reliable,
        "size": sample.size,
        **content(bytes(sample)),
    }
