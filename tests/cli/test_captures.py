"""
The commands about captures: what they say, what they write, how they end, whatever the files are. (The file is long because
there are five of them, and each can be given wrong files and wrong arguments.)
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyddsi import capture, wire
from tests.capture.traffic import BEGIN, Frame, peer, traffic, write
from tests.cli.programs import ROOT, Captured, run
from tests.py import make_capture as make
from tests.py.make_traffic import FRAMED, connection, written

CAPTURES = ROOT / "captures"
LOSS = CAPTURES / "p2p_loss5.pcap"
SMALL = CAPTURES / "p2p_pubsub.pcap"


def asked(capsys: Captured, *arguments: str, status: int = 0) -> Any:
    """What a command answers as JSON."""
    assert run(*arguments, "--json") == status
    return json.loads(capsys.readouterr().out)


def printed(capsys: Captured, *arguments: str, status: int = 0) -> str:
    """What it prints, errors last."""
    assert run(*arguments) == status
    out, err = capsys.readouterr()
    return out + err


def frames_of(path: Path) -> list[tuple[int | None, bytes]]:
    """The packets of ours, with their times."""
    return [(packet.time_ns, packet.data) for packet in capture.open(path).packets()]


# ---- info ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "repeats", "early"), [("p2p_loss5", 401, 275), ("three_multicast_loss", 623, 588)]
)
def test_where_the_loss_happened(name: str, repeats: int, early: int, capsys: Captured) -> None:
    """Repeats that are known to be in a capture would be counted otherwise, or be laid to the wrong side of it."""
    path = str(CAPTURES / f"{name}.pcap")
    found = asked(capsys, "info", path)
    assert (found["repeats"], found["pre_sync"]) == (repeats, early)
    assert (found["gaps"], found["missing"], found["expiries"]) == (0, 0, 0)
    [finding] = found["findings"]
    assert finding["kind"] == "repeats"
    assert finding["count"] == repeats - early
    assert "lost behind the place of capture" in finding["text"]
    text = printed(capsys, "info", path)
    assert f"{repeats} samples repeated ({early} of them before the first SYNCH)" in text
    [number] = finding["packets"]
    table = capture.open(path).table("messages", columns=["pkt", "seq_event"]).to_pylist()
    assert next(row["pkt"] for row in table if row["seq_event"] == 3) == number


def test_what_was_lost_before(tmp_path: Path, capsys: Captured) -> None:
    """What never came by would be said to be lost behind the place of capture, or not at all."""
    made = traffic(5, peers=2, packets=400, repeat=0.0)
    path = write(tmp_path / "run.pcap", made.frames)
    found = asked(capsys, "info", str(path))
    assert found["gaps"] == made.passed_over
    assert found["fills"] == made.filled
    assert found["missing"] == made.passed_over - made.filled > 0
    gaps = [finding for finding in found["findings"] if finding["kind"] == "gaps"]
    assert gaps
    assert all("lost before the place of capture" in finding["text"] for finding in gaps)


def test_sessions_that_went_wrong(tmp_path: Path, capsys: Captured) -> None:
    """A lease that expired, a peer that refused or never answered would not be told."""
    opened = wire.encode([wire.Open(1, b"aa", 10, (), properties=[])])
    accepted = wire.encode([wire.Accept(b"aa", b"bb", 10, properties=[])])
    refused = wire.encode([wire.Close(b"cc", 3)])
    second = 10**9
    port = ("10.0.0.9", 7447)
    frames = [
        Frame(BEGIN, port, peer(1), opened),
        Frame(BEGIN + second, peer(1), port, accepted),
        Frame(BEGIN + 2 * second, port, peer(2), opened),
        Frame(BEGIN + 2 * second, peer(2), port, refused),
        Frame(BEGIN + 3 * second, port, peer(3), opened),
        Frame(BEGIN + 9 * second, port, peer(1), wire.encode([wire.KeepAlive(b"aa")])),
    ]
    found = asked(capsys, "info", str(write(tmp_path / "run.pcap", frames)))
    kinds = {finding["kind"]: finding for finding in found["findings"]}
    assert {"expired", "refused", "unanswered"} <= set(kinds)
    assert "out of resources" in kinds["refused"]["text"]
    assert found["expiries"] == 1


def test_what_waits_at_the_end(tmp_path: Path, capsys: Captured) -> None:
    """A packet that the capture ends within would be gone without a word."""
    path = written(tmp_path / "run.pcap", connection([FRAMED[:-2]]))
    found = asked(capsys, "info", str(path))
    assert [finding["kind"] for finding in found["findings"]] == ["streams"]
    whole = make.udp(b"x" * 64, (peer(1), ("239.255.0.1", 7447)))
    ways = peer(1), ("239.255.0.1", 7447)
    piece = make.ethernet(make.ipv4(whole[:40], place=0x2000, ways=ways))
    found = asked(capsys, "info", str(written(tmp_path / "pieces.pcap", [piece])))
    assert [n for what, n in found["foreign"].items() if "fragment" in what] == [1]


# ---- convert ------------------------------------------------------------------------------------------------------


def test_parquet(tmp_path: Path, capsys: Captured) -> None:
    """Rows would be missing in the file, or other columns be in it than were asked for."""
    out = tmp_path / "run.parquet"
    said = asked(capsys, "convert", str(LOSS), "-o", str(out), "--columns", "pkt,kind,usn")
    table = pq.read_table(out)
    assert table.column_names == ["pkt", "kind", "usn"]
    assert said == {"output": str(out), "table": "messages", "rows": table.num_rows}
    assert table.num_rows == capture.open(LOSS).table("messages", ["pkt"]).num_rows
    where = ["--where", "kind == ACKNACK", "--table", "messages"]
    assert asked(capsys, "convert", str(LOSS), "-o", str(out), *where)["rows"] == 197


def test_folder_by_hours(tmp_path: Path, capsys: Captured) -> None:
    """A row would be in the file of another hour, or in none."""
    hour = 3600 * 10**9
    frames = [
        Frame(BEGIN + n * hour // 4, peer(1), ("239.255.0.1", 7447), wire.encode([wire.Scout(1)]))
        for n in range(12)
    ]
    out = tmp_path / "out"
    asked(capsys, "convert", str(write(tmp_path / "run.pcap", frames)), "-o", str(out))
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*.parquet"))
    assert all(re.match(r"date=2023-11-1\d/\d\d", name) for name in found)
    hours = {frame.time_ns // hour for frame in frames}
    assert len({name.rpartition(".")[0][:18] for name in found}) == len(hours)
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in out.rglob("*.parquet")) == 12


@pytest.mark.parametrize("form", ["pcapng", "pcap"])
def test_cut(form: str, tmp_path: Path, capsys: Captured) -> None:
    """A part of a capture would have a frame too many or too few, or another time."""
    out = tmp_path / f"cut.{form}"
    asked(capsys, "convert", str(LOSS), "-o", str(out), "--from", "0.5", "--to", "1.0")
    begin = frames_of(LOSS)[0][0]
    assert begin is not None
    wanted = [
        (time, data)
        for time, data in frames_of(LOSS)
        if time is not None and begin + 5 * 10**8 <= time < begin + 10**9
    ]
    assert frames_of(out) == wanted
    assert 100 < len(wanted) < 1000


def test_merge_and_sort(tmp_path: Path, capsys: Captured) -> None:
    """Of several files the frames would not come in order of time, or some be lost where they meet."""
    made = traffic(3, packets=100).frames
    one, two = write(tmp_path / "a.pcap", made[::2]), write(tmp_path / "b.pcap", made[1::2])
    out = tmp_path / "both.pcapng"
    said = asked(capsys, "convert", str(one), str(two), "-o", str(out))
    assert (said["frames"], said["left_out"], said["disordered"]) == (len(made), 0, 0)
    assert frames_of(out) == [(frame.time_ns, frame.data) for frame in made]
    swapped = [frame for pair in zip(made[1::2], made[::2], strict=False) for frame in pair]
    mixed = write(tmp_path / "mixed.pcap", swapped)
    asked(capsys, "convert", str(mixed), "-o", str(out), "--sort")
    times = [time for time, _ in frames_of(out)]
    assert times == sorted(frame.time_ns for frame in swapped)


def test_ours_alone(tmp_path: Path, capsys: Captured) -> None:
    """Somebody else's frames would be in a capture of the protocol, or one of ours not."""
    ours = Frame(BEGIN, peer(1), ("239.255.0.1", 7447), wire.encode([wire.Scout(1)]))
    other = Frame(BEGIN + 1, ("10.9.9.9", 53), ("10.9.9.8", 53), b"a question")
    path = write(tmp_path / "run.pcap", [ours, other, ours])
    said = asked(capsys, "convert", str(path), "-o", str(tmp_path / "x.pcapng"), "--ours")
    assert (said["frames"], said["left_out"]) == (2, 1)


