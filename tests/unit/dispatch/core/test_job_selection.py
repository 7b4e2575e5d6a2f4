"""Which jobs a user's selectors mean."""

import pytest

from lbd.dispatch.core.job_selection import (
    SELECTORS_MAX,
    check_count,
    in_few_lines,
    is_selector,
    jobs_of,
    read_range,
    read_selectors,
    tasks_of,
    widened,
)
from lbd.dispatch.core.ledger_rows import SubmissionRange
from lbd.errors import ConfigError, LbdError


@pytest.mark.parametrize(
    ("texts", "ranges", "user"),
    [
        (["3"], ((3, 3),), ""),
        (["2-5", "9"], ((2, 5), (9, 9)), ""),
        (["last"], ((7, 7),), ""),
        (["@me"], (), "ann"),
        (["@me", "1-4"], ((1, 4),), "ann"),
    ],
)
def test_what_each_selector_means(texts, ranges, user):
    wanted = read_selectors(texts, "ann", 7)
    assert (wanted.ranges, wanted.user, wanted.ended_too) == (ranges, user, True)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("5-2", "'5-2': the range is backwards"),
        ("ev", "'ev' is not a queued job's id; use 3, .*; by name: lbctl jobs --name PATTERN$"),
        ("0", "'0' is not a queued job's id"),
        ("h1-3", "'h1-3' is not a queued job's id"),
        ("1-", "'1-' is not a queued job's id"),
        ("-1", "'-1' is not a queued job's id"),
        ("٣", "'٣' is not a queued job's id"),
        ("9" * 30, "is not a queued job's id"),
        ("9" * 5000, "is not a queued job's id"),  # int() takes no more than 4300 digits
        ("", "'' is not a queued job's id"),
    ],
)
def test_a_malformed_selector_is_one_line(text, line):
    with pytest.raises(ConfigError, match=line.replace("(", r"\(")):
        read_selectors([text], "ann", 7)


def test_tasks_of_the_last_array():
    wanted = read_selectors(["last_3", "last_[5-6]"], "ann", 12)
    assert tasks_of(wanted.tasks, PLACED) == (((14, 14), (16, 17)), [])
    with pytest.raises(ConfigError, match="'last_x' is not a list of tasks"):
        read_selectors(["last_x"], "ann", 7)
    with pytest.raises(ConfigError, match="ann has not queued any job"):
        read_selectors(["last_3"], "ann", None)


def test_the_last_job_of_a_user_without_jobs():
    with pytest.raises(ConfigError, match="ann has not queued any job"):
        read_selectors(["last"], "ann", None)


PLACED = {
    12: SubmissionRange(12, 300, "1-300"),
    400: SubmissionRange(400, 4, "0,10-30:10"),
    9: SubmissionRange(9, 1, ""),
    15: SubmissionRange(12, 300, "1-300"),
    500: SubmissionRange(500, 3, "1-x"),
}


def meant(*texts):
    found, problems = tasks_of(read_selectors(texts, "ann", None).tasks, PLACED)
    for _, why in problems:
        raise LbdError(why)
    return found


def test_tasks_are_named_by_array_and_index():
    assert meant("12_7") == ((18, 18),)
    assert meant("12_[3-5]") == meant("12_3-5") == meant("12_3", "12_5", "12_4") == ((14, 16),)
    assert meant("400_10") == ((401, 401),)
    assert meant("400_[0-30:10]") == ((400, 403),)
    assert meant("12_[1-7:2]") == ((12, 12), (14, 14), (16, 16), (18, 18))
    assert meant("400_0-29", "12_[2-300:2]")[-1] == (400, 402)  # those that exist


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("12_301", "array 12 has no task 301; its indexes are 1-300"),
        ("400_5", "array 400 has no task 5; its indexes are 0,10-30:10"),
        ("9_1", "job 9 is not an array, so it has no task 1"),
        (
            "500_1",
            "array 500: indexes: must be like 1-10, 0-100:10 or 1,3,7-9, with %N for N at once",
        ),
        ("13_1", "no job 13_1 in the queue"),
        ("15_1", "no job 15_1 in the queue"),  # a number, but not an id
        ("12_1-900000:2", "more than 100000 jobs named at once; use ranges"),
    ],
)
def test_a_missing_task_is_one_line(text, line):
    with pytest.raises(LbdError) as problem:
        meant(text)
    assert str(problem.value) == line


def test_tasks_that_exist_are_found_beside_some_that_do_not():
    tasks = read_selectors(["13_1", "12_7", "12_301", "9_[1-3]"], "ann", None).tasks
    found, problems = tasks_of(tasks, PLACED)
    assert found == ((18, 18),)
    assert [name for name, _ in problems] == ["13_1", "12_301", "9_[1-3]"]


