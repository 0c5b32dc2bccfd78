"""The half of a node that declares: resources, publishers, subscribers, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pyddsi import names
from pyddsi._native import enumeration, ffi, lib
from pyddsi.errors import ClosedError, ConflictError, DeclarationError
from pyddsi.testing._declared import Declared, Resource, Selection
from pyddsi.testing._looks import STATUSES
from pyddsi.testing._publisher import Publisher
from pyddsi.testing._subscriber import Subscriber
from pyddsi.testing._world import World, choose, nanoseconds, whole

if TYPE_CHECKING:
    from pyddsi.testing._node import Node

Mode = Literal["push", "pull", "periodic_push", "periodic_pull", "push_pull"]
OnFull = Literal["wait", "drop_oldest", "drop_newest"]
Way = Literal["multicast", "unicast", "each", "auto"]
Durability = Literal["volatile", "transient", "persistent"]

MODES = {name.removesuffix("_mode"): n for name, n in enumeration("pyddsi_mode", "PYDDSI_").items()}
ON_FULL = enumeration("pyddsi_on_full", "PYDDSI_")
WAYS = enumeration("pyddsi_way", "PYDDSI_WAY_")
DURABILITIES = enumeration("pyddsi_durability", "PYDDSI_")
ID_BITS_MAX = 56  # of an id on the wire, whatever rid_bits says


def _reliability(reliable: object) -> int:
    if reliable is None:
        return int(lib.PYDDSI_BY_RESOURCE)
    if not isinstance(reliable, bool):
        raise TypeError(
            f"reliable is True, False, or None for as the resource says, not {reliable!r}"
        )
    return int(lib.PYDDSI_RELIABLE if reliable else lib.PYDDSI_BEST_EFFORT)


class Declaring:
    """What a Node declares with."""

    name: str
    index: int
    world: World
    closed: bool
    rid_bits: int
    things: dict[tuple[str, int, int], Resource | Selection]

    def enter(self) -> Any:
        """The handle of the world, if this node can still do something in it."""
        raise NotImplementedError

    def as_node(self) -> Node:
        """The whole that this is a half of."""
        raise NotImplementedError

    def resource(
        self,
        name: str,
        *,
        number: int | None = None,
        space: int = 0,
        reliable: bool | None = None,
        durability: Durability | None = None,
    ) -> Resource:
        """
        Give a name a number, and say how its samples are to be treated.

        Publishers and subscribers do this by themselves. Do it to choose the number, or the definition: tags in the
        name, as in `plant/robot#{unreliable}`, or these keywords.
        """
        parsed = names.Name(name)
        if number is None:
            number = self.world.number(parsed.path, self.rid_bits)
        else:
            self.world.named(parsed.path, self._number("number", number))
        reliability = False if reliable is None and "unreliable" in parsed.tags else reliable
        tagged = [tag for tag in parsed.tags if tag in DURABILITIES]
        kept: str = durability or (tagged[0] if tagged else "volatile")
        definition = _reliability(reliability), kept
        key = (parsed.path, number, space)
        found = self.things.get(key)
        if isinstance(found, Resource) and found.usable:
            silent = reliability is None and durability is None and not tagged
            if silent or definition == found.definition:
                return found
        path = ffi.from_buffer(parsed.path.encode())
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        result = lib.pyddsi_sim_resource(
            self.enter(),
            self.index,
            whole("space", space, 0, 255),
            number,
            {"data": ffi.cast("uint8_t *", path), "size": len(path)},
            definition[0],
            choose("durability", kept, DURABILITIES),
            handle,
            status,
        )
        self._declared("resource", name, number, result, status[0], space=space)
        made = Resource(self.as_node(), name, number, handle[0], (), space=space)
        made.definition = definition
        self.world.names.setdefault((space, number << 1), name)
        self.things[key] = made
        return made

    def publisher(
        self,
        resource: str | int,
        *,
        reliable: bool | None = None,
        durability: Durability = "volatile",
        way: Way = "multicast",
        conduit: int = 0,
        keep: int = 0,
        space: int = 0,
    ) -> Publisher:
        """
        Publish a resource.

        resource: its name, or its number
        reliable: whether lost samples are sent again; None: as the resource says, else yes
        durability: "transient" keeps `keep` samples for those who come late
        way: "multicast": one copy for all; "unicast": to one subscriber, a second one is rejected; "each": a copy for
            each; "auto": unicast to one, multicast to several
        conduit: the multicast conduit
        keep: samples kept for those who pull, or come late
        space: the resource space
        """
        number, parts = self._resource(resource, space)
        options = ffi.new("pyddsi_publisher_options *")
        options.resource, options.space = number, whole("space", space, 0, 255)
        options.reliability = _reliability(reliable)
        options.durability = choose("durability", durability, DURABILITIES)
        options.way = choose("way", way, WAYS)
        options.conduit = whole("conduit", conduit, 0, lib.PYDDSI_MULTICASTS_MAX - 1)
        options.shelf_samples = whole("keep", keep, 0, 2**32 - 1)
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        result = lib.pyddsi_sim_publisher(self.enter(), self.index, options, handle, status)
        self._declared("publisher", resource, number, result, status[0], space=space)
        return Publisher(self.as_node(), resource, number, handle[0], parts, space=space)

    def subscriber(
        self,
        resource: str | int,
        *,
        depth: int = 64,
        on_full: OnFull = "wait",
        mode: Mode = "push",
        where: str | None = None,
        guard: Mapping[Publisher, int] | None = None,
        reliable: bool | None = None,
        period: float = 0.0,
        duration: float = 0.0,
        origin: float = 0.0,
        space: int = 0,
    ) -> Subscriber:
        """
        Subscribe to a resource, or to all that a pattern covers.

        resource: its name, a pattern such as "plant/*/pose", or a number
        depth: how many samples may wait for the reader
        on_full: what happens to the next one then: "wait" (the publisher has to), "drop_oldest", "drop_newest"
        mode: "push": as they are published; "pull": when asked for with `pull()`; "periodic_push", "periodic_pull": for
            `duration` seconds of every `period`, counted from `origin`; "push_pull"
        where: only samples for which this holds, such as "lum > 0 and $size < 100"; publishers look at it before they
            send. Fields are members of a JSON payload, $size, $resource, $byte0 to $byte63
        guard: samples come only while each of these publishers has room for so many bytes
        reliable: whether lost samples are to be sent again; None: as the publisher does
        """
        options = ffi.new("pyddsi_subscriber_options *")
        predicate = names.Name(resource).predicate if isinstance(resource, str) else None
        if where is not None or predicate is not None:
            number, parts = self._selection(resource, where, space)
            options.is_selection = 1
        else:
            number, parts = self._resource(resource, space)
        options.resource, options.space = number, whole("space", space, 0, 255)
        options.reliability = _reliability(reliable)
        options.mode = choose("mode", mode, MODES)
        options.on_full = choose("on_full", on_full, ON_FULL)
        options.depth = whole("depth", depth, 1, 2**31)
        options.origin_ms = nanoseconds(origin, "origin") // 1_000_000
        options.period_ms = nanoseconds(period, "period") // 1_000_000
        options.duration_ms = nanoseconds(duration, "duration") // 1_000_000
        self._guard(options, guard or {})
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        result = lib.pyddsi_sim_subscriber(self.enter(), self.index, options, handle, status)
        self._declared("subscriber", resource, number, result, status[0], space=space)
        return Subscriber(self.as_node(), resource, number, handle[0], parts, space=space)

    def _guard(self, options: Any, guard: Mapping[Publisher, int]) -> None:
        options.guards = whole("the number of guards", len(guard), 0, lib.PYDDSI_GUARD_MAX)
        for i, (publisher, size) in enumerate(guard.items()):
            if publisher.node is not self:
                raise ValueError(f"a guard is a publisher of the same node, not {publisher}")
            options.guard_publisher[i] = publisher.place[1]
            options.guard_bytes[i] = whole("bytes of a guard", size, 0, 2**32 - 1)

    def _resource(self, resource: str | int, space: int) -> tuple[int, tuple[Declared, ...]]:
        if isinstance(resource, str):
            made = self.resource(resource, space=space)
            return made.number, (made,)
        return self._number("a resource's number", resource), ()

    def _number(self, what: str, number: object) -> int:
        """A number whose double is an id of this node: of rid_bits bits, and never of more than 56."""
        most = 2 ** (min(self.rid_bits, ID_BITS_MAX) - 1) - 1
        if isinstance(number, int) and number > most:
            raise ValueError(
                f"{what} is from 1 to {most} in a node with rid_bits={self.rid_bits}, not {number}"
            )
        return whole(what, number, 1, most)

    def _selection(
        self, resource: str | int, where: str | None, space: int
    ) -> tuple[int, tuple[Declared, ...]]:
        if not isinstance(resource, str):
            raise TypeError(
                f"where= asks about a name or a pattern; give one instead of the number {resource}"
            )
        query = names.canonical(resource if where is None else f"{resource}?{{{where}}}")
        number = self.world.number(query, self.rid_bits)
        key = (query, number, space)
        found = self.things.get(key)
        if isinstance(found, Selection) and found.usable:
            return number, (found,)
        data = ffi.from_buffer(query.encode())
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        raw = {"data": ffi.cast("uint8_t *", data), "size": len(data)}
        result = lib.pyddsi_sim_selection(
            self.enter(), self.index, whole("space", space, 0, 255), number, raw, 0, handle, status
        )
        self._declared("selection", query, number, result, status[0], space=space)
        made = Selection(self.as_node(), query, number, handle[0], (), space=space)
        self.world.names.setdefault((space, number << 1 | 1), query)
        self.things[key] = made
        return number, (made,)

    def _declared(
        self, kind: str, name: str | int, number: int, result: int, status: int, *, space: int
    ) -> None:
        """What a declaration answered."""
        if result == lib.PYDDSI_OK:
            return
        self.world.blame()
        what = f"{kind} {name!r} of node {self.name!r}"
        if self.closed:
            raise ClosedError(f"{what}: the node is closed")
        if result == lib.PYDDSI_NO_SPACE:
            raise DeclarationError(
                f"{what}: a table of the node is full; give it a larger {kind}s_max, or for subscribers ring_samples",
                status="no_space",
            )
        if result == lib.PYDDSI_AGAIN:
            raise DeclarationError(
                f"{what}: not all peers have heard of what was closed before; let time pass",
                status="try_again",
            )
        said = STATUSES.get(status, "other")
        if said == "conflict":
            raise self.conflict(name, number, kind, space)
        if status == 0:
            raise ValueError(f"{what}: these options cannot be")
        raise DeclarationError(f"{what} cannot be: {said}", status=said)

    def conflict(
        self, name: str | int, number: int, kind: str, space: int, itself: Declared | None = None
    ) -> ConflictError:
        """The error for a declaration that contradicts another one, which is this one's `itself` if it was made."""
        there = [
            thing
            for node in self.world.nodes
            for thing in node.declared.values()
            if (thing.number, thing.space) == (number, space)
        ]
        things = Selection if kind == Selection.KIND else Resource
        known = [thing for thing in there if isinstance(thing, things)]
        rivals = [thing for thing in there if thing is not itself]
        here = [thing for thing in rivals if thing.node is self.as_node()]
        others = {t.name: t for t in (*known, *here) if isinstance(t, things) and t.name != name}
        if kind == Subscriber.KIND:
            who = [f"the earlier {thing}" for thing in here if isinstance(thing, Subscriber)]
            rule = "subscribers of one node to one resource have the same mode, reliable=, period, duration and origin"
        elif others:
            who = [f"{t.name!r} of node {t.node.name!r}" for t in others.values()]
            rule = "one number has one name, and one name one definition"
        else:
            who = [f"the earlier {thing}" for thing in here if isinstance(thing, things)]
            who = who or [str(thing) for thing in rivals if isinstance(thing, Publisher)]
            rule = "one name has one definition: say reliable= and durability= once, and before there are publishers"
        return ConflictError(
            f"{kind} {name!r} of node {self.name!r}, number {number}, contradicts "
            + (" and ".join(who) or "what is declared of it elsewhere")
            + f"; {rule}",
            number=number,
            names=list(dict.fromkeys(str(thing.name) for thing in known)) or [str(name)],
        )
