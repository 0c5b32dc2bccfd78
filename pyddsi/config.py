"""
The settings of a session: `Config`, and where they come from.

    defaults ◄── file (Config.load, or PYDDSI_CONFIG) ◄── environment (PYDDSI_LEASE=2) ◄── open(lease=2)

What stands further to the right wins. `pyddsi.open(config)` takes the config as it is, without file and environment.

    [pyddsi]                        # a TOML file; the heading may be left out
    group = "239.255.0.7:7447"
    interface = "eth0"
    peers = ["10.0.0.9:7447", "tcp/10.0.0.8:7447"]

SETTINGS says of each setting its unit, its limits and what it is; docs/reference/config.md is made from it.
"""

from __future__ import annotations

import os

from pyddsi._checks import CHECKS, FEATURE_WORDS, GROUP, MIB, Setting
from pyddsi._plain import plain
from pyddsi._values import closest
from pyddsi.errors import ConfigError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self, Unpack

    from pyddsi._words import Role, Settings

__all__ = ["SETTINGS", "Config", "Setting"]

PREFIX = "PYDDSI_"
FILE = "PYDDSI_CONFIG"
YES = {"1": True, "true": True, "yes": True, "on": True}
NO = {"0": False, "false": False, "no": False, "off": False}


SETTINGS: dict[str, Setting] = {
    "group": Setting(
        "address", "the multicast group in which peers find each other; empty: no multicast"
    ),
    "peers": Setting(
        "peers",
        "who is asked directly, besides the group; 16 at most: 10.0.0.9:7447 for UDP, tcp/broker:7447, unix//run/x.sock; a name "
        "is resolved until it is reached",
    ),
    "listen": Setting(
        "places",
        "where we can be reached, besides the group; 8 at most: udp/0.0.0.0:7450 is our own port (else any that is free), "
        "tcp/0.0.0.0:7447, unix//run/x.sock",
    ),
    "interface": Setting(
        "text",
        "by which alone the group is reached: a name (eth0) or an address of it; empty: all that can",
    ),
    "ttl": Setting("whole", "how many networks a packet to the group may cross", "", 0, 255),
    "loopback": Setting("yes", "whether sessions on this machine hear each other by the group"),
    "shared_memory": Setting("yes", "whether samples for peers on this machine go through memory"),
    "role": Setting("word", "peer, client or broker; a broker answers clients, and relays nothing"),
    "id": Setting("id", "what we are called on the wire: 1 to 16 bytes; empty: made up"),
    "features": Setting("words", "what we do beyond the basic protocol; none: we speak as zhe"),
    "lease": Setting(
        "seconds",
        "how long others may hear nothing of us until they give us up; 0: ever",
        "s",
        0,
        4_000_000,
    ),
    "scout": Setting("seconds", "how often we look for peers", "s", 0.001, 4_000_000),
    "latency": Setting(
        "seconds", "how long a sample may wait for others to share its packet", "s", 0, 1000
    ),
    "slow": Setting(
        "seconds",
        "how long one slow reader may hold up others that share its window",
        "s",
        0.001,
        4_000_000,
    ),
    "packet_max": Setting(
        "whole",
        "the largest packet that we send, but for pieces of large samples",
        "bytes",
        1280,
        65507,
    ),
    "sequence_bits": Setting(
        "whole",
        "the length of sequence numbers towards a zhe that does not tell its own",
        "",
        7,
        56,
    ),
    "window_bytes": Setting(
        "whole",
        "of samples sent and not yet acknowledged, for the group and for each peer",
        "bytes",
        4096,
        64 * MIB,
    ),
    "window_samples": Setting("whole", "the same in samples", "", 2, 65536),
    "shared_bytes": Setting(
        "whole",
        "the shared window of one publisher at most: it grows with its samples; a power of two",
        "bytes",
        4096,
        1024 * MIB,
        power=True,
    ),
    "shared_samples": Setting(
        "whole", "the same in samples; a power of two", "", 2, 1 << 24, power=True
    ),
    "sample_max": Setting("whole", "the largest sample that we take", "bytes", 1, 1024 * MIB),
    "packets_max": Setting(
        "whole", "packets received and not yet read; a power of two", "", 16, 1 << 20, power=True
    ),
    "peers_max": Setting("whole", "peers at one time", "", 1, 1024),
    "resources_max": Setting("whole", "names that we and our peers declare", "", 1, 1 << 20),
    "receive_buffer": Setting("whole", "of a socket; 0: the system's", "bytes", 0, 1024 * MIB),
    "receive_threads": Setting(
        "whole", "without effect since a session has one receive thread; to be refused", "", 1, 8
    ),
}


