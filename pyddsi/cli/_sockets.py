"""Which process has which UDP port: what /proc tells of this machine's network namespace."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Process", "processes", "udp_inodes"]

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """A process, as far as /proc tells. `sessions` and `lanes` count the shared memory of pyddsi that it has made."""

    pid: int
    command: str
    ports: frozenset[int]
    sessions: int
    lanes: int
    cpu_seconds: float
    memory_bytes: int


def udp_inodes(proc: Path = PROC) -> dict[int, set[int]]:
    """Inodes of sockets by their port."""
    found: dict[int, set[int]] = defaultdict(set)
    for name in ("udp", "udp6"):
        with suppress(OSError):
            for line in (proc / "net" / name).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                found[int(words[1].rpartition(":")[2], 16)].add(int(words[9]))
    return found


def _links(folder: Path) -> list[str]:
    """Where the descriptors of a process lead; none if it is somebody else's."""
    found = []
    with suppress(OSError):  # the folder is not ours to read
        for path in folder.iterdir():
            with suppress(OSError):  # it is gone
                found.append(str(path.readlink()))
    return found


def _usage(folder: Path) -> tuple[float, int]:
    """Seconds of CPU, bytes of memory."""
    words = (
        (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    return (int(words[11]) + int(words[12])) / TICKS, int(words[21]) * PAGE


def processes(proc: Path = PROC) -> Iterator[Process]:
    """Those with UDP sockets or shared memory of pyddsi, as far as we may look."""
    ports = {
        f"socket:[{inode}]": port for port, all_of in udp_inodes(proc).items() for inode in all_of
    }
    for folder in sorted(proc.iterdir(), key=lambda path: path.name.zfill(10)):
        if not folder.name.isdigit():
            continue
        links = _links(folder / "fd")
        mine = frozenset(ports[link] for link in links if link in ports)
        made = {
            kind: sum(link.startswith(f"/memfd:pyddsi-{kind}") for link in set(links))
            for kind in ("page", "lane")
        }
        if not mine and not made["page"]:
            continue
        with suppress(OSError, IndexError, ValueError):
            words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            command = b" ".join(words).decode(errors="replace")
            yield Process(
                int(folder.name), command, mine, made["page"], made["lane"], *_usage(folder)
            )