def test_each_part_of_a_list_without_any_task_is_named():
    """Nothing was said of 400 and 600 if the array has 7."""
    tasks = read_selectors(["12_[7,400,600-601]", "12_[299,300,301]"], "ann", None).tasks
    found, problems = tasks_of(tasks, PLACED)
    assert found == ((18, 18), (310, 311))
    texts = ["400_5-40", "12_[0-305:3]", "12_200-999", "12_0-7"]
    ends = read_selectors(texts, "ann", None).tasks
    assert [name for name, _ in tasks_of(ends, PLACED)[1]] == [
        "400_[31-40]",
        "12_[0,303]",
        "12_[301-999]",
        "12_0",
    ]
    assert problems == [
        ("12_[400,600-601]", "array 12 has no task 400,600-601; its indexes are 1-300"),
        ("12_301", "array 12 has no task 301; its indexes are 1-300"),
    ]


@pytest.mark.parametrize("text", ["12_", "12_[]", "_3", "12_5-3", "12_1%2", "12_h1", "x_1"])
def test_malformed_tasks_are_one_line(text):
    with pytest.raises(ConfigError, match="is not a "):
        read_selectors([text], "ann", None)


def test_the_id_of_an_array_within_a_range_means_all_of_it():
    assert widened(12, 12, PLACED) == (12, 311)
    assert widened(10, 15, PLACED) == (10, 311)
    assert widened(9, 9, PLACED) == (9, 9)


def test_the_number_of_a_task_is_not_an_id():
    """`lbctl job 15` showed the array, and `lbctl kill 15` ended one task of it."""
    assert widened(15, 15, PLACED) is None
    assert widened(15, 320, PLACED) == (312, 320)  # of the array none
    assert jobs_of([(15, 15), (13, 15), (9, 9)], PLACED | {13: PLACED[12]}) == (
        ((9, 9),),
        [
            ("15", "no job 15 in the queue; task 4 of array 12 is 12_4"),
            ("13-15", "no job 13-15 in the queue"),
        ],
    )
    damaged = {501: SubmissionRange(500, 3, "1-x")}  # others may write to the ledger
    assert jobs_of([(501, 501)], damaged)[1] == [("501", "no job 501 in the queue")]
    assert widened(7, 7, PLACED) == (7, 7)


def test_ids_of_the_queue_are_distinguished_from_those_of_hosts():
    assert all(map(is_selector, ["3", "2-5", "last", "@me", "12_7", "12_[3-5]", "last_7"]))
    assert not any(map(is_selector, ["h1-17", "my_host-3", "5_x"]))


def test_the_same_problem_of_many_jobs_is_one_line():
    problems = [
        ("7", "job 7 is not held"),
        ("8", "job 8 is already running; only pending jobs can be held"),
        ("12_9", "job 12_9 is not held"),
        ("77", "job 77 is not held"),
    ]
    assert in_few_lines(problems) == [
        "job 7 is not held; and 2 more",
        "job 8 is already running; only pending jobs can be held",
    ]
    assert in_few_lines([]) == []


def test_but_each_that_was_named_by_itself_has_a_line():
    problems = [(f"{n}", f"job {n} has ended") for n in range(3, 9)]
    assert in_few_lines(problems, {"4", "7"}) == [
        "job 4 has ended", "job 7 has ended", "job 3 has ended; and 3 more",
    ]  # fmt: skip
    assert in_few_lines(problems, "345678", lines_max=3) == [
        "job 3 has ended", "job 4 has ended", "job 5 has ended; and 3 more",
    ]  # fmt: skip


def test_at_most_as_many_are_named_as_fit_into_an_answer():
    check_count(["1"] * SELECTORS_MAX)
    with pytest.raises(ConfigError, match="more than 100000 jobs"):
        check_count(["1"] * (SELECTORS_MAX + 1))


def test_no_job_has_a_number_beyond_what_a_ledger_holds():
    largest = (1 << 63) - 1
    assert read_range(f"{largest}") == (largest, largest)
    for text in (f"{largest + 1}", "0", "9" * 20, "\u00b2"):
        with pytest.raises(ConfigError, match="is not a queued job's id"):
            read_range(text)


def test_a_property_shared_by_many_is_one_line():
    problems = [(n, f"job {n} has ended") for n in (3, 4, 5)] + [(6, "job 6 is bob's")]
    assert in_few_lines(problems) == ["job 3 has ended; and 2 more", "job 6 is bob's"]
