"""What `lbctl job` shows of one job beside its line in the list."""

import math

import pytest

from lbd.console.figures import Clock
from lbd.console.job_details import array_lines, attempt_row, detail_lines, of_both
from lbd.dispatch.core.outlook.forecast_words import GUESS
from lbd.text.job_phrases import LAUNCHER
from tests.unit.cli.canned import JOB


def test_the_command_line_of_sbatch_is_hidden_and_a_job_that_never_ran_shows_no_output():
    job = {**JOB, "state": "failed", "started": None, "may_restart": True,
           "command": [*LAUNCHER, "c.sh", "1"]}  # fmt: skip
    lines = detail_lines(job, Clock(2000.0, utc=True))
    assert lines[0] == "command  c.sh 1"
    assert not [line for line in lines if line.startswith("output")]
    kept = detail_lines({**job, "started": 5.0, "notify": "exit 3"}, Clock(2000.0, utc=True))
    assert [line for line in kept if line.startswith(("output", "notify"))] == [
        f"output   kept on {JOB['host']}: lbctl logs {JOB['id']}", "notify   exit 3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "started", "said"),
    [
        ("pending", None, []),
        ("running", 5.0, [f"output   kept on {JOB['host']}: lbctl logs {JOB['id']}"]),
    ],
)
def test_of_a_job_that_has_not_begun_no_output_is_kept(state, started, said):
    """That it is kept was said of every job that has not ended."""
    job = {**JOB, "state": state, "started": started, "may_restart": True}
    lines = detail_lines(job, Clock(2000.0, utc=True))
    assert [line for line in lines if line.startswith("output")] == said


@pytest.mark.parametrize(
    ("state", "started", "said"),
    [
        ("pending", None, "1 to 4"),
        ("running", 5.0, "2 (1 to 4 asked for)"),
        ("done", 5.0, "2 (1 to 4 asked for)"),
        ("cancelled", None, "1 to 4"),
    ],
)
def test_of_a_malleable_job_that_began_it_is_said_how_many_slots_it_got(state, started, said):
    slots = {"slots": 2, "slots_least": 1, "slots_most": 4}
    job = {**JOB, **slots, "state": state, "started": started, "may_restart": True}
    assert f"slots    {said}; priority 0" in detail_lines(job, Clock(2000.0, utc=True))


def test_for_a_running_array_its_end_is_forecast_not_the_start_of_its_next_task():
    begun = {**JOB, "id": "12", "array": "1-10", "state": "running", "started": 1000.0,
             "predicted_wait_s": 0.0, "predicted_by": "guess", "reason": "next"}  # fmt: skip
    tasks = {"pending": 4, "running": 2, "done": 3, "failed": 1}
    lines = detail_lines({**begun, "tasks": tasks}, Clock(1100.0, utc=True))
    said = "ends     in about 2 min, a rough guess from the rate so far: 4 of 10 tasks have ended"
    assert [line for line in lines if line[:5] in ("begin", "ends ")] == [said]
    assert "waits    next" in lines
    lines = detail_lines({**begun, "tasks": {"running": 10}}, Clock(1100.0, utc=True))
    assert "ends     not known before as many tasks have ended as run at once" in lines
    assert "reason   next" in lines
    # In turns with other jobs, none of its tasks runs for half of the time.
    between = {"tasks": {"pending": 6, "done": 3, "failed": 1}, "state": "pending"}
    lines = detail_lines({**begun, **between}, Clock(1100.0, utc=True))
    assert [line for line in lines if line[:5] in ("begin", "ends ")] == [said]
    held = {"tasks": {"pending": 6, "done": 4}, "held": 6, "state": "pending"}
    for more in (
        held, {"tasks": {"done": 9, "failed": 1}}, {"tasks": tasks, "target": {"by": 1200.0}},
    ):  # fmt: skip
        lines = detail_lines({**begun, **more}, Clock(1100.0, utc=True))
        assert not [line for line in lines if line.startswith("ends ")]
    waits = {**begun, "tasks": {"pending": 10}, "started": None, "predicted_wait_s": 30.0}
    assert [line for line in detail_lines(waits, Clock(1100.0)) if line.startswith("begins")]
    waits |= {"predicted_wait_s": 12.3, "predicted_by": "2 jobs ahead, 1 slot; by earlier runs"}
    lines = detail_lines(waits, Clock(1100.0))
    at = lines.index("begins   in about 12s")
    assert lines[at + 1] == "forecast 2 jobs ahead, 1 slot; by earlier runs"


