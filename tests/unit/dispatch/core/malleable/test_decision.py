"""The head of a line: fewer slots now or more later, on which host, and promises to others."""

from math import exp, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.config.dispatch import STRATEGIES
from lbd.dispatch.core.malleable.decision import (
    COMMANDS_KNOWN,
    RUNS_KNOWN,
    BeginOn,
    FreeSlots,
    Head,
    Hold,
    Rule,
    Speedups,
    by_prediction,
    decide,
)
from lbd.theory.allocation import Malleable, Rules, forced, predicted
from lbd.theory.calibration import Correction
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Releases
from lbd.theory.speedup import Speedup
from lbd.theory.speedup_fit import fit

LIVES = UniformLog(exp(2), exp(12))
LINEAR = Malleable(1, 16, Speedup(16.0, 0.0), 16_000.0)  # R(n) = 16000/n
SOON_S, LATE_S = 1.6e5, 4e4  # ages: the older end sooner


def room(host, free, *held):
    return FreeSlots(host, free, Releases.of(held, LIVES))


def decided(rooms, strategy="pred", job=LINEAR, head=None, now_s=0.0, **rule):
    return decide(job, rooms, Rule(strategy, **rule), head or Head(), now_s)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_starts_where_it_gets_all_slots_that_it_can_use(strategy):
    rooms = [room("h1", 4, (SOON_S, 16), (SOON_S, 16)), room("h2", 16), room("h3", 0)]
    answer = decided(rooms, strategy)
    assert (answer.host, answer.slots) == ("h2", 16)
    assert isinstance(answer, BeginOn)


@given(
    st.integers(1, 40),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.lists(st.tuples(st.floats(0.0, 1.6e5), st.integers(1, 6)), max_size=6),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([None, Correction(0.6, 1.7)]),
)
def test_the_answer_is_the_best_of_all_hosts(most, sigma, hosts, correction):
    """Compares with every number of slots on every host, within the thousandth that the search
    allows itself, though it never predicts most of them."""
    job = Malleable(1, most, Speedup(float(most), sigma), 16_000.0)
    rooms = [room(f"h{n}", free, *held) for n, (free, held) in enumerate(hosts)]
    answer = decided(rooms, "bias" if correction else "pred", job, correction=correction)
    ends = {}
    for one in rooms:
        queue = predicted(one.free, one.releases, correction)
        for slots in range(1, min(job.useful, one.total) + 1):
            ends[one.host, slots] = queue(slots) + job.run_s(slots)
    if not ends or min(ends.values()) == inf:
        assert answer.ask_at_s == inf
        return
    assert ends[answer.host, answer.slots] <= min(ends.values()) * 1.0021 + 1e-6
    if isinstance(answer, BeginOn):
        assert answer.slots <= next(one.free for one in rooms if one.host == answer.host)


def test_few_predictions_are_computed(monkeypatch):
    """For 50 busy hosts whose slots come too late none is computed: one look shows that they do."""
    asked = []
    monkeypatch.setattr(Releases, "combined_s", lambda *args: asked.append(args) or inf)
    rooms = [room("h1", 3), *(room(f"h{n}", 0, (LATE_S, 1)) for n in range(2, 52))]
    job = Malleable(1, 4, Speedup(4.0, 0.0), 100.0)
    assert decided(rooms, job=job).slots == 3
    assert asked == []


def test_free_and_avg_take_the_host_with_the_most_free_slots():
    rooms = [room("h1", 2, (SOON_S, 30)), room("h2", 5, (LATE_S, 30))]
    for strategy in ("free", "avg"):
        answer = decided(rooms, strategy)
        assert (answer.host, answer.slots) == ("h2", 5)


def test_it_waits_where_slots_come_back_first():
    rooms = [room("h1", 1, (LATE_S, 16), (LATE_S, 16)), room("h2", 0, (SOON_S, 16), (SOON_S, 16))]
    answer = decided(rooms, now_s=100.0)
    assert isinstance(answer, Hold)
    assert (answer.host, answer.slots) == ("h2", 16)
    assert 100.0 < answer.ask_at_s < 100.0 + 3600
    assert answer.head == Head(100.0, 1)  # it could have started on h1
    assert isinstance(decided(rooms[:1]), BeginOn)  # rather than wait for hours


def test_one_host_must_have_all_its_slots():
    """16 slots are free, 4 on each of four hosts: that counts as 4."""
    rooms = [room(f"h{n}", 4) for n in range(4)]
    assert decided(rooms).slots == 4
    eight = Malleable(8, 16, Speedup(16.0, 0.0), 1.0)
    answer = decided(rooms, job=eight, now_s=7.0)
    assert isinstance(answer, Hold)
    assert (answer.host, answer.ask_at_s, answer.head) == (None, inf, Head())


def test_a_job_that_cannot_start_does_not_hold_out():
    answer = decided([room("h1", 0, (SOON_S, 16), (SOON_S, 16))])
    assert isinstance(answer, Hold)
    assert answer.head.since_s is None


