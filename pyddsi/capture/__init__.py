"""Captures read as a stream: a file goes in, the datagrams and the TCP bytes it carried come out, in file order.

    with open_capture("night.pcapng") as capture:
        for item in capture:
            match item:
                case Datagram():  ...       one UDP datagram, whole
                case Segment():   ...       the next bytes of one direction of one TCP connection

Rooms in a row, each ignorant of the next:

    window     file       ─► bytes in sight   blocks, gzip, and the words for a broken file
    records    bytes      ─► records          pcap and pcapng: times, link types, limits
    dissect    record     ─► UDP or TCP       link layers, IP; what is neither is counted, never an error
    fragments  pieces     ─► IP payload       bounded waiting
    tcp        TCP packet ─► Segment          order, repeats, wrap-around, holes

Nothing is ever held beyond named limits, so memory is flat for a file of any size and for a pipe that never ends. That
is why this is an iterator and has neither length nor index: a program that wants to jump about in a file wants another
tool than this one.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from pyddsi.capture.dissect import Datagram, Dissector, Endpoint, OtherError
from pyddsi.capture.records import read_records
from pyddsi.capture.tcp import Segment, Streams
from pyddsi.capture.window import Window
from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import TracebackType

__all__ = ["Capture", "Datagram", "Endpoint", "Segment", "open_capture"]


class Capture:
    """An open capture: iterate once, from the first packet to the last. Made by `open_capture`."""

    def __init__(self, name: str, stream: BinaryIO, *, owned: bool) -> None:
        self.name = name
        self.skipped: Counter[str] = Counter()
        """Packets that held no UDP or TCP we could reach, by reason."""
        self._stream = stream
        self._owned = owned
        self._window = Window(name, stream)
        self._records = read_records(self._window, self.skipped)
        self._items = self._walk()

    @property
    def records(self) -> int:
        """How many packets have been read so far; the number of the latest one, as Wireshark counts."""
        return self._window.count

    def __iter__(self) -> Iterator[Datagram | Segment]:
        return self._items

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if `open_capture` opened it. A stream that was handed in stays open."""
        self._items.close()
        if self._owned:
            self._stream.close()

    def _walk(self) -> Generator[Datagram | Segment]:
        dissector = Dissector(self.skipped)
        streams = Streams(self.skipped)
        dissect, push = dissector.dissect, streams.push
        broken: CaptureError | None = None
        try:
            for record in self._records:
                try:
                    found = dissect(record)
                except OtherError as other:
                    self.skipped[str(other)] += 1
                    continue
                if isinstance(found, Datagram):
                    yield found
                elif found is not None:
                    yield from push(found)
        except CaptureError as error:
            broken = error  # what waits for a missing piece is still whole: it goes first
        yield from streams.finish()
        dissector.finish()
        if broken is not None:
            raise broken


def open_capture(source: str | os.PathLike[str] | BinaryIO) -> Capture:
    """Open a pcap or pcapng file, gzipped or not; '-' is standard input, a binary stream is read where it stands.

    Raises `CaptureError` if there is no such file or if it is not a capture. One that breaks off later raises from the
    iteration, after everything whole has been delivered.
    """
    if source == "-":
        return Capture("standard input", sys.stdin.buffer, owned=False)
    if not isinstance(source, (str, os.PathLike)):
        return Capture(str(getattr(source, "name", "the stream")), source, owned=False)
    name = os.fspath(source)
    try:
        stream = Path(name).open("rb", buffering=0)  # noqa: SIM115 - the Capture closes it
    except FileNotFoundError:
        raise CaptureError(
            f"{name}: there is no such file; name a pcap or pcapng file, or '-'"
        ) from None
    except IsADirectoryError:
        raise CaptureError(
            f"{name} is a directory; name one pcap or pcapng file inside it"
        ) from None
    except (OSError, ValueError) as error:
        raise CaptureError(
            f"{name} cannot be opened ({error}); name a readable pcap or pcapng file"
        ) from error
    try:
        return Capture(name, stream, owned=True)
    except BaseException:
        stream.close()
        raise
