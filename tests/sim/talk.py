"""
A session of a node and a stranger that declares.
"""

from __future__ import annotations

from typing import Unpack

from pyddsi import wire
from pyddsi.testing import NodeOptions
from tests.sim.stranger import AUTHENTICATION, alone, features


class Talk:
    """A session of a node and a stranger that declares."""

    def __init__(
        self, *, mode: int = 0, plain: bool = False, **options: Unpack[NodeOptions]
    ) -> None:
        self.sim, self.node, self.stranger = alone(**options)
        properties = [AUTHENTICATION] if plain else features(127)
        if mode:
            properties.append(wire.Property(wire.PropertyId.COMMIT_MODE, bytes([mode])))
        self.stranger.meet(properties=properties)
        self.stranger.begin()
        self.sn = 0
        self.commits = 0
        self.unanswered: list[int] = []

    def declare(self, *declarations: wire.Declaration, committed: bool = False) -> None:
        """One DECLARE, next in order."""
        message = wire.Declare(self.sn, declarations, committed=committed, sync=True)
        self.stranger.say(message)
        self.sn += 1

    def transaction(self, *declarations: wire.Declaration) -> tuple[wire.Status | int, object]:
        """Declarations and their commit; the status of the one result, and the id at fault."""
        self.results()
        self.declare(*declarations, wire.Commit(self.commits))
        (result,) = self.results()
        assert result.commit == self.commits
        self.commits += 1
        return result.status, result.id

    def heard(self) -> list[wire.Declaration]:
        """The node's declarations since the last look, each acknowledged; what came twice is here once."""
        found: dict[int, wire.Declare] = {}
        for message in self.stranger.heard():
            if isinstance(message, wire.Declare):
                found.setdefault(message.sn, message)
        if found:
            self.stranger.say(wire.Conduit(1), wire.AckNack(max(found) + 1))
        heard = [one for sn in sorted(found) for one in found[sn].declarations]
        self.unanswered += commits(heard)
        return heard

    def results(self) -> list[wire.Result]:
        """Those of them that answer commits."""
        self.sim.run(0.002)
        return [one for one in self.heard() if isinstance(one, wire.Result)]

    def answer(self, commit: int, status: int, at_fault: int | None = None) -> None:
        """The stranger's result for a commit of the node."""
        self.declare(wire.Result(commit, status, id=at_fault), committed=True)

    def settle(self) -> None:
        """Whatever the node has declared is accepted."""
        self.sim.run(0.01)
        self.heard()
        while self.unanswered:
            self.answer(self.unanswered.pop(0), wire.Status.OK)


def commits(heard: list[wire.Declaration]) -> list[int]:
    """The numbers of the commits among them."""
    return [one.commit for one in heard if isinstance(one, wire.Commit)]
