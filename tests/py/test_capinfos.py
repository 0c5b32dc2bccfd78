"""pcapng as other programs write it: the packets that are counted are those that Wireshark's own program counts."""

from __future__ import annotations

import random
import re
import struct
import subprocess
from pathlib import Path

import pytest

from pyddsi import capture
from tests.py import make_capture as make

FRAME = make.ethernet(make.ipv4(make.udp(b"hello")))
CUSTOM = (0xBAD, 0x40000BAD)
PEN = 32473  # for examples


def blocks(chance: random.Random, order: str) -> bytes:
    """A section with blocks of every kind, in this byte order; interfaces also come between packets."""
    content = make.section(order)
    interfaces = 0
    for step in range(chance.randrange(1, 16)):
        what = chance.randrange(8) if step else 0
        index = chance.randrange(max(1, interfaces))
        ticks = chance.randrange(1 << 50)
        if what == 0:
            resolution = chance.choice((None, 3, 6, 9, 0x80 | 20))
            content += make.interface(
                order, resolution=resolution, offset=chance.choice((None, 60))
            )
            interfaces += 1
        elif what <= 2:
            content += make.enhanced(FRAME, ticks, order, index=index)
        elif what == 3:
            content += make.obsolete(FRAME, ticks, order)
        elif what == 4:
            content += make.simple(FRAME, order)
        elif what == 5:
            custom = struct.pack(order + "I", PEN) + chance.randbytes(chance.randrange(9))
            content += make.block(chance.choice(CUSTOM), custom, order)
        elif what == 6:
            content += make.block(5, struct.pack(order + "III", index, 5, 6), order)
        else:
            content += make.block(4, make.option(0, b"", order), order)
    return content


@pytest.mark.parametrize("seed", range(20))
def test_packets_are_counted_as_by_capinfos(seed: int, tmp_path: Path) -> None:
    """A capture of another program would have more packets, or fewer, than Wireshark says."""
    chance = random.Random(seed)
    path = tmp_path / "made.pcapng"
    path.write_bytes(
        b"".join(blocks(chance, chance.choice("<>>")) for _ in range(chance.randrange(1, 4)))
    )
    done = subprocess.run(
        ["capinfos", "-c", "-M", path], capture_output=True, text=True, check=True
    )
    counted = re.search(r"Number of packets:\s+(\d+)", done.stdout)
    assert counted is not None, done.stdout
    assert capture.open(path).info().frames == int(counted[1])
