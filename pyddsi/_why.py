"""Why samples do not arrive, or do not leave: what is known of it, as sentences that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyddsi import names
from pyddsi._declared import PENDING, REASONS, Declared, Resource
from pyddsi._looks import ESTABLISHED_NAME
from pyddsi.errors import ClosedError, InvalidNameError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sized

    from pyddsi._known import Known
    from pyddsi._looking import Looking
    from pyddsi._looks import Peer

__all__ = ["missing", "published", "rejections", "why_full", "why_not"]

LINKS_MAX = 64  # PDI_STREAMS_MAX
HARMLESS = {"not_synched", "expired_peer", "repeat"}
"""Packets from before both knew each other, or that came twice: nobody misses a sample for them."""


def many(things: Sized, word: str) -> str:
    """How many there are, and of what."""
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"


def why_not(session: Looking, name: str | int) -> str:
    """The sentences, the weightiest first. Other threads may declare and close meanwhile."""
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise TypeError(f"a resource is a name, or a whole number, not {name!r}")
    if session.closed:
        return f"{session.title} is closed."
    try:
        return _sentences(session, name)
    except ClosedError as error:
        return f"{str(error).partition(';')[0]}, by another thread."


def _sentences(session: Looking, name: str | int) -> str:
    path = names.Name(name).path if isinstance(name, str) else None
    session.pump()
    peers = session.peers()
    settled = [peer for peer in peers if peer.state == ESTABLISHED_NAME]
    mine = [one for one in list(session.declared.values()) if _covers(one, name, path)]
    publishers = [one for one in mine if one.KIND == "publisher"]
    subscribers = [one for one in mine if one.KIND == "subscriber"]
    said, known = list(_company(session, peers, settled)), session.resources()
    if settled or not said:
        said += _here(session, name, publishers, subscribers, known)
        said += _answers(session, mine)
        said += _publishing(session, publishers, settled, known)
        said += _unpublished(session, subscribers, settled, known)
        said += _other_groups(session, subscribers, settled)
        said += _unconditional(subscribers, settled)
    said += [f"{one}." for one in session.refusals()]
    said += [f"The peer {text} is not reached: {why}." for text, why in session.missing().items()]
    turned_away = session.counts()["links_refused"]
    if turned_away:
        said.append(
            f"Connections (TCP, Unix) that were turned away: {turned_away}. A session has at most {LINKS_MAX}, and ends one "
            f"that says nothing for 4 s."
        )
    said += _dropped(session, name)
    return " ".join(said) or " ".join(_fine(session, name, mine, settled, known))


def _covers(one: Declared, name: str | int, path: str | None) -> bool:
    """Whether a declaration is about this name."""
    if path is None or not isinstance(one.name, str):
        return name in {one.number, one.name}
    return names.intersect(names.Name(one.name).path, path)


def _other_groups(
    session: Looking, subscribers: list[Declared], settled: list[Peer]
) -> Iterator[str]:
    """A zhe may send its samples to groups of their own, where nobody hears them who has not joined these."""
    for peer in settled if subscribers else ():
        if peer.group is not None:
            yield (
                f"Peer {peer.name} at {peer.endpoint} sends its samples to groups of its own, the first of them {peer.group}, "
                f"where this session does not hear them: open it with group={str(peer.group)!r} and "
                f"peers=[{session.config.group!r}]."
            )


def _unconditional(subscribers: list[Declared], settled: list[Peer]) -> Iterator[str]:
    """A zhe knows no conditions, so a subscription that has one is not told to it."""
    for one in subscribers:
        for peer in settled if any(_asks(part) for part in one._parts) else ():  # noqa: SLF001 - of this family
            if not peer.features:
                yield (
                    f"Peer {peer.name} at {peer.endpoint} knows no conditions (where=), as every zhe, and sends nothing to {one}: "
                    f"a subscriber without where= gets its samples."
                )


def _meets(mine: str, theirs: str) -> bool:
    try:
        return names.intersect(mine, theirs)
    except InvalidNameError:  # peers may call things what they like
        return False


def _company(session: Looking, peers: list[Peer], settled: list[Peer]) -> Iterator[str]:
    """What there is to say if there is nobody."""
    if settled:
        return
    opening = [peer.name for peer in peers if peer.state == "opening"]
    where = session.config.group or "no group"
    if opening:
        yield f"No session with {', '.join(opening)} yet: it was found, and has not answered."
    elif session.stats().packets_in:
        yield (
            f"There is no peer. Packets came in, but none of a peer that could be understood or is still there (group "
            f"{where})."
        )
    else:
        yield (
            f"There is no peer, and no packet has come in: nobody else is in the group {where}, or the network does not "
            f"carry multicast (then name the others in peers=), or another interface= leads there."
        )


def _here(
    session: Looking,
    name: str | int,
    publishers: list[Declared],
    subscribers: list[Declared],
    known: list[Known],
) -> Iterator[str]:
    """What there is to say if nothing of this name is declared here."""
    if publishers or subscribers:
        return
    declared = list(session.declared.values())
    mine = {str(one.name) for one in declared if not isinstance(one, Resource)}
    yield f"This session has neither a publisher nor a subscriber of {name!r}."
    near = _near(name, mine | {str(one.name) for one in known})
    if near:
        yield near
    elif mine:
        yield f"It has {', '.join(map(repr, sorted(mine)))}."


def _near(name: str | int, names: Iterable[str]) -> str:
    """A question for the name that was meant, if one is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only here

    near = get_close_matches(str(name), sorted(set(names) - {str(name)}), 1, 0.5)
    return f"Did you mean {near[0]!r}?" if near else ""


