"""
What the C fuzzer found worth keeping, read by all three decoders: its seeds, and whatever a longer run left behind.

PYDDSI_CORPUS names a folder with more inputs of the target `packet`; .ci/run gives the one that its own fuzzing filled.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyddsi import wire
from tests.py import oracle
from tests.py.test_scapy import check

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = 2  # bytes in front that are the fuzz target's own


def inputs() -> list[Path]:
    """All inputs, the tree's own first."""
    folders = [ROOT / "fuzz" / "corpus" / "packet"]
    if "PYDDSI_CORPUS" in os.environ:
        folders.append(Path(os.environ["PYDDSI_CORPUS"]))
    return [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]


def test_corpus_is_read_alike() -> None:
    """The core, the second decoder or the scapy layers would find other messages than the rest in hostile bytes."""
    whole = 0
    for path in inputs():
        packet = path.read_bytes()[OPTIONS:]
        try:
            messages = wire.decode(packet)
        except wire.WireError as error:
            messages = error.messages
        else:
            whole += 1
            assert [oracle.plain(message) for message in messages] == oracle.decode(packet), path
        check(packet)
        assert wire.decode(wire.encode(messages)) == messages, path
    assert whole > 20
