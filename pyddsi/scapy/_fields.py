# SPDX-License-Identifier: GPL-2.0-or-later
"""
How fields stand on the wire, as fields of scapy: one class for each way.

    Number ── Byte · Id · Size · Marker      Vector ── Text      MarkerFlags      Kind      Items

What is computed is None inside (sizes, counts, a marker's flags), and is shown and read as what it is. Where bytes are
no such field, `FaultError` is raised, and the list that wanted a message there ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from scapy.fields import BitEnumField, Field, FlagsField, PacketListField
from scapy.packet import Packet
from scapy.volatile import RandBin, RandChoice, RandNum

from pyddsi._native import Field as Row
from pyddsi.wire import SelectionId

SIZE_BITS = 16  # of sizes and counts
ITEMS_MAX = 65536  # in a list without a count: no datagram or segment has room for more messages


class FaultError(ValueError):
    """The bytes are not what should stand there."""


class LongForm(int):
    """A number that came in more bytes than it needs, and goes out in as many."""

    size = 0


class RandBits(RandNum):
    """Random numbers of every length alike. Evenly drawn ones would nearly all be long."""

    def _fix(self) -> int:
        return random.getrandbits(random.randint(0, self.max.bit_length()))  # noqa: S311 - no secret


def write_number(value: int) -> bytes:
    """A VLE number, in its shortest form unless it is a `LongForm`."""
    if value < 0:
        raise ValueError(f"a number on the wire is not negative, and {value} is")
    size = value.size if isinstance(value, LongForm) else 1
    groups = bytearray()
    while value > 0x7F or len(groups) + 1 < size:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(groups) + bytes([value])


def read_number(data: bytes, bits: int) -> tuple[bytes, int]:
    """What follows a VLE number of so many bits, and the number."""
    value = 0
    for at, byte in enumerate(data[: (bits + 6) // 7]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            if value >> bits:
                raise FaultError(f"{value} has more than {bits} bits")
            if byte == 0 and at > 0:
                value = LongForm(value)
                value.size = at + 1
            return data[at + 1 :], value
    raise FaultError("a number does not end")


class Number(Field[Any, Any]):
    """A VLE number, which may have names for its values, or for its bits."""

    __slots__ = ["bits", "is_mask", "names"]

    def __init__(self, name: str, default: Any, bits: int, row: Row | None = None) -> None:
        self.bits = bits
        self.names = row.values if row else {}
        self.is_mask = row is not None and row.bits
        super().__init__(name, default)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """From what a person writes; of a list of values scapy makes as many packets."""
        return [self.h2i(pkt, one) for one in x] if isinstance(x, list) else self.h2i(pkt, x)

    def h2i(self, _pkt: Packet | None, x: Any) -> Any:
        """From a number, or from names: "pull", "broker+peer"."""
        if not isinstance(x, str):
            return x
        numbers = {name: number for number, name in self.names.items()}
        if unknown := set(x.split("+")) - set(numbers):
            raise ValueError(
                f"{self.name} has no {unknown.pop()!r}, only {', '.join(numbers) or 'numbers'}"
            )
        return sum(numbers[name] for name in x.split("+"))

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """The names, and as a number what has none."""
        value = self.i2h(pkt, x)
        if not isinstance(value, int):
            return repr(value)
        if not self.is_mask:
            return self.names.get(value, str(value))
        known = [name for bit, name in self.names.items() if value & bit]
        rest = value & ~sum(self.names)
        if rest or not known:
            known.append(str(rest))
        return "+".join(known)

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """Write it behind s."""
        return s + write_number(self.i2m(pkt, val))

    def getfield(self, _pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        """Read it off s."""
        return read_number(s, self.bits)

    def randval(self) -> Any:
        """Any number that fits."""
        return RandBits(0, (1 << self.bits) - 1)


class Byte(Number):
    """A number in one byte. What stands behind a mode without a name is unknown, so such a mode cannot be read."""

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """Write it behind s."""
        return s + bytes([self.i2m(pkt, val)])

    def getfield(self, _pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        """Read it off s."""
        if not s or (self.name == "mode" and s[0] not in self.names):
            raise FaultError(f"there is no {self.name}, or none like that")
        return s[1:], s[0]

    def randval(self) -> Any:
        """Any byte, or any mode."""
        return RandChoice(*self.names) if self.name == "mode" else super().randval()


class Id(Number):
    """An id, a `SelectionId` if it is a selection's. Inside it is the number on the wire, which tells the two apart."""

    __slots__ = ["is_selection"]

    def __init__(self, name: str, default: Any, bits: int, row: Row) -> None:
        self.is_selection = row.type == "SID"
        super().__init__(name, default, bits)

    def h2i(self, _pkt: Packet | None, x: Any) -> Any:
        """From 3, SelectionId(3) or "s3"; where only a selection can stand a plain 3 is one."""
        if x is None:
            return None
        if isinstance(x, str):
            x = SelectionId(x[1:]) if x.startswith("s") else int(x)
        return x * 2 + (self.is_selection or isinstance(x, SelectionId))

    def i2h(self, _pkt: Packet | None, x: Any) -> Any:
        """The id."""
        if not isinstance(x, int):
            return x
        return SelectionId(x >> 1) if x & 1 else x >> 1

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """3, or s3."""
        return str(self.i2h(pkt, x)) if isinstance(x, int) else repr(x)


