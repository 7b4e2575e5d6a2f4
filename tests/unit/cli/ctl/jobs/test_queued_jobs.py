"""`lbctl`'s queue commands against canned answers: what they refuse, and when they end."""

import contextlib
import json
import math
import time
from types import SimpleNamespace

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import arrays, queued_jobs
from lbd.cli.ctl.jobs.listing import ASK_AGAIN
from lbd.console.jobs import ANSWER_S
from tests.unit.cli.canned import JOB

AWAY = {"ok": False, "error": "the dispatcher on h1 cannot be reached", "code": "unavailable"}


@pytest.mark.parametrize("verb", ["job", "logs", "wait", "kill", "hold", "release", "requeue"])
@pytest.mark.parametrize("ids", ["0", "abc", "5-2", "9" * 30, "@you", ""])
def test_a_malformed_id_is_a_usage_error(daemon, complaint, verb, ids):
    daemon("lbm")
    assert lbctl.main([verb, ids]) == 2
    assert f"{ids!r}" in complaint()


@pytest.mark.parametrize("given", ["0", "-1", "x", "1.5"])
def test_a_malformed_attempt_is_a_usage_error(daemon, capsys, given):
    daemon("lbm")
    assert lbctl.main(["logs", f"--attempt={given}", "3"]) == 2
    assert f"{given!r} is not an attempt number; the first is 1" in capsys.readouterr().err


def test_job_waits_as_long_as_the_lbm_waits_for_the_dispatcher():
    """While the LBM waited for a silent dispatcher, the LBM itself was reported as silent."""
    times_s = []

    def lbm(question, timeout_s=5.0):
        times_s.append(timeout_s)
        return {"jobs": [JOB]}

    assert queued_jobs.with_attempts(SimpleNamespace(lbm=lbm), ["12"])[1] == []
    assert times_s == [ANSWER_S]


ABSENT = "no job 999, 998 in the queue"


@pytest.mark.parametrize("words", [["jobs"], ["job"], ["job", "--json"]])
def test_of_several_ids_those_that_exist_are_shown(daemon, capsys, words):
    """One unknown id hid all others."""
    lbm = daemon("lbm", **{"queue.jobs": {"jobs": [JOB], "absent": [ABSENT]}})
    assert lbctl.main([*words, "12", "999", "998"]) == 1
    out, err = capsys.readouterr()
    assert lbm.asked[0]["some"] is True
    assert ("[" if "--json" in words else JOB["id"]) in out
    assert err == f"lbctl: {ABSENT}\n"


@pytest.mark.parametrize("words", [["jobs"], ["job"], ["job", "--json"]])
def test_of_a_range_it_is_said_how_many_jobs_are_those_of_others(daemon, capsys, words):
    """One's own were shown without a word on the others."""
    daemon("lbm", **{"queue.jobs": {"jobs": [JOB], "absent": [], "others": 20}})
    assert lbctl.main([*words, "2-22"]) == 0
    assert capsys.readouterr().err == "lbctl: not shown, since not yours: 20 jobs\n"


def test_of_several_ids_those_that_exist_are_waited_for(daemon, capsys):
    rows = iter([1, 0, 0, 0])
    answer = lambda _: {"ok": True, "open": next(rows), "all_done": True, "absent": [ABSENT]}  # noqa: E731
    lbm = daemon("lbm", **{"queue.wait": answer})
    assert lbctl.main(["wait", "12", "999", "998"]) == 2
    assert capsys.readouterr().err.count(ABSENT) == 1
    assert all(one["some"] for one in lbm.asked)
    assert len(lbm.asked) >= 2


def test_output_is_shown_for_one_job(daemon, complaint):
    """The complaint was `unrecognized arguments: 2`."""
    daemon("lbm")
    assert lbctl.main(["logs", "1", "2"]) == 2
    assert "one job at a time: name one" in complaint()


def test_wait_ends_at_its_timeout_even_if_the_dispatcher_is_away(daemon, capsys):
    lbm = daemon("lbm", **{"queue.wait": lambda request: AWAY})
    began_s = time.monotonic()
    assert lbctl.main(["wait", "--timeout", "0.7s", "3"]) == 2
    assert 0.7 <= time.monotonic() - began_s < 5
    assert capsys.readouterr().err == "lbctl: the dispatcher on h1 cannot be reached\n"
    assert len(lbm.asked) > 1  # the dispatcher was given time to come back


@pytest.mark.parametrize(("count", "said"), [(1, "1 job has"), (3, "3 jobs have")])
def test_wait_says_how_many_are_left(daemon, capsys, count, said):
    daemon("lbm", **{"queue.wait": {"open": count, "jobs": []}})
    assert lbctl.main(["wait", "--timeout", "0", "1-3"]) == 2
    assert capsys.readouterr().err == f"lbctl: {said} not ended yet\n"


