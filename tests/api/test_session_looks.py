"""What a session can be asked: peers, events, drops, counts, and why nothing comes."""

import re
import threading
from pathlib import Path

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, two


def test_peers_and_events() -> None:
    """Peers know each other by name; what happens is told once, in order, with times since 1970."""
    with two() as (one, other):
        pub = one.publisher("a")
        sub = other.subscriber("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.wait_settled(timeout=TIMEOUT)
        sub.wait_settled(timeout=TIMEOUT)
        assert pub.matched == [other.name]
        assert (pub.status, sub.status) == ("settled", "settled")
        (peer,) = one.peers()
        assert (peer.name, peer.id, peer.state) == (other.name, other.id, "established")
        assert peer.endpoint is not None
        assert peer.endpoint.port == other.endpoint.port
        events = one.events()
        kinds = [event.kind for event in events]
        assert kinds.index("connected") < kinds.index("matched")
        assert [event.of for event in events if event.kind == "matched"] == [pub]
        assert all(event.time_ns > 1_700_000_000 * 10**9 for event in events)
        assert "matched" not in {event.kind for event in one.events()}
        sub.close()
        assert one.wait_event("unmatched", timeout=TIMEOUT).peer == other.name
        assert pub.matched == []
        other.close()
        assert one.wait_event("disconnected", timeout=TIMEOUT).reason == "ordinary"
        with pytest.raises(TimeoutError, match="no gap within"):
            one.wait_event("gap", timeout=0)


def test_why_not() -> None:
    """why_not names the reason: nobody there, the wrong name, nobody subscribes."""
    with pyddsi.open(group=group()) as session:
        assert "There is no peer" in session.why_not("plant/pose")
        assert session.config.group in session.why_not("plant/pose")
    with two() as (one, other):
        pub = one.publisher("plant/pose")
        sub = other.subscriber("plant/*")
        pub.wait_matched(timeout=TIMEOUT)
        assert "did you mean 'plant/pose'" in one.why_not("plant/post").lower()
        sub.close()
        one.wait_event("unmatched", timeout=TIMEOUT)
        assert "None of 1 peer subscribes to 'plant/pose'" in one.why_not("plant/pose")


def test_resources() -> None:
    """What peers have declared is listed with its names, and why_not asks for the one that was meant."""
    with two() as (one, other):
        pub = one.publisher("plant/robot/7/pose")
        sub = other.subscriber("plant/robot/*/pose", where="$size > 2")
        number = other.subscriber(7)
        pub.wait_matched(timeout=TIMEOUT)
        for declared in (pub, sub, number):
            declared.wait_settled(timeout=TIMEOUT)
        (theirs,) = other.resources()
        assert (theirs.peer, theirs.kind, theirs.name, theirs.mode, theirs.space) == (
            one.name,
            "resource",
            "plant/robot/7/pose",
            None,
            0,
        )
        assert theirs.number == pub.number
        kinds = {(known.kind, known.name, known.mode) for known in one.resources()}
        query = "plant/robot/*/pose?{$size>2}"
        assert ("subscription", 7, "push") in kinds
        assert {(kind, str(name).replace(" ", "")) for kind, name, _ in kinds} >= {
            ("selection", query)
        }
        assert "Did you mean 'plant/robot/7/pose'?" in other.why_not("plant/robot/7/pos")
        wrong = other.subscriber("plant/robot/7/pos")
        said = other.why_not("plant/robot/7/pos")
        assert "None of 1 peer publishes a resource that 'plant/robot/7/pos' covers" in said
        assert "Did you mean 'plant/robot/7/pose'?" in said
        wrong.close()


def test_many_resources() -> None:
    """The list of what peers have declared has room for any number of them."""
    count = 300
    with two() as (one, other):
        made = [one.resource(f"plant/robot/{number}/{'x' * 60}") for number in range(count)]
        for resource in made:
            resource.wait_settled(timeout=TIMEOUT)
        one.wait_event("connected", timeout=TIMEOUT)
        last = one.resource("last")
        last.wait_settled(timeout=TIMEOUT)
        names = {known.name for known in other.resources()}
        assert names == {resource.name for resource in made} | {"last"}


def test_a_name_that_comes_to_mean_another() -> None:
    """After a peer has come back with another name for a number, samples of it have the new name."""
    where = group()
    with pyddsi.open(group=where) as reader:
        sub = reader.subscriber("plant/*")
        kept = []
        for name in ("plant/one", "plant/two"):
            with pyddsi.open(group=where) as session:
                session.resource(name, number=9)
                pub = session.publisher(9)
                pub.wait_matched(timeout=TIMEOUT)
                pub.put(name.encode())
                sample = sub.recv(TIMEOUT)
                assert (sample.resource, bytes(sample)) == (name, name.encode())
                kept.append(sample)
            reader.wait_event("disconnected", timeout=TIMEOUT)


def switches() -> int:
    """How often the threads of this process have gone to sleep by themselves."""
    return sum(
        int(line.split()[1])
        for task in Path("/proc/self/task").iterdir()
        for line in (task / "status").read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches")
    )


def test_idle_readers_sleep() -> None:
    """A thread that waits for samples, and the thread of callbacks, do not wake while nothing happens."""
    with pyddsi.open(group=group(), scout=60, lease=0) as session:
        silent, called = session.subscriber("a"), session.subscriber("b")
        called.callback(lambda _sample: None)
        thread = threading.Thread(target=lambda: list(silent))
        thread.start()
        with pytest.raises(TimeoutError):
            session.subscriber("c").recv(0.3)  # all is at rest
        before = switches()
        with pytest.raises(TimeoutError):
            session.subscriber("d").recv(2.0)
        # Some 6 by the session's own threads, and whatever else this process still does. With slices of a tenth of a
        # second it were 60 more.
        assert switches() - before < 40
    thread.join(TIMEOUT)


LINE = re.compile(r'pyddsi_\w+\{(\w+="[^"]*",?)+\} [-+.0-9e]+')


def test_metrics() -> None:
    """The text form has a type and a help for every metric, and a number for every line."""
    with two() as (one, other):
        pub = one.publisher("a")
        other.subscriber("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(b"x")
        metrics = one.metrics()
        (accepted,) = [metric for metric in metrics if metric.name == "pyddsi_accepted_total"]
        assert (accepted.value, accepted.kind, accepted.labels) == (
            1,
            "counter",
            {"session": one.name},
        )
        lines = str(metrics).splitlines()
        plain = [line for line in lines if not line.startswith("#")]
        assert all(LINE.fullmatch(line) for line in plain)
        assert len(plain) == len(metrics)
        typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert sorted(set(typed)) == sorted({metric.name for metric in metrics})
        assert len(typed) == len(set(typed))


def test_names() -> None:
    """Names come to one number wherever they are named."""
    with two() as (one, other):
        assert one.resource("plant/pose").number == other.resource("/plant/pose").number


@pytest.mark.parametrize("size", [0, 1, 50, 64, 1000, 1020, 1024, 1300])
def test_samples_by_name(size: int) -> None:
    """The reader would not learn the name of a sample that is put by name alone, by a socket, or in its own session."""
    with two() as (one, other):
        subs = other.subscriber("free/*"), one.subscriber("free/**")
        one.wait_event("connected", timeout=TIMEOUT)
        subs[0].wait_settled(timeout=TIMEOUT)
        data = bytes(range(256)) * 6
        assert one.put("free/name", data[:size])
        assert one.put("free/other", data[:size])
        for sub in subs:
            first, second = sub.recv(TIMEOUT), sub.recv(TIMEOUT)
            assert (bytes(first), first.resource) == (data[:size], "free/name")
            assert (bytes(second), second.resource) == (data[:size], "free/other")
            assert (
                repr(first)
                == f"<Sample {first.number} of 'free/name' from {one.name!r}, {size} bytes>"
            )
            view = first.data
            del first
            assert bytes(view) == data[:size]


def test_a_pattern_is_published() -> None:
    """What is put to a pattern would miss somebody whom it covers, or reach somebody whom it does not."""
    with two() as (one, other):
        wanted = [other.subscriber(name) for name in ("a/b", "a/c", "a/*", "**/c")]
        others = [other.subscriber(name) for name in ("x/y", "a", "a/b/c")]
        pub = one.publisher("a/*")
        pub.wait_matched(timeout=TIMEOUT)
        wanted[-1].wait_settled(timeout=TIMEOUT)
        one.put("a/*", b"by name")
        pub.put(b"declared")
        for sub in wanted:
            found = {
                (bytes(sample), sample.resource)
                for sample in (sub.recv(TIMEOUT), sub.recv(TIMEOUT))
            }
            assert found == {(b"by name", "a/*"), (b"declared", "a/*")}
        assert [sub.poll() for sub in others] == [None] * 3
        with pytest.raises(ValueError, match="asks for samples"):
            one.put("a/b?{x > 1}", b"")


def test_where() -> None:
    """A subscriber with where= gets only what fits."""
    with two() as (one, other):
        sub = other.subscriber("a", where="$size > 2")
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put_many([b"no", b"yes", b"oh", b"indeed"])
        assert [bytes(sub.recv(TIMEOUT)) for _ in range(2)] == [b"yes", b"indeed"]


def test_farewell_acknowledges() -> None:
    """Who reads all there is and leaves would look as if it had lost the last of it."""
    with pyddsi.open(group=(where := group()), shared_memory=False) as one:
        pub = one.publisher("a")
        for count in range(1, 30):
            with pyddsi.open(group=where, shared_memory=False) as other:
                sub = other.subscriber("a")
                pub.wait_matched(timeout=TIMEOUT)
                pub.put(b"first")
                assert bytes(sub.recv(TIMEOUT)) == b"first"
                # once it is acknowledged, the two have no doubt left that they are in the same session
                assert one.wait(TIMEOUT, lambda: not one.stats().in_flight)
                for _ in range(count):
                    pub.put(b"x")
                for _ in range(count):
                    sub.recv(TIMEOUT)
            one.wait_event("disconnected", timeout=TIMEOUT)
        assert [drop for drop in one.drops() if drop.place == "window"] == []
