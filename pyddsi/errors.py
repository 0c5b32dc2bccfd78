"""
Everything that pyddsi raises, besides the builtin `TypeError`, `ValueError` and `TimeoutError`.

    PyddsiError
     ├── WireError       (ValueError)  bytes are no packet, or a message cannot be written
     ├── NameFault       (ValueError)  a text is no resource name
     └── CaptureError                  a file is no capture, or ends too early
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class PyddsiError(Exception):
    """The root: every error pyddsi raises on its own account."""


class WireError(PyddsiError, ValueError):
    """
    Bytes break a rule of the protocol.

    rule: the rule's name, such as "CUT" or "SN_RANGE"
    at: the first byte that is wrong, counted from the start of the packet
    kind: the message that it is in, or None where no message has such a kind
    field: the field of it, or None if the message as a whole is wrong
    zhe: what zhe does with it in a datagram: "accepts", "ignores", "refuses", "drops", "stalls" or "dies"
    zhe_stream: the same in a stream
    messages: what came before it in the packet
    """

    def __init__(
        self,
        message: str,
        *,
        rule: str,
        at: int,
        kind: str | None = None,
        field: str | None = None,
        zhe: str = "accepts",
        zhe_stream: str = "accepts",
        messages: Sequence[Any] = (),
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.at = at
        self.kind = kind
        self.field = field
        self.zhe = zhe
        self.zhe_stream = zhe_stream
        self.messages = list(messages)


class InvalidNameError(PyddsiError, ValueError):
    """
    A text is no resource name.

    rule: the rule that it breaks, such as "NAME_CHARACTER"
    at: the first character that is wrong
    text: the text
    """

    def __init__(self, message: str, *, rule: str, at: int, text: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.at = at
        self.text = text


class CaptureError(PyddsiError):
    """A capture cannot be read, or not to its end; what was whole before that point has been delivered."""
