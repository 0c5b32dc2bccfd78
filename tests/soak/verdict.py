"""What became of a soak, and the table of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.soak.judge import MIB

HEADS = (
    "process",
    "shared",
    "loss",
    "accepted",
    "heard",
    "missing",
    "by memory",
    "resent",
    "MiB",
    "ledger",
)


@dataclass(slots=True)
class Verdict:
    """What became of it."""

    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    lives: int = 0
    processes: list[dict[str, Any]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def show(verdict: Verdict) -> str:
    """The table for people."""
    rows = [HEADS]
    for one in verdict.processes:
        use = "-"
        if "rss_end" in one:
            use = f"{one['rss_warm'] / MIB:.1f} > {one['rss_end'] / MIB:.1f}"
        rows.append(
            (
                one["process"],
                {True: "yes", False: "no", None: "-"}[one["shared"]],
                f"{one['loss'] or 0:.0%}",
                *("/".join(map(str, one[key])) for key in ("accepted", "heard", "missing")),
                str(one["by_memory"]),
                str(one["resent"]),
                use,
                " ".join(f"{what}:{n}" for what, n in one["ledger"].items()),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += ["", *(f"VIOLATION {fault}" for fault in verdict.violations)]
    faults = ", ".join(f"{n} {what}" for what, n in sorted(verdict.faults.items()))
    lines.append(
        f"{verdict.lives} lives in {verdict.seconds:.0f} s, {faults or 'no fault'}: "
        f"{len(verdict.violations) or 'no'} violations"
    )
    return "\n".join(lines)