ENDS = {
    **JOB, "id": "12", "array": "1-24", "state": "running", "started": 1000.0, "reason": "next",
    "predicted_wait_s": 3.0, "predicted_by": "guess", "expected_end": 1134.0, "expected_from": 5,
    "expected_end_90": [1120.0, 1150.0], "expected_by": "by ended runs of the same commands",
    "tasks": {"pending": 12, "running": 4, "done": 8},
}  # fmt: skip
BY = "forecast by ended runs of the same commands"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ["ends     in ~34s, likely 20s to 50s: 8 of 24 tasks have ended", BY]),
        (
            {"expected_from": 20, "expected_end_90": None, "held": 2},
            ["ends     in about 34s: 8 of 22 tasks have ended, without the 2 held", BY],
        ),
        (
            {"expected_end": 1099.0, "expected_end_90": [1090.0, 1123.0]},
            ["ends     in ~1s, likely up to 23s: 8 of 24 tasks have ended", BY],
        ),
        (
            {"expected_end": 1099.0, "expected_end_90": [1090.0, 1123.0], "expected_from": 20},
            ["ends     in less than 1s, likely up to 23s: 8 of 24 tasks have ended", BY],
        ),
        (
            {"expected_end": 1100.3, "expected_end_90": [1100.1, 1100.9]},
            ["ends     in less than 1s: 8 of 24 tasks have ended", BY],
        ),
        (
            {"state": "pending", "started": None, "tasks": {"pending": 24}},
            ["begins   in about 3.0s", "ends     in ~34s, likely 20s to 50s",
             "forecast guess; of its end: by ended runs of the same commands"],
        ),
        (
            {"state": "pending", "started": None, "tasks": {"pending": 24},
             "predicted_by": "2 jobs ahead; by ended runs of the same commands"},
            ["begins   in about 3.0s", "ends     in ~34s, likely 20s to 50s",
             "forecast 2 jobs ahead; by ended runs of the same commands"],
        ),
        (
            {"takes_turns": True},
            ["ends     in ~34s if no other jobs come, likely 20s to 50s: 8 of 24 tasks have ended",
             BY],
        ),
        (
            {"expected_end": None, "expected_by": "why", "tasks": {"pending": 19, "running": 4,
                                                                    "done": 1}},
            ["ends     why"],
        ),
        (
            {"expected_end": None, "expected_by": "why"},
            ["ends     in about 3 min, a rough guess from the rate so far: 8 of 24 tasks have "
             "ended"],
        ),
        ({"tasks": {"done": 24}}, []),
        ({"target": {"by": 1200.0}}, []),
    ],
)  # fmt: skip
def test_when_an_array_ends_as_the_dispatcher_foresees_it(more, said):
    lines = detail_lines({**ENDS, **more}, Clock(1100.0, utc=True))
    assert [line for line in lines if line[:8] in ("begins  ", "ends    ", "forecast")] == said


