"""
Captures replayed: what was on a network then is there again, as it was, faster, slower, elsewhere, or in a single process.

    from pyddsi.capture import replay

    recording = replay.Recording("night.pcap", start=10.0)
    with pyddsi.open() as session:
        replay.SessionReplay(recording, session, replay.Pace(speed=2)).run()

There are three ways to do it, and each is right for somebody else:

    SessionReplay   publishes the recorded samples in a live session, with numbers of its own: for applications
    RawReplay       sends the recorded datagrams, byte for byte: for receivers without a memory, and tools
    CoreReplay      feeds the recorded packets to a node in the place of one side: for finding out what went wrong

The three walk through the same rooms:

    _source   Recording: captures ─► packets on one line of time; start, until, where
    _pace     Pace: speed, rate, rounds ─► a deadline for each
    _route    Route: addresses exchanged; sockets         ─► _raw      RawReplay
    _flow     numbers unwrapped, repeats left out, pieces joined
    _samples  packets ─► samples with their names         ─► _session  SessionReplay
    _facts    who is who, and can what                    ─► _core     CoreReplay
    _late     how late it all was
"""

from __future__ import annotations

from pyddsi.capture.replay._core import CoreReplay, Delivery, Fate
from pyddsi.capture.replay._facts import Facts
from pyddsi.capture.replay._late import Lateness
from pyddsi.capture.replay._pace import Pace, Schedule
from pyddsi.capture.replay._raw import Progress, RawReplay, Sent
from pyddsi.capture.replay._route import Route
from pyddsi.capture.replay._samples import Sample, Samples
from pyddsi.capture.replay._session import Contents, Published, SessionReplay, Topic, survey
from pyddsi.capture.replay._source import Packet, Recording

__all__ = [
    "Contents",
    "CoreReplay",
    "Delivery",
    "Facts",
    "Fate",
    "Lateness",
    "Pace",
    "Packet",
    "Progress",
    "Published",
    "RawReplay",
    "Recording",
    "Route",
    "Sample",
    "Samples",
    "Schedule",
    "Sent",
    "SessionReplay",
    "Topic",
    "survey",
]
