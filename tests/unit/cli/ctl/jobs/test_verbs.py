"""`lbctl kill` and similar commands, on plain commands and queued jobs, against canned answers."""

import io
import json

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import verbs
from lbd.console import plain_commands
from tests.unit.cli.canned import JOB

RUNNING = [{**JOB, "id": f"h1-{at}", "name": "night"} for at in range(1, 8)]
ENDED = {**JOB, "id": "h1-8", "name": "night", "state": "done"}
OTHER = {**JOB, "id": "h1-9", "name": "day"}


class Typed(io.StringIO):
    """A terminal on which somebody types."""

    def isatty(self):
        return True


class Screen(Typed):
    pass


@pytest.fixture
def lbm(daemon):
    return daemon(
        "lbm",
        jobs={"jobs": [*RUNNING, ENDED, OTHER], "missing": []},
        **{
            "command.kill": lambda request: (
                {"ok": False, "error": "h1-9: permission denied", "code": "denied"}
                if request["id"] == "h1-9"
                else {"ok": True, "job": JOB, "open": True}
            ),
            "queue.act": {"done": [3, 4, 5, 9], "errors": []},
        },
    )


def killed(lbm):
    return [request["id"] for request in lbm.asked if request["op"] == "command.kill"]


def test_kill_without_a_selection_kills_nothing(lbm, capsys):
    assert lbctl.main(["kill"]) == 2
    assert capsys.readouterr().err.startswith("lbctl: which jobs?")
    assert killed(lbm) == []


def test_kill_by_filter_selects_only_matching_jobs_that_have_not_ended(lbm, capsys):
    assert lbctl.main(["kill", "--name", "n*", "--yes"]) == 0
    assert killed(lbm) == [job["id"] for job in RUNNING]
    assert capsys.readouterr().out == f"killed {', '.join(killed(lbm))}\n"
    lbm.asked.clear()
    assert lbctl.main(["kill", "--name", "n*", "--state", "done", "--yes"]) == 0
    assert killed(lbm) == []
    assert capsys.readouterr().err == "lbctl: none of the jobs that you may end matches\n"
    assert lbctl.main(["kill", "--name", "n*", "h1-2", "h1-9"]) == 0
    assert killed(lbm) == ["h1-2"]