@pytest.mark.parametrize(
    ("ids", "count", "said"),
    [(["12"], 12, "12 tasks have"), (["12"], 1, "1 job has"), (["12_[4-6]"], 3, "3 tasks have"),
     (["12_4"], 1, "1 task has"), (["12", "13"], 2, "2 jobs have")],
)  # fmt: skip
def test_wait_for_an_array_says_how_many_tasks_are_left(daemon, capsys, ids, count, said):
    """It was: 12 jobs."""
    daemon("lbm", **{"queue.wait": {"open": count, "jobs": []}})
    assert lbctl.main(["wait", "--timeout", "0", *ids]) == 2
    assert capsys.readouterr().err == f"lbctl: {said} not ended yet\n"


@pytest.mark.parametrize(
    ("count", "held", "said"),
    [(57, 21, "57 jobs have not ended yet; 21 of them are held"),
     (3, 1, "3 jobs have not ended yet; 1 of them is held"),
     (2, 2, "2 jobs have not ended yet: all are held"),
     (1, 1, "1 job has not ended yet: it is held")],
)  # fmt: skip
def test_wait_says_how_many_are_held(daemon, capsys, count, held, said):
    daemon("lbm", **{"queue.wait": {"open": count, "held": held, "jobs": []}})
    assert lbctl.main(["wait", "--timeout", "0", "1-3"]) == 2
    assert capsys.readouterr().err == f"lbctl: {said}\n"


def test_wait_says_once_that_only_held_jobs_are_left(daemon, capsys):
    left = iter([(3, 1), (1, 1), (1, 1), (0, 0)])

    def answer(_):
        left_now, held = next(left)
        return {"ok": True, "open": left_now, "held": held, "all_done": True, "jobs": []}

    daemon("lbm", **{"queue.wait": answer})
    assert lbctl.main(["wait", "12"]) == 0
    said = "lbctl: the job that has not ended is held; to let go: lbctl release 12\n"
    assert capsys.readouterr().err == said


def test_wait_shows_on_a_terminal_how_many_are_held(monkeypatch):
    states, shown = {"pending": 30, "running": 3}, []
    answers = iter([{"open": 33, "held": 21, "states": states}, {"open": 0, "states": {}}])
    monkeypatch.setattr(arrays, "POLL_S", 0.0)
    progress = SimpleNamespace(show=shown.append, clear=lambda: None)
    arrays.wait_showing(lambda *_: next(answers), ["1"], math.inf, progress, lambda: None)
    assert shown == ["0/33 done, 3 running, 21 held"]


def test_wait_shows_when_an_array_ends_as_it_is_foreseen(monkeypatch):
    """It is asked for now and then, and counted down meanwhile."""
    states, shown, asked = {"pending": 30, "running": 3}, [], []
    ends_in = iter([100.0, None, None, 80.0])

    def ask(question, _):
        asked.append(bool(question.get("ends")))
        if len(asked) > 3:
            return {"open": 0, "states": {}}
        ends_in_s = next(ends_in)
        end = time.time() + ends_in_s if asked[-1] else None
        return {"open": 33, "states": states, "expected_end": end}

    monkeypatch.setattr(arrays, "POLL_S", 0.0)
    progress = SimpleNamespace(show=shown.append, clear=lambda: None)
    arrays.wait_showing(ask, ["1"], math.inf, progress, lambda: None)
    assert asked[:2] == [True, False]
    assert set(shown) == {"0/33 done, 3 running, about 2 min"}


def test_wait_ends_when_the_outputs_have_arrived(daemon, capsys):
    coming = [2, 1, 0]
    over = {"ok": True, "open": 0, "all_done": True}
    answers = ({**over, "outputs_coming": count} for count in coming)
    lbm = daemon("lbm", **{"queue.wait": lambda request: next(answers)})
    assert lbctl.main(["wait", "3"]) == 0
    assert len(lbm.asked) == len(coming)
    assert capsys.readouterr() == ("", "")


def test_wait_says_once_why_outputs_are_late_and_waits_for_them(daemon, capsys):
    over = {"ok": True, "open": 0, "all_done": True}
    late = {**over, "outputs_coming": 1, "outputs_trouble": "3: h2 is silent"}
    answers = iter([late, late, over])
    daemon("lbm", **{"queue.wait": lambda request: next(answers)})
    assert lbctl.main(["wait", "3"]) == 0
    said = "lbctl: outputs not fetched yet: 3: h2 is silent; waiting for them\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ({"outputs_coming": 2}, 2, "ended, but outputs of 2 are still being fetched"),
        ({"outputs_trouble": "12_3: h2"}, 2, "outputs not fetched yet: 12_3: h2"),
        ({"outputs_trouble": "7: h2", "all_done": False}, 2, "outputs not fetched yet: 7: h2"),
    ],
)
def test_wait_says_that_outputs_have_not_arrived(daemon, capsys, monkeypatch, answer, status, said):
    monkeypatch.setattr(queued_jobs, "OUTPUTS_S", 0.0)
    daemon("lbm", **{"queue.wait": {"open": 0, "all_done": True, **answer}})
    assert lbctl.main(["wait", "3"]) == status
    assert capsys.readouterr().err == f"lbctl: {said}\n"


