"""The one line of text that a message is for people: written by the core, so it goes there and back."""

from __future__ import annotations

from pyddsi.wire._decode import lines
from pyddsi.wire._encode import encode
from pyddsi.wire._record import Message


def line(message: Message) -> str:
    """The message as `pyddsi decode` prints it."""
    return lines(encode([message]))[0][1]
