"""`lbctl logs` against canned answers: jobs, arrays, and why there is no output."""

import base64
import json

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import logs, queued_jobs
from lbd.cli.ctl.jobs.logs import why_not_begun
from lbd.local import json_socket
from lbd.local.json_socket import SEVERAL
from tests.unit.cli.canned import JOB

NOT_BEGUN = {"data": [], "at": [0, 0], "attempt": 0, "more": True, "state": "pending"}

AWAY = {"ok": False, "error": "the dispatcher on h1 cannot be reached", "code": "unavailable"}


@pytest.mark.parametrize("words", [["3"], ["-f", "3"]])
def test_logs_say_what_they_wait_for(daemon, capsys, monkeypatch, words):
    """Without -f they waited as long as with it: a minute."""
    monkeypatch.setattr(queued_jobs, "SILENT_S", 0.2)
    with_f, without = (1.5, 60.0) if "-f" in words else (60.0, 1.5)
    for module in (logs, queued_jobs):
        monkeypatch.setattr(module, "RETRY_FOR_S", with_f)
    monkeypatch.setattr(logs, "RESTART_S", without)
    daemon("lbm", **{"queue.logs": lambda request: AWAY})
    assert lbctl.main(["logs", *words]) == 1
    first = f"lbctl: {AWAY['error']}; trying again for 1 s (^C to stop)"
    said = [first, f"lbctl: {AWAY['error']}"]
    assert capsys.readouterr().err.splitlines() == said


def test_logs_of_a_job_that_has_not_started_say_why(daemon, capsys):
    pending = {**JOB, "id": 5, "state": "pending", "reason": "2 jobs are ahead of it"}
    daemon("lbm", **{"queue.logs": NOT_BEGUN, "queue.jobs": {"jobs": [pending]}})
    assert lbctl.main(["logs", "5"]) == 0
    said = "lbctl: job 5 has not started: 2 jobs are ahead of it\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"state": "failed", "exit_status": 137, "reason": "killed: over its memory limit of 3.9M"},
         "job 5 failed (exit 137): killed: over its memory limit of 3.9M; it printed nothing"),
        ({"state": "failed", "exit_status": 3, "output": "/dev/null"},
         "job 5 wrote to /dev/null, which cannot be read here; it ran on h2"),
        ({"state": "cancelled", "reason": "cancelled by bob"},
         "job 5 was cancelled by bob; it printed nothing"),
        ({"state": "done", "exit_status": 0}, ""),
    ],
)  # fmt: skip
def test_of_a_job_that_failed_without_output_it_is_said_why(daemon, capsys, end, said):
    """Nothing at all was printed, as of one that succeeded."""
    job = JOB | {"id": "5", "host": "h2"} | end
    daemon("lbm", **{"queue.logs": {"attempt": 1, "at": [0, 0]}, "queue.jobs": {"jobs": [job]}})
    assert lbctl.main(["logs", "5"]) == 0
    assert capsys.readouterr() == ("", f"lbctl: {said}\n" if said else "")


def test_a_job_whose_output_may_be_lost_is_not_said_to_have_printed_nothing(daemon, capsys):
    job = JOB | {"id": "5", "host": "h2", "state": "failed", "exit_status": 3}
    reply = {"attempt": 1, "at": [0, 0], "warning": "the disk of h2 was full"}
    daemon("lbm", **{"queue.logs": reply, "queue.jobs": {"jobs": [job]}})
    assert lbctl.main(["logs", "5"]) == 0
    assert capsys.readouterr().err == "lbctl: the disk of h2 was full\n"


def test_logs_of_a_job_that_writes_to_its_own_file_name_that_file(daemon, capsys):
    job = JOB | {"id": "5", "state": "done", "output": "/home/ann/out.5", "host": "h2"}
    daemon("lbm", **{"queue.logs": {"attempt": 1, "at": [0, 0]}, "queue.jobs": {"jobs": [job]}})
    assert lbctl.main(["logs", "5"]) == 0
    said = "lbctl: job 5 wrote to /home/ann/out.5, which cannot be read here; it ran on h2\n"
    assert capsys.readouterr() == ("", said)


