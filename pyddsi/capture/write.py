"""Captures written: datagrams as a pcap file, or a pcapng file, that every tool reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pyddsi
from pyddsi._native import ffi, lib
from pyddsi.capture._datagram import Endpoint
from pyddsi.errors import CaptureError

__all__ = ["write_datagrams"]

LINK_RAW = 101  # a packet begins with its IP header
ROOM = 65536 + 512


@lru_cache(maxsize=4096)
def _endpoint(end: Endpoint) -> Any:
    address = ip_address(end.address)
    raw = ffi.new("pyddsi_endpoint *")
    raw.ip[0 : len(address.packed)] = list(address.packed)
    raw.port, raw.kind = end.port, address.version
    return raw


def write_datagrams(
    path: str | os.PathLike[str], datagrams: Iterable[tuple[int, Endpoint, Endpoint, bytes]]
) -> int:
    """
    Write (time in nanoseconds, source, destination, data) as a capture: pcapng if the name ends so, else pcap. Returns
    how many. Raises CaptureError.
    """
    kind = 2 if os.fspath(path).endswith(".pcapng") else 1
    out, at = ffi.new("uint8_t[]", ROOM), ffi.new("size_t *")
    name = f"pyddsi {pyddsi.__version__}".encode()
    count = 0
    try:
        with Path(path).open("wb") as file:
            lib.pyddsi_write_header(kind, LINK_RAW, name, out, ROOM, at)
            if kind == 2:
                lib.pyddsi_write_interface(LINK_RAW, out, ROOM, at)
            file.write(ffi.buffer(out, at[0]))
            for time_ns, source, target, data in datagrams:
                at[0] = 0
                ends = _endpoint(source), _endpoint(target)
                status = lib.pyddsi_write_datagram(
                    kind, time_ns, *ends, data, len(data), out, ROOM, at
                )
                if status != lib.PYDDSI_OK:
                    raise CaptureError(
                        f"{os.fspath(path)}: packet {count + 1} cannot be written: {len(data)} bytes at {time_ns} ns"
                    )
                file.write(ffi.buffer(out, at[0]))
                count += 1
    except OSError as error:
        raise CaptureError(f"{os.fspath(path)} cannot be written: {error.strerror}") from error
    return count