# ---- anonymize ----------------------------------------------------------------------------------------------------


def test_anonymous(tmp_path: Path, capsys: Captured) -> None:
    """Something that was to be hidden would be in the file, or something else in it that was not there before."""
    out, again = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
    key = "00112233445566778899aabbccddeeff"
    for path in (out, again):
        asked(capsys, "anonymize", str(SMALL), "-o", str(path), "--names", "--key", key)
    assert out.read_bytes() == again.read_bytes()
    before, after = (list(capture.open(path).packets()) for path in (SMALL, out))
    assert [packet.time_ns for packet in before] == [packet.time_ns for packet in after]
    assert [len(packet.data) for packet in before] == [len(packet.data) for packet in after]
    content = out.read_bytes()
    for packet in before:
        for message in packet.messages()[0]:
            for secret in (getattr(message, "id", None), getattr(message, "payload", None)):
                if secret is not None and len(bytes(secret)) > 3:
                    assert bytes(secret) not in content
    assert b"/t/data" not in content
    columns = ["kind", "sn", "usn", "seq_event", "answer_us", "payload_len", "rid"]
    rows = [capture.open(path).table("messages", columns).to_pylist() for path in (SMALL, out)]
    assert rows[0] == rows[1]
    names = {packet.source.address for packet in after} & {p.source.address for p in before}
    assert not names
    ends = [len({str(packet.source) for packet in side}) for side in (before, after)]
    assert ends[0] == ends[1]


