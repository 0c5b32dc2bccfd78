"""What many runs of `pyddsi sim` have shown, added up."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from pyddsi.cli._seeds import Death
from pyddsi.testing import Report


@dataclass(slots=True)
class Sum:
    """What the runs of a scenario have done, together."""

    seeds: int = 0
    put: int = 0
    owed: int = 0
    taken: int = 0
    excused: int = 0
    packets: int = 0
    packets_lost: int = 0
    resent: int = 0
    checks: int = 0
    violations: int = 0

    def add(self, report: Report) -> None:
        """One more run."""
        self.seeds += 1
        for name in ("put", "owed", "taken", "excused", "packets", "packets_lost", "resent"):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        self.checks += sum(report.checks.values())
        self.violations += report.violations

    def merge(self, other: Sum) -> None:
        """Those of another scenario."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Bad:
    """A seed that did not do what it must."""

    scenario: str
    seed: int
    text: str

    @property
    def command(self) -> str:
        """What plays it again."""
        return shlex.join(
            ["pyddsi", "sim", "--scenario", self.scenario, "--seed", str(self.seed), "--trace"]
        )


@dataclass(slots=True)
class Books:
    """Everything that many runs have shown."""

    sums: dict[str, Sum] = field(default_factory=dict)
    checks: dict[str, int] = field(default_factory=dict)
    bad: list[Bad] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, outcome: Report | Death) -> None:
        """One more run, or what became of it."""
        known = self.sums.setdefault(outcome.scenario, Sum())
        if isinstance(outcome, Death):
            known.seeds += 1
            known.violations += 1
            self.bad.append(Bad(outcome.scenario, outcome.seed, outcome.text))
            return
        known.add(outcome)
        for check, count in outcome.checks.items():
            self.checks[check] = self.checks.get(check, 0) + count
        if outcome.violations:
            self.bad.append(Bad(outcome.scenario, outcome.seed, outcome.violation))

    @property
    def total(self) -> Sum:
        """All scenarios together."""
        total = Sum()
        for one in self.sums.values():
            total.merge(one)
        return total

    @property
    def per_minute(self) -> float:
        """Seeds."""
        return self.total.seeds * 60 / self.seconds if self.seconds else 0.0
