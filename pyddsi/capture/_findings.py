"""What looks wrong in a capture: one function for each kind of thing, each with its own words."""

from __future__ import annotations

from collections.abc import Iterator

from pyddsi.capture._tally import Tally
from pyddsi.capture.info import Conduit, Finding, Info, Session

__all__ = ["findings"]

REASONS = {
    1: "authentication",
    2: "protocol version",
    3: "out of resources",
    4: "sequence number length",
    5: "a parameter",
    6: "declarations that cannot be accepted",
}
STATUSES = {
    1: "no space",
    2: "in conflict with another declaration",
    3: "the transaction is too large",
    5: "invalid",
    6: "unsupported",
}
NOTE_SHARE = 0.002  # repeats below this share of all messages are nothing to worry about
NOTE_COUNT = 10  # fewer repeats are no sign of a lossy network, whatever share they are
DOUBLES_SHARE = 0.2
OF_A_KIND = 5  # named one by one; the rest of the kind is one more finding
NOT_TAKEN = "pyddsi.declaration.status in {1..3, 5..255}"  # 0 is ok, 4 try again


def _times(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _flow(conduit: Conduit) -> str:
    return f"conduit {conduit.conduit} of {conduit.source} to {conduit.destination}"


def _from(endpoint: str) -> str:
    """What comes from an endpoint, in the words of tshark; flows and sessions do not say by which transport."""
    address, _, port = endpoint.removeprefix("tcp/").rpartition(":")
    address = address.strip("[]")
    version = "ipv6" if ":" in address else "ip"
    return f"{version}.src == {address} && (udp.srcport == {port} || tcp.srcport == {port})"


def _frames(numbers: tuple[int, ...]) -> str:
    """Some frames, in the words of tshark."""
    return " || ".join(f"frame.number == {number}" for number in numbers)


def _flow_filter(conduit: Conduit) -> str:
    return f"{_from(conduit.source)} && pyddsi.conduit == {conduit.conduit}"


def _packets(*numbers: int | None) -> tuple[int, ...]:
    return tuple(number for number in numbers if number)


def _files(*frames: tuple[int, int | None]) -> tuple[int, ...]:
    """Where each of these frames is."""
    return tuple(file for file, number in frames if number)


def _losses(info: Info) -> Iterator[Finding]:
    for conduit in info.conduits:
        lost = conduit.repeats - conduit.pre_sync
        if lost:
            share = lost / conduit.messages
            yield Finding(
                "repeats",
                "note" if share < NOTE_SHARE or lost < NOTE_COUNT else "warning",
                f"{_flow(conduit)} repeated {_times(lost, 'message')} ({share:.1%}) that had gone by before: lost behind the place of "
                f"capture, discarded by a receiver (as zhe does with what comes after a gap), or not acknowledged in time",
                lost,
                _packets(conduit.repeat_packet),
                f"{_flow_filter(conduit)} && pyddsi.seq_event == 3",
                _files((conduit.repeat_file, conduit.repeat_packet)),
            )
        if conduit.gaps:
            kind = "reliable" if conduit.reliable else "best effort"
            rest = (
                f"{_times(conduit.missing, 'number')} never came"
                if conduit.missing > 0
                else "all of them came later"
            )
            why = (
                "they were lost before the place of capture, or by the capturing itself"
                if conduit.missing > 0
                else "the network or the capturing swapped them"
                + (
                    ", or they were lost before the place of capture and repeated"
                    * conduit.reliable
                )
            )
            yield Finding(
                "gaps",
                "warning" if conduit.missing > 0 else "note",
                f"{_flow(conduit)} ({kind}) passed over numbers {_times(conduit.gaps, 'time')}, {rest}: {why}",
                conduit.gaps,
                _packets(conduit.gap_packet),
                f"{_flow_filter(conduit)} && pyddsi.seq_event == 2",
                _files((conduit.gap_file, conduit.gap_packet)),
            )
        if conduit.resets:
            yield Finding(
                "resets",
                "note",
                f"{_flow(conduit)} began to count anew {_times(conduit.resets, 'time')}: its sender, or the session, was begun again",
                conduit.resets,
                (),
                f"{_flow_filter(conduit)} && pyddsi.seq_event == 6",
            )
        if conduit.ambiguous:
            yield Finding(
                "ambiguous",
                "warning",
                f"{_flow(conduit)} has {_times(conduit.ambiguous, 'number')} whose place is unclear: too far from the others, behind a silence in "
                f"which the counter may have gone round or a packet that a snap length has cut, or from before the capture began"
                + (
                    f"; in such silences {conduit.unclear:,} numbers could be missing, by the pace that the flow had before them"
                    if conduit.unclear
                    else ""
                ),
                conduit.ambiguous,
                (),
                f"{_flow_filter(conduit)} && pyddsi.seq_event == 7",
            )


def _session(session: Session) -> str:
    return f"the session of {session.opener} with {session.acceptor}"


def _seconds(us: int) -> str:
    return f"{us / 1e6:,.4g} s"


def _silence(session: Session) -> str:
    """How a session ended by silence."""
    if session.quiet is None:
        return f"{_session(session)} expired: one of them was silent for longer than its lease"
    who, silence, lease = session.quiet
    other = session.acceptor if who == session.opener else session.opener
    how = f"{who} was silent for {_seconds(silence)}, with a lease of {_seconds(lease)}"
    what = f"so {other} gave it up" if silence <= lease else f"and its session with {other} expired"
    return f"{how}, {what}: it ended without a farewell, or its packets were lost"


def _sessions(info: Info) -> Iterator[Finding]:
    for session in info.sessions:
        packets = _packets(session.open_packet, session.end_packet)
        files = _files((session.open_file, session.open_packet), (session.file, session.end_packet))
        if session.end == "expired":
            shown = _frames(packets)
            if session.quiet is not None:
                shown = " || ".join([f"({_from(session.quiet[0])})", *filter(None, [shown])])
            yield Finding("expired", "error", _silence(session), 1, packets, shown, files)
        elif session.end == "refused":
            why = REASONS.get(session.reason, f"reason {session.reason}")
            yield Finding(
                "refused",
                "error",
                f"{session.acceptor} refused a session to {session.opener}: {why}",
                1,
                packets,
                files=files,
            )
        elif session.end == "closed" and session.reason:
            why = REASONS.get(session.reason, f"reason {session.reason}")
            text = f"{_session(session)} was closed because of {why}"
            yield Finding("closed", "warning", text, 1, packets, files=files)
        elif session.accept_ns is None and session.end == "capture_end":
            yield Finding(
                "unanswered",
                "warning",
                f"{session.acceptor} never answered when {session.opener} opened a session",
                1,
                packets,
                files=files,
            )
        elif session.end == "moved":
            text = f"{_session(session)} went on at another address"
            yield Finding("moved", "note", text, 1, packets, files=files)


def _declined(info: Info, tally: Tally) -> Iterator[Finding]:
    """Declarations that were refused: one finding for each who refused, and whose they were."""
    kind = "declare_refused"
    sides: dict[tuple[str, str], list[tuple[str, int, tuple[int, int]]]] = {}
    for what, count in tally.under("declined").items():
        status, rid, who, whose = what.split()
        why = STATUSES.get(int(status), f"status {status}")
        name = f"selection {rid[1:]}" if rid.startswith("-") else rid
        first = tally.firsts[f"declined.{what}"]
        sides.setdefault((who, whose), []).append((f"{name} ({why})", count, first))
    for found in sides.values():
        found.sort(key=lambda one: one[2])
    for (who, whose), found in sorted(sides.items(), key=lambda side: (side[1][0][2], side[0])):
        times = sum(n for _, n, _ in found)
        several = [
            f"{name}, {_times(n, 'time')}" if n != times > 1 else name for name, n, _ in found
        ]
        shown = "; ".join(several[:OF_A_KIND])
        rest = len(several) - OF_A_KIND
        yield Finding(
            kind,
            "warning",
            f"{who} refused what {whose} declared{f', {times:,} times' * (times > 1)}: {shown}"
            + (f"; and {rest:,} more" if rest > 0 else ""),
            times,
            (found[0][2][1],),
            f"{_from(who)} && {NOT_TAKEN}",
            (found[0][2][0],),
        )
    unnamed = info.events.get(kind, 0) - sum(tally.under("declined").values())
    if unnamed > 0:
        text = f"{_times(unnamed, 'declaration was', 'declarations were')} refused besides; the table declarations has them all"
        yield Finding(kind, "warning", text, unnamed, (), NOT_TAKEN)


EVENTS: dict[str, tuple[str, str, str]] = {
    "malformed": (
        "error",
        "{} broke a rule of the protocol; `pyddsi decode` shows which",
        "pyddsi.expert.malformed",
    ),
    "unknown_kind": (
        "error",
        "{} held a kind of message that nobody knows, or that its sender did not announce",
        "pyddsi.expert.malformed",
    ),
    "truncated": (
        "warning",
        "{} was cut by the snap length of the capture; capture with -s 0",
        "pyddsi.expert.truncated",
    ),
    "stall": (
        "warning",
        "{} waited for an answer ten times longer than usual",
        "pyddsi.answer_us > 10000",
    ),
    "silence": ("note", "{} passed half of a lease in silence", ""),
}


def _events(info: Info, tally: Tally) -> Iterator[Finding]:
    for kind, (severity, words_of, filter_) in EVENTS.items():
        count = info.events.get(kind, 0)
        if count:
            file, number = tally.firsts.get(f"event.{kind}", (0, None))
            one = {"stall": "sender", "silence": "peer"}.get(kind, "packet")
            yield Finding(
                kind,
                severity,
                words_of.format(_times(count, one)),
                count,
                _packets(number),
                filter_ or (f"frame.number == {number}" if number else ""),
                _files((file, number)),
            )


def _file(info: Info, tally: Tally) -> Iterator[Finding]:
    if tally["capture_dropped"]:
        file, number = tally.firsts.get("event.capture_drop", (0, None))
        yield Finding(
            "capture_drop",
            "warning",
            f"the capturing lost {_times(tally['capture_dropped'], 'frame')} itself, as the file says: what looks lost may have been "
            f"there",
            tally["capture_dropped"],
            _packets(number),
            f"frame.number == {number}" if number else "",
            _files((file, number)),
        )
    if info.packets and tally["doubles"] > DOUBLES_SHARE * info.packets:
        yield Finding(
            "doubles",
            "warning",
            f"{_times(tally['doubles'], 'datagram')} came twice within a millisecond, by two ways or with the same IP identity, as captures of "
            f"`any` or of a mirrored port have them, and count as repeats; read again with --dedupe",
            tally["doubles"],
        )
    if tally["backwards"]:
        yield Finding(
            "backwards",
            "note",
            f"time goes backwards {_times(tally['backwards'], 'time')}",
            tally["backwards"],
        )
    if tally["over_wire"]:
        yield Finding(
            "over_wire",
            "note",
            f"{_times(tally['over_wire'], 'frame')} hold more bytes than they say they had",
            tally["over_wire"],
        )
    streams = tally["decode.stream"]
    if streams:
        file, number = tally.firsts.get("decode.stream", (0, None))
        missing, unread = tally["stream_missing"], tally["stream_unread"]
        yield Finding(
            "streams",
            "warning",
            f"TCP connections could not be read without a break, {_times(streams, 'time')}: the capture begins or ends in their middle, or "
            f"lacks a part. {_times(missing, 'byte')} are not in it, and {unread:,} were passed over until packets were found again",
            streams,
            _packets(number),
            f"frame.number == {number}" if number else "",
            _files((file, number)),
        )
    if tally["forgotten"]:
        yield Finding(
            "forgotten",
            "note",
            f"{_times(tally['forgotten'], 'receiver, hole or name', 'receivers, holes and names')} are more than is remembered of one "
            f"counter, or longer",
            tally["forgotten"],
        )
    if info.frames and not info.packets:
        passed = ", ".join(f"{count} {what}" for what, count in info.foreign.items())
        yield Finding(
            "nothing",
            "error",
            f"no packet of the protocol is among {_times(info.frames, 'frame')} ({passed}); --port names another port",
            1,
        )


ORDER = {"error": 0, "warning": 1, "note": 2}


def _the_worst(found: list[Finding]) -> Iterator[Finding]:
    """The worst of a kind, and what the others add up to."""
    found.sort(key=lambda finding: (ORDER[finding.severity], -finding.count))
    yield from found[:OF_A_KIND]
    rest = found[OF_A_KIND:]
    if len(rest) == 1:
        yield rest[0]
    elif rest:
        count = sum(finding.count for finding in rest)
        frames = sorted(
            frame for finding in rest for frame in zip(finding.files, finding.packets, strict=False)
        )[:OF_A_KIND]
        yield Finding(
            rest[0].kind,
            rest[0].severity,
            f"{len(rest):,} more like these, {count:,} in all; the tables flows and sessions have them one by one",
            count,
            tuple(number for _, number in frames),
            f"pyddsi.seq_event == {3 if rest[0].kind == 'repeats' else 2}"
            if rest[0].kind in {"repeats", "gaps"}
            else "",
            tuple(file for file, _ in frames),
        )


def findings(info: Info, tally: Tally) -> list[Finding]:
    """All of them, the worst first."""
    found = [*_file(info, tally), *_events(info, tally), *_sessions(info)]
    found += [*_declined(info, tally), *_losses(info)]
    found += [Finding(problem.kind, "warning", problem.text, 1) for problem in info.problems]
    kinds: dict[str, list[Finding]] = {}
    for finding in found:
        kinds.setdefault(finding.kind, []).append(finding)
    told = [finding for kind in kinds.values() for finding in _the_worst(kind)]
    return sorted(told, key=lambda finding: ORDER[finding.severity])