def rejections(session: Looking, mine: Iterable[Declared]) -> Iterator[str]:
    """Which declarations are not accepted, by whom, and why."""
    parts = [part for one in mine for part in one._parts]  # noqa: SLF001 - of this family
    for one in dict.fromkeys([*parts, *mine]):
        for peer, why in session.rejections(one._handle).items():  # noqa: SLF001
            yield f"{peer.capitalize()} does not accept {one}: {why}{REASONS.get(why, '')}."


def _answers(session: Looking, mine: list[Declared]) -> Iterator[str]:
    told = False
    for why in rejections(session, mine):
        told = True
        yield why
    for one in mine:
        status = one.status
        if status == PENDING:
            yield f"Not every peer has answered yet for {one}."
        elif status == "conflict":
            yield f"{str(one).capitalize()} contradicts what another session declared: one number for two names, or two kinds of service for one name."
        elif status != "settled" and not told:
            yield f"A peer does not accept {one}: {status}."


def _publishing(
    session: Looking, publishers: list[Declared], settled: list[Peer], known: list[Known]
) -> Iterator[str]:
    for one in publishers:
        matched = session.matched_by(one._handle)  # noqa: SLF001 - of this family
        if not matched and settled:
            what = (
                "plain numbers meet only subscribers of the same number"
                if isinstance(one.name, int)
                else "a subscriber must name the same resource, or a pattern that covers it"
            )
            yield f"None of {many(settled, 'peer')} subscribes to {one.name!r}: {what}."
            near = _near(one.name, (str(k.name) for k in known if k.kind == "subscription"))
            if near:
                yield near
        apart = [p for p in settled if p.unreached and p.name in matched]
        if apart:
            yield (
                f"Multicast does not reach {', '.join(p.name for p in apart)}: a switch or a firewall filters the group. "
                f"Until it does, each gets a copy of its own by unicast."
            )
        window = one.window if matched else None  # type: ignore[attr-defined]
        if window is not None and window.used_bytes * 2 > window.size_bytes:
            yield f"The window of {one.name!r} is filling: {why_full(session, one._handle)}."  # noqa: SLF001


def published(known: Iterable[Known]) -> list[Known]:
    """
    What peers seem to publish: peers say what they subscribe to, and which resources they have, so these are the resources
    that a peer has and does not subscribe to.
    """
    found = list(known)
    taken = {(k.peer, k.name) for k in found if k.kind == "subscription"}
    return [k for k in found if k.kind == "resource" and (k.peer, k.name) not in taken]


def missing(session: Looking, subscribers: Iterable[Declared]) -> Iterator[str]:
    """What a program that waits for samples says while none come: no peer, or none that publishes."""
    peers = session.peers()
    settled = [peer for peer in peers if peer.state == ESTABLISHED_NAME]
    yield from _company(session, peers, settled)
    yield from _unpublished(session, subscribers, settled, session.resources())


