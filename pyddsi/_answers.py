"""What the core answers to a declaration, and the errors that are made of it, in a session as in a simulation."""

from __future__ import annotations

from pyddsi._declared import Declared, Resource, Selection
from pyddsi._native import lib
from pyddsi.errors import ClosedError, ConflictError, DeclarationError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyddsi._declared import Owner

__all__ = ["Answers"]


class Answers:
    """Who declares, as far as errors speak of it."""

    declared: dict[int, Declared]

    @property
    def title(self) -> str:
        """What it is called in messages."""
        raise NotImplementedError

    def as_owner(self) -> Owner:
        """The whole that this is a part of."""
        raise NotImplementedError

    def _refused(self) -> None:
        """A declaration was refused: raise if that has a reason of the owner's own."""

    def _everything(self) -> Iterable[Declared]:
        """What is declared here, and elsewhere as far as that is known."""
        return list(self.declared.values())  # another thread may declare meanwhile

    def rejections(self, handle: int, patience: float = 0.0) -> dict[str, str]:  # noqa: ARG002 - for those who know
        """Which of the peers that are there has refused a declaration for good, and why, as its status."""
        return {}

    def _elsewhere(self, number: int, space: int) -> Iterable[tuple[str, str]]:  # noqa: ARG002 - for those who know
        """What peers call this number: the name, and which peer."""
        return ()

    def _owner_of(self, thing: Declared) -> str:
        return thing._owner.title  # noqa: SLF001 - of this family

    @staticmethod
    def _is_conflict(result: int, status: int) -> bool:
        return result not in {lib.PYDDSI_OK, lib.PYDDSI_NO_SPACE, lib.PYDDSI_AGAIN} and status == 2

    def _declared(
        self, kind: str, name: str | int, number: int, result: int, status: int, *, space: int
    ) -> None:
        """What a declaration answered."""
        if result == lib.PYDDSI_OK:
            return
        from pyddsi._looks import status_name  # noqa: PLC0415 - only failures need it

        self._refused()
        what = f"{kind} {name!r} of {self.title}"
        if result == lib.PYDDSI_CLOSED:
            raise ClosedError(f"{what}: {self.title} is closed")
        if result == lib.PYDDSI_NO_SPACE:
            raise DeclarationError(
                f"{what}: a table is full; a larger {self._table(kind)} has room for more",
                status="no_space",
            )
        if result == lib.PYDDSI_AGAIN:
            raise DeclarationError(
                f"{what}: not all peers have heard of what was closed before; let time pass",
                status="try_again",
            )
        said = status_name(status)
        if said == "conflict":
            raise self.conflict(name, number, kind, space)
        if status == 0:
            raise ValueError(f"{what}: these options cannot be")
        mends = {("selection", "invalid"): "; a predicate is such as lum > 0 and $size < 100"}
        hint = mends.get((kind, said), "")
        raise DeclarationError(f"{what} cannot be: {said}{hint}", status=said)

    def _table(self, kind: str, /) -> str:
        """The option that says how many of a kind there may be."""
        return f"{kind}s_max" + (", or ring_samples," if kind == "subscriber" else "")

    def conflict(
        self, name: str | int, number: int, kind: str, space: int, itself: Declared | None = None
    ) -> ConflictError:
        """The error for a declaration that contradicts another one, which is this one's `itself` if it was made."""
        there = [
            thing for thing in self._everything() if (thing.number, thing.space) == (number, space)
        ]
        things = Selection if kind == Selection.KIND else Resource
        known = [thing for thing in there if isinstance(thing, things)]
        rivals = [thing for thing in there if thing is not itself]
        ours = [thing for thing in rivals if thing._owner is self.as_owner()]  # noqa: SLF001
        others: dict[str | int, str] = {
            t.name: self._owner_of(t)
            for t in (*known, *ours)
            if isinstance(t, things) and t.name != name
        }
        if kind == Resource.KIND:
            others |= {
                theirs: who
                for theirs, who in self._elsewhere(number, space)
                if theirs.strip("/") != str(name).strip("/")
            }
        if kind == "subscriber":
            who = [f"the earlier {thing}" for thing in ours if thing.KIND == "subscriber"]
            rule = "subscribers of one node to one resource have the same mode, reliable=, period, duration and origin"
        elif others:
            who = [f"{theirs!r} of {owner}" for theirs, owner in others.items()]
            rule = "one number has one name, and one name one definition"
        else:
            who = [f"the earlier {thing}" for thing in ours if isinstance(thing, things)]
            who = who or [str(thing) for thing in rivals if thing.KIND == "publisher"]
            rule = "one name has one definition: say reliable= and durability= once, and before there are publishers"
        return ConflictError(
            f"{kind} {name!r} of {self.title}, number {number}, contradicts "
            + (" and ".join(who) or "what is declared of it elsewhere")
            + f"; {rule}",
            number=number,
            names=list(dict.fromkeys([*(str(thing.name) for thing in known), *map(str, others)]))
            or [str(name)],
        )
