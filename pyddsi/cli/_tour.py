"""`pyddsi demo --captures`: the protocol on the wire, shown on the golden captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyddsi import capture, wire
from pyddsi.capture import Packet
from pyddsi.errors import CaptureError, WireError

LINE_MAX = 118


def _packets(path: Path) -> Iterator[tuple[Packet, list[wire.Message], WireError | None]]:
    for packet in capture.open(path).packets():
        yield packet, *packet.messages()


def _say(title: str) -> None:
    print(f"\n{title}\n")


def _cut(line: str) -> str:
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…"


def _show_session(folder: Path) -> None:
    _say(
        "1. Two peers find each other, open a session, and exchange a first sample (p2p_pubsub.pcap):"
    )
    first_ns = None
    for packet, messages, _ in _packets(folder / "p2p_pubsub.pcap"):
        first_ns = first_ns or packet.time_ns or 0
        time = ((packet.time_ns or 0) - first_ns) / 1e9
        for message in messages:
            if not isinstance(message, wire.Conduit):
                print(
                    _cut(
                        f"{time:10.6f} {packet.source} → {packet.destination}  c{message.conduit} {message}"
                    )
                )
        if packet.number >= 18:
            break


def _show_loss(folder: Path) -> None:
    _say(
        "2. The same with 5 % of the packets lost (p2p_loss5.pcap). Every sample arrives; what that costs:"
    )
    seen: Counter[tuple[Any, int, int]] = Counter()
    kinds: Counter[str] = Counter()
    asked = 0
    for packet, messages, _ in _packets(folder / "p2p_loss5.pcap"):
        for message in messages:
            kinds[message.NAME] += 1
            if isinstance(message, wire.SData) and message.reliable:
                seen[packet.source, message.conduit, message.sn] += 1
            elif isinstance(message, wire.AckNack) and message.mask is not None:
                asked += 1
    repeats = sum(count - 1 for count in seen.values())
    print(f"   {len(seen)} samples were sent {sum(seen.values())} times: {repeats} repeats,")
    print(
        f"   because the receiver asked {asked} times for what it lacked, in {kinds['ACKNACK']} answers."
    )


def _show_hostile(folder: Path) -> None:
    _say("3. Damaged packets, and what the reference peer does about them (probes/malformed.pcap):")
    for packet, messages, fault in _packets(folder / "probes" / "malformed.pcap"):
        if fault is not None:
            print(f"   packet {packet.number}: {bytes(packet.data).hex(' ')}")
            print(
                f"      {fault}"
                + (f"; {len(messages)} messages before it are good" if messages else "")
            )


def _show_all(folder: Path) -> None:
    paths = sorted(folder.rglob("*.pcap"))
    _say(f"4. All {len(paths)} captures, decoded to the last byte and written again:")
    kinds: Counter[str] = Counter()
    packets = faults = same = 0
    for path in paths:
        for packet, messages, fault in _packets(path):
            packets += 1
            faults += fault is not None
            same += fault is None and wire.encode(messages) == packet.data
            kinds.update(message.NAME for message in messages)
    for name, count in kinds.most_common():
        print(f"   {name:10} {count:7d}")
    print(f"   {packets} packets: {same} written again as they were, {faults} damaged on purpose,")
    print(f"   {packets - same - faults} with a number that could be shorter, as we write it.")


def show(folder: Path) -> None:
    """Show everything."""
    if not (folder / "p2p_pubsub.pcap").is_file():
        raise CaptureError(
            f"{folder}: no golden captures here; run it in a source tree, or name their folder after --captures"
        )
    print(
        "pyddsi decodes the golden captures: real packets of zhe, the reference peer of its protocol."
    )
    _show_session(folder)
    _show_loss(folder)
    _show_hostile(folder)
    _show_all(folder)
    print("\nLook yourself: pyddsi decode captures/p2p_pubsub.pcap")