# ---- analyse ------------------------------------------------------------------------------------------------------


def test_report(tmp_path: Path, capsys: Captured) -> None:
    """The page would need something from elsewhere, lack what was found, or be no page."""
    out = tmp_path / "report.html"
    assert str(out) in printed(capsys, "analyse", str(LOSS), "-o", str(out))
    page = out.read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?:https?:)?//|@import|<script\s+src", page)
    assert "401" in page
    assert "<svg" in page
    assert "pyddsi.seq_event == 3" in page.replace("&amp;", "&")
    assert "Frame 326" in page


def test_report_as_json(capsys: Captured) -> None:
    """Programs would get other numbers than `pyddsi info` has, or no curves."""
    found = asked(capsys, "analyse", str(LOSS))
    info = asked(capsys, "info", str(LOSS))
    assert {key: found[key] for key in info} == info
    assert sum(count for curve in found["rates"] for *_, count in curve["points"]) > 0
    assert found["losses"]


@pytest.mark.parametrize(
    ("conditions", "status", "words"),
    [
        (["repeats>1%"], 1, "repeats is 22.1% of the messages, and --fail-if says repeats>1%"),
        (["repeats>400"], 1, "repeats is 401"),
        (["repeats>401"], 0, ""),
        (["expiries>0", "missing>0", "malformed>0"], 0, ""),
        (["expiries>0", "warnings>=1"], 1, "warnings is 1"),
        (["messages<10"], 0, ""),
        (["errors==0"], 1, "errors is 0"),
    ],
)
def test_gate(conditions: list[str], status: int, words: str, capsys: Captured) -> None:
    """A pipeline would go on though a condition holds, or stop though none does."""
    arguments = [word for condition in conditions for word in ("--fail-if", condition)]
    assert run("analyse", str(LOSS), *arguments) == status
    assert words in capsys.readouterr().err


