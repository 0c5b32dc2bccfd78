"""A node of a Sim: what its application can do, and what it can be asked."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pyddsi import names
from pyddsi._native import enumeration, ffi, lib, text
from pyddsi.capture import Endpoint
from pyddsi.errors import ClosedError, ConflictError, DeclarationError
from pyddsi.testing._declared import Declared, Resource, Selection
from pyddsi.testing._looks import (
    FEATURES,
    STATUSES,
    Drop,
    Event,
    Peer,
    Stats,
    Window,
    copied,
    endpoint,
    raw_endpoint,
    reason_name,
    state_name,
)
from pyddsi.testing._options import configure
from pyddsi.testing._publisher import Buffer, Publisher
from pyddsi.testing._subscriber import Subscriber
from pyddsi.testing._world import SECOND, World, choose, nanoseconds, whole

if TYPE_CHECKING:
    from pyddsi.testing._sim import Sim

Mode = Literal["push", "pull", "periodic_push", "periodic_pull", "push_pull"]
OnFull = Literal["wait", "drop_oldest", "drop_newest"]
Way = Literal["multicast", "unicast", "each", "auto"]
Durability = Literal["volatile", "transient", "persistent"]

MODES = {name.removesuffix("_mode"): n for name, n in enumeration("pyddsi_mode", "PYDDSI_").items()}
ON_FULL = enumeration("pyddsi_on_full", "PYDDSI_")
WAYS = enumeration("pyddsi_way", "PYDDSI_WAY_")
DURABILITIES = enumeration("pyddsi_durability", "PYDDSI_")
RELIABILITIES = {
    None: lib.PYDDSI_BY_RESOURCE,
    True: lib.PYDDSI_RELIABLE,
    False: lib.PYDDSI_BEST_EFFORT,
}


class Node:
    """One participant of a Sim. Made by `Sim.node`."""

    def __init__(self, sim: Sim, world: World, name: str, options: Mapping[str, Any]) -> None:
        config = configure(options)
        why = ffi.new("const char **")
        index = lib.pyddsi_sim_node(world.enter(), config, why)
        if index < 0:
            raise ValueError(f"node {name!r}: {text(why[0])}")
        self.sim = sim
        self.world = world
        self.name = name
        self.index = int(index)
        self.life = 0
        """How often it has crashed."""
        self.closed = False
        self.views = 0
        """Samples that somebody may still look at."""
        lib.pyddsi_sim_config(world.enter(), index, config)
        self.id = bytes(config.id[0 : config.id_size])
        """What it is called on the wire."""
        self.packet_max = int(config.packet_max)
        self._rid_bits = int(config.rid_bits)
        self._lent: weakref.WeakValueDictionary[int, memoryview] = weakref.WeakValueDictionary()
        self._lent_count = 0
        self._forget_all()

    def _forget_all(self) -> None:
        self.declared: dict[int, Declared] = {}
        self.matches: dict[int, set[str]] = {}
        self._events: list[Event] = []
        self._things: dict[tuple[str, int, int], Resource | Selection] = {}

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running" if self.running else "crashed"
        return f"<Node {self.name!r}, {state}>"

    # ---- its life ----

    @property
    def running(self) -> bool:
        """Whether it has not crashed."""
        return not self.world.closed and bool(
            lib.pyddsi_sim_running(self.world.enter(), self.index)
        )

    def enter(self) -> Any:
        """The handle of the world, if this node can still do something in it."""
        sim = self.world.enter()
        if not lib.pyddsi_sim_running(sim, self.index):
            raise ClosedError(f"node {self.name!r} has crashed; restart() it first")
        return sim

    @property
    def endpoint(self) -> Endpoint:
        """Its own address."""
        raw = ffi.new("pyddsi_endpoint *")
        lib.pyddsi_sim_endpoint(self.world.enter(), self.index, raw)
        found = endpoint(raw)
        assert found is not None  # noqa: S101 - every node has one
        return found

    def close(self) -> None:
        """Say farewell to all peers, and accept nothing more."""
        if not self.closed and self.running:
            self.recall()
            self.closed = True
            lib.pyddsi_sim_close(self.enter(), self.index)

    def crash(self) -> None:
        """End without a word. All that it has declared, and its samples, are gone."""
        sim = self.enter()
        self.recall()
        lib.pyddsi_sim_crash(sim, self.index)
        self.life += 1
        self._forget_all()

    def restart(self, *, same_port: bool = True) -> None:
        """Start again as a new incarnation with the same id. A running node crashes first."""
        if self.running:
            self.crash()
        self.recall()
        if self.views:
            raise BufferError(
                f"node {self.name!r} cannot restart: its memory is used again, and {self.views} samples are still "
                f"looked at, through parts of their views or arrays made of them; delete these, or copy with bytes()"
            )
        self.life += 1
        self.closed = False
        lib.pyddsi_sim_restart(self.world.enter(), self.index, same_port)

    def pause(self, duration: float) -> None:
        """Do nothing for so many seconds: packets wait for it, deadlines pass. 0: go on now."""
        lib.pyddsi_sim_pause(self.enter(), self.index, nanoseconds(duration, "duration"))

    def clock_step(self, step: float) -> None:
        """Its clock jumps ahead by so many seconds, or back; then it stands still until the world has caught up."""
        amount = nanoseconds(abs(step), "step")
        signed = -amount if step < 0 else amount
        if lib.pyddsi_sim_clock_step(self.enter(), self.index, signed) != lib.PYDDSI_OK:
            raise ValueError(f"a clock cannot step by {step} s at once; 104 days is the most")

    # ---- what it declares ----

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
            number = self.world.number(parsed.path, self._rid_bits)
        else:
            self.world.named(parsed.path, whole("number", number, 1, 2**55))
        key = (parsed.path, number, space)
        found = self._things.get(key)
        if isinstance(found, Resource) and found.usable:
            return found
        reliability = False if reliable is None and "unreliable" in parsed.tags else reliable
        tagged = [tag for tag in parsed.tags if tag in DURABILITIES]
        kept: str = durability or (tagged[0] if tagged else "volatile")
        path = ffi.from_buffer(parsed.path.encode())
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        result = lib.pyddsi_sim_resource(
            self.enter(),
            self.index,
            whole("space", space, 0, 255),
            number,
            {"data": ffi.cast("uint8_t *", path), "size": len(path)},
            RELIABILITIES[reliability],
            choose("durability", kept, DURABILITIES),
            handle,
            status,
        )
        self._declared("resource", name, number, result, status[0])
        made = Resource(self, name, number, handle[0], ())
        self.world.names.setdefault((space, number << 1), name)
        self._things[key] = made
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
        options.reliability = RELIABILITIES[reliable]
        options.durability = choose("durability", durability, DURABILITIES)
        options.way = choose("way", way, WAYS)
        options.conduit = whole("conduit", conduit, 0, lib.PYDDSI_MULTICASTS_MAX - 1)
        options.shelf_samples = whole("keep", keep, 0, 2**32 - 1)
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        result = lib.pyddsi_sim_publisher(self.enter(), self.index, options, handle, status)
        self._declared("publisher", resource, number, result, status[0])
        return Publisher(self, resource, number, handle[0], parts)

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
        options.reliability = RELIABILITIES[reliable]
        options.mode = choose("mode", mode, MODES)
        options.on_full = choose("on_full", on_full, ON_FULL)
        options.depth = whole("depth", depth, 1, 2**31)
        options.origin_ms = nanoseconds(origin, "origin") // 1_000_000
        options.period_ms = nanoseconds(period, "period") // 1_000_000
        options.duration_ms = nanoseconds(duration, "duration") // 1_000_000
        self._guard(options, guard or {})
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        result = lib.pyddsi_sim_subscriber(self.enter(), self.index, options, handle, status)
        self._declared("subscriber", resource, number, result, status[0])
        return Subscriber(self, resource, number, handle[0], parts)

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
        return whole("a resource's number", resource, 1, 2**55), ()

    def _selection(
        self, resource: str | int, where: str | None, space: int
    ) -> tuple[int, tuple[Declared, ...]]:
        if not isinstance(resource, str):
            raise TypeError(
                f"where= asks about a name or a pattern; give one instead of the number {resource}"
            )
        query = names.canonical(resource if where is None else f"{resource}?{{{where}}}")
        number = self.world.number(query, self._rid_bits)
        key = (query, number, space)
        found = self._things.get(key)
        if isinstance(found, Selection) and found.usable:
            return number, (found,)
        data = ffi.from_buffer(query.encode())
        handle, status = ffi.new("uint32_t *"), ffi.new("int *")
        raw = {"data": ffi.cast("uint8_t *", data), "size": len(data)}
        result = lib.pyddsi_sim_selection(
            self.enter(), self.index, whole("space", space, 0, 255), number, raw, 0, handle, status
        )
        self._declared("selection", query, number, result, status[0])
        made = Selection(self, query, number, handle[0], ())
        self.world.names.setdefault((space, number << 1 | 1), query)
        self._things[key] = made
        return number, (made,)

    def _declared(self, kind: str, name: str | int, number: int, result: int, status: int) -> None:
        """What a declaration answered."""
        if result == lib.PYDDSI_OK:
            return
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
            raise self.conflict(name, number, kind)
        if status == 0:
            raise ValueError(f"{what}: these options cannot be")
        raise DeclarationError(f"{what} cannot be: {said}", status=said)

    def conflict(self, name: str | int, number: int, kind: str) -> ConflictError:
        """The error for a declaration that contradicts another one."""
        known = {
            thing.name: f"{thing.name!r} of node {node.name!r}"
            for node in self.world.nodes
            for thing in node.declared.values()
            if thing.number == number and isinstance(thing, (Resource, Selection))
        }
        others = [shown for other, shown in known.items() if other != name]
        return ConflictError(
            f"{kind} {name!r} of node {self.name!r}, number {number}, contradicts "
            + (" and ".join(others) if others else "what is declared of it elsewhere")
            + "; one number has one name, and one name one definition",
            number=number,
            names=[str(one) for one in known] or [str(name)],
        )

    # ---- samples ----

    def put(self, name: str, data: Buffer, *, reliable: bool = True) -> bool:
        """Publish a sample to a name that nobody declared, to all peers. False: no room now, nothing has happened."""
        path = ffi.from_buffer(names.Name(name).path.encode())
        view = ffi.from_buffer(data)
        raw = {"data": ffi.cast("uint8_t *", path), "size": len(path)}
        status = lib.pyddsi_sim_put_name(self.enter(), self.index, raw, reliable, view, len(view))
        if status not in {lib.PYDDSI_OK, lib.PYDDSI_AGAIN}:
            raise ValueError(
                f"node {self.name!r}: a sample of {len(view)} bytes for {name!r} does not fit one packet, or the node is "
                f"closed; declare a publisher for larger ones"
            )
        return bool(status == lib.PYDDSI_OK)

    def flush(self) -> None:
        """Send now what waits for company in its packet."""
        lib.pyddsi_sim_flush(self.enter(), self.index)

    def lend(self, raw: Any) -> memoryview:
        """The data of a received sample; it goes back when nobody looks at it any more."""
        back = partial(self.world.give_back, self.index, self.life, raw)
        self.views += 1
        data = raw.data if raw.data != ffi.NULL else ffi.new("uint8_t[1]")
        view = memoryview(ffi.buffer(ffi.gc(data, back), raw.size)).toreadonly()
        self._lent[self._lent_count] = view
        self._lent_count += 1
        return view

    def recall(self) -> None:
        """Release all views of samples, as far as nothing was made of them."""
        for view in list(self._lent.values()):
            try:
                view.release()
            except BufferError:
                continue

    # ---- sessions ----

    def close_session(self, peer: Node, *, reason: int = 0) -> None:
        """End the session with another node; both find each other again."""
        raw = ffi.new("pyddsi_endpoint *", raw_endpoint("endpoint", peer.endpoint))
        status = lib.pyddsi_sim_close_session(
            self.enter(), self.index, raw, whole("reason", reason, 0, 255)
        )
        if status != lib.PYDDSI_OK:
            raise ValueError(f"node {self.name!r} has no session with {peer.name!r}")

    def peer_window(self, peer: Node, *, bytes_max: int, samples_max: int = 256) -> None:
        """The size of the window to this peer, from their next session on."""
        raw = {"data": ffi.from_buffer("uint8_t[]", peer.id), "size": len(peer.id)}
        status = lib.pyddsi_sim_peer_window(
            self.enter(),
            self.index,
            raw,
            whole("bytes_max", bytes_max, 0, 2**32 - 1),
            whole("samples_max", samples_max, 0, 2**32 - 1),
        )
        if status != lib.PYDDSI_OK:
            raise ValueError(
                f"node {self.name!r}: a window of {bytes_max} bytes and {samples_max} samples cannot be"
            )

    # ---- looks ----

    def pump(self) -> None:
        """Take the node's events out of the core, so that none is lost there."""
        raw = ffi.new("pyddsi_event *")
        while lib.pyddsi_sim_event(self.world.enter(), self.index, raw) == lib.PYDDSI_OK:
            event = self._event(raw)
            self._events.append(event)
            if event.kind == "matched" and event.peer is not None:
                self.matches.setdefault(raw.handle, set()).add(event.peer)
            elif event.kind == "unmatched" and event.peer is not None:
                self.matches.setdefault(raw.handle, set()).discard(event.peer)

    def _event(self, raw: Any) -> Event:
        kind = text(lib.pyddsi_event_name(raw.kind))
        resource = self.name_of(0, raw.resource)
        return Event(
            kind,
            raw.time_ns,
            peer=self._name_by_id(bytes(raw.id[0 : raw.id_size])) if raw.id_size else None,
            of=self.declared.get(raw.handle),
            status=STATUSES.get(raw.status, "other"),
            reason=reason_name(raw.reason) if kind == "disconnected" else None,
            resource=resource,
            conduit=raw.conduit,
            first=raw.first,
            last=raw.last,
            incarnation=raw.incarnation,
            endpoint=endpoint(raw.endpoint),
        )

    def events(self) -> list[Event]:
        """What has happened since this was last asked, oldest first."""
        self.pump()
        found, self._events = self._events, []
        return found

    def drops(self) -> list[Drop]:
        """The ledger: all that was dropped, and why."""
        raw = ffi.new("pyddsi_drop *")
        found: list[Drop] = []
        sim = self.enter()
        while lib.pyddsi_sim_drop(sim, self.index, len(found), raw) == lib.PYDDSI_OK:
            place, reason = lib.pyddsi_place_name(raw.place), lib.pyddsi_reason_name(raw.reason)
            about = self.name_of(raw.space, raw.resource)
            found.append(copied(Drop, raw, place=text(place), reason=text(reason), resource=about))
        return found

    def stats(self) -> Stats:
        """What it has done so far."""
        raw = ffi.new("pyddsi_stats *")
        lib.pyddsi_sim_stats(self.enter(), self.index, raw)
        return copied(Stats, raw)

    def peers(self) -> list[Peer]:
        """The nodes that it knows."""
        raw = ffi.new("pyddsi_peer *")
        found: list[Peer] = []
        index, sim = 0, self.enter()
        while lib.pyddsi_sim_peer(sim, self.index, index, raw) == lib.PYDDSI_OK:
            index += 1
            if raw.id_size == 0:
                continue
            peer_id = bytes(raw.id[0 : raw.id_size])
            found.append(
                copied(
                    Peer,
                    raw,
                    name=self._name_by_id(peer_id),
                    id=peer_id,
                    state=state_name(raw.state),
                    endpoint=endpoint(raw.endpoint),
                    features=frozenset(n for n, bit in FEATURES.items() if raw.features & bit),
                    lease=raw.lease_ms / 1000,
                    rtt=raw.rtt_ns / SECOND,
                )
            )
        return found

    def window(self, conduit: int = 0) -> Window | None:
        """A transmit window: 0 and above of a multicast conduit, -1 - i to peer i; None: there is none now."""
        raw = ffi.new("pyddsi_window *")
        status = lib.pyddsi_sim_window(self.enter(), self.index, conduit, raw)
        return copied(Window, raw) if status == lib.PYDDSI_OK else None

    def _name_by_id(self, peer_id: bytes) -> str:
        node = self.world.node_by_id(peer_id)
        return peer_id.hex() if node is None else node.name

    def peer_name(self, index: int) -> str:
        """The name of the peer with this index now."""
        raw = ffi.new("pyddsi_peer *")
        if lib.pyddsi_sim_peer(self.enter(), self.index, index, raw) != lib.PYDDSI_OK:
            return "?"
        return self._name_by_id(bytes(raw.id[0 : raw.id_size]))

    def name_of(self, space: int, wire_id: int) -> str | int | None:
        """What a resource or selection with this id on the wire is called in the world, or its number."""
        if wire_id == 0:
            return None
        return self.world.name_of(space, wire_id)
