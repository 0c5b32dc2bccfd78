"""
The wire protocol: bytes to messages, messages to bytes.

    >>> from pyddsi import wire
    >>> wire.decode(bytes.fromhex("670002023132"))
    [SData(sn=0, rid=1, payload=b'12', sync=True, reliable=True)]
    >>> wire.encode([wire.Conduit(2), wire.Synch(0)]).hex(" ")
    'b3 0e 00'

`decode` and `encode` treat a packet as the list of its messages; markers are messages of their own. `Stream` and
`frame` are for connections that carry packets in a stream of bytes, `columns` for many packets at once. `Reading`
chooses how much is taken: TOLERANT, STRICT, or what the reference peer takes, ZHE.
"""

from __future__ import annotations

from pyddsi.errors import WireError
from pyddsi.wire._columns import Columns, Fault, columns
from pyddsi.wire._decode import decode, lines
from pyddsi.wire._encode import encode
from pyddsi.wire._reading import STRICT, TOLERANT, ZHE, Reading
from pyddsi.wire._record import Buffer, Declaration, Message, Record, SelectionId
from pyddsi.wire._stream import Stream, frame
from pyddsi.wire.messages import *  # noqa: F403 - the classes of the messages, listed there
from pyddsi.wire.messages import __all__ as _messages

__all__ = [  # noqa: PLE0604 - the second part is a list of names, too
    "STRICT",
    "TOLERANT",
    "ZHE",
    "Buffer",
    "Columns",
    "Declaration",
    "Fault",
    "Message",
    "Reading",
    "Record",
    "SelectionId",
    "Stream",
    "WireError",
    "columns",
    "decode",
    "encode",
    "frame",
    "lines",
    *_messages,
]
