"""How the settings of a session are checked: each kind of value has its check, which says what would be right."""

from __future__ import annotations

from pyddsi._values import closest

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CHECKS",
    "FEATURE_WORDS",
    "GROUP",
    "MIB",
    "ROLES",
    "Place",
    "Setting",
    "address_of",
    "place_of",
]

ROLES = ("peer", "client", "broker")
FEATURE_WORDS = (
    "batch",
    "fragment",
    "pull",
    "migrate",
    "space",
    "forget",
    "incarnation",
    "wide",
    "large",
    "history",
)
GROUP = "239.255.0.1:7447"
MIB = 1 << 20
PEERS_MAX, LISTEN_MAX = 16, 8
PATH_MAX = 107


class Setting:
    """
    What is known of a setting besides its default.

    kind: how it is checked: "whole", "seconds", "yes", "word", "address", "peers", "places", "text", "id", "words"
    text: what it is
    unit, least, most: of a number
    power: whether it is a power of two
    """

    __slots__ = ("kind", "least", "most", "power", "text", "unit")

    def __init__(
        self,
        kind: str,
        text: str,
        unit: str = "",
        least: float = 0,
        most: float = 0,
        *,
        power: bool = False,
    ) -> None:
        self.kind, self.text, self.unit = kind, text, unit
        self.least, self.most, self.power = least, most, power


def _number(name: str, setting: Setting, value: Any) -> None:
    if not setting.least <= value <= setting.most:
        unit = f" {setting.unit}" if setting.unit else ""
        raise ValueError(
            f"{name} is from {setting.least:g} to {setting.most:.12g}{unit}, not {value}"
        )


