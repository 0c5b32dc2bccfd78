"""An Info in words: ten lines or so for people, and what looks wrong below them."""

from __future__ import annotations

from collections import Counter

from pyddsi.capture.info import Conduit, Info, Resource, moment

__all__ = ["amount_of", "lines"]

LISTED = 5


def _amount(count: float, unit: str) -> str:
    return f"{count:,.0f} {unit}{'' if count == 1 else 's'}"


def amount_of(size: float) -> str:
    """A number of bytes, short."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def _time(us: float) -> str:
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.1f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"


def _more(total: int) -> str:
    return f" and {total - LISTED:,} more" if total > LISTED else ""


def _resource(resource: Resource) -> str:
    name = resource.uri or (
        f"resource {resource.rid}" if resource.rid is not None else "by name (WDATA)"
    )
    if resource.uri and resource.rid is not None:
        name += f" ({resource.rid})"
    rate = f"{resource.rate:,.1f}" if resource.rate < 100 else f"{resource.rate:,.0f}"
    return f"{name} {rate}/s"


def _conduit(conduit: Conduit) -> str:
    kind = "reliable" if conduit.reliable else "best effort"
    text = f"{conduit.source} → {conduit.destination} c{conduit.conduit} {kind}: {_amount(conduit.messages, 'message')}"
    if conduit.repeats:
        text += f", {conduit.repeats / conduit.messages:.1%} repeated"
    if conduit.delivery_us is not None:
        text += f", acknowledged in {_time(conduit.delivery_us[0])} (p99 {_time(conduit.delivery_us[1])})"
    return text


def _list(title: str, items: list[str], total: int) -> list[str]:
    if not items:
        return []
    if len(items) == 1:
        return [f"{title:10} {items[0]}"]
    return [
        f"{title:10} {items[0]}",
        *(f"{'':10} {item}" for item in items[1:LISTED]),
        *([f"{'':10}{_more(total)}"] if _more(total) else []),
    ]


def lines(info: Info) -> list[str]:
    """What a capture holds."""
    names = ", ".join(info.files[:3]) + (
        f" and {len(info.files) - 3} more" if len(info.files) > 3 else ""
    )
    found = [
        f"{'capture':10} {names}: {info.format or 'no capture'}, {amount_of(info.bytes)}, {_amount(info.frames, 'frame')}"
    ]
    if info.first_ns is not None:
        found.append(f"{'time':10} {moment(info.first_ns)}, for {info.seconds:,.3f} s")
    kinds = ", ".join(
        f"{name} {count:,}"
        for name, count in sorted(info.kinds.items(), key=lambda kind: -kind[1])[:6]
    )
    found.append(
        f"{'protocol':10} {_amount(info.packets, 'packet')}, {_amount(info.messages, 'message')}"
        + (f": {kinds}" if kinds else "")
    )
    if info.foreign:
        passed = sorted(info.foreign.items(), key=lambda item: -item[1])
        found.append(
            f"{'others':10} "
            + ", ".join(f"{what} {count:,}" for what, count in passed[:LISTED])
            + _more(len(passed))
        )
    peers = [f"{peer.endpoint}{' (extended)' if peer.extensions else ''}" for peer in info.peers]
    found.append(
        f"{'peers':10} {len(info.peers):,}"
        + (": " + ", ".join(peers[:LISTED]) + _more(len(peers)) if peers else "")
    )
    ends = Counter(
        session.end if session.end != "capture_end" else "open at the end"
        for session in info.sessions
    )
    found.append(
        f"{'sessions':10} {len(info.sessions):,}"
        + (": " + ", ".join(f"{count} {end}" for end, count in ends.most_common()) if ends else "")
    )
    found += _list("conduits", [_conduit(conduit) for conduit in info.conduits], len(info.conduits))
    found += _list(
        "resources", [_resource(resource) for resource in info.resources], len(info.resources)
    )
    found.append(
        f"{'losses':10} {_amount(info.repeats, 'sample')} repeated ({info.pre_sync:,} of them before the first SYNCH), "
        f"{info.gaps:,} passed over, {info.missing:,} missing, {_amount(info.expiries, 'lease')} expired"
    )
    if not info.findings:
        return [*found, f"{'findings':10} nothing looks wrong"]
    found.append(f"{'findings':10} {len(info.findings):,}")
    for finding in info.findings[: 4 * LISTED]:
        frames = info.frames_of(finding)
        where = f" ({frames})" if frames else ""
        found.append(f"  {finding.severity:8} {finding.text}{where}")
    if len(info.findings) > 4 * LISTED:
        found.append(f"  and {len(info.findings) - 4 * LISTED:,} more; --json has all")
    return found
