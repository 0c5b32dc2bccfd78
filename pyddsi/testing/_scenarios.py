"""Scenarios: worlds that play by themselves, from a seed, and are checked while they run and at their end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pyddsi._native import ffi, lib, text
from pyddsi._values import SECOND, closest, nanoseconds, whole
from pyddsi.testing._looks import Packet, packets

PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of world: what happens in it is decided by a seed, within the scenario's theme."""

    index: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """
    How a run went.

    time: virtual seconds
    put, owed, taken, excused: samples accepted; times the subscribers that were to have them; of these, those that
        came, and those that did not, with an entry that says why
    checks: how often each thing was checked
    violations: how often one of them did not hold, `violation` the first time, `violation_texts` all that were kept
    digest: the same for the same seed
    sent: the packets, if they were kept
    """

    scenario: str
    seed: int
    time: float
    events: int
    nodes: int
    crashes: int
    restarts: int
    packets: int
    bytes: int
    packets_lost: int
    packets_duplicated: int
    packets_reordered: int
    packets_corrupted: int
    declared: int
    put: int
    owed: int
    taken: int
    excused: int
    resent: int
    checks: dict[str, int]
    violations: int
    violation: str
    digest: int
    violation_texts: list[str] = field(default_factory=list)
    sent: list[Packet] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """All but the packets, as plain values."""
        plain = asdict(self)
        del plain["sent"]
        return plain


@dataclass(frozen=True, slots=True)
class Repair:
    """How fast lost samples came after all; times in seconds. See `measure_repair`."""

    put: int
    delivered: int
    lost: int
    resent: int
    median: float
    p99: float
    max: float

    @property
    def resent_per_lost(self) -> float:
        """How many samples were sent again for each that was lost."""
        return self.resent / self.lost if self.lost else 0.0


def scenarios() -> list[Scenario]:
    """All there are."""
    return [
        Scenario(
            index, text(lib.pyddsi_scenario_name(index)), text(lib.pyddsi_scenario_text(index))
        )
        for index in range(lib.pyddsi_scenario_count())
    ]


def check_texts() -> dict[str, str]:
    """What is checked: names, and what they mean."""
    return {
        text(lib.pyddsi_check_name(check)): text(lib.pyddsi_check_text(check))
        for check in range(lib.PYDDSI_CHECK_COUNT)
    }


def find_scenario(name: str) -> Scenario:
    """The scenario of this name; ValueError names the closest one."""
    known = {scenario.name: scenario for scenario in scenarios()}
    if name not in known:
        raise ValueError(f"there is no scenario {name!r}; {closest(name, known)}")
    return known[name]


def run_scenario(name: str, seed: int, *, keep_packets: bool = False) -> Report:
    """Play a scenario. Violations are in the report; nothing is raised for them."""
    scenario = find_scenario(name)
    raw = ffi.new("pyddsi_report *")
    kept = ffi.new("pyddsi_sim **")
    status = lib.pyddsi_scenario_run(
        scenario.index,
        whole("seed", seed, 0, 2**64 - 1),
        raw,
        kept if keep_packets else ffi.NULL,
    )
    if status != lib.PYDDSI_OK:
        raise MemoryError(f"no memory for scenario {name!r}")
    texts = [text(raw.violation)] if raw.violations else []
    sent: list[Packet] = []
    if keep_packets:
        world = ffi.gc(kept[0], lib.pyddsi_sim_free)
        texts = _violations(world) or texts
        sent = packets(world, [str(i) for i in range(lib.pyddsi_sim_count(world))])
    return _report(scenario, raw, texts, sent)


def _violations(world: Any) -> list[str]:
    found: list[str] = []
    while (line := lib.pyddsi_sim_violation(world, len(found))) != ffi.NULL:
        found.append(text(line))
    return found


_SAME = [
    "seed",
    "events",
    "nodes",
    "crashes",
    "restarts",
    "packets",
    "bytes",
    "packets_lost",
    "packets_duplicated",
    "packets_reordered",
    "packets_corrupted",
    "declared",
    "put",
    "owed",
    "taken",
    "excused",
    "resent",
    "violations",
    "digest",
]


def _report(scenario: Scenario, raw: Any, texts: list[str], sent: list[Packet]) -> Report:
    checks = {name: int(raw.checks[i]) for i, name in enumerate(check_texts())}
    return Report(
        scenario=scenario.name,
        time=raw.time_ns / SECOND,
        checks=checks,
        violation=text(raw.violation),
        violation_texts=texts,
        sent=sent,
        **{name: int(getattr(raw, name)) for name in _SAME},
    )


def measure_repair(
    seed: int,
    *,
    loss: float = 0.05,
    rate: int = 1000,
    samples: int = 2000,
    size: int = 64,
    delay: float = 0.001,
    multicast: bool = True,
    subscribers: int = 1,
) -> Repair:
    """
    How fast losses are repaired: one reliable publisher, `rate` samples a second, `loss` of the packets lost in both
    directions, `delay` seconds one way. Times count from when the lost packet would have arrived to the delivery of its
    sample.
    """
    options = ffi.new(
        "pyddsi_repair_options *",
        {
            "seed": whole("seed", seed, 0, 2**64 - 1),
            "loss_ppm": whole("loss in millionths", round(loss * PPM), 0, PPM),
            "rate": whole("rate", rate, 1, 10**6),
            "samples": whole("samples", samples, 1, 10**6),
            "size": whole("size", size, 0, 65535),
            "delay_ns": nanoseconds(delay, "delay"),
            "multicast": int(multicast),
            "subscribers": whole("subscribers", subscribers, 1, lib.PYDDSI_SIM_NODES_MAX - 1),
        },
    )
    raw = ffi.new("pyddsi_repair *")
    if lib.pyddsi_sim_repair(options, raw) != lib.PYDDSI_OK:
        raise ValueError("these options cannot be, or there is no memory for them")
    return Repair(
        put=raw.put,
        delivered=raw.delivered,
        lost=raw.lost,
        resent=raw.resent,
        median=raw.median_ns / SECOND,
        p99=raw.p99_ns / SECOND,
        max=raw.max_ns / SECOND,
    )
