"""
Whether the books of all balance. A promise that was broken is a sentence; no sentence is the verdict that is hoped for.

For each stream from one life of a process (the writer) to one of another (the reader):

    always       nothing corrupt; each number once; none that was not begun
    reliable     in order; a gap needs a reason that somebody wrote down: the two lost each other (disconnected, or a session that
                 began anew), the writer went on without a reader that had stood still (detached), or the reader or the ledger
                 names the loss
    at the end   whoever is alive has the last number that was accepted by whoever is alive

And for each process that is alive at the end: nothing is in flight, its memory and its descriptors are as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.soak.books import BEST, LARGE, SMALL, STREAMS, Record, Source

MIB = 1 << 20
GROWTH = 6 * MIB
WARM = 0.25  # of its states, and these many at the least: until then a process still finds its size
WARM_MIN = 40
ENDS = {"disconnected", "reconnected"}
LEFT_BEHIND = {"detached"}
LOSSES = {"gap", "size", "incomplete"}


def _title(slot: int, life: int) -> str:
    return f"{slot}.{life}"


class Judge:
    """Looks at all books. `names` says whose each name on the wire is, by slot."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = {(one.slot, one.life): one for one in records}
        self.names: dict[str, int] = {}
        for one in self.records.values():
            begun = one.last("begun")
            if begun:
                self.names[begun["name"]] = one.slot

    # ---- streams ----

    def _said(self, one: Record, kinds: set[str], other: Record) -> int:
        """How often one says such a thing of the other's slot."""
        return sum(
            line["kind"] in kinds and self.names.get(line["peer"]) == other.slot for line in one.log
        )

    @staticmethod
    def _owned_up(one: Record, resource: str, *, own: bool) -> bool:
        """Whether it has a reason for the loss of samples of this resource: its own in pieces may find no room in its own ring at the end."""
        lines = [*one.last("state").get("drops", ()), *one.last("ended").get("drops", ())]
        reasons = LOSSES | ({"full"} if own else set())
        if any(what == resource and why in reasons for _, why, what, _ in lines):
            return True
        return any(line["kind"] == "gap_told" for line in one.log)

    def stream(self, reader: Record, row: Source) -> Iterator[str]:
        """What is wrong with one."""
        title = f"{_title(row.slot, row.life)} {STREAMS[row.stream]} as {_title(reader.slot, reader.life)} heard it"
        writer = self.records.get((row.slot, row.life))
        if row.corrupt:
            yield f"{title}: {row.corrupt} samples are not what was put"
        if row.repeated:
            yield f"{title}: {row.repeated} samples came twice, or out of order"
        if writer is None:
            yield f"{title}: there was no such process"
            return
        begun, _ = writer.sent[row.stream]
        if row.last >= begun:
            yield f"{title}: number {row.last} came, and only {begun} were begun"
        if row.stream == BEST or row.gaps == 0:
            return
        resource = f"soak/{row.slot}/{STREAMS[row.stream]}"
        partings = self._said(reader, ENDS, writer) + self._said(writer, ENDS | LEFT_BEHIND, reader)
        if row.gaps > partings and not self._owned_up(reader, resource, own=writer is reader):
            yield (
                f"{title}: {row.missing} samples in {row.gaps} gaps are missing, and they lost each other "
                f"{partings} times"
            )

    def streams(self) -> list[str]:
        """What is wrong with all."""
        return [
            fault
            for reader in self.records.values()
            for row in reader.heard.values()
            for fault in self.stream(reader, row)
        ]

    # ---- the end ----

    def strangers(self, alive: Iterable[tuple[int, int]]) -> bool:
        """Whether one of those that are alive has not yet heard a stream of another one, and so cannot hear its end."""
        here = [self.records[one] for one in alive]
        return any(
            (writer.slot, writer.life, stream) not in reader.heard
            for writer in here
            for reader in here
            for stream in (SMALL, LARGE)
            if writer is not reader
        )

    def behind(self, alive: Iterable[tuple[int, int]]) -> list[str]:
        """Who of those that are alive lacks something that was accepted."""
        found = []
        here = [self.records[one] for one in alive]
        for writer in here:
            for reader in here:
                if writer is reader:
                    continue
                for stream, name in enumerate(STREAMS):
                    accepted = writer.sent[stream][1]
                    row = reader.heard.get((writer.slot, writer.life, stream))
                    last = row.last + 1 if row is not None else 0
                    if stream != BEST and last < accepted:
                        found.append(
                            f"{_title(writer.slot, writer.life)} {name}: {accepted} accepted, "
                            f"{_title(reader.slot, reader.life)} has those up to {last}"
                        )
            state = writer.last("state")
            if not state.get("quiet") or state.get("in_flight") != 0:
                found.append(
                    f"{_title(writer.slot, writer.life)}: {state.get('in_flight')} messages are in flight"
                )
        return found

    # ---- what is used ----

    @staticmethod
    def used(record: Record) -> dict[str, int]:
        """Memory and descriptors of a process, when it was warm and at the end."""
        states = [line for line in record.log if line["kind"] == "state" and not line["quiet"]]
        warm = max(WARM_MIN, int(len(states) * WARM))
        if len(states) < 2 * warm:
            return {}
        first = states[warm]
        late = states[-len(states) // 4 :]
        return {
            "rss_warm": max(s["rss"] for s in states[: warm + 1]),
            "rss_end": min(s["rss"] for s in late),
            "fds_warm": first["fds"],
            "fds_end": min(s["fds"] for s in late),
        }

    def grown(self, alive: Iterable[tuple[int, int]], slack: int = GROWTH) -> list[str]:
        """Whose memory or descriptors became more."""
        found = []
        for slot, life in alive:
            use = self.used(self.records[slot, life])
            if use and use["rss_end"] > use["rss_warm"] + slack:
                found.append(
                    f"{_title(slot, life)}: its memory grew from {use['rss_warm'] / MIB:.1f} to "
                    f"{use['rss_end'] / MIB:.1f} MiB"
                )
            if use and use["fds_end"] > use["fds_warm"] + 24:
                found.append(
                    f"{_title(slot, life)}: its descriptors grew from {use['fds_warm']} to {use['fds_end']}"
                )
        return found

    # ---- the table ----

    def table(self) -> list[dict[str, Any]]:
        """A row for each life: what it put, what it heard, and its ledger."""
        rows = []
        for record in self.records.values():
            begun, state = record.last("begun"), record.last("ended") or record.last("state")
            told = {key: begun.get(key) for key in ("shared", "loss")}
            drops: dict[str, int] = {}
            for place, reason, _, count in state.get("drops", ()):
                drops[f"{place}/{reason}"] = drops.get(f"{place}/{reason}", 0) + count
            heard = record.heard.values()
            rows.append(
                told
                | {
                    "process": _title(record.slot, record.life),
                    "accepted": [accepted for _, accepted in record.sent],
                    "heard": [
                        sum(row.count for row in heard if row.stream == i)
                        for i in range(len(STREAMS))
                    ],
                    "missing": [
                        sum(row.missing for row in heard if row.stream == i)
                        for i in range(len(STREAMS))
                    ],
                    "ledger": drops,
                    "resent": state.get("stats", {}).get("resent", 0),
                    "by_memory": record.last("state").get("counts", {}).get("lane_taken", 0),
                }
                | self.used(record)
            )
        return rows
