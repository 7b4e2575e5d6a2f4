"""Which jobs `lbctl jobs` shows, in what order, and how much of each."""

import argparse
import json
import os
import pty

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import filters, listing
from lbd.cli.ctl.jobs.filters import KEYS, chosen_and_sorted, keys_named
from lbd.cli.ctl.jobs.listing import GO_FIRST, HEADER, job_lines
from lbd.cli.past_time import past_time
from lbd.console.figures import Clock
from lbd.console.output import LAST_COLUMNS, Page, Paint, fit, terminal_columns
from tests.unit.cli.canned import JOB

JOBS = [
    {**JOB, "id": "h1-9", "user": "ann", "host": "h2", "cpu_s": 5.0, "submitted": 900.0},
    {**JOB, "id": "h1-10", "user": "bob", "host": "h3", "cpu_s": None, "name": "fit-a"},
    {**JOB, "id": "7", "user": "ann", "host": "h3", "cpu_s": 0.5, "name": "fit-b"},
    {
        **JOB,
        "id": "8",
        "user": "ann",
        "host": "h1",
        "state": "failed",
        "cpu_s": 60.0,
        "finished": 92.5,
    },
]


@pytest.fixture
def listed(daemon, capsys):
    def ids(*words):
        daemon("lbm", status={}, jobs={"jobs": JOBS, "missing": []})
        assert lbctl.main(["jobs", "--json", *words]) == 0
        return [job["id"] for job in json.loads(capsys.readouterr().out)]

    return ids


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ((), ["h1-9", "h1-10", "7", "8"]),
        (("--user", "ann"), ["h1-9", "7", "8"]),
        (("--user", "nobody"), []),
        (("--name", "fit-*"), ["h1-10", "7"]),
        (("--name", "fit"), []),
        (("--state", "failed"), ["8"]),
        (("--state", "failed,running", "--host", "h3"), ["h1-10", "7"]),
        (("--sort", "id"), ["7", "8", "h1-9", "h1-10"]),
        (("--sort=-cpu_s",), ["8", "h1-9", "7", "h1-10"]),
        (("--sort=-cpu",), ["8", "h1-9", "7", "h1-10"]),  # as its column is headed
        (("--sort", "cpu_s"), ["7", "h1-9", "8", "h1-10"]),
        (("--sort=-cpu_s", "--limit", "2"), ["8", "h1-9"]),
        (("--sort=-RAN", "--user", "ann"), ["h1-9", "7", "8"]),
        (("--limit", "2"), ["h1-9", "h1-10"]),
        (("--all",), ["h1-10", "7", "8", "h1-9"]),  # by submission
        (("--all", "--limit", "1"), ["h1-9"]),  # the one that was submitted last
    ],
)
def test_who_is_shown_and_in_what_order(listed, words, ids):
    assert listed(*words) == ids


