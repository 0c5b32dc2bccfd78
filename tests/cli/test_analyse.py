"""`pyddsi analyse`: the numbers, the gate, and a page that somebody understands who has not seen the run."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pyddsi import capture, wire
from pyddsi.capture.report import RESOURCES_MAX, WINDOWS_MAX, collect, render
from pyddsi.capture.report._picture import SESSIONS_MAX, Picture
from pyddsi.capture.report._svg import _moments, _seconds
from pyddsi.cli.demo import Teller, look_back
from pyddsi.testing import Sim
from tests.capture.traffic import BEGIN, Frame, opening, traffic, write
from tests.cli.programs import Captured, run
from tests.py.golden import CAPTURES

LOSS = CAPTURES / "p2p_loss5.pcap"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """What a reader of the page has: texts, headings, numbers of drawings; and whether its tags fit."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.open: list[str] = []
        self.texts: list[str] = []
        self.headings: list[str] = []
        self.drawn = 0
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens, unless it is void; nothing may be loaded from elsewhere."""
        assert tag not in {"script", "link", "img", "iframe"}
        assert not {name for name, _ in attrs} & {"src", "href", "onclick", "onload"}
        self.drawn += tag == "svg"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """As the drawings have them: inside of the drawing, with numbers."""
        assert "svg" in self.open
        for name, value in attrs:
            assert value is not None
            if name in {"x", "y", "x1", "x2", "y1", "y2", "width", "height"}:
                assert -1 <= float(value) <= 5000, (tag, name, value)

    def handle_endtag(self, tag: str) -> None:
        """Closes what was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """A text."""
        if "style" in self.open or not data.strip():
            return
        self.texts.append(" ".join(data.split()))
        if "h2" in self.open:
            self.headings.append(self.texts[-1])

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(self.texts)


def page_of(*paths: Path) -> Page:
    """The page of captures."""
    return Page(render(collect(capture.open(list(paths)))))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three peers, one of which ends without a word (kill -9) while it is published to."""
    path = tmp_path_factory.mktemp("killed") / "killed.pcap"
    with Sim(seed=2, defaults={"lease": 1.0}) as sim:
        a, b, c = (sim.node(name) for name in "abc")
        pub = a.publisher("plant/robot/7/pose")
        b.subscriber("plant/**")
        c.subscriber("plant/**")
        pub.wait_matched(2)
        for number in range(200):
            pub.put(b"pose %d" % number)
            sim.run(0.01)
            if number == 100:
                c.crash()
        sim.run(1.0)
        sim.write_pcap(path)
    return path


def test_loss() -> None:
    """The page of a capture with losses would not say what was lost, whose it was, and which filter shows it."""
    page = page_of(LOSS)
    assert "2 peers exchanged 1,813 messages in 3.0 s, over 1 session." in page.text
    assert "126 samples (7.9%) were sent again after going by." in page.text
    finding = page.text.index("repeated 126 messages (7.9%)")
    sender = "ip.src == 10.77.0.1 && (udp.srcport == 35402 || tcp.srcport == 35402)"
    shown = f"{sender} && pyddsi.conduit == 0 && pyddsi.seq_event == 3"
    assert finding < page.text.index("Frame 326.") < page.text.index(f"tshark -Y '{shown}'")
    assert page.headings == [
        "Messages a second, by resource",
        "Losses",
        "Time until acknowledged",
        "Time to answer",
        "Sessions",
        "Resources",
        "Conduits, the worst first",
        "Words",
    ]
    assert page.drawn == 5
    units = {"messages/s", "samples", "0 s", "3 s", "10 ms", "100 µs"}
    assert units <= set(page.texts)
    assert "sent again: came before the first SYNCH" in page.texts
    assert "came late" not in page.texts  # nothing did, so no key has to be looked up


def test_killed(killed: Path, capsys: Captured) -> None:
    """Of a peer that was killed the page would say that its sessions were closed, as if it had said farewell."""
    assert run("analyse", str(killed)) == 0
    said = capsys.readouterr().out
    page = page_of(killed)
    found: list[str] = []
    for text in (said, page.text):
        found = re.findall(r"(\S+) was silent for \S+ s, with a lease of 1 s", text)
        assert len(found) == 2
        assert len(set(found)) == 1
        assert "it ended without a farewell, or its packets were lost" in text
        assert "never answered" not in text  # both opened at once, and one of the two was accepted
    assert (
        "3 sessions. 2 of these ended by silence: a peer was gone, or could not be heard."
        in page.text
    )
    address, port = found[0].split(":")
    assert (
        f"tshark -Y '(ip.src == {address} && (udp.srcport == {port} || tcp.srcport == {port}))"
        in page.text
    )
    lanes = [text for text in page.texts if "of lease" in text]
    assert len(lanes) == 3
    assert sum(lane.startswith(("expired, silence", "given up, silence")) for lane in lanes) == 2
    assert page.page.count('class="lane lost"') == 2


def test_demo_looks_back(killed: Path, tmp_path: Path, capsys: Captured) -> None:
    """The demonstration would name a page that is not there, or not say of the one who was killed."""
    path = tmp_path / "demo.pcapng"
    path.write_bytes(killed.read_bytes())
    look_back(Teller(plain=True), path, kept=True)
    *findings, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["finding"] for one in findings].count("expired") == 2
    assert last == {"capture": str(path), "report": str(tmp_path / "demo.html")}
    assert "was silent for" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    look_back(Teller(plain=False), path, kept=True)
    out = capsys.readouterr().out
    assert f"open {tmp_path / 'demo.html'} in a browser" in out


def test_demo_without_pyarrow(
    killed: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the wheel alone, the demonstration would end in a trace, or without a word of what the recording says."""
    path = tmp_path / "demo.pcapng"
    path.write_bytes(killed.read_bytes())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    look_back(Teller(plain=True), path, kept=True)
    *findings, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["finding"] for one in findings].count("expired") == 2
    assert last == {"capture": str(path)}


