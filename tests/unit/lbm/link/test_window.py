"""Windows that grow as their streams are read, within the budget of their owner."""

from hypothesis import given
from hypothesis import strategies as st

from lbd.lbm.link.window import Window
from lbd.lbm.link.wire import FIRST_WINDOW_BYTES, WINDOW_BYTES
from lbd.local.budget import Budget, Share

EACH, ALL = 4 * WINDOW_BYTES, 6 * WINDOW_BYTES
STEPS = st.tuples(st.integers(0, 19), st.sampled_from(["open", "grow", "close"]))


@given(st.lists(STEPS, max_size=400))
def test_beyond_the_first_windows_no_owner_has_more_than_its_share(steps):
    budget = Budget(EACH, ALL)
    windows = {}
    for number, step in steps:
        if step == "open" and number not in windows:
            windows[number] = Window(Share(budget, number % 2))
        elif number in windows and step == "grow":
            windows[number].grow()
        elif number in windows:
            windows.pop(number).close()
        held = [
            sum(w.size_bytes - FIRST_WINDOW_BYTES for n, w in windows.items() if n % 2 == owner)
            for owner in (0, 1)
        ]
        assert held == [budget.of(0), budget.of(1)]
        assert max(held) <= EACH
        assert sum(held) <= ALL
        assert all(w.size_bytes <= WINDOW_BYTES for w in windows.values())
    for window in windows.values():
        window.close()
    assert budget.held == 0


def grown(budget, owner, **about):
    window = Window(Share(budget, owner), **about)
    for _ in range(20):
        window.grow()
    return window


def test_a_window_grows_to_the_largest_while_there_is_room():
    assert grown(Budget(EACH, ALL), "ann").size_bytes == WINDOW_BYTES


def test_who_has_used_up_a_share_keeps_small_windows_and_others_have_theirs():
    budget = Budget(EACH, ALL)
    windows = [grown(budget, "mallory") for _ in range(20)]
    assert windows[-1].size_bytes == FIRST_WINDOW_BYTES
    assert grown(budget, "ann").size_bytes == WINDOW_BYTES
    windows[0].close()
    windows[-1].grow()
    assert windows[-1].size_bytes == 2 * FIRST_WINDOW_BYTES


def test_one_that_is_closed_takes_no_more():
    budget = Budget(EACH, ALL)
    window = grown(budget, "ann")
    window.close()
    window.grow()
    window.close()
    assert budget.held == 0


def test_one_that_an_earlier_lbm_has_granted_counts():
    budget = Budget(EACH, ALL)
    left = grown(budget, "ann").size_bytes
    budget = Budget(EACH, ALL)
    assert Window(Share(budget, "ann"), left_bytes=left).size_bytes == left
    assert budget.held == left - FIRST_WINDOW_BYTES