@pytest.mark.parametrize(
    ("of_begin", "of_end", "said"),
    [
        (f"; {GUESS}: why", f"; {GUESS}: why", "A; of its end: B; take both as rough guesses: why"),
        (f"; {GUESS}", f"; {GUESS}", "A; of its end: B; take both as rough guesses"),
        (f"; {GUESS}: why", f"; {GUESS}: x", f"A; {GUESS}: why; of its end: B; {GUESS}: x"),
        ("", f"; {GUESS}", f"A; of its end: B; {GUESS}"),
        (f"; {GUESS}", "", f"A; {GUESS}; of its end: B"),
    ],
)
def test_a_reserve_of_both_forecasts_is_made_once(of_begin, of_end, said):
    assert of_both(f"A{of_begin}", f"B{of_end}") == said


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, "1m12s (predicted: 1m10s, likely 39s to 1m50s)"),
        ({"foretold_wait_s_90": None}, "1m12s (predicted: 1m10s)"),
        ({"foretold_wait_s": 0.0}, "1m12s (predicted: no wait)"),
        (
            {"foretold_is_rough": True, "foretold_wait_s_90": None},
            "1m12s (predicted as a rough guess: ~1m10s)",
        ),
        ({"foretold_wait_s": None}, "1m12s (no prediction was kept)"),
        (
            {"foretold_wait_s": None, "id": "12", "array": "3-9:2,20"},
            "1m12s (no prediction was kept)",
        ),
        (
            {"foretold_wait_s": None, "target": {"kind": "deadline", "by": 5000.0}},
            "1m12s (no prediction is kept of an array with a target)",
        ),
        ({"started": 1063.0}, "1m03s (predicted: 1m10s, likely 39s to 1m50s)"),
        ({"started": None}, None),
        ({"attempt": 2}, None),
    ],
)
def test_the_prediction_at_submission_is_compared_with_what_happened(known, said):
    job = {**JOB, "submitted": 1000.0, "started": 1072.0, "attempt": 1, "foretold_wait_s": 66.0,
           "foretold_wait_s_90": [39.0, 108.0]}  # fmt: skip
    lines = detail_lines({**job, **known}, Clock(2000.0, utc=True))
    found = [line for line in lines if line.startswith("waited")]
    assert found == [f"waited   {said}"] * (said is not None)


@pytest.mark.parametrize(
    ("attempts", "said"),
    [
        ([{"started": None}, {"started": 1627.0}], ["waited   10m27s"]),  # refused at first
        ([{"started": 1072.0}, {"started": 1627.0}], ["waited   1m12s for the first start"]),
        ([{"started": 1072.0}, {"started": None}], ["waited   1m12s for the first start"]),
        ([{"started": None}, {"started": None}], []),
        ([], []),
    ],
)
def test_of_a_job_with_several_attempts_it_is_said_how_long_it_waited_for_the_first(attempts, said):
    """It was not said of those that were refused, or begun more than once."""
    job = {**JOB, "submitted": 1000.0, "started": 1627.0, "attempt": 2, "attempts": attempts}
    lines = detail_lines(job, Clock(2000.0, utc=True))
    assert [line for line in lines if line.startswith("waited")] == said


@pytest.mark.parametrize(
    ("started", "of_first_task", "said"),
    [
        (1019.0, [1000.1, 1019.0], "98ms for the first start"),  # all of it was queued again
        (None, [1000.1, None], "98ms for the first start"),
        (1000.1, [1000.1], "<1s (predicted: no wait)"),
        (1000.1, [1000.3, 1019.0], "<1s (predicted: no wait)"),  # the second task began first
        (1000.1, [], "<1s (predicted: no wait)"),  # the first task is held
    ],
)
def test_of_an_array_it_is_said_how_long_it_waited_before_it_first_began(
    started, of_first_task, said
):
    """It was the time until it was queued again, beside the prediction of its first start."""
    array = {**JOB, "id": "12", "array": "1-10", "submitted": 1000.002, "started": started,
             "foretold_wait_s": 0.0, "attempts": [{"started": at} for at in of_first_task],
             "attempt": 0}  # fmt: skip
    lines = detail_lines(array, Clock(2000.0, utc=True))
    assert [line for line in lines if line.startswith("waited")] == [f"waited   {said}"]


