"""The settings of a session: where they come from, what they may be, and what is said of those that cannot be."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pyddsi
from pyddsi._native import ffi, lib
from pyddsi.config import SETTINGS, Config

HEAVY = {
    "numpy",
    "asyncio",
    "cffi",
    "_cffi_backend",
    "typing",
    "dataclasses",
    "threading",
    "logging",
}


def test_import_is_light() -> None:
    """`import pyddsi` loads nothing that a program may not need, and opening a session little more."""
    program = "import sys, pyddsi; print(*sys.modules); pyddsi.Session; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    first, second = (set(line.split()) for line in done.stdout.splitlines())
    assert not HEAVY & first
    assert HEAVY & second <= {"_cffi_backend"}


def test_fields() -> None:
    """There are at most 26 settings, each described, and Config is a dataclass of them."""
    assert [field.name for field in dataclasses.fields(Config)] == list(SETTINGS)
    assert len(SETTINGS) <= 26
    assert all(setting.text for setting in SETTINGS.values())
    changed = dataclasses.replace(Config(), ttl=3)
    assert (changed.ttl, changed == Config(ttl=3), changed == Config()) == (3, True, False)
    assert hash(changed) == hash(Config(ttl=3))
    with pytest.raises(AttributeError, match="frozen"):
        changed.ttl = 4  # type: ignore[misc]


def test_defaults_are_the_core_s() -> None:
    """A default that is written twice, here and in the core, is the same in both."""
    options = ffi.new("pyddsi_session_options *")
    lib.pyddsi_session_options_init(options)
    node, config = options.node, Config()
    assert (node.lease_ms, node.scout_ms, node.slow_ms) == (
        config.lease * 1000,
        config.scout * 1000,
        config.slow * 1000,
    )
    assert node.latency_us == config.latency * 1e6
    assert node.packet_max == config.packet_max
    assert node.sample_max < config.sample_max  # memory that is not used costs a session nothing
    assert (node.slots_max, node.peers_max) == (config.packets_max, config.peers_max)
    assert node.unicast_bytes <= config.window_bytes == node.multicast_bytes[0]
    assert (options.lane_bytes, options.lane_samples) == (
        config.shared_bytes,
        config.shared_samples,
    )
    assert options.receive_bytes == config.receive_buffer
    assert f"{'.'.join(map(str, options.group.ip[0:4]))}:{options.group.port}" == config.group


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyword wins over the environment, the environment over the file, the file over the default."""
    file = tmp_path / "pyddsi.toml"
    file.write_text(
        '[pyddsi]\nttl = 2\nlease = 7\nlisten = ["udp/0.0.0.0:4000"]\npeers = ["10.0.0.9:7447"]\n'
    )
    monkeypatch.setenv("PYDDSI_LEASE", "8.5")
    monkeypatch.setenv("PYDDSI_LOOPBACK", "off")
    monkeypatch.setenv("PYDDSI_FEATURES", "batch,pull")
    monkeypatch.setenv("PYDDSI_PORT", "5000")
    config = Config.load(file, listen=["udp/0.0.0.0:6000"])
    assert (config.ttl, config.lease, config.scout) == (2, 8.5, 3.0)
    assert config.listen == ("udp/0.0.0.0:6000",)
    assert config.peers == ("10.0.0.9:7447",)
    assert (config.loopback, config.features) == (False, frozenset({"batch", "pull"}))
    monkeypatch.setenv("PYDDSI_CONFIG", str(file))
    assert Config.load().ttl == 2


WRONG: list[tuple[str, Any, str]] = [
    ("ttl", 256, "ttl is from 0 to 255, not 256"),
    ("ttl", "1", "ttl is a whole number, not '1'"),
    ("ttl", True, "ttl is a whole number, not True"),
    ("lease", -1, "lease is from 0 to 4000000 s, not -1"),
    ("lease", float("nan"), "lease is from 0"),
    ("loopback", 1, "loopback is True or False, not 1"),
    ("shared_bytes", 5000, "a power of two, such as 4096 or 8192, not 5000"),
    ("group", "239.255.0.1", "an IP address and a port, such as 10.0.0.9:7447"),
    ("group", "10.0.0.9:7447", "a multicast address"),
    ("group", "[fe80::1]:7447", "a multicast address"),
    ("group", "239.255.0.1:0", "an IP address and a port"),
    ("group", "239.255.0.256:7447", "an IP address and a port"),
    ("group", 7447, "an address, such as '239.255.0.1:7447'"),
    ("peers", "10.0.0.9:7447", "a list of addresses"),
    ("peers", ["robot"], "each of peers is an IP address or a host's name, and a port"),
    ("peers", ["10.0.0.9:7447"] * 17, "at most 16"),
    ("role", "king", "role is one of 'peer', 'client', 'broker', not 'king'"),
    ("id", "xyz", "hexadecimal digits"),
    ("id", bytes(17), "1 to 16 bytes, not 17"),
    ("features", {"batches"}, "did you mean 'batch'?"),
    ("interface", "e" * 48, "at most 47 bytes"),
    ("leese", 1, "there is no setting 'leese'; did you mean 'lease'?"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_wrong(name: str, value: Any, message: str) -> None:
    """A setting that cannot be is refused by its name, with what would be right."""
    with pytest.raises(pyddsi.ConfigError) as caught:
        pyddsi.open(**{name: value})
    assert message in str(caught.value)
    assert caught.value.setting == name


def test_wrong_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file, or the variable, that is to be changed."""
    file = tmp_path / "bad.toml"
    with pytest.raises(pyddsi.ConfigError, match=r"bad.toml: cannot be read"):
        Config.load(file)
    file.write_text("ttl = ")
    with pytest.raises(pyddsi.ConfigError, match=r"bad.toml: is no TOML"):
        Config.load(file)
    file.write_text("tll = 1")
    with pytest.raises(pyddsi.ConfigError, match=r"bad.toml: there is no setting 'tll'.*'ttl'"):
        Config.load(file)
    file.write_text("ttl = 300")
    with pytest.raises(pyddsi.ConfigError, match=r"bad.toml: ttl is from 0 to 255"):
        Config.load(file)
    monkeypatch.setenv("PYDDSI_TTL", "many")
    with pytest.raises(pyddsi.ConfigError, match=r"variable PYDDSI_TTL: ttl is a whole number"):
        Config.load()


def test_wrong_config() -> None:
    """A path in place of a config is no config."""
    with pytest.raises(TypeError, match=r"Config.load\(path\)"):
        pyddsi.open("pyddsi.toml")  # type: ignore[arg-type]