# ---- decode -------------------------------------------------------------------------------------------------------


def test_decode_says_what_it_means(capsys: Captured) -> None:
    """A line would not say that a message is a repeat, which resource it is of, or how long an answer took."""
    text = printed(capsys, "decode", str(LOSS))
    repeats = [line for line in text.splitlines() if "SDATA" in line and "repeat" in line]
    assert len(repeats) == 401  # 275 of them of what came before the first SYNCH
    where = ["--where", "seq_event == 3 and kind == SDATA"]
    lines = printed(capsys, "decode", str(LOSS), *where).splitlines()
    assert len(lines) == 401 - 275
    assert all("repeat" in line for line in lines)
    part = printed(capsys, "decode", str(LOSS), "--from", "0.5", "--to", "1.0").splitlines()
    assert part
    assert set(part) < set(text.splitlines())
    assert all(0.5 <= float(line.split()[1]) < 1.0 for line in part)
    for line in printed(capsys, "decode", str(LOSS), *where, "--json").splitlines():
        assert json.loads(line)["kind"] == "SDATA"


# ---- wrong files --------------------------------------------------------------------------------------------------


def cut_off(path: Path) -> None:
    """Ends in the middle of a frame."""
    path.write_bytes(LOSS.read_bytes()[:-7])


def foreign(path: Path) -> None:
    """No capture at all."""
    path.write_bytes(b"%PDF-1.7 and so on" * 10)


def empty(path: Path) -> None:
    """Nothing."""
    path.write_bytes(b"")


def cut_in_its_header(path: Path) -> None:
    """Less than a header."""
    path.write_bytes(LOSS.read_bytes()[:20])


def cut_and_packed(path: Path) -> None:
    """Packed, and the packed bytes cut off."""
    path.write_bytes(gzip.compress(LOSS.read_bytes())[:-300])


