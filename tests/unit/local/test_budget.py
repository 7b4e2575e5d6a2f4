"""What many hold together is bounded, and so is what each of them holds."""

from hypothesis import given
from hypothesis import strategies as st

from lbd.local.budget import Budget


def test_each_has_a_bound_and_so_have_all():
    budget = Budget(each=10, total=15)
    assert budget.take("ann", 10)
    assert not budget.take("ann", 1)
    assert budget.take("bob", 5)
    assert not budget.take("bob", 1)  # he holds little, but all together hold enough
    budget.give_back("ann", 10)
    assert budget.take("bob", 5)
    assert not budget.take("bob", 1)
    assert budget.held == 10


def test_existing_holdings_count():
    budget = Budget(each=10, total=15)
    budget.add("ann", 20)
    assert not budget.take("ann", 1)
    assert not budget.take("bob", 1)
    budget.give_back("ann", 20)
    assert budget.take("bob", 10)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.booleans())))
def test_the_bounds_are_never_exceeded_and_nobody_is_remembered_for_nothing(history):
    budget, held = Budget(each=20, total=30), {}
    for key, amount, takes in history:
        if takes and budget.take(key, amount):
            held.setdefault(key, []).append(amount)
        elif not takes and held.get(key):
            budget.give_back(key, held[key].pop())
        sums = {key: sum(amounts) for key, amounts in held.items() if amounts}
        assert dict(budget._of) == sums
        assert budget.held == sum(sums.values()) <= 30
        assert all(amount <= 20 for amount in sums.values())
