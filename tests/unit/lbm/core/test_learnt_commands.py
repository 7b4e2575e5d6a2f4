"""The book of learnt commands: separate for each user, bounded, and intact on disk or refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.lbm.core.learnt_commands import Book, generation_of, read_lists, read_row
from lbd.policy.eligibility import FIRST_PAUSE_RUNS, SURE_RUNS, Lists
from lbd.text.needs import AMOUNT_MAX

ANN, BOB = 1001, 1002
NOW = 1_700_000_000.0


def book(host=None, max_commands=100, max_users=10):
    return Book(host or Lists(), max_commands, max_users, threshold_s=0.05)


def reason(of, uid, *argv):
    return of.judge(uid, [word.encode() for word in argv], b"/home", NOW).reason


def run_measured(of, uid, key, cpu_s):
    of.begun_here(uid, key, measured=True)
    of.measured(uid, key, cpu_s, NOW)
    of.ended_here(uid, key, measured=True, wall_s=cpu_s)


def test_a_new_command_runs_here_once():
    b = book()
    assert reason(b, ANN, "fit") == "new"
    b.begun_here(ANN, "fit", measured=True)
    assert reason(b, ANN, "fit") == "trial"
    b.measured(ANN, "fit", 2.0, NOW)
    b.ended_here(ANN, "fit", measured=True, wall_s=2.0)
    assert reason(b, ANN, "fit") == "long"


def test_an_inconclusive_trial_leaves_a_command_new():
    b = book()
    b.begun_here(ANN, "fit", measured=True)
    b.ended_here(ANN, "fit", measured=True, wall_s=2.0)
    assert reason(b, ANN, "fit") == "new"


def test_the_runs_of_one_user_say_nothing_about_another():
    b = book()
    run_measured(b, ANN, "fit", 1e6)
    b.set_lists(ANN, Lists(never=("cc",)))
    assert reason(b, BOB, "fit") == "new"
    assert reason(b, BOB, "cc", "-c", "x.c") == "new"
    assert reason(b, ANN, "cc", "-c", "x.c") == "never"


def test_a_flood_by_one_user_forgets_only_entries_of_that_user():
    b = book(max_commands=10)
    run_measured(b, BOB, "fit", 1.0)
    for number in range(1000):
        run_measured(b, ANN, f"c{number}", 1.0)
    assert len(b.peek(ANN).commands) == 10
    assert reason(b, ANN, "c999") == "long"
    assert reason(b, ANN, "c0") == "new"
    assert reason(b, BOB, "fit") == "long"


def test_the_number_of_users_is_bounded_too():
    b = book(max_users=3)
    for uid in range(50):
        run_measured(b, uid, "fit", 1.0)
    assert [uid for uid in range(50) if b.peek(uid).commands] == [47, 48, 49]


@pytest.mark.parametrize("cpu_s", [-1.0, float("nan"), float("inf"), 1e300])
def test_invalid_values_are_ignored(cpu_s):
    b = book()
    assert not b.measured(ANN, "fit", cpu_s, NOW)
    assert reason(b, ANN, "fit") == "new"


def test_a_run_cut_short_only_raises_the_estimate():
    b = book()
    assert not b.measured(ANN, "fit", 0.01, NOW, whole=False)
    assert reason(b, ANN, "fit") == "new"
    assert b.measured(ANN, "fit", 10.0, NOW, whole=False)
    assert not b.measured(ANN, "fit", 1.0, NOW, whole=False)
    assert not b.measured(ANN, "fit", 10.0, NOW, whole=False)
    assert b.peek(ANN).commands["fit"].estimate.mean_s == 10.0


def test_a_short_command_that_takes_long_is_measured_the_next_time():
    """What `configure` taught about a compiler does not hold for the build after it."""
    b = book()
    for _ in range(SURE_RUNS):
        run_measured(b, ANN, "fit", 0.01)
    verdict = b.judge(ANN, [b"fit"], b"/", NOW)
    assert (verdict.reason, verdict.measure) == ("short", False)
    b.begun_here(ANN, "fit", measured=False)
    b.ended_here(ANN, "fit", measured=False, wall_s=0.1)
    assert not b.judge(ANN, [b"fit"], b"/", NOW).measure
    b.begun_here(ANN, "fit", measured=False)
    b.ended_here(ANN, "fit", measured=False, wall_s=0.9)
    assert b.judge(ANN, [b"fit"], b"/", NOW).measure
    run_measured(b, ANN, "fit", 0.5)
    assert reason(b, ANN, "fit") == "long"
    b.begun_here(ANN, "fit", measured=False)
    b.ended_here(ANN, "fit", measured=False, wall_s=0.9)  # as expected
    assert not b.peek(ANN).commands["fit"].suspect


def test_a_short_command_is_measured_again_after_some_unmeasured_runs():
    b = book()
    for _ in range(SURE_RUNS):
        run_measured(b, ANN, "fit", 0.0)
    looks = []
    for _ in range(FIRST_PAUSE_RUNS + 1):
        looks.append(b.judge(ANN, [b"fit"], b"/", NOW).measure)
        b.begun_here(ANN, "fit", measured=False)
    assert looks == [False] * FIRST_PAUSE_RUNS + [True]


class TestShims:
    def test_names_that_never_leave_or_are_certainly_short_need_no_shim(self):
        b = book(Lists(never=("secret", "cc -E", "*-x")))
        for _ in range(SURE_RUNS):
            run_measured(b, ANN, "sed", 0.001)
            run_measured(b, ANN, "awk", 0.03)
            run_measured(b, ANN, "gcc -c", 0.001)
            run_measured(b, ANN, "rustc --version", 0.001)
        names = b.shimless(ANN, NOW)
        assert {"vim", "cat", "lbrun", "secret", "sed"} <= set(names)
        assert not {"awk", "gcc", "rustc", "cc", "cc -E", "*-x", "sort"} & set(names)
        assert "sed" not in b.shimless(BOB, NOW)
        assert "sed" not in b.shimless(ANN, NOW + 1e6)  # due again

    def test_a_name_that_a_list_sends_needs_a_shim(self):
        b = book(Lists(always=("vim", "tar c")))
        b.set_lists(ANN, Lists(always=("cat",), never=("tar",)))
        assert not {"vim", "cat"} & set(b.shimless(ANN, NOW))
        assert "tar" in b.shimless(ANN, NOW)

    def test_one_long_use_of_a_name_is_enough(self):
        b = book()
        for _ in range(SURE_RUNS):
            run_measured(b, ANN, "sed", 0.001)
            run_measured(b, ANN, "sed -i", 3.0)
        assert "sed" not in b.shimless(ANN, NOW)

    def test_the_list_of_the_host_comes_before_the_kinds_of_the_user(self):
        b = book(Lists(never=("tar",)))
        b.set_lists(ANN, Lists(always=("tar c",)))
        assert "tar" in b.shimless(ANN, NOW)

    def test_the_generation_is_that_of_the_set(self):
        b = book()
        first = generation_of(b.shimless(ANN, NOW))
        assert first == generation_of(book().shimless(BOB, NOW))
        b.set_lists(ANN, Lists(never=("fit",)))
        assert generation_of(b.shimless(ANN, NOW)) != first


values = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=8)


@given(st.dictionaries(st.text(min_size=1, max_size=20), values, min_size=1, max_size=5))
def test_a_stored_book_is_read_back_unchanged(runs):
    b = book(max_users=2)
    b.set_lists(ANN, Lists(("a",), ("b", "c -x")))
    for key, costs in runs.items():
        for cost in costs:
            b.measured(ANN, key, cost, NOW)
    again = book(max_users=2)
    again.read(json.loads(json.dumps(b.to_json())))
    assert again.to_json() == b.to_json()
    assert again.peek(ANN).lists == b.peek(ANN).lists


DAMAGED = [
    "x", [], {}, {"format": 2}, {"format": 1, "users": []}, {"format": 1, "users": {"x": {}}},
    {"format": 1, "users": {"x": {"commands": []}}},
    {"format": 1}, {"users": {}}, *({"format": 1, "users": {"1": entry}} for entry in (
        [], {}, {"commands": "cc"}, {"commands": {"cc": 1}}
    )),
    *({"format": 1, "users": {"1": {"commands": [row]}}} for row in (
        "cc", [], [1], ["cc"], ["cc", 1], ["cc", 1, 1], ["cc", -1, 1, 1, 1], ["cc", 1, 0, 1, 1],
        ["cc", "1", 1, 1, 1], ["cc", True, 1, 1, 1], ["cc", float("nan"), 1, 1, 1],
        ["cc", 1, 1, 1, 1, 1, 1, 1, 1],
    )),
    {"format": 1, "users": {"1": {"commands": [], "always": "cc"}}},
    {"format": 1, "users": {"1": {"commands": [], "never": ["x" * 9999]}}},
    {"format": 1, "users": {"1": {"commands": [], "never": ["x"] * 9999}}},
]  # fmt: skip


@pytest.mark.parametrize("stored", DAMAGED, ids=repr)
def test_a_damaged_file_is_refused(stored):
    with pytest.raises(ValueError, match=r"\w"):
        book().read(stored)


def test_a_recently_requested_command_is_not_forgotten():
    b = book(max_commands=10)
    for number in range(10):
        run_measured(b, ANN, f"c{number}", 1.0)
    run_measured(b, ANN, "c0", 1.0)
    run_measured(b, ANN, "new", 1.0)
    assert sorted(b.peek(ANN).commands) == ["c0", *(f"c{n}" for n in range(2, 10)), "new"]


def test_new_lists_are_reported_once():
    b, lists = book(), Lists(("cc",))
    assert [b.set_lists(ANN, one) for one in (lists, lists, Lists())] == [True, False, True]


def test_nothing_is_stored_of_a_command_that_has_not_ended():
    b = book()
    b.begun_here(ANN, "fit", measured=True)
    b.took(ANN, "fit", 5 << 30)
    (stored,) = b.to_json()["users"].values()
    assert (stored["commands"], stored["peaks"]) == ([], {})


def test_a_list_with_some_of_its_kinds_keeps_a_short_command_in_question():
    b = book()
    for _ in range(SURE_RUNS):
        run_measured(b, ANN, "wc", 0.001)
        run_measured(b, BOB, "wc", 0.001)
    b.set_lists(ANN, Lists(always=("wc -l",)))
    assert "wc" not in b.shimless(ANN, NOW)
    assert "wc" in b.shimless(BOB, NOW)
    b.set_lists(ANN, Lists(features=("wc -l: +big",)))
    assert "wc" not in b.shimless(ANN, NOW)


def test_lists_in_the_form_a_client_sends():
    assert read_lists({}) == Lists()
    assert read_lists({"always": ["cc"], "never": None}) == Lists(("cc",))
    with pytest.raises(ValueError, match="list of names"):
        read_lists({"never": [""]})


def test_the_peak_memory_of_recent_runs_is_what_the_next_may_take():
    b = book()
    assert not b.took(ANN, "fit", 7)  # nothing else is known of it
    for peak_bytes in (900, 30, 20, 50):
        run_measured(b, ANN, "fit", 2.0)
        assert b.took(ANN, "fit", peak_bytes)
    assert b.peek(ANN).commands["fit"].peak_bytes == 900
    assert not b.took(ANN, "fit", 800, whole=False)  # it was cut short before it took more
    assert b.took(ANN, "fit", 40)
    assert b.peek(ANN).commands["fit"].peak_bytes == 50
    assert b.took(ANN, "fit", 60, whole=False)
    for claimed in (0, -1, 1 << 63):
        assert not b.took(ANN, "fit", claimed)
    run_measured(b, BOB, "fit", 2.0)
    assert b.peek(BOB).commands["fit"].peak_bytes == 0  # it is another program
    again = book()
    again.read(json.loads(json.dumps(b.to_json())))
    assert again.peek(ANN).commands["fit"].peaks == (20, 50, 40, 60)


@pytest.mark.parametrize(
    "peaks",
    [
        None,
        [],
        {"fit": 7},
        {"fit": [0]},
        {"fit": [1.5]},
        {"fit": [1] * 5},
        {"fit": [AMOUNT_MAX + 1]},
    ],
)
def test_impossible_peaks_are_not_restored(peaks):
    b = book()
    run_measured(b, ANN, "fit", 2.0)
    stored = b.to_json()
    stored["users"][str(ANN)]["peaks"] = {"fit": [AMOUNT_MAX]}
    book().read(stored)
    stored["users"][str(ANN)]["peaks"] = peaks
    with pytest.raises(ValueError, match="peaks"):
        book().read(stored)


def test_rules_by_feature_are_per_user_and_put_their_commands_in_question():
    b = book(host=Lists(never=("nvcc", "ld"), features=("gcc -c: +big",)))
    b.set_lists(ANN, read_lists({"features": ["cp: +cuda", "ld: +big"]}))
    assert b.needed(ANN, [b"cp"]).features == ("cuda",)
    assert not b.needed(BOB, [b"cp"])
    assert b.needed(BOB, [b"gcc", b"-c", b"x.c"]).features == ("big",)
    assert reason(b, ANN, "cp") == "always"
    assert "cp" not in b.shimless(ANN, NOW)
    assert "cp" in b.shimless(BOB, NOW)
    assert "ld" in b.shimless(ANN, NOW)
    again = book()
    again.read(json.loads(json.dumps(b.to_json())))
    assert again.peek(ANN).lists.features == ("cp: +cuda", "ld: +big")
    with pytest.raises(ValueError, match=r"eligibility.features has an invalid entry"):
        read_lists({"features": ["gcc"]})


@pytest.mark.parametrize("row", [("cc", 1.0, 1, 0.0, 1.0), "cc", {"cc": 1}, [], [1]])
def test_only_a_list_that_begins_with_a_key_is_a_command(row):
    with pytest.raises(ValueError, match="not a list that starts with its key"):
        read_row(row)