def test_a_reason_that_only_repeats_the_state_is_left_out():
    job = {**JOB, "state": "cancelled", "reason": "cancelled"}
    assert not [line for line in detail_lines(job, Clock(2000.0)) if line.startswith("reason")]
    job |= {"reason": "cancelled by root"}
    assert "reason   cancelled by root" in detail_lines(job, Clock(2000.0))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"exit_status": 137, "signal": 9}, "signal   SIGKILL, as far as is known not sent by lbd; "
         "the kernel sends it where memory runs out"),
        ({"exit_status": 143, "signal": 15},
         "signal   SIGTERM, as far as is known not sent by lbd"),
        ({"exit_status": 139, "signal": 11},
         "signal   SIGSEGV (segmentation fault): a fault of the program"),
        ({"exit_status": 143, "signal": 15, "state": "cancelled", "reason": "cancelled by ann@h2"},
         "signal   SIGTERM"),
        ({"exit_status": 137, "signal": None},
         "exit     137 is 128 + 9: SIGKILL ended it or what it had started"),
        ({"exit_status": 164, "signal": 36}, "signal   signal 36, as far as is known not sent by "
         "lbd"),
        ({"exit_status": 124, "reason": "ended at its time limit of 2 s"}, ""),
        ({"exit_status": 1, "signal": None}, ""), ({"exit_status": 255}, ""),
    ],
)  # fmt: skip
def test_the_signal_that_ended_it_is_named(end, said):
    job = {**JOB, "state": "failed", "reason": None, **end}
    lines = detail_lines(job, Clock(2000.0))
    assert [line for line in lines if line.startswith(("signal", "exit"))] == [said] * bool(said)


def test_an_array_shows_which_of_its_tasks_are_held_and_its_end_without_them():
    array = {**JOB, "id": "12", "array": "1-10", "state": "running", "started": 1000.0,
             "tasks": {"pending": 5, "running": 1, "done": 4}, "held": 5,
             "held_indexes": "6-10"}  # fmt: skip
    shown = detail_lines(array, Clock(1100.0))
    assert "held     5: 6-10; lbctl release 12" in shown
    how = "a rough guess from the rate so far"  # half of what each took: one is half done
    end = f"in about 11 s, {how}: 4 of 5 tasks have ended, without the 5 held"
    assert f"ends     {end}" in shown


@pytest.mark.parametrize(
    ("state", "more", "said"),
    [
        ("running", {}, "/home/ann/o.7 (on h1, once the job has ended)"),
        ("done", {"fetched": False}, "/home/ann/o.7 (on its way to h1)"),
        ("done", {"fetched": True}, "/home/ann/o.7 (came back to h1)"),
        ("done", {"fetched": None}, "/home/ann/o.7 (on h1)"),  # asked on another host
        ("failed", {"fetched": True}, "/home/ann/o.7 (on h1, if the job has made it)"),
        (
            "failed",
            {"reason": "--fetch o.7: the command did not create it; the command itself e"},
            "/home/ann/o.7 (the command did not create it)",
        ),
        (
            "failed",
            {"reason": "--fetch x.7: the command did not create it; the command itself e"},
            "/home/ann/o.7 (on h1, if the job has made it)",
        ),
        ("running", {"array": "1-9"}, "/home/ann/o.%a (on h1, after each task)"),
    ],
)
def test_where_fetched_outputs_go_is_shown(state, more, said):
    job = {**JOB, "id": "12_7", "state": state, "array_index": 7, "may_restart": True,
           "origin": "h1", "submitted_in": "/home/ann", "fetch": ["./o.%a"], **more}  # fmt: skip
    lines = detail_lines(job, Clock(2000.0))
    at = lines.index("in       a directory of its own (--send, --fetch)")
    assert lines[at + 1 : at + 3] == ["from     /home/ann on h1", f"fetch    {said}"]