def test_asked_again_it_remembers_when_it_began_to_wait():
    rooms = [room("h1", 1, (SOON_S, 16), (SOON_S, 16))]
    first = decided(rooms, now_s=10.0)
    again = decided([room("h1", 2, (SOON_S, 16), (SOON_S, 15))], head=first.head, now_s=50.0)
    assert again.head == first.head == Head(10.0, 1)


def test_heur_counts_from_the_beginning_of_the_wait():
    head, rooms = Head(0.0, 4), [room("h1", 8, (LATE_S, 16))]
    waits = decided(rooms, "heur", head=head, now_s=450.0)
    assert waits.ask_at_s == pytest.approx(600.0)  # a fifth of R(4) - R(16)
    assert decided(rooms, "heur", head=head, now_s=601.0) == BeginOn(
        "h1", 8, "has held out for long enough"
    )


def test_when_locked_in_it_names_its_slots_and_gets_no_more():
    first = decided([room("h1", 1, (SOON_S, 3), (SOON_S, 3))], lock_in=True)
    assert first.head.locked == first.slots < 16
    later = decided([room("h1", 16)], head=first.head, lock_in=True)
    assert later.slots == first.head.locked
    assert decided([room("h1", 16)], head=Head(0.0, 1), lock_in=False).slots == 16


def test_it_holds_out_no_longer_than_it_may():
    rooms = [room("h1", 1, (SOON_S, 16), (SOON_S, 16))]
    first = decided(rooms, now_s=100.0, hold_s_max=60.0)
    assert first.ask_at_s == 160.0
    last = decided(rooms, head=first.head, now_s=160.0, hold_s_max=60.0)
    assert last == BeginOn("h1", 1, "has waited as long as allowed")


def test_a_host_that_leaves_withdraws_its_offer():
    stays = room("h1", 1, (LATE_S, 16), (LATE_S, 16))
    first = decided([stays, room("h2", 0, (SOON_S, 16), (SOON_S, 16))])
    assert isinstance(first, Hold)
    assert isinstance(decided([stays], head=first.head, now_s=5.0), BeginOn)


def test_risk_aversion_applies_across_hosts():
    rooms = [room("h1", 1, (LATE_S, 16), (LATE_S, 16)), room("h2", 0, (SOON_S, 16), (SOON_S, 16))]
    assert isinstance(decided(rooms, rules=Rules(risk=0.99)), BeginOn)


HELD = st.lists(st.tuples(st.floats(0, 1.6e5), st.integers(1, 16)), max_size=6)
HOSTS = st.lists(st.tuples(st.integers(0, 20), HELD), min_size=1, max_size=4)
JOBS = st.builds(
    lambda least, more, a: Malleable(least, least + more, Speedup(a, 0.5), 1e4),
    *(st.integers(1, 12), st.integers(0, 12), st.floats(1, 30)),
)


@given(JOBS, HOSTS, st.sampled_from(STRATEGIES), st.sampled_from([None, 1, 5]), st.booleans())
def test_promises_to_the_jobs_behind_are_kept(job, hosts, strategy, locked, held):
    rooms = [room(f"h{n}", free, *jobs) for n, (free, jobs) in enumerate(hosts)]
    head = Head(0.0, job.least, locked) if held else Head()
    answer = decided(rooms, strategy, job, head, now_s=100.0)
    by_host = {one.host: one for one in rooms}
    most = job.locked(head.locked).useful if head.locked else job.useful
    if any(one.free >= (job.most if strategy == "free" else most) for one in rooms):
        assert isinstance(answer, BeginOn)  # no job waits longer than for a rigid head
    if isinstance(answer, BeginOn):
        assert job.least <= answer.slots <= min(by_host[answer.host].free, job.most)
    else:
        assert answer.ask_at_s > 100.0
        assert answer.host is None or by_host[answer.host].total >= job.least


def test_only_strategies_that_wait_leave_slots_idle():
    rooms = [room("h1", 1, (SOON_S, 16), (SOON_S, 16))]
    begun = {name: isinstance(decided(rooms, name), BeginOn) for name in STRATEGIES}
    assert begun == {"free": True, "avg": True, "pred": False, "bias": False, "heur": False}


def fitted(seen):
    """Makes all requested fits, as the daemon does elsewhere."""
    while (wanted := seen.to_fit()) is not None:
        seen.fitted(wanted[0], fit(wanted[1]))


def test_speedups_are_learnt_by_user_and_command():
    seen, truth = Speedups(), Speedup(8.0, 0.5)
    for n in (1, 2, 4, 8, 16):
        seen.ended("ann", 4, n, truth.run_s(600.0, n))
    assert seen.of("ann", 4, 32, 50.0).linear  # nothing waits for the fit
    fitted(seen)
    known = seen.of("ann", 4, 32, 50.0)
    assert known.fitted is not None
    assert known.speedup.parallelism == pytest.approx(8.0, rel=1e-2)
    assert known.work_s == pytest.approx(600.0, rel=1e-2)
    for user, name in (("bob", 4), ("ann", 5)):
        other = seen.of(user, name, 32, 50.0)
        assert (other.linear, other.speedup, other.work_s) == (True, Speedup(32.0, 0.0), 50.0)


