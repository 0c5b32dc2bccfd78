# SPDX-License-Identifier: GPL-2.0-or-later
#
# This package derives from classes of scapy (https://scapy.net), which is under the GPL; nothing else of pyddsi does,
# and nothing else imports it.
"""
Layers for scapy: packets to look at, to craft, and to break.

    >>> from pyddsi.scapy import Conduit, PyddsiPacket, SData
    >>> sample = SData(flags="SR", sn=0, rid=1, payload=b"hi")
    >>> bytes(PyddsiPacket(messages=[Conduit(conduit=2), sample])).hex(" ")
    'b3 67 00 02 02 68 69'

There is a class for each row of the protocol's table, named as in `pyddsi.wire`, with the row's fields in their order;
they are made when this package is imported.

    UDP / PyddsiPacket [ message, message, ... ] / Raw        Raw: from the first byte that begins no message
    TCP / PyddsiStream [ Frame / PyddsiPacket, ... ] / Raw    Raw: a frame that ends in a later segment

Four things differ from `pyddsi.wire`, because they do in scapy:

  - a byte vector or a list is two fields, `uri_size` and `uri`, `samples_count` and `samples`. A size or count is
    computed if nobody sets it; one that is set goes out as it is, right or wrong;
  - the flags stand in `flags` by their letters, "SR", and decide which fields are there. A bit without a meaning is
    called by its digit: "1", "2", "4" or "8". A marker's flags are computed, like sizes, from its number;
  - `payload` is scapy's word for the next layer, so the field of that name is `data`; `payload=` also sets it;
  - every item of a list is a layer, a locator too: `Locator(text="udp/239.255.0.1:7447")`.

Bytes are never lost: what has been dissected is built again as it was, but for what you change. That is not left to
scapy's cache of raw bytes, which does not see a change in a list inside a list: a number that came in more bytes than
it needs remembers how many, and everything else is in the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyddsi.scapy._fields import FaultError
from pyddsi.scapy._layers import LAYERS, Layer
from pyddsi.scapy._mangle import mangle
from pyddsi.scapy._packet import PORT, Frame, PyddsiPacket, PyddsiStream, bind
from pyddsi.scapy._session import PyddsiSession

__all__ = [  # noqa: PLE0604 - the last part is a list of names, too
    "LAYERS",
    "PORT",
    "FaultError",
    "Frame",
    "Layer",
    "PyddsiPacket",
    "PyddsiSession",
    "PyddsiStream",
    "bind",
    "mangle",
    *LAYERS,
]

globals().update(LAYERS)

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[Layer]:
        """For type checkers, which do not see what the table makes."""
        ...
