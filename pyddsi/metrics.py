"""All counts of a session at one moment, as numbers with names, and in Prometheus' text form."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyddsi._looking import Looking

__all__ = ["Metric", "Metrics"]

GAUGES = {
    "allocated_slots", "rings_used", "kept_bytes", "lanes", "lane_readers", "links", "views", "view_bytes",
}  # fmt: skip

# What the names alone do not say.
TEXTS = {
    "accepted": "samples that were put",
    "unmatched": "of these: nobody wanted them",
    "filtered": "of these: no subscriber's where= held",
    "sent_best": "best effort messages handed to the network",
    "owed": "reliable messages times the peers that are to have them",
    "acknowledged": "of these: the peer has them",
    "forgiven": "of these: dropped, with a line in the ledger",
    "resent": "reliable messages that were sent again",
    "delivered": "samples handed to the rings of subscribers",
    "taken": "samples that the program took from them",
    "rings_used": "samples that wait there now",
    "kept_bytes": "memory of samples for subscribers that drop",
    "allocated_slots": "received packets that are held now",
    "put_waits": "puts that found no room and waited",
    "events_lost": "events for which there was no room",
    "wakeups_receive": "times that a receive thread woke",
    "wakeups_housekeeping": "times that the housekeeping thread woke",
    "send_full": "packets for which the system had no room",
    "send_failed": "packets that the system refused",
    "bells": "times that sleepers were woken",
    "lanes": "shared windows that are written now",
    "lane_readers": "subscribers on this machine that read them now",
    "lane_put": "samples put into shared windows",
    "lane_taken": "samples taken from them",
    "lane_copied": "of these: as copies, as too many were looked at",
    "lane_refused": "peers on this machine whose memory could not be used",
    "links": "TCP and Unix connections now",
    "received": "packets that the receive thread took",
    "views": "samples whose memory the program looks at now",
    "view_bytes": "bytes of the larger ones of them",
    "views_copied": "samples that were copied as there were too many views",
    "loans_copied": "loans that were copied as they were looked at for too long, or were too large",
    "dropped": "lines of the ledger: what was dropped, where and why",
    "peer_established": "1: there is a session with this peer",
    "peer_rtt_seconds": "its round trip",
    "peer_unacknowledged": "messages to it alone that it has not acknowledged",
}


class Metric(NamedTuple):
    """One number. `kind` is "counter" or "gauge"; the name of a counter ends in _total."""

    name: str
    kind: str
    text: str
    value: float
    labels: Mapping[str, str] = {}

    def __str__(self) -> str:
        marks = ",".join(f'{key}="{_escaped(value)}"' for key, value in self.labels.items())
        return (
            f"{self.name}{{{marks}}} {self.value:.17g}"
            if marks
            else f"{self.name} {self.value:.17g}"
        )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Metrics(list[Metric]):
    """Numbers, each with a name. `str()` is the text that Prometheus reads."""

    @classmethod
    def of(cls, session: Looking) -> Metrics:
        """All that a session can tell of itself now."""
        found = cls()
        who = {"session": session.name}
        stats = session.stats()
        for field in fields(stats):
            found._add(field.name, getattr(stats, field.name), who)
        for name, value in session.counts().items():
            found._add(name, value, who)
        for drop in session.drops():
            about = {
                "place": drop.place,
                "reason": drop.reason,
                "resource": str(drop.resource or ""),
            }
            found._add("dropped", drop.count, who | about)
        if not session.closed:
            for peer in session.peers():
                about = who | {"peer": peer.name}
                found._add_gauge("peer_established", peer.state == "established", about)
                found._add_gauge("peer_rtt_seconds", peer.rtt, about)
                found._add_gauge("peer_unacknowledged", peer.unacknowledged, about)
        return found

    def _add(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        if name in GAUGES:
            self._add_gauge(name, value, labels)
        else:
            text = TEXTS.get(name, name.replace("_", " "))
            self.append(Metric(f"pyddsi_{name}_total", "counter", text, value, labels))

    def _add_gauge(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        text = TEXTS.get(name, name.replace("_", " "))
        self.append(Metric(f"pyddsi_{name}", "gauge", text, float(value), labels))

    def __str__(self) -> str:
        lines: list[str] = []
        for name in dict.fromkeys(metric.name for metric in self):
            same = [metric for metric in self if metric.name == name]
            lines += [f"# HELP {name} {same[0].text}", f"# TYPE {name} {same[0].kind}"]
            lines += map(str, same)
        return "\n".join(lines) + "\n"
