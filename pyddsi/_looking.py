"""The half of a session that is asked: peers, events, the ledger, counts, and why nothing comes."""

from __future__ import annotations

from pyddsi._declared import TIMEOUT, Declared
from pyddsi._log import log_event
from pyddsi._native import Keeper, ffi, lib
from pyddsi._values import name_shown
from pyddsi.errors import ClosedError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterator
    from typing import Any

    from pyddsi._known import Known
    from pyddsi._looks import Drop, Event, Peer, Stats, Window
    from pyddsi._refusals import Refusal
    from pyddsi._seek import Seeker
    from pyddsi._words import EventKind
    from pyddsi.capture import Endpoint
    from pyddsi.config import Config
    from pyddsi.metrics import Metrics

__all__ = ["EVENTS_KEPT", "Looking"]

EVENTS_KEPT = 4096
NAME_MAX = 1024  # bytes of a name


def _asks(one: Declared | Known) -> bool:
    """Whether its number is a selection's, and not its resource's."""
    return "?{" in str(one.name)


class Looking:
    """What a session can be asked."""

    config: Config
    name: str
    raw: Any
    declared: dict[int, Declared]
    _rejections: dict[int, dict[str, int]]
    _events: list[Any]
    _raw_event: Any
    _keeper: Keeper
    _local: Any
    _lock: LockType
    _names: dict[int, str]
    _wall_ns: int
    _options: Any
    _seeker: Seeker | None = None
    paths: tuple[str, ...]

    @property
    def title(self) -> str:
        """What it is called in messages."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """Whether it can be asked for nothing but its books."""
        raise NotImplementedError

    def closed_error(self, what: str = "") -> ClosedError:
        """The error for something that was asked for after the end."""
        raise NotImplementedError

    def call(self, name: str, *arguments: Any) -> int:
        """Call the core for this session. ClosedError if it is closed."""
        raise NotImplementedError

    def wait(self, timeout: float | None, ready: Callable[[], Any]) -> Any:
        """Wait until `ready` answers something true, which is the result, or the time is over."""
        raise NotImplementedError

    @property
    def endpoint(self) -> Endpoint:
        """Its own address."""
        from pyddsi._looks import endpoint  # noqa: PLC0415 - most programs open without

        lib.pyddsi_session_look(self.raw, self._options, self._local)  # it may have changed
        return endpoint(self._local)  # type: ignore[return-value]  # every session has one

    @property
    def listening(self) -> list[Endpoint]:
        """Where it accepts TCP and Unix connections; a port that was 0 in the settings is the one that is used."""
        from pyddsi._looks import endpoint  # noqa: PLC0415 - most programs have none

        options = self._options
        found = (endpoint(options.listen[i], self.paths) for i in range(int(options.listen_count)))
        return [one for one in found if one is not None]

    def pump(self) -> None:
        """Take events out of the core, so that none is lost there, and log them."""
        new = []
        with self._lock:
            raw = self._raw_event
            while lib.pyddsi_session_event(self.raw, raw) == lib.PYDDSI_OK:
                if len(self._events) >= EVENTS_KEPT:
                    del self._events[: EVENTS_KEPT // 2]
                new.append(ffi.new("pyddsi_event *", raw[0]))
                self._events.append(new[-1])
                peer = bytes(raw.id[0 : raw.id_size]).hex()
                if raw.kind == lib.PYDDSI_REJECTED:
                    self._rejections.setdefault(raw.handle, {})[peer] = int(raw.status)
        for event in new:  # without the lock: a handler of the program may ask the session
            log_event(self, event)

    def events(self) -> list[Event]:
        """What has happened since this was last asked, oldest first. At least the latest 2048 are kept."""
        found: list[Event] = []
        while (event := self._next_event()) is not None:
            found.append(event)
        return found

    def wait_event(self, *kinds: EventKind, timeout: float | None = TIMEOUT) -> Event:
        """
        The next event, of one of these kinds if any are given; those before it are forgotten. TimeoutError if none comes
        within `timeout` seconds.
        """
        event: Event | None = self.wait(timeout, self._next_of(kinds))
        if event is None:
            raise self._no_event(kinds, timeout)
        return event

    async def wait_event_async(
        self,
        *kinds: EventKind,
        timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - as wait_event has it
    ) -> Event:
        """As wait_event, for asyncio."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        try:
            event: Event = await aio.wait(self, self._next_of(kinds), timeout)
        except TimeoutError:
            raise self._no_event(kinds, timeout) from None
        return event

    def _next_of(self, kinds: tuple[EventKind, ...]) -> Callable[[], Event | None]:
        """What answers the next event of one of these kinds, if there is one now."""
        from pyddsi._looks import EVENTS  # noqa: PLC0415 - most programs open without
        from pyddsi._values import choose  # noqa: PLC0415

        for kind in kinds:
            choose("an event", kind, EVENTS)

        def next_one() -> Event | None:
            if self.closed and not self._events:
                raise self.closed_error()
            while (event := self._next_event()) is not None:
                if not kinds or event.kind in kinds:
                    break
            return event

        return next_one

    def _no_event(self, kinds: tuple[EventKind, ...], timeout: float | None) -> TimeoutError:
        return TimeoutError(f"{self.title}: no {' or '.join(kinds) or 'event'} within {timeout} s")

    def _next_event(self) -> Event | None:
        if not self._events and not self.closed:
            self.pump()
        try:
            raw = self._events.pop(0)
        except IndexError:
            return None
        return self.event_of(raw)

    def event_of(self, raw: Any) -> Event:
        """An event of the core."""
        from pyddsi._looks import event_of  # noqa: PLC0415 - most programs open without

        return event_of(
            raw,
            peer=bytes(raw.id[0 : raw.id_size]).hex() if raw.id_size else None,
            of=self.declared.get(raw.handle),
            resource=self.name_of(raw.space, raw.resource),
            since_ns=self._wall_ns,
            paths=self.paths,
        )

    def drops(self) -> list[Drop]:
        """The ledger: all that was dropped, and why. Also after the end."""
        from pyddsi._looks import drops_of  # noqa: PLC0415 - most programs open without

        return list(
            drops_of(
                lambda index, raw: int(lib.pyddsi_session_drop(self.raw, index, raw)),
                self.name_of,
                self._wall_ns,
            )
        )

    def stats(self) -> Stats:
        """What it has done so far. Also after the end."""
        from pyddsi._looks import Stats, copied  # noqa: PLC0415 - most programs open without

        raw = ffi.new("pyddsi_stats *")
        if lib.pyddsi_session_stats(self.raw, raw) == lib.PYDDSI_CLOSED:
            raise self.closed_error()
        return copied(Stats, raw)

    def counts(self) -> dict[str, int]:
        """What its threads, its sockets and its shared memory did; see `pyddsi_session_counts` in pyddsi.h."""
        raw = ffi.new("pyddsi_session_counts *")
        lib.pyddsi_session_count(self.raw, raw)
        found = {name: int(getattr(raw, name)) for name, _ in ffi.typeof(raw[0]).fields}
        views, view_bytes, copied, loans = self._keeper.counts()
        return found | {
            "views": views,
            "view_bytes": view_bytes,
            "views_copied": copied,
            "loans_copied": loans,
        }

    def peers(self, *, gone: bool = False) -> list[Peer]:
        """The peers that it has a session with, or is opening one with; gone=True: those that have left as well."""
        from pyddsi._looks import PRESENT, peer_of  # noqa: PLC0415 - most programs open without

        self.pump()
        raw = ffi.new("pyddsi_peer *")
        found: list[Peer] = []
        index = 0
        while self.call("peer", index, raw) == lib.PYDDSI_OK:
            index += 1
            if raw.id_size:
                peer = peer_of(raw, bytes(raw.id[0 : raw.id_size]).hex(), self.paths)
                if gone or peer.state in PRESENT:
                    found.append(peer)
        return found

    def matched_by(self, handle: int) -> set[str]:
        """The names of the peers that subscribe to what the publisher with this handle publishes."""
        room = int(lib.PYDDSI_PEERS_MAX)
        indexes, count = ffi.new("uint32_t[]", room), ffi.new("uint32_t *")
        raw = ffi.new("pyddsi_peer *")
        if self.call("matched", handle, indexes, room, count) != lib.PYDDSI_OK:
            return set()
        return {
            bytes(raw.id[0 : raw.id_size]).hex()
            for index in indexes[0 : count[0]]
            if self.call("peer", index, raw) == lib.PYDDSI_OK
        }

    def refusals(self) -> list[Refusal]:
        """The sessions that do not come about, because this side or the other one refuses."""
        from pyddsi._refusals import refusal_of  # noqa: PLC0415 - most programs open without

        self.pump()
        raw = ffi.new("pyddsi_refusal *")
        found: list[Refusal] = []
        while self.call("refusal", len(found), raw) == lib.PYDDSI_OK:
            name = bytes(raw.id[0 : raw.id_size]).hex() or None
            found.append(refusal_of(raw, name, self._wall_ns, self.paths))
        return found

    def missing(self) -> dict[str, str]:
        """The peers of the setting `peers` that are not reached, and why: refused, timed out, unknown name, and how often."""
        return {} if self._seeker is None else self._seeker.missing()

    def rejections(self, handle: int, patience: float = 0.0) -> dict[str, str]:
        """Which of the peers that are there has refused a declaration for good, and why, as its status."""
        from pyddsi._looks import ESTABLISHED_NAME, status_name  # noqa: PLC0415 - only failures need it

        def there() -> bool:
            self.pump()
            return handle in self._rejections

        self.wait(patience, there)  # its status is known a moment before
        told = self._rejections.get(handle, {})
        return {
            f"peer {one.name} at {one.endpoint}": status_name(told[one.name])
            for one in (self.peers() if told else ())
            if one.state == ESTABLISHED_NAME and one.name in told
        }

    def resources(self) -> list[Known]:
        """What its peers have declared: resources, selections and subscriptions, by name where that is known."""
        from pyddsi._known import known_by  # noqa: PLC0415 - only those who ask need it

        return known_by(self)

    def _numbers_of_names(self) -> Iterator[tuple[str, int]]:
        """The paths of all resources that are declared, here or by a peer, with their numbers."""
        from pyddsi.names import Name  # noqa: PLC0415 - only those who ask need it

        there: list[Declared | Known] = [*self.declared.values(), *self.resources()]
        for one in there:
            if isinstance(one.name, str):
                yield Name(one.name).path, one.number if one.space == 0 and not _asks(one) else 0

    def ls(self, name: str = "") -> list[str]:
        """
        The names right below this one, in order: of resources that are declared, here or by a peer. What `name/$ls` asks
        for; "" asks for the first parts of all names.
        """
        from pyddsi.names import Name  # noqa: PLC0415 - only those who ask need it

        path = ""
        if name.strip("/"):
            asked = Name(name)
            if asked.wild or asked.meta is not None:
                raise ValueError(f"{name!r} is no single name: ls() lists what is below one")
            path = asked.path
        below = {
            one[len(path) + 1 :].partition("/")[0]
            for one, _ in self._numbers_of_names()
            if one.startswith(path + "/")
        }
        return sorted(part for part in below if not {"*", "?", "$"} & set(part))

    def get(self, name: str) -> list[str] | list[int]:
        """
        What a name asks about another: `house/$ls` the names below `house`, as ls(); `house/$id` the numbers by which
        `house` is known on the wire, not doubled.
        """
        from pyddsi.names import Name  # noqa: PLC0415 - only those who ask need it

        asked = Name(name)
        path = asked.path.rpartition("/")[0]
        if asked.meta == "ls":
            return self.ls(path)
        if asked.meta == "id":
            return sorted(
                {number for one, number in self._numbers_of_names() if one == path and number}
            )
        raise ValueError(
            f"{name!r} asks for nothing: get() answers names that end in /$ls or /$id; a subscriber gets samples"
        )

    def window(self, conduit: int = 0) -> Window | None:
        """A transmit window: 0 and above of a multicast conduit, -1 - i to peer i; None: there is none now."""
        from pyddsi._looks import Window, copied  # noqa: PLC0415 - most programs open without

        raw = ffi.new("pyddsi_window *")
        status = self.call("window", conduit, raw)
        return copied(Window, raw) if status == lib.PYDDSI_OK else None

    def name_of(self, space: int, wire_id: int) -> str | int | None:
        """What a resource or selection with this id on the wire is called, or its number."""
        if not wire_id:
            return None
        mine = self._names.get(space << 56 | wire_id)
        if mine is not None:
            return mine
        room, size = ffi.new("uint8_t[]", NAME_MAX), ffi.new("size_t *")
        status = lib.pyddsi_session_name(self.raw, space, wire_id, room, NAME_MAX, size)
        if status == lib.PYDDSI_OK:
            return name_shown(ffi.buffer(room, size[0]))
        return wire_id >> 1

    def metrics(self) -> Metrics:
        """All counts at this moment; `str()` of them is Prometheus' text form."""
        from pyddsi.metrics import Metrics  # noqa: PLC0415 - only those who ask need it

        return Metrics.of(self)

    def why_not(self, name: str | int) -> str:
        """Why samples of this resource do not arrive, in sentences."""
        from pyddsi._why import why_not  # noqa: PLC0415 - only those who ask need it

        return why_not(self, name)

    def why_full(self, handle: int | None, *, sent: bool = False) -> str:
        """Who keeps a publisher's window full, in a sentence."""
        from pyddsi._why import why_full  # noqa: PLC0415 - only those who ask need it

        return why_full(self, handle, sent=sent)

    def close_session(self, peer: Peer, *, reason: int = 0) -> None:
        """End the session with this peer; both find each other again."""
        from pyddsi._looks import Peer  # noqa: PLC0415 - few programs use this
        from pyddsi._values import whole  # noqa: PLC0415

        if not isinstance(peer, Peer):
            raise TypeError(f"close_session() takes one of peers(), not {peer!r}")
        number, raw = whole("reason", reason, 0, 255), ffi.new("pyddsi_peer *")
        index = 0
        while self.call("peer", index, raw) == lib.PYDDSI_OK:
            index += 1
            if (
                bytes(raw.id[0 : raw.id_size]) == peer.id
                and self.call("close_session", ffi.addressof(raw, "endpoint"), number)
                == lib.PYDDSI_OK
            ):
                return
        raise ValueError(f"{self.title} has no session with {peer.name}")
