"""
Makes the fuzzers' seeds from the golden captures: one small packet for each shape of message that occurs in them.

    python tools/corpus.py

A packet is kept if it holds a kind with flags, or a declaration, that no packet before it had. The two bytes in front
are what fuzz/packet.c takes its options from; a stream has three. The file's name says where the packet came from.
"""

from __future__ import annotations

from pathlib import Path

from pyddsi import capture, wire

ROOT = Path(__file__).resolve().parent.parent
PACKET_OPTIONS = bytes([0, 5])
STREAM_OPTIONS = bytes([1, 7, 0])
PACKET_MAX = 256  # a seed should be small

# What no capture holds: the messages beyond zhe, one packet each.
EXTENSIONS: dict[str, list[wire.Message]] = {
    "batch": [wire.BData(3, 1, [wire.Sample(b"a"), wire.Sample(b"")], reliable=True, sync=True)],
    "batch_actual": [
        wire.BData(4, wire.SelectionId(2), [wire.Sample(b"a", rid=9)], actual=True, reliable=True)
    ],
    "pull": [wire.Conduit(1), wire.Pull(7, 300, limit=65535, sync=True, final=True)],
    "pull_end": [wire.SData(9, wire.SelectionId(1), b"", data_rid=0)],
    "conduit_close": [wire.ConduitClose(3)],
    "fragment": [
        wire.Conduit(9),
        wire.Frag(100, fragments=3),
        wire.RSpace(2),
        wire.SData(101, 4, bytes(40), reliable=True),
    ],
    "migrate": [wire.Conduit(2), wire.Migrate(0, 16383, 12, rid=5)],
    "declarations": [
        wire.Declare(
            1,
            [
                wire.Subscription(4, 3, origin=1, period=1000, duration=10, properties=[]),
                wire.Selection(1, "/a/*#{transient}?{x > 0}", is_global=True),
                wire.Binding(1, 6, is_global=True),
                wire.ForgetResource(4),
                wire.ForgetPublication(4),
                wire.ForgetSubscription(4),
                wire.ForgetSelection(wire.SelectionId(1)),
                wire.Resource(
                    5, "/b", properties=[wire.Property(6, b"\0"), wire.Property(301, b"")]
                ),
                wire.Result(9, 5, id=8),
                wire.Commit(9),
            ],
            sync=True,
        )
    ],
}


def shapes(packet: bytes) -> set[object]:
    """What is new or not about a packet."""
    found: set[object] = set()
    for message in wire.decode(packet):
        found.add((message.KIND, packet[message.at] & 0xE0))
        if isinstance(message, wire.Declare):
            found.update((d.KIND, "declaration") for d in message.declarations)
    return found


def main() -> None:
    """Write both corpora."""
    packets, streams = ROOT / "fuzz/corpus/packet", ROOT / "fuzz/corpus/stream"
    for folder in (packets, streams):
        folder.mkdir(parents=True, exist_ok=True)
    seen: set[object] = set()
    for path in sorted((ROOT / "captures").rglob("*.pcap")):
        stream, data = b"", b""
        for packet in capture.open(path).packets():
            data = packet.data
            if path.stem.startswith("tcp") and len(stream) < PACKET_MAX:
                stream += wire.frame(data)
            try:
                new = shapes(data) - seen
            except wire.WireError:
                new = {data}
            if new and len(data) <= PACKET_MAX:
                seen |= new
                name = f"{path.stem}_{packet.number}"
                (packets / name).write_bytes(PACKET_OPTIONS + data)
        if stream:
            (streams / path.stem).write_bytes(STREAM_OPTIONS + stream)
            (streams / f"{path.stem}_unframed").write_bytes(
                STREAM_OPTIONS + stream + wire.frame(b"") + data
            )
    for name, messages in EXTENSIONS.items():
        (packets / name).write_bytes(PACKET_OPTIONS + wire.encode(messages))


if __name__ == "__main__":
    main()
