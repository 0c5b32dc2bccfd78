"""What the wire leaves behind: memory that stays, and errors that somebody keeps."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc

import pytest

from pyddsi import wire

SDATA = bytes.fromhex("670002023132")


def test_no_references_are_kept() -> None:
    """A call would keep a packet, an error or its columns alive for ever."""
    packet, bad, reading = bytes(bytearray(SDATA)), bytes(bytearray(b"\x0e\0\x0e")), wire.Reading()
    packets: list[wire.Buffer] = [packet, bytearray(SDATA), bad]

    def work() -> None:
        wire.decode(packet, reading)
        wire.lines(packet)
        wire.columns(packets, reading)
        wire.encode(wire.decode(packet))
        stream = wire.Stream(reading)
        stream.feed(wire.frame(packet))
        with pytest.raises(wire.WireError):
            wire.decode(bad)
        with pytest.raises(TypeError):
            wire.columns([packet, None])  # type: ignore[list-item]

    work()
    gc.collect()
    before = [sys.getrefcount(each) for each in (packet, bad, packets, packets[1], reading, None)]
    tracemalloc.start()
    for _ in range(20):
        work()
    gc.collect()
    first, _ = tracemalloc.get_traced_memory()
    for _ in range(200):
        work()
    gc.collect()
    last, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    after = [sys.getrefcount(each) for each in (packet, bad, packets, packets[1], reading, None)]
    assert after[:-1] == before[:-1]
    assert abs(after[-1] - before[-1]) < 100  # None is everybody's
    assert last - first < 20_000


KEPT_ERRORS = """
import gc
from pyddsi import wire

def keep(call):
    try:
        call()
    except wire.WireError as error:
        kept = [error]  # a cycle: the error's traceback holds this frame

view = memoryview(bytes(20))
for _ in range(300):
    keep(lambda: wire.decode(b"\\x67\\x00\\x02"))
    keep(lambda: wire.lines(b"\\x67\\x00\\x02"))
    keep(lambda: wire.encode([wire.SData(0, 1, view), wire.SData(-1, 1, view)]))
    keep(lambda: wire.encode([wire.BData(0, 1, [wire.Sample(view), wire.Sample(bytes(65536))])]))
    keep(lambda: wire.Stream().feed(b"\\x02\\x01\\x05\\x80\\xff"))
    gc.collect()
"""


def test_errors_can_be_kept() -> None:
    """The interpreter would crash when the collector meets an error that somebody kept."""
    done = subprocess.run(
        [sys.executable, "-c", KEPT_ERRORS], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