def test_silence_that_ends_well(tmp_path: Path) -> None:
    """A session that was closed after a short silence, or before anything was said, would be taken for one that was given up."""
    made = traffic(1, peers=1, packets=20, loss=0, repeat=0)
    last = made.frames[-1].time_ns
    [[one, other, _], *_] = opening(0, 14, 1)
    close = capture_close()
    for seconds, ended in ((4, False), (4.9, True), (6, True)):
        frames = [*made.frames, Frame(last + round(seconds * 1e9), other, one, close)]
        info = capture.open(write(tmp_path / "closed.pcap", frames)).info()
        assert [
            finding.kind == "expired" for finding in info.findings if finding.severity == "error"
        ] == [True] * ended
        [session] = info.sessions
        assert session.end == ("expired" if ended else "closed")
        assert session.quiet is not None
        assert session.quiet[2] == 5_000_000


def capture_close() -> bytes:
    """A CLOSE without a reason."""
    return wire.encode([wire.Close(b"id0", 0)])


def test_nothing_wrong(tmp_path: Path) -> None:
    """A sound capture would have warnings, empty drawings, or no word that it is sound."""
    path = write(tmp_path / "sound.pcap", traffic(2, loss=0, repeat=0).frames)
    page = page_of(path)
    assert "Nothing shows a loss: no message was sent again, and no number is missing." in page.text
    assert "Nothing looks wrong." in page.text
    assert "Losses" not in page.headings


@pytest.mark.parametrize("path", sorted(CAPTURES.rglob("*.pcap")), ids=lambda path: path.stem)
def test_pages_are_pages(path: Path) -> None:
    """A capture, whatever is in it, would make a page that is no HTML, draws outside of its frames, or loads something."""
    page = page_of(path)
    assert page.texts[1] == str(path)
    assert "nan" not in re.findall(r"\bnan\b|\binf\b", page.page)


def test_strange_names(tmp_path: Path) -> None:
    """A name from the wire could put tags into the page."""
    path = tmp_path / "<b>&'\".pcap"
    path.write_bytes(LOSS.read_bytes())
    assert str(path) in page_of(path).texts
    named = wire.Declare(0, [wire.Resource(1, "/<i>&'")], committed=True)
    said = [named, wire.SData(1, 1, b"x", reliable=True)]
    frames = [
        Frame(BEGIN + i, ("10.0.0.9", 20008), ("239.255.0.1", 7447), wire.encode([one]))
        for i, one in enumerate(said)
    ]
    assert "/<i>&'" in page_of(write(tmp_path / "named.pcap", frames)).texts


def test_bounded(tmp_path: Path) -> None:
    """The page of a large capture would be large itself: a session more, a line more, for each that there is."""
    frames: list[Frame] = []
    for number in range(3, 3 + 2 * SESSIONS_MAX):
        for source, target, data in opening(number, 14, 0):
            frames.append(Frame(BEGIN + len(frames) * 10**9, source, target, data))
    path = write(tmp_path / "many.pcap", [*frames, *_many_resources(frames[-1].time_ns)])
    picture = collect(capture.open(path))
    assert len(picture.rates) == RESOURCES_MAX + 1
    assert picture.rates[-1].name == f"{40 - RESOURCES_MAX} others"
    assert max(len(picture.losses), *(len(one.points) for one in picture.rates)) <= WINDOWS_MAX
    assert (
        sum(point.value for one in picture.rates for point in one.points) * picture.window_ns
        == 40e9
    )
    page = Page(render(picture))
    assert page.page.count('class="lane ') == SESSIONS_MAX
    assert "more, all of them better, are not shown" in page.text


def _many_resources(since: int) -> list[Frame]:
    source, group = ("10.0.0.9", 20008), ("239.255.0.1", 7447)
    return [
        Frame(
            since + i * 1000,
            source,
            group,
            wire.encode([wire.SData(i, 100 + i, b"x", reliable=False)]),
        )
        for i in range(40)
    ]