@pytest.mark.parametrize("plain", [[], ["h1-7"]])
@pytest.mark.parametrize("coming", [0, 1])
def test_wait_lists_the_jobs_even_if_their_outputs_have_not_arrived(
    daemon, capsys, monkeypatch, plain, coming
):
    monkeypatch.setattr(queued_jobs, "OUTPUTS_S", 0.0)
    queued = {**JOB, "id": "3", "state": "done"}
    reply = {"open": 0, "all_done": True, "outputs_trouble": "3: h2", "outputs_coming": coming}
    ended = {"job": {**JOB, "id": "h1-7", "state": "done"}, "open": False}
    answers = {"queue.wait": {**reply, "jobs": [queued]}, "command.wait": ended}
    daemon("lbm", **answers)
    assert lbctl.main(["wait", "--json", *plain, "3"]) == 2
    out, _ = capsys.readouterr()
    assert [job["id"] for job in json.loads(out)] == [*plain, "3"]


@pytest.mark.parametrize(
    ("states", "bad", "said"),
    [
        ({"done": 9, "failed": 1, "cancelled": 1}, ["3_7", "9"],
         "1 of 11 failed, 1 was cancelled: see `lbctl jobs 3_7 9`"),
        ({"failed": 20}, ["3_7", "3_8"],
         "20 of 20 failed: see `lbctl jobs --tasks --state failed 3 9`"),
        ({"failed": 2}, [], "2 of 2 failed"),
        ({"done": 2, "cancelled": 6}, ["582", "586"],
         "6 of 8 were cancelled: see `lbctl jobs 582 586`"),
        ({"cancelled": 9}, list("12345678"),
         "9 of 9 were cancelled: see `lbctl jobs --tasks --state cancelled 3 9`"),
        ({"done": 1, "lost": 1}, ["9"], "1 of 2 failed: see `lbctl job 9`"),
    ],
)  # fmt: skip
def test_wait_for_several_names_those_that_did_not_succeed(daemon, capsys, states, bad, said):
    answer = {"open": 0, "all_done": False, "states": states, "bad": bad}
    daemon("lbm", **{"queue.wait": answer})
    assert lbctl.main(["wait", "3", "9"]) == 1
    assert capsys.readouterr().err == f"lbctl: {said}\n"


def test_wait_for_all_own_jobs_names_those_that_did_not_succeed(daemon, capsys):
    """`lbctl job @me` would show 205 jobs."""
    answer = {"open": 0, "all_done": False, "states": {"done": 180, "cancelled": 25, "failed": 0}}
    daemon("lbm", **{"queue.wait": answer})
    assert lbctl.main(["wait", "@me"]) == 1
    said = "25 of 205 were cancelled: see `lbctl jobs --tasks --state cancelled @me`"
    assert capsys.readouterr().err == f"lbctl: {said}\n"


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"done": 12}, "all 12 are done\n"),
        ({"done": 1}, "job 3 is done\n"),
        ({"done": 197, "failed": 2, "lost": 1}, "3 of 200 failed: see `lbctl job 3`\n"),
        ({"cancelled": 1}, "job 3 was cancelled: see `lbctl job 3`\n"),
        ({"failed": 1}, "job 3 failed: see `lbctl job 3`\n"),
        ({"lost": 1, "done": 0}, "job 3 was lost: see `lbctl job 3`\n"),
        ({"done": 2, "cancelled": 1}, "1 of 3 was cancelled: see `lbctl job 3`\n"),
    ],
)
def test_wait_prints_a_summary_at_the_end(daemon, capsys, monkeypatch, states, said):
    """Without a terminal only of what did not succeed."""
    monkeypatch.setattr(queued_jobs, "has_terminal", lambda: True)
    all_done = set(states) == {"done"}
    daemon("lbm", **{"queue.wait": {"open": 0, "all_done": all_done, "states": states}})
    assert lbctl.main(["wait", "3"]) == (0 if all_done else 1)
    assert capsys.readouterr().err.endswith(f"lbctl: {said}")
    monkeypatch.setattr(queued_jobs, "has_terminal", lambda: False)
    lbctl.main(["wait", "3"])
    assert capsys.readouterr().err == ("" if all_done else f"lbctl: {said}")


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (
            ["the dispatcher"],
            ["the dispatcher did not answer: no jobs of the queue are shown; see `lbctl doctor`"],
        ),
        (["h2", "h3"], [f"these hosts did not answer: h2, h3; {ASK_AGAIN}"]),
        (
            ["h2", "the dispatcher"],
            [
                f"these hosts did not answer: h2; {ASK_AGAIN}",
                "the dispatcher did not answer: no jobs of the queue are shown; see `lbctl doctor`",
            ],
        ),
    ],
)
def test_no_jobs_is_not_claimed_where_some_hosts_have_not_answered(daemon, capsys, missing, said):
    silent = {"ok": False, "error": "no dispatcher answers", "code": "unavailable"}
    daemon("lbm", jobs={"jobs": [], "missing": missing}, **{"queue.status": silent})
    assert lbctl.main(["jobs"]) == 1
    assert capsys.readouterr().err.splitlines() == [f"lbctl: {line}" for line in said]