def _whole(name: str, setting: Setting, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    _number(name, setting, value)
    if setting.power and value & (value - 1):
        raise ValueError(
            f"{name} is a power of two, such as {1 << (value.bit_length() - 1)} or "
            f"{1 << value.bit_length()}, not {value}"
        )
    return value


def _seconds(name: str, setting: Setting, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {value!r}")
    _number(name, setting, value)  # not a number is within no limits
    return float(value)


def _yes(name: str, _setting: Setting, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return value


def _word(name: str, _setting: Setting, value: Any) -> str:
    if not isinstance(value, str) or value not in ROLES:
        raise ValueError(f"{name} is one of {', '.join(map(repr, ROLES))}, not {value!r}")
    return value


def _text(name: str, _setting: Setting, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {value!r}")
    if len(value.encode()) > 47 or "\0" in value:
        raise ValueError(f"{name} has at most 47 bytes and no zero, unlike {value!r}")
    return value


def packed_of(host: str) -> bytes:
    """An IP address as it goes on the wire. ValueError if it is none."""
    parts = host.split(".")
    if len(parts) == 4 and all(
        part.isascii() and part.isdigit() and len(part) < 4 for part in parts
    ):
        return bytes(map(int, parts))  # ValueError above 255
    from ipaddress import IPv6Address  # noqa: PLC0415 - the usual addresses need it not

    return IPv6Address(host).packed


def address_of(text: str, port_least: int = 1) -> tuple[bytes, int]:
    """The parts of "10.0.0.9:7447" or "[fe80::1]:7447". ValueError that ends a sentence."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        packed = packed_of(host[1:-1] if bracketed else host)
    except ValueError:
        packed = b""
    fine = len(packed) == (16 if bracketed else 4) and port.isascii() and port.isdigit()
    if not fine or not port_least <= int(port) < 65536:
        raise ValueError(
            f"an IP address and a port, such as 10.0.0.9:7447 or [fe80::1]:7447, not {text!r}"
        )
    return packed, int(port)


def _address(name: str, _setting: Setting, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is an address, such as {GROUP!r}, not {value!r}")
    if not value:
        return value
    try:
        packed, _ = address_of(value)
    except ValueError as error:
        raise ValueError(f"{name} is {error}") from None
    if not (packed[0] == 0xFF if len(packed) == 16 else 224 <= packed[0] < 240):
        raise ValueError(
            f"{name} is a multicast address (224.0.0.0 to 239.255.255.255, or ff00::/8), not {value!r}; name single "
            f"machines in peers"
        )
    return value


class Place:
    """
    Where a peer is, or where we are.

    kind: "udp", "tcp" or "unix"
    packed: the IP address, or the path; empty for a host that is known by its name alone
    host: that name; else empty
    """

    __slots__ = ("host", "kind", "packed", "port")

    def __init__(self, kind: str, packed: bytes, port: int, host: str = "") -> None:
        self.kind, self.packed, self.port, self.host = kind, packed, port, host

    @property
    def any(self) -> bool:
        """Whether it is every address of this machine."""
        return not any(self.packed) and not self.host


def host_of(text: str, port_least: int) -> tuple[str, int] | None:
    """The parts of "broker.plant:7447", where that is a host's name and a port, and no address."""
    host, _, port = text.rpartition(":")
    labels = host.removesuffix(".").split(".")
    fine = (
        len(host) < 254
        and host.isascii()
        and all(
            0 < len(one) < 64 and one.replace("-", "").replace("_", "").isalnum() for one in labels
        )
        and not labels[-1].isdigit()  # that is an address, and a wrong one
        and port.isascii()
        and port.isdigit()
        and port_least <= int(port) < 65536
    )
    return (host, int(port)) if fine else None


def place_of(text: str, *, port_least: int = 1, names: bool = False) -> Place:
    """
    The parts of "10.0.0.9:7447", "tcp/[fe80::1]:7447" or "unix//run/x.sock"; with names, of "tcp/broker:7447" as well.

    ValueError that ends a sentence.
    """
    kind, slash, rest = text.partition("/")
    if not slash:
        kind, rest = "udp", text
    if kind == "unix":
        path = rest.encode()
        if (
            not rest.startswith(("/", "@"))
            or len(rest) < 2
            or len(path) > PATH_MAX
            or b"\0" in path
        ):
            raise ValueError(
                f"unix/ and a path from the root of at most {PATH_MAX} bytes, such as unix//run/robot.sock, or an abstract "
                f"name, such as unix/@robot, not {text!r}"
            )
        return Place(kind, path, 0)
    if kind not in {"udp", "tcp"}:
        raise ValueError(
            f"an IP address and a port, such as 10.0.0.9:7447, tcp/10.0.0.9:7447, or unix//run/robot.sock, not {text!r}"
        )
    found = host_of(rest, port_least) if names else None
    if found is not None:
        return Place(kind, b"", found[1], found[0])
    try:
        return Place(kind, *address_of(rest, port_least))
    except ValueError as error:
        if not names:
            raise
        text = str(error).replace(
            "an IP address and a port", "an IP address or a host's name, and a port"
        )
        raise ValueError(text) from None


def _list(name: str, value: Any, most: int, example: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} is a list of addresses, such as [{example!r}], not {value!r}")
    if len(value) > most:
        raise ValueError(f"{name} has at most {most} addresses, not {len(value)}")
    for one in value:
        if not isinstance(one, str):
            raise TypeError(f"each of {name} is an address, such as {example!r}, not {one!r}")
    return tuple(value)


def _peers(name: str, _setting: Setting, value: Any) -> tuple[str, ...]:
    found = _list(name, value, PEERS_MAX, "10.0.0.9:7447")
    for one in found:
        try:
            place = place_of(one, names=True)
        except ValueError as error:
            raise ValueError(f"each of {name} is {error}") from None
        if place.any:
            raise ValueError(
                f"each of {name} is the address of one machine, not {one!r}; to be found there, name it in listen"
            )
    return found


def _places(name: str, _setting: Setting, value: Any) -> tuple[str, ...]:
    found = _list(name, value, LISTEN_MAX, "tcp/0.0.0.0:7447")
    udp = 0
    for one in found:
        try:
            place = place_of(one, port_least=0)
        except ValueError as error:
            raise ValueError(f"each of {name} is {error}") from None
        udp += place.kind == "udp"
        if place.kind == "udp" and not place.any:
            raise ValueError(
                f"{name} has udp/0.0.0.0:{place.port or 7450} for our own UDP port, not {one!r}; choose the address by "
                f"interface={one.removeprefix('udp/').rpartition(':')[0].strip('[]')!r}"
            )
        if udp > 1:
            raise ValueError(f"{name} has one UDP address at most, as all is sent from it")
    return found


def _id(name: str, _setting: Setting, value: Any) -> bytes:
    if isinstance(value, str):
        try:
            value = bytes.fromhex(value)
        except ValueError:
            raise ValueError(f"{name} as a text has hexadecimal digits, unlike {value!r}") from None
    if not isinstance(value, bytes):
        raise TypeError(f"{name} is bytes, or a text of hexadecimal digits, not {value!r}")
    if len(value) > 16:
        raise ValueError(f"{name} has 1 to 16 bytes, not {len(value)}")
    return value


def _words(name: str, _setting: Setting, value: Any) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, (list, tuple, set, frozenset)):
        raise TypeError(f"{name} is a set of words, such as {{'batch'}}, not {value!r}")
    for one in value:
        if one not in FEATURE_WORDS:
            raise ValueError(f"{name} cannot have {one!r}; {closest(str(one), FEATURE_WORDS)}")
    return frozenset(value)


CHECKS = {
    "whole": _whole,
    "seconds": _seconds,
    "yes": _yes,
    "word": _word,
    "text": _text,
    "address": _address,
    "peers": _peers,
    "places": _places,
    "id": _id,
    "words": _words,
}
