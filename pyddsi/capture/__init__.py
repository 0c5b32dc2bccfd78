"""
Captures: what went over the wire, as tables, as packets, as datagrams.

    capture = pyddsi.capture.open("run.pcapng")             # one file, several, a folder, or a pattern
    for batch in capture.batches("messages"): ...           # Arrow: pyarrow, polars, DuckDB take it without a copy
    capture.table("flows").to_pandas()                      # needs pyarrow
    for packet in capture.packets(): ...                    # one by one, with messages and what they mean
    for item in read_datagrams("run.pcapng"): ...           # whatever UDP and TCP carried, whosever it is
    with capture.record("eth0", "run.pcapng"): ...          # what goes by (session.record() needs no privilege)

pcap and pcapng, plain or packed by gzip, zstd or lz4. Nothing is held beyond named limits, so memory is flat for a file of any
size; what is read is read by the core, and Python sees whole batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyddsi.capture._capture import Capture, CaptureWarning, open  # noqa: A004 - capture.open(), as gzip.open()
    from pyddsi.capture._datagram import Datagram, Datagrams, Endpoint, Segment, read_datagrams
    from pyddsi.capture._index import Index
    from pyddsi.capture._live import Live
    from pyddsi.capture._packet import Note, Packet
    from pyddsi.capture._record import Recorder, record
    from pyddsi.capture._scan import Batch, Problem
    from pyddsi.capture._table import TABLES, Column, columns
    from pyddsi.capture._where import WhereError
    from pyddsi.capture.info import Info

__all__ = [
    "TABLES",
    "Batch",
    "Capture",
    "CaptureWarning",
    "Column",
    "Datagram",
    "Datagrams",
    "Endpoint",
    "Index",
    "Info",
    "Live",
    "Note",
    "Packet",
    "Problem",
    "Recorder",
    "Segment",
    "WhereError",
    "columns",
    "open",
    "read_datagrams",
    "record",
]

# A session knows endpoints and opens no capture: what is not asked for is not loaded.
_PLACES = {
    "Batch": "_scan",
    "Capture": "_capture",
    "CaptureWarning": "_capture",
    "Column": "_table",
    "Datagram": "_datagram",
    "Datagrams": "_datagram",
    "Endpoint": "_datagram",
    "Index": "_index",
    "Info": "info",
    "Live": "_live",
    "Note": "_packet",
    "Packet": "_packet",
    "Problem": "_scan",
    "Recorder": "_record",
    "Segment": "_datagram",
    "TABLES": "_table",
    "WhereError": "_where",
    "columns": "_table",
    "open": "_capture",
    "read_datagrams": "_datagram",
    "record": "_record",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'pyddsi.capture' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(f"pyddsi.capture.{_PLACES[name]}"), name)