def test_command(tmp_path: Path, capsys: Captured) -> None:
    """The page would not be where it is said to be, or the numbers be others than the page's."""
    out = tmp_path / "report.html"
    assert run("analyse", str(LOSS), "-o", str(out)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"page       {out}"
    assert "126 samples" in out.read_text(encoding="utf-8")
    assert run("analyse", str(LOSS), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["repeats"], found["pre_sync"], found["window_ns"]) == (401, 275, 20_000_000)
    assert sum(loss["repeats"] + loss["pre_sync"] for loss in found["losses"]) == 401
    points = [value for one in found["rates"] for _, value in one["points"]]
    assert round(sum(points) * found["window_ns"] / 1e9) == 1601
    assert run("analyse", str(LOSS), "-o", str(tmp_path / "no" / "report.html")) == 2
    assert "report.html cannot be written: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("repeats>400", 1),
        ("repeats>401", 0),
        ("repeats >= 22.1%", 1),
        ("repeats>23%", 0),
        ("expiries==0", 1),
        ("warnings<1", 0),
        ("errors>0", 0),
        ("missing<=0", 1),
    ],
)
def test_gate(condition: str, status: int, capsys: Captured) -> None:
    """A gate would open where it should not, or say nothing of why it is shut."""
    assert run("analyse", str(LOSS), "--fail-if", "malformed>0", "--fail-if", condition) == status
    said = capsys.readouterr().err
    assert said.count("--fail-if says") == status


@pytest.mark.parametrize(
    "words",
    [
        ["--fail-if", "repeats"],
        ["--fail-if", "rate>1"],
        ["--fail-if", "gaps>1.2.3"],
        ["--engine", "local", "--master", "local[1]"],
    ],
)
def test_refused(words: list[str], capsys: Captured) -> None:
    """A slip of the pen would be a gate that never shuts, or an option that does nothing."""
    assert run("analyse", str(LOSS), *words) == 2
    assert capsys.readouterr().err.startswith(("pyddsi: ", "usage: "))


def test_recordings_apart(tmp_path: Path) -> None:
    """Captures that have nothing to do with each other would be read as one: the second run as repeats of the first."""
    frames = traffic(4, loss=0, repeat=0).frames
    paths = [write(tmp_path / f"{name}.pcap", frames) for name in ("one", "other")]
    alone, both = capture.open(paths[0]).info(), capture.open(paths).info()
    assert both.messages == 2 * alone.messages
    assert (both.repeats, alone.repeats) == (0, 0)
    assert len(both.peers) == len(alone.peers)
    assert len(both.sessions) == 2 * len(alone.sessions)
    assert [one.messages for one in both.conduits] == [2 * one.messages for one in alone.conduits]


def test_opened_again() -> None:
    """A session that was closed and opened anew would hide that it had been closed."""
    sessions = capture.open(CAPTURES / "p2p_conflict_hist.pcap").info().sessions
    assert [(one.end, one.reason, one.open_packet, one.end_packet) for one in sessions] == [
        ("closed", 6, 3, 11),
        ("closed", 6, 14, 22),
    ]


def test_a_loss_that_no_sample_shows() -> None:
    """The page would say that nothing was lost, above a finding that messages were sent again."""
    info = capture.open(LOSS).info()
    lossless = replace(info, repeats=0, pre_sync=0, missing=0, findings=[])
    assert "Nothing shows a loss" not in render(Picture(lossless, 10**9))
    lossless.conduits = [replace(one, repeats=one.pre_sync, missing=0) for one in lossless.conduits]
    assert "Nothing shows a loss" in render(Picture(lossless, 10**9))
    lossless.sessions = [replace(one, end="expired") for one in lossless.sessions]
    assert "Nothing shows a loss" not in render(Picture(lossless, 10**9))


@pytest.mark.parametrize(
    ("span", "ticks"),
    [
        (3.0, ["0 s", "0.5 s", "3 s"]),
        (299.0, ["0 s", "50 s", "250 s"]),
        (1500.0, ["0 min", "5 min", "25 min"]),
        (50_000.0, ["0 h", "3 h", "12 h"]),
        (900_000.0, ["0 d", "2 d", "10 d"]),
    ],
)
def test_ticks(span: float, ticks: list[str]) -> None:
    """A time axis would have ticks such as 8.33333 min."""
    shown = [_seconds(at, span) for at in _moments(span) if at <= span * 1.001]
    assert [one for one in shown if one in ticks] == ticks
    assert all(len(one.split()[0]) <= 4 for one in shown)
    assert len({one.split()[1] for one in shown}) == 1


def test_resources_of_the_page() -> None:
    """The page would not say how much goes by under which name."""
    page = page_of(LOSS)
    assert {"a second", "bytes a second", "bytes each"} <= set(page.texts)
    assert "before the receiver knew where to begin" in page.text
