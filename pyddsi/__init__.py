"""
pyddsi: publish and subscribe, with a native core, and the Zenoh protocol of zhe on the wire.

    import pyddsi

    with pyddsi.open() as session:
        sub = session.subscriber("plant/robot/*/pose")
        pub = session.publisher("plant/robot/7/pose")     # the same in another process, or on another machine
        pub.put(b"hello")
        sample = sub.recv(timeout=10.0)
        print(sample.resource, bytes(sample))

This module imports nothing heavy; what it names is loaded when it is first used. Besides:

    pyddsi.testing   a network in memory, in virtual time, that fails as it is told to
    pyddsi.wire      bytes to messages and back
    pyddsi.names     names of resources: valid, canonical, matching
    pyddsi.capture   the packets of a capture file; pyddsi.capture.replay sends them again
    pyddsi.scapy     layers for scapy (extra: scapy)
"""

from __future__ import annotations

from pyddsi.errors import (
    CaptureError,
    ClosedError,
    ConfigError,
    ConflictError,
    DeclarationError,
    InvalidNameError,
    OpenError,
    PyddsiError,
    RejectedError,
    ReplayError,
    WireError,
)

TYPE_CHECKING = (
    False  # typing's own takes longer to import than all the rest; checkers know the name
)
if TYPE_CHECKING:
    from pyddsi._declared import Resource, Selection
    from pyddsi._known import Known
    from pyddsi._looks import Drop, Event, Peer, Stats, Window
    from pyddsi._native import Loan, Sample
    from pyddsi._refusals import Refusal
    from pyddsi._words import (
        DropPlace,
        DropReason,
        EndReason,
        EventKind,
        KnownKind,
        Mode,
        PeerState,
        Role,
        Settings,
        Status,
    )
    from pyddsi.capture import Endpoint
    from pyddsi.config import Config
    from pyddsi.metrics import Metrics
    from pyddsi.publisher import Publisher
    from pyddsi.session import Session, open  # noqa: A004 - as in pyddsi.open, where it shadows nothing
    from pyddsi.subscriber import Subscriber

__all__ = [
    "CaptureError",
    "ClosedError",
    "Config",
    "ConfigError",
    "ConflictError",
    "DeclarationError",
    "Drop",
    "DropPlace",
    "DropReason",
    "EndReason",
    "Endpoint",
    "Event",
    "EventKind",
    "InvalidNameError",
    "Known",
    "KnownKind",
    "Loan",
    "Metrics",
    "Mode",
    "OpenError",
    "Peer",
    "PeerState",
    "Publisher",
    "PyddsiError",
    "Refusal",
    "RejectedError",
    "ReplayError",
    "Resource",
    "Role",
    "Sample",
    "Selection",
    "Session",
    "Settings",
    "Stats",
    "Status",
    "Subscriber",
    "Window",
    "WireError",
    "__version__",
    "open",
]

_LAZY = {
    "Config": "config",
    "Drop": "_looks",
    "DropPlace": "_words",
    "DropReason": "_words",
    "EndReason": "_words",
    "Endpoint": "capture",
    "Event": "_looks",
    "EventKind": "_words",
    "Known": "_known",
    "KnownKind": "_words",
    "Loan": "_native",
    "Metrics": "metrics",
    "Mode": "_words",
    "Peer": "_looks",
    "PeerState": "_words",
    "Publisher": "publisher",
    "Refusal": "_refusals",
    "Resource": "_declared",
    "Role": "_words",
    "Sample": "_native",
    "Selection": "_declared",
    "Session": "session",
    "Settings": "_words",
    "Stats": "_looks",
    "Status": "_words",
    "Subscriber": "subscriber",
    "Window": "_looks",
    "open": "session",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        module = __import__(f"pyddsi.{_LAZY[name]}", fromlist=[name])
        found: object = getattr(module, name)
        globals()[name] = found
        return found
    if name == "__version__":
        from importlib import metadata  # noqa: PLC0415 - costs more than all the rest

        try:
            return metadata.version("pyddsi")
        except metadata.PackageNotFoundError:
            return "unknown (used from a source tree, not installed)"
    raise AttributeError(f"module 'pyddsi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
