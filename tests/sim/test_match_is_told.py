"""That an application hears of each match, whatever else comes at the same time."""

import pytest

from pyddsi.testing import Sim


@pytest.mark.parametrize("microseconds", range(0, 3000, 150))
def test_second_subscription_while_the_name_is_learnt(microseconds: int) -> None:
    """
    A publisher would wait for ever for somebody who has its samples: the match was put off until the peer knows the name,
    and forgotten where a second subscription came in the packet that says so.
    """
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        b.subscriber("**")
        sim.run_until_quiet()
        pub = a.publisher("odd/x")
        sim.run(microseconds / 1e6)
        b.subscriber("odd/*")
        pub.wait_matched()
        assert pub.matched == ["b"]