def test_of_many_fetched_outputs_the_first_are_shown():
    names = [f"o{number}" for number in range(9)]
    job = {**JOB, "state": "done", "may_restart": True, "submitted_in": "/d", "fetch": names}
    lines = [line for line in detail_lines(job, Clock(2000.0)) if line.startswith("fetch")]
    assert [line.split()[1] for line in lines] == ["/d/o0", "/d/o1", "/d/o2", "6"]


def test_output_files_are_shown_by_their_real_paths():
    job = {**JOB, "id": "12_7", "state": "running", "array_index": 7, "may_restart": True,
           "host": "h2", "output": "new/%A-%a.out", "error": "/tmp/%j.%h"}  # fmt: skip
    fetched = {"submitted_in": "/home/ann", "fetch": ["new"]}
    for where in ({"directory": "/home/ann"}, fetched):
        lines = detail_lines(job | where, Clock(2000.0))
        assert "output   /home/ann/new/12-7.out" in lines
        assert "error    /tmp/12_7.h2" in lines
    assert "output   new/12-7.out" in detail_lines(job, Clock(2000.0))  # it does not come back
    array = {**job, "id": "12", "array": "1-9", "directory": "/home/ann"}
    assert "output   /home/ann/new/%A-%a.out" in detail_lines(array, Clock(2000.0))


@pytest.mark.parametrize(
    ("count", "known", "ends"),
    [(9, 9, "9 (exit 1)"), (10, 10, "10 (exit 1)"), (11, 10, "8 (exit 1) and 3 more"),
     (10, 9, "8 (exit 1) and 2 more")],
)  # fmt: skip
def test_no_task_is_left_out_for_a_word_as_long_as_its_name(count, known, ends):
    failed = [{"array_index": n + 1, "state": "failed", "exit_status": 1} for n in range(known)]
    array = {**JOB, "id": "12", "array": "1-50", "state": "failed", "failed": failed,
             "tasks": {"done": 50 - count, "failed": count, "lost": 0}}  # fmt: skip
    (line,) = [one for one in array_lines(array) if one.startswith("failed")]
    assert line.endswith(f"{ends}; lbctl logs --failed 12")


def test_if_several_tasks_failed_one_command_shows_all_their_output():
    failed = [{"array_index": index, "state": "failed", "exit_status": 1} for index in (3, 5)]
    array = {**JOB, "id": "12", "array": "1-5", "state": "failed", "failed": failed,
             "tasks": {"done": 3, "failed": 2, "lost": 0}}  # fmt: skip
    said = "failed   3 (exit 1), 5 (exit 1); lbctl logs --failed 12"
    assert said in detail_lines(array, Clock(2000.0))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_none_is_not_shown(number):
    """The dispatcher's host says these numbers. An infinite limit was a traceback."""
    times = dict.fromkeys(("timeout_s", "begin", "submitted", "started", "finished"), number)
    counts = dict.fromkeys(("memory_bytes", "slots", "cpu_s"), number)
    job = {**JOB, "directory": "/w", "may_restart": True, **times, **counts}
    assert not [
        line for line in detail_lines(job, Clock(2000.0)) if line.startswith(("limits", "begins"))
    ]


@pytest.mark.parametrize(
    ("reason", "ran"),
    [
        ("contact with h2 was lost; the job begins again", "≤32s"),
        ("h2 no longer has it: its LBM was killed or lost contact; the job begins again", "≤32s"),
        ("h2 was stopped; the job begins again", "32s"),
    ],
)
def test_an_attempt_whose_end_nobody_saw_ran_at_most_until_it_was_given_up(reason, ran):
    """It had run for 4 s when its host died."""
    attempt = {"number": 1, "host": "h2", "state": "lost", "started": 100.0, "finished": 132.0}
    assert attempt_row({**attempt, "reason": reason}, Clock(2000.0))[5] == ran