def test_how_long_a_job_ran_is_a_field(daemon, capsys):
    ended = {**JOB, "started": 2.0, "finished": 92.5}
    waiting = {**JOB, "id": "8", "started": None}
    daemon("lbm", status={}, jobs={"jobs": [ended, waiting], "missing": []})
    assert lbctl.main(["jobs", "--format", "id,RAN"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ID", "RAN_S"], ["h1-7", "90.5"], ["8"],
    ]  # fmt: skip


def test_a_column_is_known_by_its_heading_too():
    assert filters.keys_named("id,on,From,EXIT") == ("id", "host", "origin", "exit_status")


def test_since_counts_from_submission():
    options = _options(since=past_time("200"))
    assert [job["id"] for job in filters.chosen_and_sorted(JOBS, options, 1000.0)] == ["h1-9"]


def test_until_is_the_last_submission_that_is_shown():
    jobs = [{**JOB, "id": f"{at}", "submitted": float(at)} for at in (700, 800, 900)]
    options = _options(since=past_time("200"), until=past_time("100"))
    assert [job["id"] for job in filters.chosen_and_sorted(jobs, options, 1000.0)] == [
        "800",
        "900",
    ]
    options = _options(until=past_time("250"))
    assert [job["id"] for job in filters.chosen_and_sorted(jobs, options, 1000.0)] == ["700"]


def test_a_state_asks_for_ended_jobs_only_if_it_is_one_of_theirs(daemon, capsys):
    """Of very many jobs on record the newest are listed: live ones among the others were missed."""
    server = daemon("lbm", status={}, jobs={"jobs": [], "missing": []})
    for states in ("failed", "running,done", "pending,running,suspended"):
        assert lbctl.main(["jobs", "--state", states]) == 0
        assert capsys.readouterr() == ("", "lbctl: no jobs\n")
    asked = [asked["all"] for asked in server.asked if asked["op"] == "jobs"]
    assert asked == [True, True, False]


def test_fields_are_shown_alone_and_the_rest_is_counted(daemon, capsys):
    daemon("lbm", status={}, jobs={"jobs": JOBS, "missing": []})
    assert lbctl.main(["jobs", "--format", "id,command", "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["ID    COMMAND", "h1-9  cc -c 'a b.c'"]
    assert err == "lbctl: 3 more; --limit N shows more\n"  # not among the ids for a script


def test_times_among_the_fields_can_be_read(daemon, capsys):
    daemon("lbm", status={}, jobs={"jobs": [{**JOB, "started": 1795652029.887438}]})
    assert lbctl.main(["jobs", "--format", "started,finished", "--no-header", "--utc"]) == 0
    assert capsys.readouterr().out.strip() == "2026-11-26T00:13:49"
    assert lbctl.main(["jobs", "--format", "started", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"schema": 1, "started": 1795652029.887438}]


def test_the_help_lists_the_fields(capsys):
    """It said "keys of the JSON", which has more of them."""
    assert lbctl.main(["jobs", "--help"]) == 0
    assert ", ".join(KEYS) in " ".join(capsys.readouterr().out.split())


def test_fields_are_the_keys_of_json(daemon, capsys):
    daemon("lbm", status={}, jobs={"jobs": JOBS[:1], "missing": []})
    assert lbctl.main(["jobs", "--format", "state", "--no-header", "--limit", "1"]) == 0
    assert "STATE" not in capsys.readouterr().out
    assert lbctl.main(["jobs", "--format", "host,id", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"schema": 1, "host": "h2", "id": "h1-9"}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sort", "size"), "no field 'size'"),
        (("--format", "id,comand"), 'did you mean "command"'),
        (("--state", "runing"), "no state 'runing'"),
        (("--limit", "0"), "not a whole number above 0"),
        (
            ("--since", "tomorrow"),
            "--since: 'tomorrow' is not a time; allowed: 2h, 1d, 17:30, today",
        ),
        (("--until", "2026-02-30"), "--until: '2026-02-30' is not a time"),
    ],
)
def test_what_there_is_not_is_one_line(capsys, words, said):
    assert lbctl.main(["jobs", *words]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize("columns", [60, 80, 100, 160])
def test_a_line_is_never_wider_than_the_terminal(columns):
    jobs = [*JOBS, {**JOB, "state": "pending", "reason": "next in line for a free slot " * 3}]
    long = [{**job, "command": ["cc", "x" * 200], "name": "n" * 30} for job in jobs]
    for found in (JOBS, jobs, long):
        lines = job_lines(found, Clock(2000.0, utc=True), Page(Paint(on=False), columns))
        assert max(map(len, lines)) <= columns
        assert lines[0].split()[0] == "ID"
        titles = set(lines[0].split())
        assert "STATE" in titles
        assert titles & {"COMMAND", "NAME", "NAME/COMMAND"}


def test_in_a_pipe_commands_are_whole():
    job = {**JOB, "command": ["cc", "x" * 500]}
    (_, line) = job_lines([job], Clock(2000.0, utc=True), Page(Paint(on=False)))
    assert "cc " + "x" * 500 in line
    (_, line) = job_lines([{**job, "command": ["x" * 9000]}], Clock(2000.0), Page(Paint(on=False)))
    assert 2000 <= len(line) < 2500


def test_columns_that_say_nothing_go_first_and_all_stay_where_there_is_room():
    wide = job_lines(JOBS, Clock(2000.0, utc=True), Page(Paint(on=False), 200))[0].split()
    assert wide == [title.lstrip(">") for title in HEADER if title != ">EXIT"]
    rows = [["1", "a", "–", "c" * 50]]
    titles, rows = fit(("ID", ">CPU", ">AGE", "COMMAND"), rows, 30, (">AGE", ">CPU"))
    assert titles == ("ID", ">CPU", "COMMAND")
    assert len(rows[0][-1].text) == 30 - len("ID  CPU  ")
    titles, rows = fit(("ID", ">CPU", "COMMAND"), [["1", "a", "c" * 50]], 12, GO_FIRST)
    assert (titles, len(rows[0][-1].text)) == (("ID", "COMMAND"), LAST_COLUMNS)


@pytest.mark.parametrize(("key", "heading"), [("cpu_s", "CPU"), ("-origin", "FROM")])
def test_the_column_that_a_list_is_sorted_by_is_kept(key, heading, capsys, monkeypatch):
    for sort, is_kept in ((None, False), (key, True)):
        monkeypatch.setattr(listing, "own_page", lambda: Page(Paint(on=False), 60))
        listing.show(JOBS, 0, _options(sort=sort))
        assert (heading in capsys.readouterr().out.splitlines()[0].split()) is is_kept


def test_only_a_terminal_has_a_width(tmp_path):
    with open(tmp_path / "plain", "w") as plain:
        assert terminal_columns(plain) is None
    ours, theirs = pty.openpty()
    with os.fdopen(ours), os.fdopen(theirs, "w") as terminal:
        assert terminal_columns(terminal) == 80


def _options(**given):
    parser = filters.Parser("x", "")
    filters.add_view(parser)
    options = parser.parse_args([])
    for name, value in given.items():
        setattr(options, name, value)
    return options


def test_why_a_job_waits_goes_before_its_times():
    running = {**JOB, "id": "3_[0-2]", "command": ["sleep", "40"], "name": "mpi"}
    waiting = {**running, "id": "6", "state": "pending", "started": None, "host": "",
               "reason": "after 3 has succeeded"}  # fmt: skip
    lines = job_lines([running, waiting], Clock(1000.0), Page(Paint(on=False), 80))
    assert lines[2].endswith("after 3 has succeeded")
    assert "NAME" in lines[0]


def test_on_a_narrow_terminal_names_are_kept_before_commands_and_reasons():
    """Eight jobs, all `sh -c …`, could not be told apart, while the reason took 24 columns."""
    own = {**JOB, "id": "1013", "command": ["sh", "-c", "echo " * 9], "state": "running"}
    running = [{**own, "name": f"night-{number}"} for number in range(1, 9)]
    waiting = {**own, "name": "night-9", "state": "pending", "started": None, "host": "",
               "reason": "next in line for a free slot on h1, h2, h3"}  # fmt: skip

    def shown(*jobs, columns=80, sorted_by=""):
        return job_lines(list(jobs), Clock(2000.0), Page(Paint(on=False), columns, sorted_by))

    lines = shown(*running, waiting)
    assert {"NAME", "COMMAND", "WAITS"} <= set(lines[0].split())
    assert all(f"night-{number} " in line for number, line in enumerate(lines[1:], 1))
    others = {**own, "id": "atlas-1-2061", "name": "", "user": "eve", "host": "atlas-3"}
    lines = shown(*running, waiting, others)
    assert "NAME/COMMAND" in lines[0].split()
    assert all(f"night-{number} " in f"{line} " for number, line in enumerate(lines[1:10], 1))
    assert "sh -c 'ech" in lines[-1]
    assert "USER" in lines[0]
    for column in ("NAME", "COMMAND"):
        lines = shown(*running, waiting, others, sorted_by=column)
        assert column in lines[0].split()
    lines = shown(*({**job, "user": f"user-{at}"} for at, job in enumerate(running)), columns=45)
    assert lines[0].split()[-1] == "NAME"


def test_an_array_of_which_some_tasks_run_says_what_the_others_wait_for():
    of_array = {"array": "1-9", "waiting": "2-9", "tasks": {"running": 1, "pending": 8}}
    reason = {"state": "running", "reason": "1 task of its array may run"}
    array = {**JOBS[0], "id": "9", **of_array, **reason}
    lines = job_lines([array], Clock(1000.0), Page(Paint(on=False), 160))
    assert lines[-1].endswith("1 task of its array may run")
    ended = {**array, "state": "done", "tasks": {"done": 9}}
    assert "WAITS" not in job_lines([ended], Clock(1000.0), Page(Paint(on=False), 160))[0]


def test_what_a_list_says_of_a_waiting_job_is_a_field():
    """The column WAITS had no field for --format."""
    options = argparse.Namespace(
        user=None, name=None, state=None, host=None, since=None, until=None, utc=True,
        sort=None, fields=keys_named("id,WAITS"), all=False,
    )  # fmt: skip
    job = {"id": "1", "state": "pending", "submitted": 1.0, "reason": "3 jobs are ahead of it"}
    assert chosen_and_sorted([job], options, 10.0)[0]["waits"] == "3 jobs are ahead of it"
    options.fields = None
    assert "waits" not in chosen_and_sorted([job], options, 10.0)[0]


HOLDABLE = [
    {**JOB, "id": "3", "state": "pending", "reason": "held by ann", "name": ""},
    {**JOB, "id": "4", "state": "pending", "reason": "next, once 1 slot is free"},
    {**JOB, "id": "5", "state": "running", "array": "1-9", "held": 2,
     "tasks": {"pending": 4, "running": 1, "done": 4}},
    {**JOB, "id": "15", "state": "pending", "array": "1-2", "held": 0, "tasks": {"pending": 2}},
    {**JOB, "id": "6", "state": "pending", "reason": "held for a while: h2 refused it"},
]  # fmt: skip


@pytest.mark.parametrize(("states", "ids"), [
    ("held", ["3", "5"]), ("HELD,Running", ["3", "5"]), ("Pending", ["3", "4", "5", "15", "6"]),
])  # fmt: skip
def test_jobs_that_are_held_are_a_state_of_their_own_and_pending_too(daemon, capsys, states, ids):
    lbm = daemon("lbm", status={}, jobs={"jobs": HOLDABLE})
    assert lbctl.main(["jobs", "--json", "--state", states]) == 0
    assert [job["id"] for job in json.loads(capsys.readouterr().out)] == ids
    assert not lbm.asked[-1]["all"]


def test_jobs_that_are_held_can_be_released_together(daemon, capsys):
    lbm = daemon("lbm", status={}, jobs={"jobs": HOLDABLE}, **{"queue.act": {"done": ["3", "5"]}})
    assert lbctl.main(["release", "--state", "held"]) == 0
    assert lbm.asked[-1]["ids"] == ["3", "5"]
    assert lbctl.main(["kill", "--state", "held"]) == 2  # it ends arrays as a whole
    assert "no state 'held'; states: pending, " in capsys.readouterr().err
