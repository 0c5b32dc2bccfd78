"""A node of a Sim: what its application can do, and what it can be asked."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyddsi import names
from pyddsi._declare import Declaring
from pyddsi._declared import TIMEOUT, Declared, Resource, Selection
from pyddsi._endpoints import raw_endpoint
from pyddsi._looks import (
    PRESENT,
    Drop,
    Event,
    Peer,
    Stats,
    Window,
    copied,
    drops_of,
    endpoint,
    event_of,
    peer_of,
)
from pyddsi._native import ffi, lib, text
from pyddsi._refusals import Refusal, refusal_of
from pyddsi._values import nanoseconds, whole
from pyddsi.capture import Endpoint
from pyddsi.errors import ClosedError
from pyddsi.testing._options import configure
from pyddsi.testing._publisher import Buffer, Publisher
from pyddsi.testing._subscriber import Subscriber
from pyddsi.testing._world import World, payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyddsi._declared import Owner
    from pyddsi.testing._sim import Sim


class Node(Declaring[Publisher, Subscriber]):
    """One participant of a Sim. Made by `Sim.node`."""

    DEPTH = 64

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
        """Samples and loans that somebody may still look at."""
        lib.pyddsi_sim_config(world.enter(), index, config)
        self.id = bytes(config.id[0 : config.id_size])
        """What it is called on the wire."""
        self.packet_max = int(config.packet_max)
        self.rid_bits = int(config.rid_bits)
        self._lent: weakref.WeakValueDictionary[int, memoryview] = weakref.WeakValueDictionary()
        self._lent_count = 0
        self._raw_event = ffi.new("pyddsi_event *")
        self._raw_peer = ffi.new("pyddsi_peer *")
        self._forget_all()

    def _forget_all(self) -> None:
        self.declared: dict[int, Declared] = {}
        self.matches: dict[int, set[str]] = {}
        self._events: list[Event] = []
        self.things: dict[tuple[str, int, int], Resource | Selection] = {}
        self._fixed: set[str] = set()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running" if self.running else "crashed"
        return f"<Node {self.name!r}, {state}>"

    @property
    def running(self) -> bool:
        """Whether it has not crashed."""
        return not self.world.closed and bool(
            lib.pyddsi_sim_running(self.world.enter(), self.index)
        )

    # ---- what declaring needs ----

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return f"node {self.name!r}"

    def as_owner(self) -> Owner:
        """Itself."""
        return self

    def call(self, name: str, *arguments: Any) -> int:
        """Call the core for this node. ClosedError if it has crashed."""
        return int(getattr(lib, f"pyddsi_sim_{name}")(self.enter(), self.index, *arguments))

    def wait(self, timeout: float, ready: Callable[[], Any]) -> Any:
        """Let time pass until `ready` answers something true, which is the result, or the time is over."""
        return self.world.wait(timeout, ready)

    def _number_of(self, name: str, attempt: int) -> int | None:
        return None if attempt else self.world.number(name, self.rid_bits)

    def _named(self, name: str, number: int) -> None:
        self.world.named(name, number)

    def _called(self, space: int, wire_id: int, name: str) -> None:
        self.world.names.setdefault((space, wire_id), name)

    def _publisher_made(self, name: str | int, number: int, handle: int, **rest: Any) -> Publisher:
        return Publisher(self, name, number, handle, **rest)

    def _subscriber_made(
        self, name: str | int, number: int, handle: int, options: Any, **rest: Any
    ) -> Subscriber:
        del options  # that is for readers of a session
        return Subscriber(self, name, number, handle, **rest)

    def _refused(self) -> None:
        self.world.blame()
        if self.closed:
            raise ClosedError(f"{self.title} is closed")

    def _everything(self) -> Iterable[Declared]:
        return (thing for node in self.world.nodes for thing in node.declared.values())

    # ---- its life ----

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
        if (
            lib.pyddsi_sim_restart(self.world.enter(), self.index, same_port) != lib.PYDDSI_OK
        ):  # a configuration that was possible is so again
            raise self.world.stopped()

    def pause(self, duration: float) -> None:
        """Do nothing for so many seconds: packets wait for it, deadlines pass. 0: go on now."""
        lib.pyddsi_sim_pause(self.enter(), self.index, nanoseconds(duration, "duration"))

    def clock_step(self, step: float) -> None:
        """Its clock jumps ahead by so many seconds, or back; then it stands still until the world has caught up."""
        amount = nanoseconds(abs(step), "step")
        signed = -amount if step < 0 else amount
        if lib.pyddsi_sim_clock_step(self.enter(), self.index, signed) != lib.PYDDSI_OK:
            raise ValueError(f"a clock cannot step by {step} s at once; 104 days is the most")

    # ---- samples ----

    def put(
        self,
        name: str,
        data: Buffer,
        *,
        reliable: bool = True,
        timeout: float = TIMEOUT,
        wait: bool = True,
    ) -> bool:
        """
        Publish a sample to a name without declaring it, to all peers; otherwise as `Publisher.put`.

        Each sample carries the name, and has to fit one packet with it; a publisher is better for many samples. A pattern
        reaches every subscriber that it has a name in common with.
        """
        parsed = names.Name(name)
        if parsed.predicate is not None:
            raise ValueError(
                f"{name!r} asks for samples, so it is for subscribers: leave out ?{{...}}"
            )
        path = ffi.from_buffer(parsed.path.encode())
        view = payload(data)
        raw = {"data": ffi.cast("uint8_t *", path), "size": len(path)}
        status = lib.PYDDSI_AGAIN

        def accepted() -> bool:
            nonlocal status
            status = lib.pyddsi_sim_put_name(
                self.enter(), self.index, raw, reliable, view, len(view)
            )
            return bool(status != lib.PYDDSI_AGAIN)

        if not self.world.wait(timeout if wait else 0.0, accepted):
            if not wait:
                return False
            raise TimeoutError(
                f"node {self.name!r}: its windows are full and stayed so for {timeout} s"
            )
        if status != lib.PYDDSI_OK:
            self.world.blame()
            raise ValueError(
                f"node {self.name!r}: a sample of {len(view)} bytes for {name!r} does not fit one packet, or the node is "
                f"closed; declare a publisher for larger ones"
            )
        return True

    def flush(self) -> None:
        """Send now what waits for company in its packet."""
        if lib.pyddsi_sim_flush(self.enter(), self.index) != lib.PYDDSI_OK:
            raise self.world.stopped()

    def lend(self, raw: Any) -> memoryview:
        """The data of a received sample; it goes back when nobody looks at it any more."""
        back = partial(self.world.give_back, self.index, raw)
        self.views += 1
        data = raw.data if raw.data != ffi.NULL else ffi.new("uint8_t[1]")
        view = memoryview(ffi.buffer(ffi.gc(data, back), raw.size)).toreadonly()
        self.remember(view)
        return view

    def remember(self, view: memoryview) -> None:
        """This view of the node's memory is to be released before the memory changes hands."""
        self._lent[self._lent_count] = view
        self._lent_count += 1

    def recall(self) -> None:
        """Release all views of samples and loans, as far as nothing was made of them."""
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
            self.world.blame()
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
            self.world.blame()
            raise ValueError(
                f"node {self.name!r}: a window of {bytes_max} bytes and {samples_max} samples cannot be"
            )

    # ---- looks ----

    def pump(self) -> None:
        """Take the node's events out of the core, so that none is lost there."""
        raw = self._raw_event
        while lib.pyddsi_sim_event(self.world.enter(), self.index, raw) == lib.PYDDSI_OK:
            event = self._event(raw)
            self._events.append(event)
            if event.kind == "matched" and event.peer is not None:
                self.matches.setdefault(raw.handle, set()).add(event.peer)
            elif event.kind == "unmatched" and event.peer is not None:
                self.matches.setdefault(raw.handle, set()).discard(event.peer)

    def _event(self, raw: Any) -> Event:
        return event_of(
            raw,
            peer=self._name_by_id(bytes(raw.id[0 : raw.id_size])) if raw.id_size else None,
            of=self.declared.get(raw.handle),
            resource=self.name_of(raw.space, raw.resource),
        )

    def events(self) -> list[Event]:
        """What has happened since this was last asked, oldest first."""
        self.pump()
        found, self._events = self._events, []
        return found

    def drops(self) -> list[Drop]:
        """The ledger: all that was dropped, and why."""
        return list(
            drops_of(
                lambda index, raw: self.call("drop", index, raw),
                self.name_of,
                peer_of=self._name_by_id,
            )
        )

    def stats(self) -> Stats:
        """What it has done so far."""
        raw = ffi.new("pyddsi_stats *")
        lib.pyddsi_sim_stats(self.enter(), self.index, raw)
        return copied(Stats, raw)

    def peers(self, *, gone: bool = False) -> list[Peer]:
        """The nodes that it has a session with, or is opening one with; gone=True: those that have left as well."""
        raw = ffi.new("pyddsi_peer *")
        found: list[Peer] = []
        index, sim = 0, self.enter()
        while lib.pyddsi_sim_peer(sim, self.index, index, raw) == lib.PYDDSI_OK:
            index += 1
            if raw.id_size == 0:
                continue
            peer = peer_of(raw, self._name_by_id(bytes(raw.id[0 : raw.id_size])))
            if gone or peer.state in PRESENT:
                found.append(peer)
        return found

    def missing(self) -> dict[str, str]:
        """Here nobody is named by a name."""
        return {}

    def refusals(self) -> list[Refusal]:
        """The sessions that do not come about, because this side or the other one refuses."""
        raw = ffi.new("pyddsi_refusal *")
        found: list[Refusal] = []
        while lib.pyddsi_sim_refusal(self.enter(), self.index, len(found), raw) == lib.PYDDSI_OK:
            peer_id = bytes(raw.id[0 : raw.id_size])
            found.append(refusal_of(raw, self._name_by_id(peer_id) if peer_id else None))
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
        raw = self._raw_peer
        if lib.pyddsi_sim_peer(self.enter(), self.index, index, raw) != lib.PYDDSI_OK:
            return "?"
        return self._name_by_id(bytes(raw.id[0 : raw.id_size]))

    def name_of(self, space: int, wire_id: int) -> str | int | None:
        """What a resource or selection with this id on the wire is called in the world, or its number."""
        if wire_id == 0:
            return None
        return self.world.name_of(space, wire_id)