class Size(Number):
    """The size of a vector or the count of a list: computed, unless somebody sets it or it came in a long form."""

    __slots__ = ["measure"]

    def __init__(self, name: str, bits: int, measure: Callable[[Packet], int]) -> None:
        self.measure = measure
        super().__init__(name, None, bits)

    def i2h(self, pkt: Packet | None, x: Any) -> Any:
        """The size, computed where it is needed."""
        return self.measure(pkt) if x is None and pkt is not None else x

    def i2m(self, pkt: Packet | None, x: Any) -> Any:
        """The size, computed where it is needed."""
        return self.i2h(pkt, x)


def take_size(pkt: Packet, name: str) -> int:
    """A size that has just been read. From here on it is computed, if that gives the bytes that it came in."""
    size: int = pkt.fields[name]
    if not isinstance(size, LongForm):
        pkt.fields[name] = None
    return size


class Vector(Field[Any, Any]):
    """A byte vector, behind its size."""

    __slots__ = ["sizes"]

    def __init__(self, name: str, default: bytes, row: Row) -> None:
        self.sizes = (1, 16) if row.type == "PEER_ID" else (0, 64)  # random ones
        super().__init__(name, default)

    def h2i(self, _pkt: Packet | None, x: Any) -> Any:
        """From anything that holds bytes, or text."""
        if isinstance(x, str):
            return x.encode("utf-8", "surrogateescape")
        return bytes(x) if isinstance(x, (bytearray, memoryview)) else x

    def addfield(self, _pkt: Packet, s: bytes, val: Any) -> bytes:
        """Write it behind s."""
        return s + bytes(val)

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        """Read it off s."""
        size = take_size(pkt, f"{self.name}_size")
        if size > len(s):
            raise FaultError(f"{self.name} runs past the end")
        return s[size:], s[:size]

    def randval(self) -> Any:
        """Any bytes."""
        return RandBin(RandNum(*self.sizes))


class Text(Vector):
    """A byte vector that holds text."""

    def i2h(self, _pkt: Packet | None, x: Any) -> Any:
        """The text; what is no text in it can still be written again."""
        return x.decode("utf-8", "surrogateescape") if isinstance(x, bytes) else x

    def randval(self) -> Any:
        """Something like a name."""
        return RandBin(RandNum(*self.sizes), b"/abc019-_?*")


def short_form(value: Any) -> int:
    """The flags of the marker of this number: for 1 to 4 the number, less one, and Z; else the number stands behind."""
    return 4 | value - 1 if isinstance(value, int) and 1 <= value <= 4 else 0


class Marker(Number):
    """A marker's number, which is in the flags if Z is among them."""

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """Write it behind s, if it is not in the flags."""
        return s if int(pkt.flags) & 4 else super().addfield(pkt, s, val)

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        """Read it off the flags or s; flags that would be computed like that need not be kept."""
        flags = int(pkt.fields["flags"])
        s, value = (s, (flags & 3) + 1) if flags & 4 else super().getfield(pkt, s)
        if flags == short_form(value):
            pkt.fields["flags"] = None
        return s, value


class MarkerFlags(FlagsField):
    """A marker's flags: computed, unless somebody sets them or they came otherwise."""

    def i2h(self, pkt: Packet | None, x: Any) -> Any:
        """The flags, computed where they are needed from the number, which is the last field."""
        if x is None and pkt is not None:
            x = short_form(pkt.getfieldval(pkt.fields_desc[-1].name))
        return super().i2h(pkt, x)

    def i2m(self, pkt: Packet | None, x: Any) -> Any:
        """The flags, computed where they are needed."""
        return self.i2h(pkt, x)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Their letters."""
        return super().i2repr(pkt, self.i2h(pkt, x))


class Kind(BitEnumField):
    """The kind in a header byte. It can be set to a wrong one, but not by fuzz()."""

    def randval(self) -> Any:
        """None: fuzz() leaves it alone."""


class Items(PacketListField):
    """
    Layers one behind the other, each of the class that `choose` picks by the bytes at hand; None is no class.

    Behind a count there are so many, and without one the list ends where no item begins.
    """

    __slots__ = ["choose", "counted"]

    def __init__(
        self, name: str, choose: Callable[[bytes], type[Packet] | None], *, counted: bool
    ) -> None:
        super().__init__(name, [], Packet)
        self.choose = choose
        self.counted = counted

    def _take(self, pkt: Packet, s: bytes) -> tuple[bytes, Packet]:
        cls = self.choose(s) if s else None
        if cls is None:
            raise FaultError(f"nothing that can be in {self.name} begins here")
        item = cls(_internal=1, _parent=pkt)
        return item.do_dissect(s), item

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        """Read the items off s."""
        items: list[Packet] = []
        if self.counted:
            for _ in range(take_size(pkt, f"{self.name}_count")):
                s, item = self._take(pkt, s)
                items.append(item)
            return s, items
        try:
            while s and len(items) < ITEMS_MAX:
                s, item = self._take(pkt, s)
                items.append(item)
        except FaultError:
            pass
        return s, items

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """Write the items behind s. What a sample looks like is for the message to say that it is in."""
        for item in val:
            if isinstance(item, Packet):
                item.add_parent(pkt)
            s += bytes(item)
        return s

    def randval(self) -> Any:
        """None: fuzz() leaves a list as long as it is."""
