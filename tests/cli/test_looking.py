"""`pyddsi scout`, `ls` and `ps`: who is there, and what."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pyddsi
from pyddsi.cli import _peers
from pyddsi.cli._sockets import processes, udp_inodes
from tests.cli.programs import TIMEOUT, Captured, group, run, started


def test_scout(capsys: Captured) -> None:
    """A peer would be missing, or be told with another's address or abilities."""
    where = group()
    with (
        pyddsi.open(group=where, lease=7) as one,
        pyddsi.open(group=where, features=()) as other,
    ):
        scout = ["scout", "--group", where, "--count", "2", "--duration", str(TIMEOUT)]
        assert run(*scout, "--json") == 0
        found = {
            peer["name"]: peer for peer in map(json.loads, capsys.readouterr().out.splitlines())
        }
        assert set(found) == {one.name, other.name}
        assert found[one.name]["endpoint"] == str(one.endpoint)
        assert found[one.name]["lease"] == 7
        assert set(found[one.name]["features"]) >= {"batch", "fragment"}
        assert found[one.name]["age"] >= 0
        assert found[other.name]["features"] == []
        assert run(*scout) == 0
        heads, *lines = capsys.readouterr().out.splitlines()
        assert heads.split() == ["peer", "address", "speaks", "round", "trip", "lease", "age"]
        rows = {line.split()[0]: line for line in lines}
        assert "  all extensions  " in rows[one.name]
        assert "  as zhe  " in rows[other.name]
        assert run("scout", "--group", where, "--count", "3", "--duration", "0.5") == 1
        assert "2 peers within 0.5 s, not 3" in capsys.readouterr().err


def test_nobody(capsys: Captured) -> None:
    """Nobody would be nothing to talk about."""
    assert run("scout", "--group", group(), "--duration", "0.1") == 1
    assert "nobody answered within 0.1 s. There is no peer" in capsys.readouterr().err
    assert run("ls", "--group", group(), "--duration", "0.1") == 1
    assert "nothing like '**' within 0.1 s. There is no peer" in capsys.readouterr().err


def test_watch() -> None:
    """Who comes and goes would not be told, or Ctrl-C not end it cleanly."""
    where = group()
    for options in ([], ["--json"]):
        with started(where, "scout", "--watch", "--duration", "0", *options) as scout:
            scout.remark("watching")
            with pyddsi.open(group=where) as session:
                come = scout.line()
                endpoint = str(session.endpoint)
            gone = scout.line()
            assert scout.interrupt()[0] == 130
        if options:
            found = [json.loads(line) for line in (come, gone)]
            assert [one["event"] for one in found] == ["connected", "disconnected"]
            assert {one["name"] for one in found} == {session.name}
            assert found[0]["endpoint"] == endpoint
            assert found[1]["reason"] == "ordinary"
        else:
            assert come == f"connected {session.name} at {endpoint}\n"
            assert gone.startswith(f"disconnected {session.name} ")
            assert gone.endswith("(ordinary)\n")


def test_what_peers_speak() -> None:
    """A peer with some extensions would be told to have all, or none."""
    with pyddsi.open(group=(where := group())) as one, pyddsi.open(group=where):
        (peer,) = _peers.find(one, TIMEOUT, 1)
    assert _peers.speaks(peer) == "all extensions"
    assert _peers.speaks(replace(peer, features=peer.features - {"pull"})) == "all but pull"
    assert _peers.speaks(replace(peer, features=frozenset({"pull", "batch"}))) == "batch, pull"
    assert _peers.age(replace(peer, incarnation=1)) == "-"
    assert _peers.round_trip(replace(peer, rtt=0.0)) == "-"


def test_ls(capsys: Captured) -> None:
    """A resource would be missing or of others, or who declares and who subscribes be mixed up."""
    where = group()
    with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
        pub = one.publisher("plant/a")
        one.publisher("office/b")
        other.subscriber("plant/a")
        other.subscriber("plant/*", where="lum > 3")
        pub.wait_matched(timeout=TIMEOUT)
        ls = ["ls", "--group", where, "plant/**", "--json"]
        rows: dict[str, dict[str, list[str]]] = {}
        while len(rows) < 2 or len(rows["plant/a"]["declared"]) < 2:  # until both have told all
            run(*ls)
            lines = capsys.readouterr().out.splitlines()
            rows = {row["resource"]: row for row in map(json.loads, lines)}
        assert set(rows) == {"plant/a", "plant/*?{lum > 3}"}
        assert sorted(rows["plant/a"]["declared"]) == sorted([one.name, other.name])
        assert rows["plant/a"]["subscribed"] == [other.name]
        assert rows["plant/*?{lum > 3}"]["subscribed"] == [other.name]


