"""
Frames as recorders write them: pyddsi's own, dumpcap, tshark, and files with the names of tcpdump.

Recorders that write pcapng end each file with statistics. Frames reach the others through a pipe, so that no privilege is needed.
"""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable
from pathlib import Path

from pyddsi._native import ffi, lib
from pyddsi.capture._datagram import Endpoint
from pyddsi.capture._rotate import SIZE_MIN, Files
from pyddsi.capture.write import LINK_RAW, _endpoint
from tests.capture.traffic import Frame, write
from tests.spark.queries import parts_of

__all__ = ["RECORDERS", "packed"]

Recorder = Callable[[Path, list[Frame]], None]


def by_pyddsi(folder: Path, frames: list[Frame], *, keep: int | None = None) -> None:
    """The files of `pyddsi record --max-size`."""
    files = Files(folder / "run.pcapng", max_size=SIZE_MIN, keep=keep)
    files.link(LINK_RAW)
    out, at = ffi.new("uint8_t[]", 65536), ffi.new("size_t *")
    for frame in frames:
        at[0] = 0
        ends = _endpoint(Endpoint(*frame.source)), _endpoint(Endpoint(*frame.target))
        lib.pyddsi_write_datagram(
            2, frame.time_ns, *ends, frame.data, len(frame.data), out, 65536, at
        )
        files.write(memoryview(bytes(ffi.buffer(out, at[0]))), [frame.time_ns], [at[0]], 1)
    files.end()


def _piped(folder: Path, frames: list[Frame], *command: str) -> None:
    whole = write(folder.parent / "pipe.pcap", frames).read_bytes()
    subprocess.run(command, input=whole, check=True, capture_output=True, timeout=60)


def by_dumpcap(folder: Path, frames: list[Frame]) -> None:
    """A ring of pcapng files with times in their names."""
    name = str(folder / "run.pcapng")
    _piped(folder, frames, "dumpcap", "-q", "-i", "-", "-b", "packets:300", "-w", name)


def by_dumpcap_pcap(folder: Path, frames: list[Frame]) -> None:
    """The same as pcap."""
    name = str(folder / "run.pcap")
    _piped(folder, frames, "dumpcap", "-P", "-q", "-i", "-", "-b", "packets:300", "-w", name)


def by_tshark(folder: Path, frames: list[Frame]) -> None:
    """One file of a live capture."""
    _piped(folder, frames, "tshark", "-q", "-i", "-", "-w", str(folder / "run.pcapng"))


def by_tcpdump(folder: Path, frames: list[Frame]) -> None:
    """With -C, and -W: run.pcap0, run.pcap1, ..."""
    for number, part in enumerate(parts_of(frames, 4)):
        write(folder / f"run.pcap{number}", part)


RECORDERS: dict[str, Recorder] = {
    "pyddsi": by_pyddsi,
    "dumpcap": by_dumpcap,
    "dumpcap_pcap": by_dumpcap_pcap,
    "tshark": by_tshark,
    "tcpdump": by_tcpdump,
}


def packed(folder: Path) -> None:
    """All files of a folder by gzip, as who rotates them does."""
    for path in list(folder.iterdir()):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
