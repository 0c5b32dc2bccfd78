"""What zhe knows of resources, publications and subscriptions: its own, and those of its peers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.real import zhe_bytes as wire
from tests.real.zhe_bytes import Declaration
from tests.real.zhe_config import Config, intersect, valid

OK, NO_SPACE, CONFLICT, INVALID, UNSUPPORTED = 0, 1, 2, 5, 6
OWN = -1


@dataclass(slots=True)
class Publication:
    """What the application publishes."""

    rid: int
    reliable: bool = True
    conduit: int = 0


@dataclass(slots=True)
class Tables:
    """The tables of one zhe. A definition belongs to itself (-1) or to slots of peers."""

    config: Config
    uris: dict[int, bytes] = field(default_factory=dict)
    owners: dict[int, set[int]] = field(default_factory=dict)
    publications: dict[int, Publication] = field(default_factory=dict)
    subscriptions: list[int] = field(default_factory=list)
    remote: dict[int, set[int]] = field(default_factory=dict)

    def judge(self, declarations: Iterable[Declaration]) -> tuple[int, int]:
        """What becomes of a transaction: the status, and the id at fault as it stands on the wire."""
        fresh: dict[int, bytes] = {}
        for one in declarations:
            status = self._judge(one, fresh)
            if status != OK:
                return status, one.doubled or one.rid << 1
        return OK, 0

    def _judge(self, one: Declaration, fresh: dict[int, bytes]) -> int:
        config = self.config
        if one.kind in {wire.SELECTION, wire.BINDING}:
            return UNSUPPORTED
        if one.kind == wire.SUBSCRIPTION:
            if not 0 < one.rid < config.rid_max:
                return INVALID
            return OK if one.mode == wire.PUSH else UNSUPPORTED
        if one.kind != wire.RESOURCE or config.uris == 0:
            return OK
        if not 0 < one.rid <= config.rid_max or not valid(one.uri, config.uri_max):
            return INVALID
        known = self.uris.get(one.rid, fresh.get(one.rid))
        if known is not None:
            return OK if known == one.uri else CONFLICT
        if one.rid in self.publications or one.rid in self.subscriptions:
            return CONFLICT
        if len(self.uris) + len(fresh) >= config.uris:
            return NO_SPACE
        fresh[one.rid] = one.uri
        return OK

    def apply(self, declarations: Iterable[Declaration], owner: int) -> None:
        """All of them take effect."""
        for one in declarations:
            if one.kind == wire.RESOURCE and self.config.uris:
                self.uris[one.rid] = one.uri
                self.owners.setdefault(one.rid, set()).add(owner)
            elif one.kind == wire.SUBSCRIPTION:
                self.remote.setdefault(owner, set()).add(one.rid)

    def forget(self, owner: int) -> None:
        """A peer is gone."""
        self.remote.pop(owner, None)
        for rid, owners in list(self.owners.items()):
            owners.discard(owner)
            if not owners:
                del self.owners[rid], self.uris[rid]

    def same(self, one: int, two: int) -> bool:
        """Whether what is published as the one is wanted by who subscribes to the other."""
        if one == two:
            return True
        left, right = self.uris.get(one), self.uris.get(two)
        return left is not None and right is not None and intersect(left, right)

    def wanted(self, rid: int) -> bool:
        """Whether a peer subscribes to it."""
        return any(self.same(rid, other) for rids in self.remote.values() for other in rids)

    def readers(self, rid: int) -> Iterator[int]:
        """The subscriptions here that want a sample of this resource."""
        return (one for one in self.subscriptions if self.same(rid, one))

    def readers_by_uri(self, uri: bytes) -> Iterator[int]:
        """The subscriptions here that want a sample with this name."""
        for one in self.subscriptions:
            known = self.uris.get(one)
            if known is not None and intersect(known, uri):
                yield one

    def own(self) -> tuple[list[Declaration], list[Declaration], list[Declaration]]:
        """What is declared here: resources, publications, subscriptions. Clients never declare resources."""
        peer = self.config.role == "peer"
        resources = [
            Declaration(wire.RESOURCE, rid, uri)
            for rid, uri in self.uris.items()
            if peer and OWN in self.owners[rid]
        ]
        publications = [Declaration(wire.PUBLICATION, rid) for rid in self.publications if not peer]
        wanted = [Declaration(wire.SUBSCRIPTION, rid) for rid in self.subscriptions]
        return resources, publications, wanted