@pytest.mark.parametrize(("typed", "status"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_killing_many_jobs_asks_for_confirmation(lbm, monkeypatch, typed, status):
    monkeypatch.setattr("sys.stdin", Typed(typed))
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert lbctl.main(["kill", "--name", "night"]) == status
    question = "lbctl: end 7 jobs (h1-1, h1-2, h1-3, h1-4, h1-5, h1-6 …)? [y/n] "
    assert screen.getvalue().startswith(question)
    assert ("\n" in screen.getvalue()) is (status == 1)  # "nothing was done"
    assert bool(killed(lbm)) is (status == 0)


def test_the_question_names_the_jobs_by_their_names(daemon, monkeypatch):
    jobs = [{**JOB, "id": str(at), "name": f"night-{min(at, 5)}"} for at in range(1, 8)]
    daemon("lbm", jobs={"jobs": jobs}, **{"queue.act": {"done": []}})
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert lbctl.main(["kill", "--name", "night-*"]) == 1
    names = "night-1, night-2, night-3, night-4, 5, 6 …"  # three are called night-5
    assert screen.getvalue().startswith(f"lbctl: end 7 jobs ({names})? [y/n] ")


def array(number, **tasks):
    return {**JOB, "id": str(number), "name": "", "array": "1-60", "tasks": tasks}


@pytest.mark.parametrize(
    ("verb", "jobs", "question"),
    [
        ("kill", [array(3, running=8, pending=52, done=9), array(4, pending=78)],
         "end 2 jobs, 138 tasks in all (3, 4)?"),
        ("kill", [array(3, running=2, pending=4, done=9)], "end 1 job, 6 tasks in all (3)?"),
        ("kill", [array(3, running=5, pending=0, done=90)], ""),
        ("hold", [array(3, running=8, pending=6)], "hold 1 job, 6 tasks in all (3)?"),
        ("hold", [array(3, running=8, pending=5)], ""),
    ],
)  # fmt: skip
def test_tasks_of_arrays_count_as_jobs_where_many_are_confirmed(
    daemon, monkeypatch, verb, jobs, question
):
    daemon("lbm", jobs={"jobs": jobs}, **{"queue.act": {"done": []}})
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert lbctl.main([verb, "--user", "ann"]) == (1 if question else 0)
    asked = f"lbctl: {question} [y/n] " if question else ""
    assert screen.getvalue().partition("nothing")[0].startswith(asked)
    assert ("[y/n]" in screen.getvalue()) is bool(question)


WAITING = [
    {**JOB, "id": "3", "name": "night-1", "state": "pending"},
    {**JOB, "id": "4", "name": "night-2", "state": "running"},
    {**JOB, "id": "5", "name": "night-3", "array": "1-3", "tasks": {"running": 1, "pending": 2}},
    {**JOB, "id": "9", "name": "day", "state": "pending"},
    {**JOB, "id": "h1-1", "name": "night-4", "state": "pending"},
]


@pytest.mark.parametrize(("verb", "did"), [("hold", "held"), ("release", "released")])
def test_hold_and_release_take_the_filters_of_kill(daemon, capsys, verb, did):
    """Of what the filters find, they take what can wait: neither running nor plain commands."""
    lbm = daemon("lbm", status={}, jobs={"jobs": WAITING}, **{"queue.act": {"done": ["3", "5_2"]}})
    assert lbctl.main([verb, "--name", "night-*"]) == 0
    assert capsys.readouterr() == (f"{did} 3, 5_2\n", "")
    (asked,) = [one for one in lbm.asked if one["op"] == "queue.act"]
    assert (asked["verb"], asked["ids"]) == (verb, ["3", "5"])
    assert lbctl.main([verb, "--name", "evening"]) == 0
    assert capsys.readouterr().err == f"lbctl: none of the jobs that you may {verb} matches\n"
    assert lbctl.main([verb]) == 2
    assert capsys.readouterr().err.startswith("lbctl: which jobs?")


def test_a_signal_like_that_of_kill_is_answered_with_how_to_send_it(lbm, capsys):
    assert lbctl.main(["kill", "-9", "last"]) == 2
    assert capsys.readouterr().err == "lbctl: '-9' is not an id; for a signal, write -s 9\n"
    assert not [one for one in lbm.asked if one["op"] == "queue.act"]
    assert lbctl.main(["hold", "-9"]) == 2
    assert "for a signal" not in capsys.readouterr().err


def test_what_is_queued_again_is_counted(daemon, capsys):
    lbm = daemon("lbm", **{"queue.act": {"done": [f"1_{index}" for index in (17, 114, 500, 501)]}})
    assert lbctl.main(["requeue", "1"]) == 0
    assert capsys.readouterr().out == "queued again: 4 tasks, 1_[17,114,500-501]\n"
    lbm.answers["queue.act"] = {"done": [7]}
    assert lbctl.main(["requeue", "7"]) == 0
    assert capsys.readouterr().out == "queued again: 7\n"


def test_an_option_of_tail_is_answered_with_how_to_do_it(capsys):
    assert lbctl.main(["logs", "--tail", "12"]) == 2
    assert "; use lbctl logs ID | tail; see lbctl logs --help" in capsys.readouterr().err


def test_killing_a_few_jobs_does_not_ask(lbm, monkeypatch):
    monkeypatch.setattr("sys.stdin", Typed(""))
    assert lbctl.main(["kill", "--name", "day", "--user", "ann"]) == 1  # this job is not ours
    assert killed(lbm) == ["h1-9"]


def test_plain_commands_and_queued_jobs_can_be_killed_together(lbm, capsys):
    assert lbctl.main(["kill", "h1-1", "h1-9", "3-5", "--json"]) == 1
    out, err = capsys.readouterr()
    assert [(one["id"], one["ok"]) for one in json.loads(out)] == [
        ("3", True), ("4", True), ("5", True), ("9", True), ("h1-1", True), ("h1-9", False),
    ]  # fmt: skip
    assert err == ""  # the list says it
    asked = [one["op"] for one in lbm.asked if one["op"] in ("queue.act", "command.kill")]
    assert asked == ["queue.act", "command.kill", "command.kill"], "a host may take its time"


FAILED = {
    "done": ["3"],
    "errors": ["no job 99 in the queue", "job 4_1 has ended; and 1 more"],
    "failed": [
        {"ids": ["99"], "error": "no job 99 in the queue"},
        {"ids": ["4_1", "4_2"], "error": "job 4_1 has ended"},
    ],
}


@pytest.mark.parametrize(
    "words", [["kill"], ["hold"], ["release"], ["requeue"], ["update", "--name", "night"]]
)
def test_each_job_that_an_order_failed_for_has_its_object(daemon, capsys, words):
    """`id` was null, and a plain line stood beside the list."""
    daemon("lbm", **{"queue.act": FAILED})
    asked = [*words, "3", "99", "4"]
    assert lbctl.main([*asked, "--json"]) == 1
    out, err = capsys.readouterr()
    assert [(one["id"], one["ok"], one["error"]) for one in json.loads(out)] == [
        ("3", True, None),
        ("99", False, "no job 99 in the queue"),
        ("4_1", False, "job 4_1 has ended"),
        ("4_2", False, "job 4_2 has ended"),
    ]
    assert err == ""
    assert lbctl.main(asked) == 1
    out, err = capsys.readouterr()
    assert out.endswith(" 3\n")
    assert err.splitlines() == [f"lbctl: {line}" for line in FAILED["errors"]]


def test_without_a_dispatcher_each_job_has_its_object_too(lbm, capsys):
    lbm.answers["queue.act"] = lambda request: {"ok": False, "error": "no answer", "code": "failed"}
    assert lbctl.main(["kill", "h1-1", "3", "5", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(one["id"], one["error"]) for one in rows] == [
        ("3", "no answer"), ("5", "no answer"), ("h1-1", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["h1-1"], "1 plain command of yours runs on: h1-1; `lbctl kill --user ann` ends it as "
                   "well"),
        (["h1-1", "h1-2"], "2 plain commands of yours run on: h1-1, h1-2; `lbctl kill --user ann` "
                           "ends them as well"),
        ([], ""),
    ],
)  # fmt: skip
def test_plain_commands_that_at_me_leaves_running_are_named(daemon, capsys, monkeypatch, ids, said):
    monkeypatch.setattr(verbs, "user_name", lambda uid: "ann")
    others = [{**JOB, "id": "3"}, {**JOB, "id": "h1-8", "user": "bob"},
              {**JOB, "id": "h1-9", "state": "done"}]  # fmt: skip
    jobs = {"jobs": [*({**JOB, "id": name} for name in ids), *others]}
    daemon("lbm", status={}, jobs=jobs, **{"queue.act": {"done": [3], "errors": []}})
    assert lbctl.main(["kill", "@me"]) == 0
    assert capsys.readouterr() == ("killed 3\n", f"lbctl: {said}\n" if said else "")


@pytest.mark.parametrize("verb", ["hold", "release", "requeue"])
def test_a_plain_command_has_no_place_in_the_queue(lbm, complaint, verb):
    assert lbctl.main([verb, "h1-1"]) == 1
    assert complaint().startswith("lbctl: h1-1 is a plain lbrun; only queued jobs can be ")
    assert not [request for request in lbm.asked if request["op"] == "queue.act"]


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("h1-26", True), ("a.b-c-1", True), ("1a-2", True), ("3", False), ("2-5", False),
        ("last", False), ("@me", False), ("h1-", False), ("-1", False), ("h1-x", False),
        ("12_7", False), ("12_1-10", False),
    ],
)  # fmt: skip
def test_what_kind_of_job_an_id_names(name, plain):
    assert plain_commands.is_plain(name) is plain


