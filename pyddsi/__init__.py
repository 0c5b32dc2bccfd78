"""
pyddsi: publish and subscribe, with a native core, and the Zenoh protocol of zhe on the wire.

This module imports nothing heavy; take what you need:

    pyddsi.wire      bytes to messages and back
    pyddsi.names     names of resources: valid, canonical, matching
    pyddsi.capture   the packets of a capture file
    pyddsi.scapy     layers for scapy (extra: scapy)
"""

from __future__ import annotations

from pyddsi.errors import CaptureError, InvalidNameError, PyddsiError, WireError

__all__ = ["CaptureError", "InvalidNameError", "PyddsiError", "WireError", "__version__"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib import metadata  # noqa: PLC0415 - costs more than all the rest

        try:
            return metadata.version("pyddsi")
        except metadata.PackageNotFoundError:
            return "unknown (used from a source tree, not installed)"
    raise AttributeError(f"module 'pyddsi' has no attribute {name!r}")
