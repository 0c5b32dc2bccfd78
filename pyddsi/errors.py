"""
Everything that pyddsi raises, besides the builtin `TypeError`, `ValueError` and `TimeoutError`.

    PyddsiError
     ├── WireError        (ValueError) bytes are no packet, or a message cannot be written
     ├── InvalidNameError (ValueError) a text is no resource name
     ├── CaptureError                  a file is no capture, or ends too early
     ├── ReplayError                   a capture cannot be replayed as it is asked for
     ├── ConfigError      (ValueError) a setting cannot be
     ├── OpenError                     the system does not give a session what it needs: a port, an interface, a route
     ├── ClosedError                   what is asked to do something is closed, or has crashed
     └── DeclarationError              a resource, publisher or subscriber was not accepted
          ├── ConflictError            because it contradicts what somebody else declared
          └── RejectedError            because the publisher is for one subscriber, and has one
"""

from __future__ import annotations

TYPE_CHECKING = (
    False  # to import typing would cost every program more than the rest of `import pyddsi`
)
if TYPE_CHECKING:
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


class ReplayError(PyddsiError):
    """A capture cannot be replayed as it is asked for: nothing in it fits, or there is no way to where it is to go."""


class ConfigError(PyddsiError, ValueError):
    """
    A setting cannot be.

    setting: its name
    """

    def __init__(self, message: str, *, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


class OpenError(PyddsiError):
    """The system does not give a session what it needs; the text says what, and what to do about it."""


class ClosedError(PyddsiError):
    """What is asked to do something is closed, or was lost with the crash of its node; make it again."""


class DeclarationError(PyddsiError):
    """
    A declaration was not accepted, here or by a peer.

    status: why, as a result on the wire would say it: "no_space", "conflict", "too_large", "try_again", "invalid",
    "unsupported", "other", or "rejected"
    """

    def __init__(self, message: str, *, status: str) -> None:
        super().__init__(message)
        self.status = status


class ConflictError(DeclarationError):
    """
    Two declarations contradict each other: one number for two names, or one name with two kinds of service.

    number: of the resource or selection, not doubled
    names: what it is called, here and elsewhere, as far as that is known
    """

    def __init__(self, message: str, *, number: int, names: Sequence[str] = ()) -> None:
        super().__init__(message, status="conflict")
        self.number = number
        self.names = tuple(names)


class RejectedError(DeclarationError):
    """The publisher is for one subscriber alone, and has one."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status="rejected")