@plain
class Config:
    """The settings of a session, a frozen dataclass. See SETTINGS for each."""

    group: str = GROUP
    peers: tuple[str, ...] = ()
    listen: tuple[str, ...] = ()
    interface: str = ""
    ttl: int = 1
    loopback: bool = True
    shared_memory: bool = True
    role: Role = "peer"
    id: bytes = b""
    features: frozenset[str] = frozenset(FEATURE_WORDS)
    lease: float = 10.0
    scout: float = 3.0
    latency: float = 0.0005
    slow: float = 1.0
    packet_max: int = 1472
    sequence_bits: int = 14
    window_bytes: int = 256 * 1024
    window_samples: int = 1024
    shared_bytes: int = 64 * MIB
    shared_samples: int = 8192
    sample_max: int = 64 * MIB
    packets_max: int = 1024
    peers_max: int = 256
    resources_max: int = 1024
    receive_buffer: int = 2 * MIB
    receive_threads: int = 1

    def __post_init__(self) -> None:
        for name in SETTINGS:
            value = getattr(self, name)
            if value is not DEFAULTS[name]:
                object.__setattr__(self, name, checked(name, value))
        if self.receive_threads != 1:
            import warnings  # noqa: PLC0415 - well written programs need none

            warnings.warn(
                f"receive_threads={self.receive_threads} has no effect: a session has one receive thread; "
                "leave the setting out, the next version refuses it",
                FutureWarning,
                stacklevel=3,
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **settings: Unpack[Settings]) -> Self:
        """
        Settings from a TOML file, the environment and these keywords; what comes later wins.

        path: the file; None: the one that PYDDSI_CONFIG names, if it does
        """
        file = os.environ.get(FILE) if path is None else os.fspath(path)
        found: dict[str, Any] = {}
        if file:
            found |= _from_file(file)
        found |= _from_environment(os.environ)
        for name, value in settings.items():
            found[known(name, "")] = value
        return cls(**found)

    def replace(self, **settings: Unpack[Settings]) -> Self:
        """The same with other values for these settings."""
        found: dict[str, Any] = {name: getattr(self, name) for name in SETTINGS}
        found |= {known(name, ""): value for name, value in settings.items()}
        return type(self)(**found)


DEFAULTS = {name: getattr(Config, name) for name in SETTINGS}


def known(name: str, where: str) -> str:
    """The setting's name, if it is one."""
    if name not in SETTINGS:
        raise ConfigError(
            f"{where}there is no setting {name!r}; {closest(name, SETTINGS)}", setting=name
        )
    return name


# ---- sources ----


def _from_file(path: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - only those who have a file need these
    from pathlib import Path  # noqa: PLC0415

    try:
        with Path(path).open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}; name a TOML file", setting=""
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is no TOML: {error}", setting="") from error
    if isinstance(table.get("pyddsi"), dict):
        table = table["pyddsi"]
    found = {known(name, f"{path}: "): value for name, value in table.items()}
    return {name: checked(name, value, f"{path}: ") for name, value in found.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for variable in environment:
        if not variable.startswith(PREFIX) or variable == FILE:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in SETTINGS and variable == PREFIX + name.upper():
            value = _parsed(name, environment[variable])
            found[name] = checked(name, value, f"environment variable {variable}: ")
        else:
            _tell_unknown(variable)
    return found


def _tell_unknown(variable: str) -> None:
    """Log a variable that looks like a setting and is none; another program may have put it there, so this is no error."""
    import logging  # noqa: PLC0415 - only a misspelt name needs it

    there = [PREFIX + name.upper() for name in SETTINGS]
    logging.getLogger("pyddsi").warning(
        "the environment variable %s is no setting and is ignored; %s",
        variable,
        closest(variable, there),
    )


def _parsed(name: str, value: str) -> Any:
    """A text as the setting has it; what cannot be stays a text, and is refused by the check."""
    kind = SETTINGS[name].kind
    if kind == "yes":
        return (YES | NO).get(value.strip().lower(), value)
    if kind in {"peers", "places", "words"}:
        return tuple(part for part in value.replace(",", " ").split() if part)
    try:
        if kind == "whole":
            return int(value, 0)
        if kind == "seconds":
            return float(value)
    except ValueError:
        return value
    return value


# ---- checks ----


def checked(name: str, value: Any, where: str = "") -> Any:
    """The value as a session uses it, or ConfigError."""
    setting = SETTINGS[name]
    try:
        return CHECKS[setting.kind](name, setting, value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}{error}", setting=name) from None
