"""What all declarations of a node have in common."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pyddsi._native import lib
from pyddsi.errors import ClosedError, DeclarationError, RejectedError
from pyddsi.testing._looks import STATUSES
from pyddsi.testing._world import TIMEOUT

if TYPE_CHECKING:
    from pyddsi.testing._node import Node

PENDING = "pending"


class Declared:
    """What a node has declared: a resource, a publisher, a subscriber."""

    KIND = "declaration"

    def __init__(
        self,
        node: Node,
        name: str | int,
        number: int,
        handle: int,
        parts: tuple[Declared, ...],
        *,
        space: int = 0,
    ) -> None:
        self.node = node
        self.name = name
        """The name it was made with, or the number."""
        self.number = number
        """Its number on the wire, not doubled; of a subscriber with `where=` the selection's."""
        self.space = space
        """The resource space."""
        self._handle = handle
        self._life = node.life
        self._parts = parts
        self._closed = False
        node.declared[handle] = self

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        return f"{self.KIND} {self.name!r} of node {self.node.name!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget it, and tell all peers. What a subscriber has not taken is dropped, with a line in the ledger."""
        if self._closed:
            return
        usable, self._closed = self.usable, True
        if usable:
            self.node.declared.pop(self._handle, None)
            lib.pyddsi_sim_forget(self.node.world.enter(), self.node.index, self._handle)

    @property
    def status(self) -> str:
        """
        What has become of it: "settled" with all peers, "pending", or the worst that one of them said: "conflict",
        "rejected", "no_space", "too_large", "invalid", "unsupported" or "other".
        """
        found = [part.status for part in self._parts]
        code = lib.pyddsi_sim_status(self._enter(), self.node.index, self._handle)
        found.append(STATUSES.get(code, "other"))
        bad = [status for status in found if status not in {"settled", PENDING}]
        return bad[0] if bad else PENDING if PENDING in found else "settled"

    def wait_settled(self, timeout: float = TIMEOUT) -> None:
        """
        Let time pass until every peer has answered.

        Raises ConflictError, RejectedError or DeclarationError if one of them did not accept it, and TimeoutError if
        after `timeout` seconds not all have answered.
        """
        if not self.node.world.wait(timeout, lambda: self.status != PENDING):
            raise TimeoutError(f"{self}: not every peer has answered after {timeout} s")
        if (status := self.status) != "settled":
            raise self._refused(status)

    def _refused(self, status: str) -> DeclarationError:
        for part in self._parts:
            if part.status == status:
                return part._refused(status)  # noqa: SLF001 - the same class
        if status == "conflict":
            return self.node.conflict(self.name, self.number, self.KIND, self.space, self)
        if status == "rejected":
            return RejectedError(
                f"{self}: a publisher of it is for one subscriber alone, and has one; give it way='auto', 'each' or "
                f"'multicast'"
            )
        return DeclarationError(f"{self}: a peer does not accept it: {status}", status=status)

    @property
    def usable(self) -> bool:
        """Whether it is neither closed nor lost with its node."""
        return not self._closed and self.node.running and self._life == self.node.life

    def _enter(self) -> Any:
        """The world, if this can still be used in it."""
        sim = self.node.enter()
        if self._closed:
            raise ClosedError(f"{self} is closed; make another one")
        if self._life != self.node.life:
            raise ClosedError(
                f"{self} went with the crash of its node; make another one after restart()"
            )
        return sim


class Resource(Declared):
    """A name and its number, declared by a node. Publishers and subscribers make their own."""

    KIND = "resource"
    definition: tuple[int, str] = (0, "volatile")
    """Its reliability and durability, as they were said."""


class Selection(Declared):
    """A resource with a predicate, declared by a node. Subscribers with `where=` make their own."""

    KIND = "selection"