def test_logs_of_a_task_name_its_own_files(daemon, capsys):
    job = JOB | {"state": "running", "directory": "/nowhere"}
    job |= {"id": "5_7", "array_index": 7, "output": "out.%a", "error": "%h.%A", "host": "h2"}
    daemon("lbm", **{"queue.logs": {"attempt": 1, "at": [0, 0]}, "queue.jobs": {"jobs": [job]}})
    assert lbctl.main(["logs", "5_7"]) == 0
    said = ("lbctl: job 5_7 writes to /nowhere/out.7, and its standard error to /nowhere/h2.5, "
            "which cannot be read here; it runs on h2\n")  # fmt: skip
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("given", ["5_[19,25]", "5_[19-25]"])
def test_of_a_list_of_tasks_the_outputs_of_those_that_exist_are_shown(daemon, capfd, given):
    """Nothing was said of task 25."""
    missing = "array 5 has no task 25; its indexes are 1-20"
    task = JOB | {"id": "5_19", "array_id": 5, "state": "done", "host": "h2"}

    def output(question):
        data = [base64.b64encode(b"hello\n").decode()] if question["at"] == [0, 0] else []
        return {"ok": True, "attempt": 1, "at": [1, 0], "data": data, "more": bool(data)}

    found = {"ok": True, "jobs": [task], "absent": [missing]}
    lbm = daemon("lbm", **{"queue.logs": output, "queue.jobs": found})
    assert lbctl.main(["logs", given]) == 1
    assert capfd.readouterr() == ("==> 5_19: done on h2 <==\nhello\n", f"lbctl: {missing}\n")
    assert lbm.asked[0]["some"] is True


def test_the_outputs_of_the_failed_tasks_of_an_array_are_shown(daemon, capfdbinary):
    task = {**JOB, "array_id": 5, "host": "h2"}
    tasks = [
        {**task, "id": "5_1", "state": "done", "exit_status": 0},
        {**task, "id": "5_2", "state": "failed", "exit_status": 3},
        {**task, "id": "5_3", "state": "lost", "exit_status": None, "host": None},
        {**task, "id": "5_4", "state": "failed", "exit_status": 139, "signal": 11, "host": "h1"},
    ]
    printed = base64.b64encode(b"no such file\n").decode()

    def output(question):
        again = question["at"] == [1, 0] or question["ids"] in (["5_3"], ["5_4"])
        return {"ok": True, "attempt": 1, "at": [1, 0], "data": [] if again else [printed]}

    lbm = daemon("lbm", **{"queue.logs": output, "queue.jobs": {"ok": True, "jobs": tasks}})
    assert lbctl.main(["logs", "--failed", "5"]) == 0
    assert capfdbinary.readouterr().out == (
        b"==> 5_2: failed on h2, exit 3 <==\nno such file\n==> 5_3: lost <==\n"
        b"==> 5_4: failed on h1, signal 11 <==\n"
    )
    assert lbm.asked[0]["tasks"] is True
    assert lbctl.main(["logs", "--failed", "-f", "5"]) == 2


