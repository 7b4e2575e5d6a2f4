"""Thousands of commands that wait for the same are looked at as one."""

from hypothesis import given
from hypothesis import strategies as st

from lbd.lbm.core.slots import USER_WISHES, OthersUse, ResourcePool, Slots
from lbd.model import NO_NEEDS, JobId, Needs

BOTH_GPUS = Needs((("gpu", 2),))
KINDS = (1, NO_NEEDS), (3, NO_NEEDS), (1, Needs((("gpu", 1),))), (1, BOTH_GPUS), (2, BOTH_GPUS)
USERS = "ann", "bob"


class Counting(ResourcePool):
    looks = 0

    def unmet(self, needs):
        Counting.looks += 1
        return super().unmet(needs)


def slots_of(kind=ResourcePool):
    return Slots(4, 2, 4096, pool=kind(("any",), {"gpu": 2, "tape": 1}))


def test_what_thousands_of_a_kind_lack_is_looked_up_once():
    slots = slots_of(Counting)
    assert slots.take(JobId("b"), "bob", needs=Needs((("gpu", 1),)))
    for number in range(2000):
        assert slots.enqueue(JobId(f"a{number}"), "ann", 1 + number % 2, BOTH_GPUS)
    Counting.looks = 0
    assert slots.take(JobId("c"), "cid")
    slots.pass_to(0.0)
    OthersUse(slots, set()).now()
    assert slots.release(JobId("c")) == []
    assert 0 < Counting.looks < 20


def test_one_user_waits_for_so_many_different_things_and_another_for_theirs():
    slots = slots_of()
    kinds = [Needs(not_features=(f"f{number}",)) for number in range(USER_WISHES + 1)]
    added = [slots.enqueue(JobId(f"a{n}"), "ann", 5, kind) for n, kind in enumerate(kinds)]
    assert added == USER_WISHES * [True] + [False]
    assert slots.enqueue(JobId("a"), "ann", 5, kinds[0])
    assert slots.enqueue(JobId("b"), "bob", 5, kinds[-1])
    assert slots.release(JobId("a1")) == []
    assert slots.enqueue(JobId("last"), "ann", 5, kinds[-1])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["come", "come", "end", "exceed"]),
            st.integers(0, 19),
            st.sampled_from(KINDS),
            st.sampled_from(USERS),
        ),
        max_size=80,
    )
)
def test_it_makes_no_difference_whether_they_are_looked_at_as_one(history):
    """Beside one where each job wants something different, which any host has."""
    as_one, apart, now_s = slots_of(), slots_of(), 0.0
    as_one.kept_free.limit_s = apart.kept_free.limit_s = 10.0
    for action, number, (width, needs), user in history:
        name, now_s = JobId(f"j{number}"), now_s + 3.0
        own = Needs(needs.resources, not_features=(f"f{number}",))
        found = []
        for slots, wanted in ((as_one, needs), (apart, own)):
            if action == "end":
                found.append(slots.release(name))
            elif action == "exceed" and name in slots.waiting:
                found.append(slots.exceed(name))
            elif action == "come" and name not in slots.users:
                taken = slots.take(name, user, slots=(width, width), needs=wanted)
                found.append(taken or slots.enqueue(name, user, width, wanted))
            found.append(slots.pass_to(now_s))
            ahead = slots.ahead()
            found.append((slots.kept_free.kept, bool(ahead.jobs), ahead.names))
            found.append((list(slots.waiting), slots.holders, slots.kept_free.pausing.copy()))
        half = len(found) // 2
        assert found[:half] == found[half:]