def test_a_long_name_does_not_widen_everybodys_table(daemon, capsys):
    daemon("lbm", jobs={"jobs": [{**JOB, "name": "x" * 1000}, JOB], "missing": []})
    assert lbctl.main(["jobs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f" {'x' * 39}… " in lines[1]
    assert max(map(len, lines)) < 150


def test_a_name_of_many_lines_is_cut_where_it_is_long_as_shown(daemon, capsys):
    daemon("lbm", jobs={"jobs": [{**JOB, "name": "first" + " \n" * 50 + "last"}], "missing": []})
    assert lbctl.main(["jobs"]) == 0
    assert " first last " in capsys.readouterr().out


@pytest.mark.parametrize("command", [["jobs"], ["jobs", "3"], ["job", "3"], ["wait", "3"]])
def test_a_missing_number_is_null_in_every_answer(daemon, capsys, command):
    found = {"jobs": [{**JOB, "cpu_s": math.nan}]}
    daemon("lbm", jobs=found, **{"queue.jobs": found, "queue.wait": {**found, "open": 0}})
    lbctl.main([*command, "--json"])
    told = json.loads(capsys.readouterr().out)
    (job,) = told if isinstance(told, list) else [told]
    assert (job["schema"], job["id"], job["cpu_s"]) == (1, "h1-7", None)


def test_daemons_of_a_lab_are_not_restarted(tmp_path, monkeypatch, capsys):
    config = tmp_path / "h1" / "lbd.toml"
    config.parent.mkdir()
    config.write_text(f'# made by `lbd lab`\n[host]\nname = "h1"\nruntime_dir = "{tmp_path}"\n')
    monkeypatch.setenv("LBD_CONFIG", str(config))
    assert lbctl.main(["restart"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("lbctl: nothing restarts daemons in a lab; to restart the LBM of h1 ")
    assert err.endswith(f" && lbd lab start h1 lbm --dir {tmp_path}\n")


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"array": "0-3", "tasks": {"pending": 4}}, "gang     its 4 tasks start together"),
        ({"array_id": "12", "array_index": 3}, "gang     one of 4 tasks that start together"),
    ],
    ids=["array", "task"],
)
def test_a_gang_is_the_tasks_of_an_array(daemon, capsys, more, line):
    job = {"id": "12", "command": ["cc"], "user": "ann", "state": "pending", "gang": 4,
           "submitted": 1.0, **more}  # fmt: skip
    daemon("lbm", **{"queue.jobs": {"jobs": [job]}})
    assert lbctl.main(["job", "12"]) == 0
    assert line in capsys.readouterr().out.splitlines()


NOT_BEGUN = {"data": [], "at": [0, 0], "attempt": 0, "more": True, "state": "pending"}


@pytest.mark.parametrize("words", [("wait",), ("logs", "-f"), ("logs",)])
def test_last_is_resolved_once(daemon, capsys, words):
    """A job that is submitted in the meantime is another job."""
    ids = iter(["5", "6", "7"])

    def jobs(_):
        return {"ok": True, "jobs": [{**JOB, "id": next(ids), "state": "done"}]}

    pieces = iter([NOT_BEGUN, NOT_BEGUN | {"attempt": 1, "more": False}])
    waited = iter([{"open": 1}, {"open": 0, "all_done": True}])
    lbm = daemon(
        "lbm",
        **{
            "queue.jobs": jobs,
            "queue.logs": lambda _: {"ok": True, **next(pieces)},
            "queue.wait": lambda _: {"ok": True, "jobs": [], **next(waited)},
        },
    )
    assert lbctl.main([*words, "last"]) == 0
    assert [one["ids"] for one in lbm.asked] == [["last"], *[["5"]] * (len(lbm.asked) - 1)]


def test_removing_a_time_limit_is_reported(capsys):
    with contextlib.suppress(SystemExit):
        lbctl.main(["update", "3", "--timeout", "none"])
    assert "1-06:00; 0 for none" in capsys.readouterr().err
