"""
How resources, publishers and subscribers are declared, in a session as in a simulation, and what can be wrong with them.
It is long because what can be wrong with a declaration stands with what makes it.

    publisher("plant/pose")          subscriber("plant/*", where="lum > 0")      publisher(7)
        │ a resource: name ◄► number     │ a selection: query ◄► number             │ the number
        ▼                                ▼                                          ▼
    the core's options ─► call ─► a handle, or a status ─► _publisher_made, _subscriber_made, or an error
"""

from __future__ import annotations

from pyddsi import names
from pyddsi._answers import Answers
from pyddsi._declared import Declared, Resource, Selection
from pyddsi._native import enumeration, ffi, lib
from pyddsi._values import SECOND, choose, nanoseconds, whole

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Generic, Literal, TypeVar

    from pyddsi._declared import Named

    Mode = Literal["push", "pull", "periodic_push", "periodic_pull", "push_pull"]
    OnFull = Literal["wait", "drop_oldest", "drop_newest"]
    Way = Literal["multicast", "unicast", "each", "auto"]
    Durability = Literal["volatile", "transient", "persistent"]

    P = TypeVar("P", bound=Declared)
    S = TypeVar("S", bound=Declared)
else:
    from pyddsi._plain import Generic

    P = S = object


__all__ = ["Declaring", "Durability", "Mode", "OnFull", "Way", "reliability"]

MODES = {name.removesuffix("_mode"): n for name, n in enumeration("pyddsi_mode", "PYDDSI_").items()}
ON_FULL = enumeration("pyddsi_on_full", "PYDDSI_")
WAYS = enumeration("pyddsi_way", "PYDDSI_WAY_")
DURABILITIES = enumeration("pyddsi_durability", "PYDDSI_")
ID_BITS_MAX = 56  # of an id on the wire, whatever rid_bits says
MILLISECOND = SECOND // 1000


def reliability(reliable: object) -> int:
    """A reliability as the core says it."""
    if reliable is None:
        return int(lib.PYDDSI_BY_RESOURCE)
    if not isinstance(reliable, bool):
        raise TypeError(
            f"reliable is True, False, or None for as the resource says, not {reliable!r}"
        )
    return int(lib.PYDDSI_RELIABLE if reliable else lib.PYDDSI_BEST_EFFORT)


def kept_as(durability: str) -> int:
    """A durability as the core says it."""
    chosen = choose("durability", durability, DURABILITIES)
    if chosen == lib.PYDDSI_PERSISTENT:
        raise ValueError(
            "durability='persistent' needs a store on disk, which pyddsi does not have yet; 'transient' keeps samples for "
            "as long as their publisher is there"
        )
    return chosen


