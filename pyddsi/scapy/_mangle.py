# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets that are broken on purpose, again and again in the same way."""

from __future__ import annotations

import random

from scapy.fields import ConditionalField
from scapy.packet import Packet

from pyddsi.scapy._fields import Size


def _sizes(packet: Packet) -> list[tuple[Packet, str]]:
    """Every size and count in a packet: the layer that it is in, and its name."""
    found = []
    layers = [packet]
    for layer in layers:  # grows under way
        for field in layer.fields_desc:
            value = layer.getfieldval(field.name)
            if isinstance(value, list):
                layers += [item for item in value if isinstance(item, Packet)]
            there = not isinstance(field, ConditionalField) or field.cond(layer)
            if there and isinstance(getattr(field, "fld", field), Size):
                found.append((layer, field.name))
        if layer.payload:
            layers.append(layer.payload)
    return found


def _wrong_size(packet: Packet, choice: random.Random) -> bytes:
    broken = packet.copy()
    layer, name = choice.choice(_sizes(broken))
    right = getattr(layer, name)
    wrong = {right - 1, right + 1, right + 128, 0, 1, 0x7F, 0x80, 0xFFFF, 0x10000, 1 << 63}
    layer.setfieldval(name, choice.choice(sorted(wrong - {right, -1})))
    return bytes(broken)


def _wrong_byte(data: bytearray, choice: random.Random) -> bytes:
    at = choice.randrange(len(data) + 1)
    match choice.randrange(4) if at < len(data) else 0:
        case 0:
            data.insert(at, choice.randrange(256))
        case 1:
            del data[at]
        case 2:
            del data[at:]
        case _:
            data[at] ^= 1 << choice.randrange(8)
    return bytes(data)


def mangle(packet: Packet, seed: int) -> Packet:
    """
    Break a packet: a size or a count is wrong, a byte is wrong, missing or too many, or the end is cut off.

    packet: a PyddsiPacket or PyddsiStream; it stays as it is
    seed: the same one breaks the same packet in the same way

    Returns a packet of that class, dissected from the broken bytes.
    """
    choice = random.Random(seed)  # noqa: S311 - no secret
    if _sizes(packet) and choice.random() < 0.5:
        return type(packet)(_wrong_size(packet, choice))
    return type(packet)(_wrong_byte(bytearray(bytes(packet)), choice))