def test_the_head_of_a_task_that_could_not_be_started_says_why(daemon, capfdbinary):
    """It said: failed on h2, exit 125; and the rest on standard error."""
    cannot = "cannot open the output file /out/2: Permission denied"
    task = {**JOB, "array_id": 5, "host": "h2", "state": "failed"}
    tasks = [
        {**task, "id": "5_2", "exit_status": 125, "reason": cannot},
        {**task, "id": "5_3", "exit_status": 125, "reason": "h2: no such user"},
        {**task, "id": "5_4", "exit_status": 125, "reason": None},
        {**task, "id": "5_5", "exit_status": 124, "reason": "the time limit of 5s"},
    ]
    answer = {"ok": True, "attempt": 1, "at": [0, 0], "data": []}
    daemon("lbm", **{"queue.logs": answer, "queue.jobs": {"ok": True, "jobs": tasks}})
    assert lbctl.main(["logs", "--failed", "5"]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert out.splitlines() == [
        f"==> 5_2: failed on h2, exit 125: {cannot} <==",
        "==> 5_3: failed on h2, exit 125: h2: no such user <==",
        "==> 5_4: failed on h2, exit 125 <==",
        "==> 5_5: failed on h2, exit 124 <==",
    ]


def test_a_host_that_is_down_does_not_hide_the_output_of_the_others(daemon, capfdbinary):
    hosts = {"5_1": "h2", "5_2": "h4", "5_3": "h2", "5_4": "h4"}
    task = {**JOB, "array_id": 5, "state": "failed", "exit_status": 1}
    tasks = [{**task, "id": name, "host": host} for name, host in hosts.items()]
    away = {"ok": False, "error": "cannot get output from h4", "code": json_socket.AWAY}

    def output(question):
        (name,) = question["ids"]
        again = question["at"] == [1, 0]
        data = [base64.b64encode(f"that of {name}\n".encode()).decode()]
        there = {"ok": True, "attempt": 1, "at": [1, 0], "data": [] if again else data}
        return there if hosts[name] == "h2" else away

    lbm = daemon("lbm", **{"queue.logs": output, "queue.jobs": {"ok": True, "jobs": tasks}})
    assert lbctl.main(["logs", "--failed", "5"]) == 1
    out, err = capfdbinary.readouterr()
    assert out.decode().splitlines()[1::2] == ["that of 5_1", "==> 5_3: failed on h2, exit 1 <=="]
    assert out.endswith(b"that of 5_3\n")
    assert err.decode().splitlines() == [
        "lbctl: cannot get output from h4",
        "lbctl: left out until h4 is back: the output of 5_2, 5_4",
    ]
    assert [question["ids"] for question in lbm.asked if question.get("at")].count(["5_4"]) == 0


def test_an_output_that_is_no_longer_stored_does_not_hide_the_others_of_its_host(daemon, capsys):
    task = {**JOB, "array_id": 5, "host": "h4", "state": "failed", "exit_status": 1}
    tasks = [{**task, "id": f"5_{index}"} for index in (1, 2)]
    trouble = "h4: its output is not stored here, or no longer"
    dropped = {"ok": False, "error": trouble, "code": "unavailable"}
    daemon("lbm", **{"queue.logs": dropped, "queue.jobs": {"ok": True, "jobs": tasks}})
    assert lbctl.main(["logs", "--failed", "5"]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == len(tasks)
    assert err.splitlines() == [f"lbctl: {trouble}"] * len(tasks)


@pytest.mark.parametrize(("attempt", "says"), [
    (1, "attempt 1 was refused, so it has no output: h1: drained"),
    (2, "h4: its output is not stored here, or no longer"),
])  # fmt: skip
def test_a_refused_attempt_is_not_one_whose_output_is_gone(daemon, capsys, attempt, says):
    attempts = [{"number": 1, "state": "refused", "reason": "h1: drained"},
                {"number": 2, "state": "evicted", "reason": ""}]  # fmt: skip
    trouble = "h4: its output is not stored here, or no longer"
    dropped = {"ok": False, "error": trouble, "code": "unavailable"}
    job = {**JOB, "id": "5", "attempts": attempts}
    daemon("lbm", **{"queue.logs": dropped, "queue.jobs": {"ok": True, "jobs": [job]}})
    assert lbctl.main(["logs", "--attempt", str(attempt), "5"]) == 1
    assert capsys.readouterr() == ("", f"lbctl: {says}\n")


def test_failed_tasks_that_never_ran_do_not_look_as_if_their_host_were_away(daemon, capsys):
    reason = "h1: ./nosuch: No such file or directory"
    never = {**JOB, "array_id": 5, "state": "failed", "exit_status": 127, "started": None}
    tasks = [{**never, "id": f"5_{index}", "host": "h1", "reason": reason} for index in (1, 2, 3)]
    refusal = {"ok": False, "error": f"job 5_1 never ran: {reason}", "code": "unavailable"}
    daemon("lbm", **{"queue.logs": refusal, "queue.jobs": {"ok": True, "jobs": tasks}})
    assert lbctl.main(["logs", "--failed", "5"]) == 0
    said = f"lbctl: 3 of these tasks never ran: {reason}\n"
    assert capsys.readouterr() == ("", said)
    tasks[1]["attempt"] = 2  # of which the first may have run
    assert lbctl.main(["logs", "--failed", "5"]) == 0
    said = f"lbctl: 3 of these tasks did not run, or not again: {reason}\n"
    assert capsys.readouterr() == ("", said)


def test_tasks_that_were_lost_unseen_are_not_said_to_have_never_run():
    reason = "contact with h3 was lost; it may have run in part and is not restartable"
    lost = {**JOB, "id": "5_1", "state": "lost", "started": None, "attempt": 1, "reason": reason}
    assert [*why_not_begun([lost])] == [f"1 of these tasks was lost: {reason}"]
    assert [*why_not_begun([lost, lost])] == [f"2 of these tasks were lost: {reason}"]
    cancelled = {**lost, "state": "cancelled", "reason": "cancelled before it ran"}
    assert [*why_not_begun([lost, cancelled])] == [
        "1 of these tasks never ran: cancelled before it ran",
        f"1 of these tasks was lost: {reason}",
    ]


def test_the_outputs_of_an_array_are_shown_one_after_the_other(daemon, capfdbinary, monkeypatch):
    tasks = [{**JOB, "id": f"5_{index}", "state": "done"} for index in (1, 2)]
    tasks.append({**JOB, "id": "5_3", "state": "pending", "started": None})
    several = {"ok": False, "error": "5 is an array", "code": SEVERAL}

    def output(question):
        (name,) = question["ids"]
        if name == "5":
            return several
        again = question["at"] == [1, 0]
        data = [base64.b64encode(f"that of {name}\n".encode()).decode()]
        return {"ok": True, "attempt": 1, "at": [1, 0], "data": [] if again else data}

    daemon("lbm", **{"queue.logs": output, "queue.jobs": {"ok": True, "jobs": tasks}})
    assert lbctl.main(["logs", "5"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.decode().splitlines()[1::2] == ["that of 5_1", "that of 5_2"]
    assert err == b"lbctl: 1 of these tasks has not begun\n"
    never = {"state": "cancelled", "started": None, "reason": "cancelled before it ran"}
    tasks += [{**JOB, "id": f"5_{index}", **never} for index in (4, 5)]
    assert lbctl.main(["logs", "5"]) == 0
    said = capfdbinary.readouterr().err.splitlines()
    assert said[1] == b"lbctl: 2 of these tasks never ran: cancelled before it ran"
    assert lbctl.main(["logs", "-f", "5"]) == 2
    monkeypatch.setattr(logs, "SHOWN_MAX", 1)
    assert lbctl.main(["logs", "5"]) == 2
    said = b"at most 1 outputs are shown at once, and 2 tasks have begun: name some, like 5_[1-100]"
    assert said in capfdbinary.readouterr().err


def test_a_task_that_prints_all_the_time_does_not_hide_the_others(daemon, capfdbinary):
    tasks = [{**JOB, "id": f"5_{index}", "array_id": 5, "state": "running", "host": f"h{index + 1}"}
             for index in (1, 2)]  # fmt: skip

    def output(question):
        at = question["at"][0]
        data = [base64.b64encode(b".").decode()] if question["ids"] == ["5_1"] or not at else []
        return {"ok": True, "attempt": 1, "at": [at + 1, 0], "data": data, "state": "running"}

    daemon("lbm", **{"queue.logs": output, "queue.jobs": {"ok": True, "jobs": tasks}})
    assert lbctl.main(["logs", "5_[1-2]"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.splitlines()[-1] == b"."
    assert b"==> 5_2" in out
    assert not err


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"state": "done", "exit_status": 0}, ""),
        ({"state": "cancelled", "reason": "cancelled"}, "lbctl: job 5 was cancelled\n"),
        ({"state": "cancelled", "reason": "cancelled by root"},
         "lbctl: job 5 was cancelled by root\n"),
        ({"state": "failed", "exit_status": 3}, "lbctl: job 5 failed (exit 3)\n"),
        ({"state": "failed", "exit_status": 143, "reason": "time limit"},
         "lbctl: job 5 failed (exit 143): time limit\n"),
        ({"state": "failed", "exit_status": 139, "signal": 11, "reason": ""},
         "lbctl: job 5 failed (signal 11)\n"),  # as `lbctl job` says
        ({"state": "failed", "exit_status": 125, "reason": "cannot open the output file o: No"},
         "lbctl: job 5 failed: cannot open the output file o: No\n"),
        ({"state": "lost", "reason": "h2 was lost"}, "lbctl: job 5 was lost: h2 was lost\n"),
    ],
)  # fmt: skip
def test_following_a_job_says_how_it_ended_unless_it_succeeded(daemon, capsys, end, said):
    job = {**JOB, "id": "5", "reason": "", **end}
    over = {"ok": True, "attempt": 1, "at": [0, 0], "data": [], "more": False,
            "state": job["state"]}  # fmt: skip
    daemon("lbm", **{"queue.logs": lambda _: over, "queue.jobs": {"jobs": [job]}})
    assert lbctl.main(["logs", "-f", "5"]) == 0
    assert capsys.readouterr() == ("", said)
    assert lbctl.main(["logs", "5"]) == 0
    assert said == "" or said not in capsys.readouterr().err


def test_following_a_job_says_once_why_it_has_not_started(daemon, capsys):
    pending = {**JOB, "id": 5, "state": "pending", "reason": ""}
    pieces = iter([NOT_BEGUN, NOT_BEGUN, NOT_BEGUN | {"attempt": 1, "more": False}])
    daemon(
        "lbm",
        **{"queue.logs": lambda _: {"ok": True, **next(pieces)}, "queue.jobs": {"jobs": [pending]}},
    )
    assert lbctl.main(["logs", "-f", "5"]) == 0
    assert capsys.readouterr() == ("", "lbctl: job 5 has not started\n")


def test_without_an_id_only_what_the_help_names_is_called_required(capsys):
    assert lbctl.main(["logs"]) == 2
    said = capsys.readouterr().err
    assert said == "lbctl logs: the following arguments are required: ID; see lbctl logs --help\n"


def test_the_output_of_a_queued_job_as_json(daemon, capsys):
    pieces = [[b"one\n", b"\xff"], [b"two\n", b""], []]

    def output(question):
        at = (question.get("at") or [0, 0])[0]
        data = [base64.b64encode(piece).decode() for piece in pieces[at]]
        return {"ok": True, "attempt": 2, "at": [at + 1, 0], "data": data, "state": "done"}

    daemon("lbm", **{"queue.logs": output})
    assert lbctl.main(["logs", "--json", "12"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": 1, "id": "12", "attempt": 2, "state": "done", "kept": True,
        "output": "one\ntwo\n", "error": "\udcff",
    }  # fmt: skip


@pytest.mark.parametrize("more", ["-f", "--failed"])
def test_one_output_as_it_is_now_is_shown_as_json(daemon, capsys, more):
    lbm = daemon("lbm")
    assert lbctl.main(["logs", "--json", more, "12"]) == 2
    assert "as it is now" in json.loads(capsys.readouterr().err)["error"]["message"]
    assert lbm.asked == []