class Declaring(Answers, Generic[P, S]):
    """What a session, or a node of a simulation, declares with. P are its publishers, S its subscribers."""

    DEPTH = 1024
    """How many samples may wait for a reader that does not say."""

    declared: dict[int, Declared]
    things: dict[tuple[str, int, int], Resource | Selection]
    _fixed: set[str]
    """Names whose numbers the program has chosen."""
    rid_bits: int
    life: int

    # ---- what the owner adds ----

    def call(self, name: str, *arguments: Any) -> int:
        """Call the core for it. ClosedError if it is closed."""
        raise NotImplementedError

    def _number_of(self, name: str, attempt: int) -> int | None:
        """The number for a name or a query; after a conflict the next one. None: there is no further one."""
        raise NotImplementedError

    def _named(self, name: str, number: int) -> None:
        """From now on this name has this number."""
        raise NotImplementedError

    def _called(self, space: int, wire_id: int, name: str) -> None:
        """From now on this id is known by this name."""
        raise NotImplementedError

    def _publisher_made(self, name: str | int, number: int, handle: int, **rest: Any) -> P:
        raise NotImplementedError

    def _subscriber_made(
        self, name: str | int, number: int, handle: int, options: Any, **rest: Any
    ) -> S:
        raise NotImplementedError

    # ---- declarations ----

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
        while True:  # ends but for another thread that closes what was made, each time
            made = self._resource_of(name, number, space, reliable, durability)
            if made.take(keep=True):
                return made

    def _resource_of(
        self,
        name: str,
        number: int | None,
        space: int,
        reliable: bool | None = None,  # noqa: FBT001 - as resource() has it
        durability: Durability | None = None,
    ) -> Resource:
        """The resource, made if need be."""
        parsed = names.Name(name)
        if parsed.predicate is not None:
            raise ValueError(
                f"{name!r} asks for samples, so it is for subscribers: leave out ?{{...}}"
            )
        wanted = False if reliable is None and "unreliable" in parsed.tags else reliable
        tagged = [tag for tag in parsed.tags if tag in DURABILITIES]
        kept: str = durability or (tagged[0] if tagged else "volatile")
        definition = reliability(wanted), kept
        silent = wanted is None and durability is None and not tagged
        if number is not None:
            number = self._number("number", number)
        path = ffi.from_buffer(parsed.path.encode())
        raw = {"data": ffi.cast("uint8_t *", path), "size": len(path)}
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        attempt = 0
        while True:
            chosen = self._number_of(parsed.path, attempt) if number is None else number
            if chosen is None:
                raise self.conflict(name, 0, "resource", space)
            found = self.things.get((parsed.path, chosen, space))
            if (
                isinstance(found, Resource)
                and found.usable
                and (silent or definition == found.definition)
            ):
                return found
            result = self.call_declaring(
                "resource",
                whole("space", space, 0, 255),
                chosen,
                raw,
                number is None and parsed.path not in self._fixed,
                definition[0],
                kept_as(kept),
                handle,
                status,
            )
            # a number of our own choice that somebody else has for another name: take the next one
            taken = number is None and found is None and self._is_conflict(result, status[0])
            if not taken or self._number_of(parsed.path, attempt + 1) is None:
                break
            attempt += 1
        self._declared("resource", name, chosen, result, status[0], space=space)
        self._named(parsed.path, chosen)
        if number is not None:
            self._fixed.add(parsed.path)
        made = Resource(self.as_owner(), name, chosen, handle[0], (), space=space)
        made.definition = definition
        self._called(space, chosen << 1, name)
        made.key = parsed.path, chosen, space
        self.things[made.key] = made
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
    ) -> P:
        """
        Publish a resource.

        resource: its name, or its number; a pattern reaches every subscriber that it has a name in common with
        reliable: whether lost samples are sent again; None: as the resource says, else yes
        durability: "transient" keeps `keep` samples for those who come late
        way: "multicast": one copy for all; "each": a copy for each, which is quicker for few; "auto": unicast to one
            subscriber, multicast to several; "unicast": to one subscriber, a second one is rejected
        conduit: the multicast conduit
        keep: samples kept for those who pull, or come late
        space: the resource space
        """
        options = ffi.new("pyddsi_publisher_options *")
        options.space = whole("space", space, 0, 255)
        options.reliability = reliability(reliable)
        options.durability = kept_as(durability)
        options.way = choose("way", way, WAYS)
        options.conduit = whole("conduit", conduit, 0, lib.PYDDSI_MULTICASTS_MAX - 1)
        options.shelf_samples = whole("keep", keep, 0, 2**32 - 1)
        options.resource, parts = self._resource(resource, space)
        handle = self._made("publisher", resource, options, parts)
        return self._publisher_made(resource, options.resource, handle, parts=parts, space=space)

    def subscriber(
        self,
        resource: str | int,
        *,
        depth: int | None = None,
        on_full: OnFull = "wait",
        mode: Mode = "push",
        where: str | None = None,
        guard: Mapping[P, int] | None = None,
        reliable: bool | None = None,
        period: float = 0.0,
        duration: float = 0.0,
        origin: float = 0.0,
        space: int = 0,
    ) -> S:
        """
        Subscribe to a resource, or to all that a pattern covers.

        resource: its name, a pattern such as "plant/*/pose", or a number
        depth: how many samples may wait for the reader; None: 1024 (64 in a simulation)
        on_full: what happens to the next one then: "wait" (the publisher has to), "drop_oldest", "drop_newest"
        mode: "push": as they are published; "pull": when asked for with `pull()`; "periodic_push", "periodic_pull": for
            `duration` seconds of every `period`, counted from `origin`; "push_pull"
        where: only samples for which this holds, such as "lum > 0 and $size < 100"; publishers look at it before they
            send. Fields are members of a JSON payload, $size, $resource, $byte0 to $byte63
        guard: samples come only while each of these publishers has room for so many bytes
        reliable: whether lost samples are to be sent again; None: as the publisher does
        """
        options = ffi.new("pyddsi_subscriber_options *")
        options.space = whole("space", space, 0, 255)
        options.reliability = reliability(reliable)
        options.mode = choose("mode", mode, MODES)
        options.on_full = choose("on_full", on_full, ON_FULL)
        options.depth = whole("depth", self.DEPTH if depth is None else depth, 1, 2**31)
        options.origin_ms = nanoseconds(origin, "origin") // MILLISECOND
        options.period_ms = nanoseconds(period, "period") // MILLISECOND
        options.duration_ms = nanoseconds(duration, "duration") // MILLISECOND
        self._guard(options, guard or {})
        predicate = names.Name(resource).predicate if isinstance(resource, str) else None
        options.is_selection = where is not None or predicate is not None
        if options.is_selection:
            options.resource, parts = self._selection(resource, where, space)
        else:
            options.resource, parts = self._resource(resource, space)
        handle = self._made("subscriber", resource, options, parts)
        return self._subscriber_made(
            resource, options.resource, handle, options, parts=parts, space=space
        )

    def call_declaring(self, kind: str, *arguments: Any) -> int:
        """Call the core for a declaration; AGAIN: its tables are full of what was closed before."""
        return self.call(kind, *arguments)

    def unnamed(self, thing: Named) -> None:
        """This thing has gone, and its number has no meaning any more."""
        if self.things.get(thing.key) is thing:
            del self.things[thing.key]
            self._fixed.discard(thing.key[0])

    def _made(self, kind: str, name: str | int, options: Any, parts: tuple[Named, ...]) -> int:
        """The handle of a publisher or subscriber; if it cannot be, its parts are given back."""
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        try:
            result = self.call_declaring(kind, options, handle, status)
            number, space = options.resource, options.space
            self._declared(kind, name, number, result, status[0], space=space)
        except BaseException:
            for part in parts:
                part.give_back()
            raise
        return int(handle[0])

    # ---- their parts ----

    def _guard(self, options: Any, guard: Mapping[P, int]) -> None:
        options.guards = whole("the number of guards", len(guard), 0, lib.PYDDSI_GUARD_MAX)
        for i, (publisher, size) in enumerate(guard.items()):
            if publisher._owner is not self.as_owner():  # noqa: SLF001 - of this family
                raise ValueError(f"guard: {publisher} is not a publisher of {self.title}")
            options.guard_publisher[i] = publisher._handle  # noqa: SLF001
            options.guard_bytes[i] = whole("bytes of a guard", size, 0, 2**32 - 1)

    def _resource(self, resource: str | int, space: int) -> tuple[int, tuple[Named, ...]]:
        if isinstance(resource, str):
            while not (made := self._resource_of(resource, None, space)).take(keep=False):
                pass  # another thread closed it just now
            return made.number, (made,)
        given: object = resource
        if isinstance(given, bool) or not isinstance(given, int):
            hint = "; decode() it first" if isinstance(given, bytes) else ""
            raise TypeError(f"a resource is a name, or a whole number, not {given!r}{hint}")
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
    ) -> tuple[int, tuple[Named, ...]]:
        if not isinstance(resource, str):
            raise TypeError(
                f"where= asks about a name or a pattern; give one instead of the number {resource}"
            )
        if where is not None and not isinstance(where, str):
            raise TypeError(f"where is a text, such as 'lum > 0 and $size < 100', not {where!r}")
        if where is not None:
            from pyddsi._predicate import check_predicate  # noqa: PLC0415 - few have one

            check_predicate(where)
        query = names.canonical(resource if where is None else f"{resource}?{{{where}}}")
        data = ffi.from_buffer(query.encode())
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        raw = {"data": ffi.cast("uint8_t *", data), "size": len(data)}
        attempt = 0
        while True:
            number = self._number_of(query, attempt)
            if number is None:
                raise self.conflict(query, 0, "selection", space)
            found = self.things.get((query, number, space))
            if isinstance(found, Selection) and found.take(keep=False):
                return number, (found,)
            result = self.call_declaring(
                "selection", whole("space", space, 0, 255), number, raw, 0, handle, status
            )
            taken = found is None and self._is_conflict(result, status[0])
            if not taken or self._number_of(query, attempt + 1) is None:
                break
            attempt += 1
        self._declared("selection", query, number, result, status[0], space=space)
        self._named(query, number)
        made = Selection(self.as_owner(), query, number, handle[0], (), space=space)
        self._called(space, number << 1 | 1, query)
        made.key = query, number, space
        made.take(keep=False)
        self.things[made.key] = made
        return number, (made,)