COMMANDS = {
    "info": [],
    "analyse": [],
    "decode": ["--count"],
    "convert": ["-o", "{tmp}/out.parquet"],
    "anonymize": ["-o", "{tmp}/out.pcapng"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_strict(command: str, tmp_path: Path, capsys: Captured) -> None:
    """A file that is cut off would pass for a whole one, or be refused though it can be read up to there."""
    path = tmp_path / "run.pcap"
    cut_off(path)
    words = [word.format(tmp=tmp_path) for word in COMMANDS[command]]
    text = printed(capsys, command, str(path), *words, status=0)
    assert "pyddsi: warning: " in text
    text = printed(capsys, command, str(path), *words, "--strict", status=2)
    assert text.rstrip().splitlines()[-1].startswith("pyddsi: ")
    assert "Traceback" not in text


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("spoil", [foreign, cut_and_packed])
def test_no_capture(command: str, spoil: Any, tmp_path: Path, capsys: Captured) -> None:
    """What is no capture would be taken for an empty one, or what nobody can unpack for a whole one."""
    path = tmp_path / "run.pcap"
    spoil(path)
    words = [word.format(tmp=tmp_path) for word in COMMANDS[command]]
    text = printed(capsys, command, str(path), *words, status=2)
    assert str(path) in text
    assert "Traceback" not in text


@pytest.mark.parametrize("spoil", [empty, cut_in_its_header])
def test_less_than_a_capture(spoil: Any, tmp_path: Path, capsys: Captured) -> None:
    """A file that has not begun yet would be read without a word, or end in a traceback."""
    path = tmp_path / "run.pcap"
    spoil(path)
    assert run("info", str(path)) in {0, 2}
    said = capsys.readouterr()
    assert str(path) in said.err or "run.pcap" in said.err
    assert run("info", str(path), "--strict") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_growing(tmp_path: Path, capsys: Captured) -> None:
    """A file that is still written would be read beyond its last whole frame, or not again from there."""
    whole = LOSS.read_bytes()
    path = tmp_path / "run.pcap"
    counts = []
    for share in (0.3, 0.6, 1.0):
        path.write_bytes(whole[: int(len(whole) * share)])
        counts.append(asked(capsys, "info", str(path))["frames"])
    assert counts == sorted(set(counts))
    assert counts[-1] == 1487
    path.write_bytes(whole[: len(whole) // 2])  # and one that was begun again
    assert asked(capsys, "info", str(path))["frames"] < counts[-1]


WRONG = [
    (["info"], "required: FILE"),
    (["info", "{tmp}/nothing.pcap"], "nothing.pcap: there is no such file; name a pcap or pcapng"),
    (["info", "{tmp}/*.pcapng"], "no file matches this pattern"),
    (["info", "{loss}", "--port", "0"], "'0' is not a whole number from 1 to 65535"),
    (["info", "{loss}", "--seq-bits", "6"], "'6' is not a whole number from 7 to 56"),
    (["convert", "{loss}"], "required: -o"),
    (["convert", "{loss}", "-o", "{tmp}/x.parquet", "--table", "mesages"], "messages"),
    (["convert", "{loss}", "-o", "{tmp}/x.parquet", "--columns", "pkt,knd"], "has no column 'knd'"),
    (["convert", "{loss}", "-o", "{tmp}/x.parquet", "--where", "kind =="], "kind =="),
    (["convert", "{loss}", "-o", "{tmp}/x.pcapng", "--table", "flows"], "--table is for tables"),
    (["convert", "{loss}", "-o", "{tmp}/x.parquet", "--sort"], "--sort is for captures"),
    (["convert", "{loss}", "-o", "{tmp}/x.parquet", "--from", "noon"], "is a time such as"),
    (["convert", "{loss}", "-o", "{tmp}/no/x.pcapng"], "no/x.pcapng"),
    (["anonymize", "{loss}", "-o", "{tmp}/x.pcapng", "--key", "12"], "key has 16 bytes, not 1"),
    (["anonymize", "{loss}", "-o", "{tmp}/x.pcapng", "--key", "xy"], "32 hexadecimal digits"),
    (["analyse", "{loss}", "--fail-if", "losses>1"], "'losses>1' is no condition; write it as"),
    (["analyse", "{loss}", "--fail-if", "repeats>1.2.3"], "'1.2.3' is no number"),
    (["analyse", "{loss}", "-o", "{tmp}/no/x.html"], "cannot be written: No such file"),
    (["analyse", "{loss}", "--engine", "local", "--master", "local"], "--master is of Spark"),
    (["decode", "{loss}", "--where", "kind == SDTA"], "SDTA"),
    (["decode", "{loss}", "--reading", "lax"], "'tolerant'"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=lambda value: " ".join(value)[:50])
def test_wrong_arguments(
    arguments: list[str], words: str, tmp_path: Path, capsys: Captured
) -> None:
    """A mistake would be guessed at, leave open what would be right, or leave half a file behind."""
    filled = [word.format(tmp=tmp_path, loss=LOSS) for word in arguments]
    assert run(*filled) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert "Traceback" not in said.err
    assert not said.out
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_packed_the_same(tmp_path: Path, capsys: Captured) -> None:
    """A packed capture, or one of several in a folder, would hold something else."""
    plain = asked(capsys, "info", str(LOSS))
    (tmp_path / "one").mkdir()
    with gzip.open(tmp_path / "one" / "run.pcap.gz", "wb") as out, LOSS.open("rb") as source:
        shutil.copyfileobj(source, out)
    for name in (tmp_path / "one" / "run.pcap.gz", tmp_path / "one"):
        packed = asked(capsys, "info", str(name))
        for key in ("frames", "messages", "repeats", "findings", "conduits"):
            assert packed[key] == plain[key]
