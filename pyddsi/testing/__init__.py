"""
Test programs against a network that fails as it is told to, in memory, in virtual time, from one seed.

    with Sim(seed=1, loss=0.05, delay=0.001) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("plant/robot/7/pose")
        sub = b.subscriber("plant/robot/*/pose")
        pub.wait_matched()
        pub.put(b"hello")
        assert sub.recv().data == b"hello"

`scenarios()` are worlds that play by themselves and are checked; `run_scenario("loss", 1)` plays one.

The nodes are the real ones: the same compiled core that speaks to a network. docs/guide/sim.md is the tutorial.

    _scenarios  worlds that play by themselves
    _sim        Sim: nodes, links, time
     └ _node    Node: faults, looks
        ├ _options                 what it can be told at its start
        ├ _publisher, _subscriber  the two ends of a way, and samples
        ├ _looks                   Packet
        └ _world                   the memory, its clock, numbers for names

What a node declares, and what it can be asked, is as a session has it (_declare.py, _declared.py, _looks.py in pyddsi).
"""

from __future__ import annotations

from pyddsi._declared import Declared, Resource, Selection
from pyddsi._looks import Drop, Event, Peer, Stats, Window
from pyddsi.testing._looks import Packet
from pyddsi.testing._node import Node
from pyddsi.testing._options import NodeOptions
from pyddsi.testing._publisher import Loan, Publisher, Stream
from pyddsi.testing._scenarios import (
    Repair,
    Report,
    Scenario,
    check_texts,
    find_scenario,
    measure_repair,
    run_scenario,
    scenarios,
)
from pyddsi.testing._sim import Sim, write_pcap
from pyddsi.testing._subscriber import Sample, Subscriber

__all__ = [
    "Declared",
    "Drop",
    "Event",
    "Loan",
    "Node",
    "NodeOptions",
    "Packet",
    "Peer",
    "Publisher",
    "Repair",
    "Report",
    "Resource",
    "Sample",
    "Scenario",
    "Selection",
    "Sim",
    "Stats",
    "Stream",
    "Subscriber",
    "Window",
    "check_texts",
    "find_scenario",
    "measure_repair",
    "run_scenario",
    "scenarios",
    "write_pcap",
]
