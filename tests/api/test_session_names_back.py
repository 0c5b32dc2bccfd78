"""Names of a session are given back with their last publisher or subscriber; matches are asked of what is declared."""

from __future__ import annotations

import threading

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, two


@pytest.mark.parametrize("shared_memory", [True, False])
def test_more_names_than_there_is_room_for(*, shared_memory: bool) -> None:
    """The name after resources_max others would be refused for the rest of the session, or a sample lose its name."""
    with two(resources_max=64, shared_memory=shared_memory) as (one, other):
        sub = other.subscriber("plant/**", depth=1024)
        for number in range(300):
            with one.publisher(f"plant/{number}") as pub, one.subscriber(f"other/{number}"):
                pub.wait_matched(timeout=TIMEOUT)
                pub.put_many([b"%d" % number] * 3)
        for number in range(300):
            for _ in range(3):
                sample = sub.recv(timeout=TIMEOUT)
                assert (sample.resource, bytes(sample.data)) == (f"plant/{number}", b"%d" % number)
        other.wait(TIMEOUT, lambda: not other.resources())
        assert other.resources() == []
        assert not one.things
        assert not any(drop.reason == "no_subscriber" for drop in other.drops())


def test_a_matched_that_events_do_not_tell() -> None:
    """wait_matched would time out because the event was lost among those of other declarations."""
    with two(resources_max=20000) as (one, other):
        other.subscriber("plant/x")
        one.wait(TIMEOUT, lambda: one.peers() and one.peers()[0].state == "established")
        with one._lock:  # nobody takes events out of the core
            things = [one.resource(f"many/{number}") for number in range(6000)]
            one.wait(TIMEOUT, lambda: one.stats().events_lost > 0)
            pub = one.publisher("plant/x")
        assert pub.wait_matched(timeout=TIMEOUT) == 1
        assert pub.matched == [other.name]
        assert one.stats().events_lost > 0
        other.close()
        one.wait(TIMEOUT, lambda: not pub.matched)
        assert pub.matched == []
        assert len(things) == 6000


def test_threads_share_a_name() -> None:
    """A name that one thread gives back while another takes it would be missing, or stay for ever."""
    with two() as (one, _):

        def work() -> None:
            for _ in range(200):
                with one.publisher("plant/1"), one.subscriber("plant/*", where="n > 1"):
                    pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not one.things
        assert one.publisher("plant/1").status in {"settled", "pending"}


def test_a_failure_gives_the_name_back() -> None:
    """A publisher that cannot be would keep its name."""
    with pyddsi.open() as session:
        session.subscriber("plant/1", mode="pull")
        with pytest.raises(pyddsi.ConflictError):
            session.subscriber("plant/1", mode="push")
        assert len(session.things) == 1
        for subscriber in [one for one in session.declared.values() if one.KIND == "subscriber"]:
            subscriber.close()
        assert not session.things