def test_ls_says_who(capsys: Captured) -> None:
    """Nothing would say which session publishes a resource, and which subscribes to it."""
    where = group()
    with pyddsi.open(group=where) as one, pyddsi.open(group=where) as other:
        one.publisher("plant/a")
        other.subscriber("plant/a")
        assert run("ls", "--group", where) == 0
        line = capsys.readouterr().out.splitlines()[1]
        assert line.split() == ["plant/a", "1", one.name[:8], "1", other.name[:8]]


def test_ls_with_rates(capsys: Captured) -> None:
    """Samples would not be counted, or be counted for another resource."""
    where = group()
    with started(where, "pub", "plant/a", "--size", "100", "--rate", "200", "--no-wait") as pub:
        ls = ["ls", "--group", where, "--rates", "--duration", "1"]
        while run(*ls, "--json"):
            capsys.readouterr()
        row = json.loads(capsys.readouterr().out)
        assert (row["resource"], row["size_mean"]) == ("plant/a", 100)
        assert row["samples"] > 0
        assert row["bytes_per_second"] > row["per_second"] > 0
        assert run(*ls, "plant/*") == 0
        heads, line = capsys.readouterr().out.splitlines()
        assert heads.split()[:4] == ["resource", "publishers", "subscribers", "samples"]
        assert line.startswith("plant/a ")
        assert run(*ls, "office/*") == 1
        assert "peers that answered: 1" in capsys.readouterr().err
        assert pub.interrupt()[0] == 130


def test_interrupted_looks() -> None:
    """Ctrl-C would end in a trace, or without what was found so far."""
    where = group()
    with pyddsi.open(group=where) as session:
        for command in ("ls", "scout", "ps"):
            with started(where, command, "--duration", "1000") as look:
                session.wait_event("connected", timeout=TIMEOUT)
                status, _, _ = look.interrupt()
                assert status == 130
                assert session.wait_event("disconnected", timeout=TIMEOUT).reason == "ordinary"


def test_ps(capsys: Captured) -> None:
    """A process would be missing, or be paired with another's session."""
    where, elsewhere = group(), group()
    with (
        pyddsi.open(group=where) as session,
        started(where, "ping", "--serve") as here,
        started(elsewhere, "ping", "--serve") as there,
    ):
        name = here.remark("answering as").split()[3].rstrip(";")
        there.remark("answering as")
        while session.wait_event("connected", timeout=TIMEOUT).peer != name:
            pass
        rows: list[dict[str, dict[str, object] | None]] = []
        with started(where, "ps", "--json") as ps:
            status, out, _ = ps.end()
            assert status == 0
            rows = [json.loads(line) for line in out.splitlines()]
        pairs = {
            (row["peer"] or {}).get("name"): (row["process"] or {}).get("pid")
            for row in rows
            if (row["process"] or {}).get("pid") in {here.pid, os.getpid()}
        }
        assert pairs == {name: here.pid, session.name: os.getpid()}
        strangers = [row["process"] or {} for row in rows if row["peer"] is None]
        assert there.pid in {process["pid"] for process in strangers}
        assert all(process["memory_bytes"] for process in strangers)
        assert run("ps", "--group", where) == 0
        line = next(
            line
            for line in capsys.readouterr().out.splitlines()
            if line.split()[0] == str(here.pid)
        )
        assert name in line


def test_sockets_of_processes(tmp_path: Path) -> None:
    """A port would be read wrong, or one process that may not be looked at hide all others."""
    net = tmp_path / "net"
    net.mkdir()
    line = "  12: 00000000:1D17 00000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 4711 2 0\n"
    (net / "udp").write_text("heads\n" + line, encoding="ascii")
    assert udp_inodes(tmp_path) == {7447: {4711}}
    for pid in ("7", "8"):
        (tmp_path / pid).mkdir()
    (tmp_path / "self").mkdir()
    mine = tmp_path / "7"
    (mine / "fd").mkdir()
    (mine / "fd" / "3").symlink_to("socket:[4711]")
    (mine / "fd" / "4").symlink_to("/memfd:pyddsi-page (deleted)")
    (mine / "fd" / "5").symlink_to("/memfd:pyddsi-lane (deleted)")
    (mine / "cmdline").write_bytes(b"a\0b\xff\0")
    (mine / "stat").write_text("7 (a) b) S " + " ".join(map(str, range(4, 53))), encoding="ascii")
    (found,) = processes(tmp_path)
    assert (found.pid, found.command) == (7, "a b\N{REPLACEMENT CHARACTER}")
    assert (found.ports, found.sessions, found.lanes) == (frozenset({7447}), 1, 1)
    assert found.cpu_seconds == (14 + 15) / os.sysconf("SC_CLK_TCK")
    assert found.memory_bytes == 24 * os.sysconf("SC_PAGE_SIZE")
