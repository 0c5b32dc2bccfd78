"""
What `pyddsi doctor` looks at. Each check yields findings: what is so, how bad that is, and the commands that mend it.

    interfaces ─► route ─► loopback ─► port ─► mtu        the way to the group
    buffers ─► losses ─► firewall ─► container            what packets meet on it
    memory ─► files ─► segments ─► processors ─► clock    what a session needs besides
    fork ─► sessions ─► company                           the whole, tried
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyddsi.cli import _checks_host, _checks_way
from pyddsi.cli._machine import Finding, Machine

__all__ = ["CHECKS"]

CHECKS: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    _checks_host.software,
    _checks_way.interfaces,
    _checks_way.route,
    _checks_way.loopback,
    _checks_way.port,
    _checks_way.mtu,
    _checks_way.buffers,
    _checks_way.losses,
    _checks_way.firewall,
    _checks_way.reverse_path,
    _checks_way.groups,
    _checks_way.container,
    _checks_way.segmentation,
    _checks_host.memory,
    _checks_host.files,
    _checks_host.processors,
    _checks_host.clock,
    _checks_host.fork,
    _checks_host.sessions,
    _checks_host.company,
)