def _unpublished(
    session: Looking, subscribers: Iterable[Declared], settled: list[Peer], known: list[Known]
) -> Iterator[str]:
    """What there is to say of subscribers whose resource is published nowhere."""
    names_of = [one.name for one in list(session.declared.values()) if one.KIND == "publisher"]
    names_of += [one.name for one in published(known)]
    theirs = {one for one in names_of if isinstance(one, str)}
    for one in subscribers:
        if isinstance(one.name, str) and settled and not any(_meets(one.name, k) for k in theirs):
            also = [k for k in known if k.kind == "subscription" and k.name == one.name]
            but = (
                f", though {many(also, 'peer')} subscribe{_es(also, 's')} to it as well"
                if also
                else ""
            )
            yield f"None of {many(settled, 'peer')} publishes a resource that {one.name!r} covers{but}."
            near = _near(one.name, theirs)
            if near:
                yield near
        if isinstance(one.name, int):
            yield f"Subscriber {one.name} gets samples of that number alone, whatever names there are."


def _fine(
    session: Looking, name: str | int, mine: list[Declared], settled: list[Peer], known: list[Known]
) -> Iterator[str]:
    """What there is, here and at the peers, where nothing seems wrong."""
    publishers = [one for one in mine if one.KIND == "publisher"]
    subscribers = [one for one in mine if one.KIND == "subscriber"]
    about = [k for k in known if _concerns(k, name)]
    there = {k.peer for k in published(about)}, {k.peer for k in about if k.kind == "subscription"}
    yield (
        f"Nothing is wrong that could be seen from here: {many(settled, 'peer')}; of {name!r} this session has "
        f"{many(publishers, 'publisher')} and {many(subscribers, 'subscriber')}, and {many(there[0], 'peer')} "
        f"publish{_es(there[0])} and {len(there[1])} subscribe{_es(there[1], 's')}."
    )
    stats = session.stats()
    if publishers and not stats.accepted:
        yield "This session has put no sample yet."
    if publishers and stats.filtered:
        yield f"{many(range(stats.filtered), 'sample')} of this session went to no one, as no where= held for them."
    for one in subscribers:
        asked = next((str(p.name).partition("?")[2] for p in one._parts if _asks(p)), "")  # noqa: SLF001
        if asked:
            yield f"{str(one).capitalize()} is sent only samples for which {asked} holds; of text that is no JSON nothing holds."


def _es(subjects: Sized, ending: str = "es") -> str:
    """The ending of a verb."""
    return ending if len(subjects) == 1 else ""


def _asks(one: Declared) -> bool:
    return "?{" in str(one.name)


def _concerns(known: Known, name: str | int) -> bool:
    if isinstance(name, int) or isinstance(known.name, int):
        return known.name == name
    return _meets(known.name.partition("?{")[0], name.partition("?{")[0])


def _dropped(session: Looking, name: str | int) -> Iterator[str]:
    for drop in session.drops():
        about = drop.resource
        if about is None and drop.reason in HARMLESS:
            continue
        if about is None or about == name or str(about).strip("/") == str(name).strip("/"):
            yield f"Dropped: {drop}."


def why_full(session: Looking, handle: int | None, *, sent: bool = False) -> str:
    """What is full, and which peers do not read, in words that end a sentence. sent: samples wait for acknowledgements."""
    if session.closed:
        return "the session is closed"
    members = session.matched_by(handle) if handle is not None else set()
    settled = [peer for peer in session.peers() if peer.state == ESTABLISHED_NAME]
    concerned = [peer for peer in settled if not members or peer.name in members]
    behind = sorted(
        (peer for peer in concerned if peer.unacknowledged), key=lambda peer: -peer.unacknowledged
    )
    slow = behind or concerned
    if handle is not None and session.call("own", handle) and not behind:
        return (
            "a subscriber of this session has its queue full (depth=) and does not read; a thread that puts and reads "
            "must read first"
        )
    who = ", ".join(f"{peer.name} at {peer.endpoint}" for peer in slow[:4]) or "its peers"
    if not behind and not sent and session.config.shared_memory:
        return f"the memory that it shares with processes of this machine is full, as a subscriber of {who} does not read"
    return f"not all of {who} acknowledge, or their subscribers do not read"
