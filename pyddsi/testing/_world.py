"""
The memory behind a Sim, and what all its parts need of it: time, numbers for names, and the way back of samples.

A sample's view points into the memory of its node, and may live longer than everything else. So the memory hangs on
this object, each view holds it, and what nobody looks at any more is given back when the world is next entered. That is
a moment which the program decides, not the garbage collector: a run can be repeated.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyddsi._native import ffi, lib, text
from pyddsi._values import SECOND, nanoseconds, whole
from pyddsi.errors import ClosedError, PyddsiError

if TYPE_CHECKING:
    from pyddsi.testing._node import Node

STEP_FINE_NS = 100_000  # how often a waiting call looks, at first
STEP_NS = 1_000_000  # and after it has waited for ten of these
NAMES_FROM = 64  # numbers below are the program's own
NAMES_SMALL = 128  # a doubled number below this fits one byte,
NAMES_USUAL = 8192  # and below this two bytes of seven bits
STILL_MAX = 100_000  # so many steps of one node in one moment, and its world stops


def payload(data: Any) -> Any:
    """The bytes of a sample, where they are."""
    try:
        return ffi.from_buffer(data)
    except TypeError:
        kind = type(data).__name__
        hint = "; encode() it first" if isinstance(data, str) else ""
        raise TypeError(f"a sample is bytes, or another buffer, not {kind}{hint}") from None


class World:
    """One simulation in memory."""

    def __init__(self, seed: int) -> None:
        memory = lib.pyddsi_sim_new(whole("seed", seed, 0, 2**64 - 1))
        if memory == ffi.NULL:
            raise MemoryError("no memory for a simulation")
        self._memory = ffi.gc(memory, lib.pyddsi_sim_free)
        self.closed = False
        self.nodes: list[Node] = []
        self._returned: deque[tuple[int, Any]] = deque()
        self._numbers: dict[str, int] = {}
        self._taken: set[int] = set()
        self.names: dict[tuple[int, int], str] = {}

    # ---- the way in ----

    def enter(self) -> Any:
        """The handle for a call to the core, after what samples have given back."""
        if self.closed:
            raise ClosedError("this Sim is closed; make another one")
        while self._returned:
            node, received = self._returned.popleft()
            # Of a node that has crashed meanwhile it does nothing, and no view of a node outlives its restart.
            lib.pyddsi_sim_release(self._memory, node, received)
        return self._memory

    def close(self) -> None:
        """
        Nothing can be done any more. The memory goes at once, or if somebody still looks at a part of it, with the last
        view.
        """
        self.closed = True
        if not any(node.views for node in self.nodes):
            ffi.release(self._memory)

    def give_back(self, node: int, received: Any, _memory: Any = None) -> None:
        """Nobody looks at this sample any more. May be called at any moment, by any thread."""
        self._returned.append((node, received))
        self.nodes[node].views -= 1

    # ---- time ----

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return int(lib.pyddsi_sim_now(self.enter()))

    def run(self, duration_ns: int) -> int:
        """Let time pass; how many events there were."""
        until = self.now_ns + duration_ns
        events = int(lib.pyddsi_sim_run(self.enter(), duration_ns))
        for node in self.nodes:
            node.pump()
        if self.now_ns < until:
            raise self.stopped()
        return events

    def wait(self, timeout: float, ready: Callable[[], Any]) -> Any:
        """Let time pass until `ready` answers something true, which is the result, or the time is over."""
        left = nanoseconds(timeout, "timeout")
        found = ready()
        waited = 0
        while not found and left > 0:
            step = min(left, STEP_FINE_NS if waited < 10 * STEP_NS else STEP_NS)
            self.run(step)
            left -= step
            waited += step
            found = ready()
        return found

    def busy(self) -> str | None:
        """What is left to do."""
        why = lib.pyddsi_sim_busy(self.enter())
        return None if why == ffi.NULL else text(why)

    def blame(self) -> None:
        """
        After a call that was refused: raise if that was because the world itself has stopped.

        A world that has stopped refuses everything, so whatever a refusal usually means would be the wrong thing to
        say. To flush a node is what changes least of all that is refused then.
        """
        sim = self.enter()
        for node in self.nodes:
            if (
                lib.pyddsi_sim_running(sim, node.index)
                and lib.pyddsi_sim_flush(sim, node.index) != lib.PYDDSI_OK
            ):
                raise self.stopped()

    def stopped(self) -> PyddsiError:
        """The error of a world that has stopped."""
        return PyddsiError(
            f"the simulation has stopped at {self.now_ns / SECOND} s and cannot go on: {self.busy()}. Either one node was "
            f"called {STILL_MAX:,} times and no time passed meanwhile (then run() now and then), or there is no memory, or "
            f"this is a fault in pyddsi: please report the seed and the calls"
        )

    # ---- names ----

    def number(self, name: str, bits: int) -> int:
        """
        The number of a resource or selection of this name, the same wherever it is named.

        It comes from the name itself, so that it does not depend on what else there is in a world, unless two names
        meet at one number; then the later one moves on.
        """
        if name in self._numbers:
            return self._numbers[name]
        most = NAMES_SMALL if bits == 8 else NAMES_USUAL
        span = most - NAMES_FROM
        start = zlib.crc32(name.encode()) % span
        for step in range(span):
            number = NAMES_FROM + (start + step) % span
            if number not in self._taken:
                break
        else:
            number = max(self._taken) + 1
        self._taken.add(number)
        self._numbers[name] = number
        return number

    def named(self, name: str, number: int) -> None:
        """The program gives this name a number of its own."""
        self._numbers.setdefault(name, number)
        self._taken.add(number)

    def name_of(self, space: int, wire_id: int) -> str | int:
        """What a resource or selection with this id on the wire is called, or its number."""
        key = space, wire_id
        return self.names.get(key, wire_id >> 1)

    def node_by_id(self, peer_id: bytes) -> Node | None:
        """The node with this id on the wire."""
        return next((node for node in self.nodes if node.id == peer_id), None)
