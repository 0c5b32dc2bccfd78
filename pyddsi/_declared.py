"""What all declarations have in common, in a session as in a simulation."""

from __future__ import annotations

from _thread import allocate_lock

from pyddsi.errors import ClosedError, DeclarationError, RejectedError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Protocol, Self

    from pyddsi.errors import ConflictError

    class Owner(Protocol):
        """Who declares: a session, or a node of a simulation."""

        declared: dict[int, Declared]
        life: int
        """How often it has crashed; what it had declared before is gone."""

        @property
        def title(self) -> str:
            """What it is called in messages."""
            ...

        @property
        def running(self) -> bool:
            """Whether it can be asked for anything."""
            ...

        def call(self, name: str, *arguments: Any) -> int:
            """Call the core for it. ClosedError if it is closed."""
            ...

        def unnamed(self, thing: Named) -> None:
            """This thing has gone, and its number has no meaning any more."""

        def wait(self, timeout: float, ready: Callable[[], Any]) -> Any:
            """Let time pass until `ready` answers something true, which is the result, or the time is over."""

        def rejections(self, handle: int, patience: float = 0.0) -> dict[str, str]:
            """Which of the peers that are there has refused a declaration for good, and why, as its status."""
            ...

        def conflict(
            self,
            name: str | int,
            number: int,
            kind: str,
            space: int,
            itself: Declared | None = None,
        ) -> ConflictError:
            """The error for a declaration that contradicts another one."""
            ...


__all__ = ["PENDING", "TIMEOUT", "Declared", "Named", "Resource", "Selection"]

PENDING = "pending"
REASONS = {
    "no_space": " (it has no room for another name)",
    "conflict": " (it has another name for the number, or uses the number without one)",
    "invalid": " (it takes no such name, or no such number)",
    "unsupported": " (it does not do this)",
}
_sharing = allocate_lock()  # held for some words, and for no call
TIMEOUT = 10.0
SOON = 0.2


class Declared:
    """What has been declared: a resource, a publisher, a subscriber."""

    KIND = "declaration"

    def __init__(
        self,
        owner: Owner,
        name: str | int,
        number: int,
        handle: int,
        parts: tuple[Named, ...],
        *,
        space: int = 0,
    ) -> None:
        self._owner = owner
        self.name = name
        """The name it was made with, or the number."""
        self.number = number
        """Its number on the wire, not doubled; of a subscriber with `where=` the selection's."""
        self.space = space
        """The resource space."""
        self._handle = handle
        self._life = owner.life
        self._parts = parts
        self._closed = False
        owner.declared[handle] = self

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        return f"{self.KIND} {self.name!r} of {self._owner.title}"

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
            self._forget()

    def _forget(self) -> None:
        self._owner.declared.pop(self._handle, None)
        try:
            self._owner.call("forget", self._handle)
        except ClosedError:
            return  # another thread closed the whole meanwhile
        for part in self._parts:
            part.give_back()

    @property
    def status(self) -> str:
        """
        What has become of it: "settled" with all peers, "pending", or the worst that one of them said: "conflict",
        "rejected", "no_space", "too_large", "invalid", "unsupported" or "other".
        """
        from pyddsi._looks import status_name  # noqa: PLC0415 - only some programs need it

        found = [part.status for part in self._parts]
        self._enter()
        found.append(status_name(self._owner.call("status", self._handle)))
        bad = [status for status in found if status not in {"settled", PENDING}]
        return bad[0] if bad else PENDING if PENDING in found else "settled"

    def wait_settled(self, timeout: float = TIMEOUT) -> bool:
        """
        Let time pass until every peer has answered, which is True.

        Raises ConflictError, RejectedError or DeclarationError if one of them did not accept it, and TimeoutError if
        after `timeout` seconds not all have answered.
        """
        if not self._owner.wait(timeout, lambda: self.status != PENDING):
            raise self._unsettled(timeout)
        self._judge(self.status)
        return True

    async def wait_settled_async(
        self,
        timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - as wait_settled has it
    ) -> bool:
        """As wait_settled, for asyncio."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        try:
            await aio.wait(self._owner, lambda: self.status != PENDING, timeout)
        except TimeoutError:
            raise self._unsettled(timeout) from None
        self._judge(self.status)
        return True

    def _unsettled(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(f"{self}: not every peer has answered after {timeout} s")

    def _judge(self, status: str) -> None:
        """Raise what this status means, if it is a bad one."""
        if status not in {"settled", PENDING}:
            raise self._refused(status)

    def _refused(self, status: str) -> DeclarationError:
        for part in self._parts:
            if part.status == status:
                return part._refused(status)  # noqa: SLF001 - the same class
        if status == "conflict":
            return self._owner.conflict(self.name, self.number, self.KIND, self.space, self)
        if status == "rejected":
            return RejectedError(
                f"{self}: a publisher of it is for one subscriber alone, and has one; give it way='auto', 'each' or "
                f"'multicast'"
            )
        told = self._owner.rejections(self._handle, SOON)
        who = [one for one, said in told.items() if said == status]
        return DeclarationError(
            f"{self}: {' and '.join(who) or 'a peer'} does not accept it: {status}{REASONS.get(status, '')}",
            status=status,
        )

    @property
    def usable(self) -> bool:
        """Whether it is neither closed nor lost with its owner."""
        return not self._closed and self._owner.running and self._life == self._owner.life

    def _enter(self) -> None:
        """ClosedError if this can be used no more."""
        if self._closed:
            raise ClosedError(f"{self} is closed; make another one")
        if self._life != self._owner.life:
            raise ClosedError(
                f"{self} went with the crash of its node; make another one after restart()"
            )


class Named(Declared):
    """
    What gives a number a meaning: made by the first who needs it, shared by all others, and closed with the last of them,
    so that names are given back. What the program asked for by itself stays until the program closes it.
    """

    key: tuple[str, int, int] = ("", 0, 0)
    """Where its owner has it: its text, number and space."""
    _kept = False
    _shares = 0

    def take(self, *, keep: bool) -> bool:
        """One more needs it, or the program itself does; False: it was closed meanwhile."""
        with _sharing:
            if not self.usable:
                return False
            self._kept = self._kept or keep
            self._shares += not keep
        return True

    def give_back(self) -> None:
        """One needs it no more."""
        with _sharing:
            self._shares -= 1
            if self._shares or self._kept or not self.usable:
                return
            self._closed = True
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._owner.unnamed(self)


class Resource(Named):
    """A name and its number. Publishers and subscribers make their own."""

    KIND = "resource"
    definition: tuple[int, str] = (0, "volatile")
    """Its reliability and durability, as they were said."""


class Selection(Named):
    """A resource with a predicate. Subscribers with `where=` make their own."""

    KIND = "selection"
