"""The estimate of a command's CPU time, and the verdict: bounds, unlearning, determinism."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.policy.eligibility import (
    BY_FEATURE,
    CONVINCING,
    HOST_BY_FEATURE,
    LATELY,
    LONGEST_PAUSE_RUNS,
    MEASURED_FOR_S,
    SHIMLESS_SHARE,
    SURE_RUNS,
    Estimate,
    Known,
    Lists,
    Rules,
    Verdict,
    fault_of_features,
    fault_of_patterns,
    is_due,
    judge_learnt,
    learn,
    mean_of,
    needs_no_shim,
)
from lbd.policy.invocation import key_of

T_S = 0.05
cpu = st.floats(0.0, 1e6)
runs = st.lists(cpu, min_size=1, max_size=60)


def after(values, known=None, threshold_s=T_S):
    for second, value in enumerate(values):
        known = learn(known, value, threshold_s, float(second))
    return known


@given(runs)
def test_the_mean_lies_within_the_measured_values(values):
    known = after(values)
    slack = 1e-9 * max(values)
    assert min(values) - slack <= known.mean_s <= max(values) + slack
    assert known.runs == len(values)
    assert known.recent_s == tuple(values[-LATELY:])


def test_the_first_runs_count_alike():
    """Without that the first one, which may be unusual, would count for most of the mean."""
    for count in range(1, 33):
        values = [float(n * n % 7) for n in range(count)]
        assert after(values).mean_s == pytest.approx(mean_of(values))
    assert mean_of([1.0, 2.0, 6.0]) == 3.0
    assert after([0.0] * 99 + [32.0]).mean_s == 1.0


@given(runs)
def test_the_same_runs_give_the_same_estimate(values):
    assert after(values) == after(values)


@given(cpu)
def test_equal_runs_have_their_value_as_mean(value):
    assert math.isclose(after([value] * 20).mean_s, value, abs_tol=1e-12)


@given(runs, st.lists(st.floats(0.0, 0.049), min_size=CONVINCING, max_size=CONVINCING))
def test_an_old_very_long_run_is_unlearnt(before, short):
    assert after(short, after(before)).mean_s < T_S


@given(runs, st.lists(st.floats(0.05, 1e6), min_size=CONVINCING, max_size=CONVINCING))
def test_an_old_very_short_run_is_unlearnt(before, long):
    assert after(long, after(before)).mean_s >= T_S


def test_runs_that_agree_with_the_verdict_change_the_mean_slowly():
    """Otherwise four runs would be believed again and again."""
    known = after([2.0] * 40 + [1.0] * LATELY)
    assert 1.7 < known.mean_s < 2.0
    assert after([0.02] * 40 + [0.01] * LATELY).mean_s > 0.017


@given(runs, st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_the_verdict_uses_the_current_threshold(values, a, b):
    """A command that leaves at a higher threshold leaves at a lower one."""
    known = Known(after(values))
    low, high = sorted((a, b))
    assert judge_learnt(known, low, 0.0).leaves >= judge_learnt(known, high, 0.0).leaves


@given(runs, st.lists(st.floats(0.05, 1e6), min_size=LATELY, max_size=LATELY))
def test_a_command_that_was_recently_long_leaves(before, long):
    assert judge_learnt(Known(after(long, after(before))), T_S, 0.0).leaves


# CPU seconds of one key's runs, in the order in which a real library's files are compiled.
BUILD_S = (
    0.24, 0.03, 0.04, 0.01, 0.08, 0.09, 0.06, 0.44, 0.06, 0.14, 0.08, 0.08, 0.07, 0.13, 0.08, 0.01,
    0.10, 0.09, 0.14, 0.08, 0.05, 0.08, 0.01, 0.32, 0.19, 0.07, 0.03, 0.08, 0.11, 0.01, 0.04, 0.07,
    0.09, 0.01, 0.01, 0.09, 0.01, 0.01, 0.01, 0.01, 0.08, 0.01, 0.08, 0.06, 0.07, 0.07, 0.06, 0.14,
    0.07, 0.02, 0.02, 0.07, 0.53, 0.05, 0.07, 0.07, 0.03, 0.07, 0.05, 0.08, 0.07, 0.01, 0.07, 0.06,
    0.04, 0.14, 0.25, 0.06, 0.13, 0.13, 0.12, 0.01, 0.05, 0.01, 0.02, 0.05, 0.02, 0.01, 0.01, 0.12,
    0.02, 0.01, 0.05, 0.08, 0.27, 0.05, 0.08, 0.05, 0.08, 0.08, 0.05, 0.05, 0.27, 0.04, 0.43, 0.30,
    0.05, 0.46, 0.01,
)  # fmt: skip


@pytest.mark.parametrize("share", [1.0, 0.8])  # of those times: a faster machine
def test_a_dozen_short_runs_in_a_build_change_nothing(share):
    known = Known(after(second * share for second in BUILD_S))
    for second in BUILD_S:
        known = known.learnt(second * share, T_S, 0.0)
        assert judge_learnt(known, T_S, 0.0).leaves


def test_a_dozen_contrary_runs_do_not_convince_yet():
    known = after([50.0] * 40 + [0.01] * (CONVINCING - 1))
    assert known.mean_s > 1.0
    assert learn(known, 0.01, T_S, 99.0).mean_s == 0.01


def test_a_command_is_known_after_one_run():
    assert not judge_learnt(Known(), T_S, 0.0).leaves
    assert (judge_learnt(Known(), T_S, 0.0).reason, judge_learnt(Known(), T_S, 0.0).measure) == (
        "new", True,
    )  # fmt: skip
    trial = judge_learnt(Known(trials=1), T_S, 0.0)
    assert (trial.reason, trial.leaves, trial.measure) == ("trial", True, False)
    assert judge_learnt(Known().learnt(1.0, T_S, 0.0), T_S, 0.0).reason == "long"
    assert judge_learnt(Known().learnt(0.01, T_S, 0.0), T_S, 0.0).reason == "short"


def test_at_the_threshold_a_command_is_long():
    for mean_s, recent_s in ((T_S, 0.01), (0.01, T_S)):
        known = Known(Estimate(mean_s, 9, 1000.0, (recent_s,)))
        assert judge_learnt(known, T_S, 1000.0).reason == "long"


def short(runs=SURE_RUNS, mean_s=0.01, **more):
    return Known(Estimate(mean_s, runs, 1000.0, (mean_s,)), **more)


@pytest.mark.parametrize(
    ("known", "unix_s", "due"),
    [
        (short(runs=1), 1000.0, True),
        (short(), 1000.0, False),
        (short(unmeasured=7), 1000.0, False),
        (short(unmeasured=8), 1000.0, True),
        (short(runs=SURE_RUNS + 1, unmeasured=15), 1000.0, False),
        (short(runs=10_000, unmeasured=LONGEST_PAUSE_RUNS - 1), 1000.0, False),
        (short(runs=10_000, unmeasured=LONGEST_PAUSE_RUNS), 1000.0, True),
        (short(), 1000.0 + MEASURED_FOR_S, True),
        (short(), 999.0, True),  # the clock was set back
        (short(suspect=True), 1000.0, True),
    ],
)
def test_when_a_short_command_is_measured_again(known, unix_s, due):
    assert is_due(known, unix_s) is due
    verdict = judge_learnt(known, T_S, unix_s)
    assert (verdict.reason, verdict.leaves, verdict.measure) == ("short", False, due)


def test_only_a_certainly_short_command_needs_no_shim():
    assert needs_no_shim(short(mean_s=0.005), T_S, 1000.0)
    assert not needs_no_shim(short(mean_s=0.02), T_S, 1000.0)
    assert not needs_no_shim(short(mean_s=SHIMLESS_SHARE * T_S), T_S, 1000.0)
    assert not needs_no_shim(short(mean_s=0.005, runs=1), T_S, 1000.0)
    assert not needs_no_shim(Known(), T_S, 1000.0)
    once_long = Known(Estimate(0.005, 9, 1000.0, (0.2, 0.001)))
    assert not needs_no_shim(once_long, T_S, 1000.0)


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        (["x" * 300] * 300, ""),  # none of them is a pattern
        (["*?[a]"] * 66 + ["*?"], ""),
        (["*?[a]"] * 66 + ["*?", "[b]"], "has too many wildcards: at most 200"),
        (["*" + "x" * 3999], ""),
        (["*" + "x" * 4000], "has patterns that are too long: at most 4000 characters in total"),
    ],
)
def test_patterns_are_bounded(entries, fault):
    assert fault_of_patterns(entries) == fault


def test_a_run_that_was_cut_short_is_only_a_lower_bound():
    assert Known().peak_bytes == 0
    known = Known().took(5, whole=True).took(3, whole=True)
    assert known.peak_bytes == 5
    assert known.took(5, whole=False) == known
    assert known.took(6, whole=False).peak_bytes == 6
    for _ in range(LATELY):
        known = known.took(1, whole=True)
    assert known.peak_bytes == 1


RULES = Rules(
    host=Lists(always=("vim", "sort", "*-tool", "cat"), never=("cc -E", "big")),
    user=Lists(always=("big", "cat", "tac", "lbctl"), never=("sort", "fold")),
)


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("big", ("never", "host")),
        ("cc -E x.c", ("never", "host")),
        ("cc -c x.c", None),
        ("sort x", ("never", "user")),
        ("fold x", ("never", "user")),
        ("tac x", ("always", "user")),
        ("cat x", ("always", "user")),
        ("vim x", ("always", "host")),
        ("a-tool", ("always", "host")),
        ("lbctl status", ("never", "built-in")),
        ("lbd run", ("never", "built-in")),
        ("lbrun x", ("never", "built-in")),
        ("lbsh -c x", ("never", "built-in")),
        ("emacs", ("never", "built-in")),
        ("prog", None),
    ],
)
def test_whose_list_decides(command, verdict):
    said = RULES.said(command.encode().split(), key_of(command.encode().split()), b"/")
    assert (said and (said.reason, said.by)) == verdict
    assert said is None or said.leaves is (said.reason == "always")


def test_of_two_lists_of_a_user_never_wins():
    rules = Rules(user=Lists(never=("cc",), always=("cc",)))
    assert rules.said((b"cc",), "cc", b"/home") == Verdict(
        False, "never", "your list keeps it here", "user"
    )


def features_of(rules, *argv):
    argv = [word.encode() for word in argv]
    needs = rules.needed(argv, key_of(argv))
    return needs.features, needs.not_features


def test_rules_by_feature_say_where_a_command_may_run_and_that_it_may_leave():
    host = Lists(features=("nvcc: +cuda", "gcc -c: +x86_64"))
    user = Lists(features=("*-gcc: -slow", "gcc -c:  +avx2 -slow"), never=("nvcc",))
    rules = Rules(host, user)
    assert features_of(rules, "gcc", "-c", "x.c") == (("avx2", "x86_64"), ("slow",))
    assert features_of(rules, "gcc", "-E", "x.c") == ((), ())
    assert features_of(rules, "arm-gcc", "x.c") == ((), ("slow",))
    argv = [b"gcc", b"-c", b"x.c"]
    assert rules.said(argv, key_of(argv), b"/home") == BY_FEATURE
    for verdict, by in ((BY_FEATURE, "user"), (HOST_BY_FEATURE, "host")):
        assert (verdict.leaves, verdict.reason, verdict.by) == (True, "always", by)
    assert Rules(host).said([b"nvcc"], "nvcc", b"/home") == HOST_BY_FEATURE
    assert rules.said([b"nvcc"], "nvcc", b"/home").reason == "never"
    assert rules.said([b"fit"], "fit", b"/home") is None


@pytest.mark.parametrize(
    "rule",
    ["", "gcc", "gcc:", ": +a", "gcc: a", "gcc: gpu=1", "gcc: +a gpu=1", "gcc: memory=1 +a",
     "gcc: ~9 +a", "gcc: +", "gcc: +a;b"],
)  # fmt: skip
def test_an_invalid_rule_by_feature_is_found(rule):
    assert fault_of_features([rule])


def test_patterns_of_rules_by_feature_are_as_bounded_as_others():
    assert fault_of_features(["nvcc: +a"] * 100) == ""
    assert "wildcards" in fault_of_features(["*" * 9 + ": +a"] * 100)