def test_ids_are_shown_as_ranges():
    assert verbs.in_ranges(["3", "4", "5", "h1-2", "6", "9", "10"]) == "3-5, h1-2, 6, 9-10"
    some = [f"1_{n}" for n in (23, 46, 69, 77, *range(92, 185, 23))]
    assert verbs.in_ranges(some) == "1_[23,46,69,77,92,115,138,161,184]"  # not 92-184:23
    assert verbs.in_ranges([f"1_{n}" for n in range(5, 60, 5)]) == "1_[5-55:5]"


@pytest.mark.parametrize(
    ("words", "kind", "fix"),
    [
        (["jobs", "--usr", "x"], "usage", "see lbctl jobs --help"),
        (["job", "h1-7"], "denied", None),
        (["jobs", "h1-77"], "missing", 'did you mean "h1-7"?'),
    ],
)
def test_an_error_under_json_is_an_object(daemon, capsys, words, kind, fix):
    denied = {"ok": False, "error": "h1-7: permission denied", "code": "denied"}
    missing = {"ok": False, "error": "no job h1-77", "code": "missing"}
    answer = lambda request: denied if request["id"] == "h1-7" else missing  # noqa: E731
    daemon("lbm", jobs={"jobs": [JOB]}, **{"command.show": answer})
    assert lbctl.main([*words, "--json"]) in (1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    said = json.loads(err)
    assert (said["schema"], said["error"]["kind"], said["error"]["fix"]) == (1, kind, fix)


@pytest.mark.parametrize("verb", ["jobs", "job", "wait", "kill", "hold", "requeue", "logs"])
@pytest.mark.parametrize("word", ["foo", "@you", "5-1", "7_x", "h1-x7"])
def test_what_cannot_be_an_id_is_a_mistake_on_the_command_line(daemon, capsys, verb, word):
    lbm = daemon("lbm")
    assert lbctl.main([verb, word]) == 2
    assert repr(word) in capsys.readouterr().err
    assert lbm.asked == []


def line(host, text, job="12_7"):
    return {"time": 1e9, "host": host, "daemon": "lbm", "level": "debug", "job": job, "text": text}


def test_daemon_log_lines_are_shown_with_the_hosts_that_are_missing(daemon, capsys):
    reply = {
        "ok": True, "job": "12_7", "more": True,
        "lines": [line("h1", "accepted", "12"), line("h2", "runs\x1b[2J")],
        "missing": {"h3": "down", "h4": "no answer within 5 s"},
        "withheld": {"h5": "admin.hosts"},
    }  # fmt: skip
    lbm = daemon("lbm", **{"queue.lines": reply})
    assert lbctl.main(["logs", "--daemons", "12_7"]) == 0
    assert [one["op"] for one in lbm.asked] == ["queue.lines"]
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.endswith(".000 h1 lbm debug: job 12: accepted")
    assert second.endswith(".000 h2 lbm debug: runs?[2J")
    assert err.splitlines() == [
        "lbctl: earlier lines have been dropped",
        "lbctl: lines of these daemons are missing: h3 (down), h4 (no answer within 5 s)",
        "lbctl: h5 does not show its lines here (admin.hosts there)",
    ]
    assert lbctl.main(["logs", "--daemons", "12_7", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["id"], len(found["lines"])) == (1, "12_7", 2)


def test_for_a_plain_command_its_own_host_is_asked(daemon, capsys):
    reply = {"ok": True, "job": "h1-26", "more": False, "lines": [], "missing": {}, "withheld": {}}
    lbm = daemon("lbm", **{"command.lines": reply})
    assert lbctl.main(["logs", "--daemons", "h1-26"]) == 0
    assert [one["op"] for one in lbm.asked] == ["command.lines"]
    assert capsys.readouterr().err == "lbctl: no daemon has any lines about job h1-26\n"


@pytest.mark.parametrize("more", [("-f",), ("--attempt", "2"), ("--failed",)])
def test_daemon_log_lines_cannot_be_followed(capsys, more):
    assert lbctl.main(["logs", "--daemons", *more, "12"]) == 2
    assert "it takes neither -f, --attempt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("named", "said"),
    [("STOP", "sent SIGSTOP"), ("usr1", "sent SIGUSR1"), ("TERM", "sent SIGTERM"), ("9", "killed")],
)
def test_only_a_signal_that_ends_jobs_for_sure_is_reported_as_killing(lbm, capsys, named, said):
    assert lbctl.main(["kill", "-s", named, "h1-26"]) == 0
    assert capsys.readouterr().out.startswith(said)


def test_kill_of_a_name_is_answered_with_how_to_kill_by_name(capsys):
    assert lbctl.main(["kill", "mine"]) == 2
    ids = "3, 2-5, 12_7, 12_[3-5], last"
    said = capsys.readouterr().err
    assert said.endswith(f"use {ids}, @me or h1-26; by name: lbctl kill --name PATTERN\n")
    assert lbctl.main(["hold", "mine"]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"use {ids} or @me; by name: lbctl jobs --name PATTERN\n")


@pytest.mark.parametrize("verb", ["job", "wait", "logs"])
def test_what_is_no_id_is_answered_with_the_ids_of_plain_commands_where_they_are_taken(
    capsys, verb
):
    assert lbctl.main([verb, "first_111"]) == 2
    assert "last, @me or h1-26; by name: lbctl jobs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["kill"], "kill --name night-4"), (["job"], "jobs --all --name night-4")],
)
def test_a_name_that_looks_like_an_id_is_answered_with_how_to_find_it(daemon, capsys, words, hint):
    line = "no job night-4: no host 'night' in this cluster"
    refusal = {"ok": False, "error": line, "code": "missing"}
    daemon("lbm", **{f"command.{verb}": lambda request: refusal for verb in ("kill", "show")})
    assert lbctl.main([*words, "night-4"]) == 1
    assert capsys.readouterr().err == f"lbctl: {line}; by name: lbctl {hint}\n"


def test_a_job_that_was_not_held_is_not_reported_as_released(daemon, capsys):
    answer = {"done": ["3_5", "3_6", 7], "errors": [], "not_held": ["3_6", "7"]}
    daemon("lbm", **{"queue.act": answer})
    assert lbctl.main(["release", "3_[5-6]", "7"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == ["not held: 7, 3_6", "released 3_5"]
    assert lbctl.main(["release", "3_[5-6]", "7", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row.get("not_held") for row in rows] == [None, True, True]


def test_a_job_that_has_not_ended_yet_is_not_reported_as_killed(daemon, capsys):
    later = "h4 not heard of for 17s; counts as ended in 15s if that lasts"
    answer = {"done": [3, 4, 5], "errors": [], "still_open": {"4": later, "5": later}}
    daemon("lbm", **{"queue.act": answer})
    assert lbctl.main(["kill", "3-5"]) == 0
    assert capsys.readouterr().out == f"killed 3\nnot ended yet: 4-5; {later}\n"
    assert lbctl.main(["kill", "3-5", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row.get("still_open") for row in rows] == [None, later, later]