def test_runs_of_different_work_under_one_name_are_ignored():
    seen = Speedups()
    for n in range(60):  # as for `sh -c` with different lines
        seen.ended("ann", "sh", 1 + n % 4, 1.0 if n % 3 else 40.0)
    fitted(seen)
    assert seen.of("ann", "sh", 8, 50.0).linear


def test_a_speedup_given_by_the_user_counts_before_a_learnt_one():
    seen, truth = Speedups(), Speedup(8.0, 0.5)
    for n in (1, 2, 4, 8, 16):
        seen.ended("ann", 4, n, truth.run_s(600.0, n))
    fitted(seen)
    known = seen.of("ann", 4, 32, 50.0, (4.0, 0.0), 70.0)
    assert (known.speedup, known.work_s, known.given) == (Speedup(4.0, 0.0), 70.0, True)
    assert seen.of("ann", 4, 32, 50.0, None, 70.0).work_s == 70.0
    by_runs = seen.of("ann", 4, 32, 50.0, (8.0, 0.5))
    assert by_runs.work_s == pytest.approx(600.0)


def test_a_command_is_fitted_again_once_a_tenth_of_its_runs_are_new():
    seen = Speedups()
    for n in range(40):
        seen.ended("ann", 4, 1 + n % 2, 10.0)
    fitted(seen)
    for _ in range(3):
        seen.ended("ann", 4, 1, 10.0)
        assert seen.to_fit() is None
    for _ in range(2):
        seen.ended("ann", 4, 1, 10.0)
    assert seen.to_fit() is not None


def test_runs_on_a_single_number_of_slots_give_only_the_work():
    seen = Speedups()
    for _ in range(10):
        seen.ended("ann", 4, 4, 25.0)
    assert seen.to_fit() is None
    known = seen.of("ann", 4, 16, 7.0)
    assert (known.linear, known.work_s) == (True, 100.0)
    seen.ended("ann", 4, 8, 25.0)  # no faster
    fitted(seen)
    assert seen.of("ann", 4, 16, 7.0).speedup.parallelism < 5


def test_memory_is_bounded_and_invalid_values_are_ignored():
    seen = Speedups()
    for n in range(COMMANDS_KNOWN + 5):
        seen.ended("ann", str(n), 1, 5.0)
    assert seen.of("ann", "0", 4, 50.0).work_s == 50.0
    assert seen.of("ann", str(COMMANDS_KNOWN), 4, 50.0).work_s == 5.0
    assert seen.of("ann", "5", 4, 50.0).work_s == 5.0
    seen.ended("ann", "5", 1, 5.0)  # the oldest known one, which ran just now
    seen.ended("ann", "new", 1, 5.0)
    assert [seen.of("ann", name, 4, 50.0).work_s for name in "56"] == [5.0, 50.0]
    for n in range(RUNS_KNOWN):
        seen.ended("ann", "7", 1, float(n + 1))
    seen.ended("ann", "7", 0, 5.0)
    seen.ended("ann", "7", 1, inf)
    seen.ended("ann", "7", 1, float("nan"))
    assert seen.of("ann", "7", 4, 50.0).work_s == pytest.approx((RUNS_KNOWN + 1) / 2)


def test_what_was_learnt_about_a_command_is_forgotten_with_its_runs(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.malleable.decision.COMMANDS_KNOWN", 2)
    seen, truth = Speedups(), Speedup(8.0, 0.5)
    for name in ("first", "second", "third", "fourth"):
        for n in (1, 2, 4, 8, 16):
            seen.ended("ann", name, n, truth.run_s(600.0, n))
        if name == "first":
            fitted(seen)
            assert not seen.of("ann", name, 32, 50.0).linear
    assert seen.of("ann", "first", 32, 50.0).linear
    names = []
    while (wanted := seen.to_fit()) is not None:
        names.append(wanted[0][1])
    assert names == ["third", "fourth"]


def test_a_command_whose_runs_have_become_alike_is_not_fitted_again():
    """That once ended a dispatcher: the fit has nothing to work with."""
    seen = Speedups()
    for slots in (1, 2, 1, 2):
        seen.ended("ann", "fit", slots, 10.0)
    for _ in range(RUNS_KNOWN):
        seen.ended("ann", "fit", 1, 10.0)
    assert seen.to_fit() is None


@pytest.mark.parametrize("order", [1, -1])
def test_if_no_host_is_predictable_it_waits_for_the_first_one_to_free_enough(order):
    """It has too few slots on each host, whichever gives some back."""
    wide = Malleable(8, 8, Speedup(8.0, 0.0), 800.0)
    rooms = [room("h1", 1, (SOON_S, 2)), room("h2", 3, (SOON_S, 2)), room("h3", 0, (LATE_S, 2))]
    choice, found = by_prediction(wide, rooms[::order], Rule("pred"))
    ends_s = [forced(wide, one.free, one.releases).ends_in_s for one in rooms]
    assert choice.ends_in_s == min(ends_s)
    assert found in rooms
