"""`lbctl history`: how it prints drains, and jobs for a spreadsheet. Live tests cover the rest."""

import csv
import json
import time

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs.history import NONE_BEGUN
from lbd.console.figures import Clock

NOW_S = time.time()
PAST = {"host": "h3", "reason": "disk sdb", "by": "ann", "since": NOW_S - 7200,
        "until": NOW_S - 3600, "until_by": "bob"}  # fmt: skip
STILL = {"host": "h2", "reason": "", "by": "root", "since": NOW_S - 9000, "until": None,
         "until_by": None}  # fmt: skip
STATUS = {"hosts": [{"name": "h1"}]}
JOB = {
    "id": "h1-7", "name": None, "command": ["true"], "user": "ann", "origin": "h1", "host": "h1",
    "state": "done", "attempt": 1, "tier": None, "exit_status": 0, "submitted": NOW_S - 90.0,
    "started": NOW_S - 80.0, "finished": NOW_S - 70.0, "cpu_s": 1.0, "slots": 1, "number": 7,
    "array_index": None, "reason": None,
}  # fmt: skip
NO_JOBS = {"jobs": [], "more": False}


@pytest.fixture(autouse=True)
def _now(monkeypatch):
    """It is still then, however long ago this file was read."""
    monkeypatch.setattr(time, "time", lambda: NOW_S)


@pytest.fixture
def drains(daemon):
    daemon("lbm", past=NO_JOBS)
    return daemon("lim", status=STATUS, drains={"drains": [PAST, STILL]})


def shown(capsys, *words):
    assert lbctl.main(["history", *words]) == 0
    return capsys.readouterr()


def test_drains_are_listed_with_who_when_and_why(drains, capsys):
    said = shown(capsys, "--drains", "--utc").out.splitlines()
    assert [line.partition(" ")[0] for line in said] == ["h2:", "h3:"]  # oldest first
    assert said[0].startswith("h2: drained by root ")
    assert said[1].startswith("h3: drained by ann ")
    assert ", until " in said[1]
    assert said[1].endswith(" by bob: disk sdb")
    listed = json.loads(shown(capsys, "--drains", "--json").out)
    assert listed == [{"schema": 1, **one} for one in (STILL, PAST)]


def test_drains_are_listed_below_the_jobs_of_all_users_but_not_below_filtered_ones(drains, capsys):
    assert "h3: drained by ann" in shown(capsys).out
    assert "h3: drained by ann" in shown(capsys, "--host", "h3").out
    assert shown(capsys, "--user", "ann").out == ""
    assert shown(capsys, "--state", "failed").out == ""
    assert shown(capsys, "--json").out == "[]\n"


def test_attempts_that_stopped_at_a_checkpoint_can_be_asked_for(daemon, capsys):
    daemon("lim", status=STATUS, drains={"drains": []})
    kept = {**JOB, "state": "checkpoint"}
    server = daemon("lbm", past={"jobs": [kept], "more": False})
    said = shown(capsys, "--state", "checkpoint,failed").out
    assert "checkpoint" in said.splitlines()[1]
    (asked,) = [one for one in server.asked if one["op"] == "past"]
    assert asked["states"] == ["checkpoint", "failed"]


def test_hosts_are_asked_for_the_period_itself(daemon, capsys):
    """So that --limit counts jobs within the period, not the most recent of all."""
    daemon("lim", status=STATUS, drains={"drains": []})
    server = daemon("lbm", past=NO_JOBS)
    shown(capsys, "--since", "2026-11-01", "--until", "2026-11-02T06:00", "--utc")
    (asked,) = [one for one in server.asked if one["op"] == "past"]
    assert (asked["since"], asked["until"]) == (1793491200.0, 1793599200.0)


def test_which_drains(drains, capsys):
    assert shown(capsys, "--drains", "--host", "h2").out.startswith("h2: ")
    # this drain has not ended
    assert shown(capsys, "--drains", "--since", "30m").out.startswith("h2: ")
    # h3's drain began later
    assert shown(capsys, "--drains", "--until", "140m").out.startswith("h2: ")
    assert len(shown(capsys, "--drains", "--limit", "1").out.splitlines()) == 1
    assert shown(capsys, "--drains", "--host", "h9") == ("", "lbctl: no drains\n")
    assert lbctl.main(["history", "--drains", "--user", "ann"]) == 2
    assert lbctl.main(["history", "--since", "1h", "--until", "2h"]) == 2
    assert capsys.readouterr().err.endswith("lbctl: --since is later than --until\n")


def test_a_host_that_gives_a_row_at_a_time_holds_up_nobody(daemon, capsys):
    """It could send a hundred thousand rows, each after seconds."""
    daemon("lim", status=STATUS, drains={"drains": []})
    server = daemon("lbm", past={"jobs": [JOB], "more": True})
    said = shown(capsys, "--sort", "finished", "--limit", "2000")
    assert said.err == "lbctl: only the first 2000; --limit N shows more\n"  # in that order
    assert 1 < len([one for one in server.asked if one["op"] == "past"]) < 20


def test_nothing_follows_the_jobs_if_there_are_no_drains(daemon, capsys):
    daemon("lim", status=STATUS, drains={"drains": []})
    daemon("lbm", past={"jobs": [JOB], "more": False})
    assert shown(capsys).out.splitlines()[-1].endswith(" true")
    assert shown(capsys, "--host", "h1").out.splitlines()[-1].endswith(" true")


def test_an_empty_history_says_why(daemon, capsys):
    daemon("lim", status=STATUS, drains={"drains": []})
    lbm = daemon("lbm", past={**NO_JOBS, "only_of": "ann"})
    hidden = "you see only your own jobs; those of bob are for administrators"
    assert shown(capsys, "--user", "bob") == ("", f"lbctl: {hidden}\n")
    assert shown(capsys, "--user", "ann") == ("", f"lbctl: {NONE_BEGUN}\n")
    assert shown(capsys, "--host", "h") == (
        "", "lbctl: no host 'h' in this cluster; did you mean \"h1\"?\n",
    )  # fmt: skip
    assert shown(capsys, "--host", "h1") == ("", f"lbctl: {NONE_BEGUN}\n")
    lbm.answers["past"] = NO_JOBS
    assert shown(capsys, "--user", "bob") == ("", f"lbctl: {NONE_BEGUN}\n")


def test_a_list_for_a_spreadsheet_has_the_slot_hours(daemon, capsys):
    ended = {**JOB, "name": "=1+1", "state": "done", "slots": 2, "submitted": 1793491200.0,
             "started": 1793491260.0, "finished": 1793498460.0, "exit_status": 0}  # fmt: skip
    never_began = {**ended, "id": "h1-8", "started": None}
    daemon("lim", status=STATUS, drains={"drains": []})
    daemon("lbm", past={"jobs": [ended, never_began], "more": False}, jobs={"jobs": []})
    said = shown(capsys, "--csv", "--utc")
    first, second = csv.DictReader(said.out.splitlines())
    assert (first["slot_hours"], first["name"], first["exit_status"]) == ("4", "'=1+1", "0")
    assert (first["started"], first["command"]) == ("2026-11-01T00:01:00", "true")
    assert (second["started"], second["slot_hours"]) == ("", "")
    assert lbctl.main(["history", "--drains", "--csv"]) == 2
    for command in ("history", "stats"):
        assert lbctl.main([command, "--json", "--csv"]) == 2
        assert "--csv and --json exclude each other" in capsys.readouterr().err
    said = shown(capsys, "--csv", "--user", "nobody")
    assert said.out.startswith("id,")
    assert (said.out.count("\n"), said.err.count("no jobs")) == (1, 1)


def past_of(recorded, *, is_mute=False, **more):
    """Returns what h1 answers: the jobs on record, or those of them that are asked for by id."""

    def answer(request):
        ids = [] if is_mute else request.get("ids") or []
        jobs = [job for job in recorded if not ids or job["id"] in ids][: request["limit"]]
        return {"ok": True, "jobs": jobs, "more": False, "goes_by_ids": not is_mute, **more}

    return answer


QUEUED = {**JOB, "id": "12", "started": None, "state": "cancelled", "host": None}
LOST = {**JOB, "state": "lost"}


@pytest.fixture
def of_queue(daemon):
    """What the queue has, two of which are in no host's record. Returns the LBM."""
    of_queue = [
        QUEUED, {**LOST, "id": "13_2", "submitted": NOW_S - 70, "finished": NOW_S - 30},
        {**QUEUED, "state": "pending"},  # may yet begin
        {**JOB, "id": "15"},  # on record where it ran
        {**LOST, "id": "14"},  # likewise
        {**QUEUED, "id": "h1-8"},  # on record where it was typed
        {**QUEUED, "submitted": NOW_S - 9000},
    ]  # fmt: skip
    daemon("lim", status=STATUS, drains={"drains": []})
    recorded = [{**LOST, "id": "14"}, {**JOB, "id": "15"}, JOB]
    return daemon("lbm", past=past_of(recorded), jobs={"jobs": of_queue})


def test_a_list_for_a_spreadsheet_says_which_jobs_are_in_no_record(of_queue, capsys):
    """A bill by this list would silently lack what the queue refused or its user cancelled."""
    said = shown(capsys, "--csv", "--since", "1h")
    assert said.err == (
        "lbctl: not in this list, since no host began or recorded them: 2 queued jobs; "
        "--all lists them, too\n"
    )
    of_queue.answers["jobs"] = lambda request: {"ok": False, "error": "no queue", "code": "none"}
    assert shown(capsys, "--csv", "--since", "1h").err == ""


def test_one_list_has_all_jobs_also_those_that_no_host_began(of_queue, capsys):
    said = shown(capsys, "--all", "--csv", "--since", "1h")
    assert said.err == (
        "lbctl: in this list, but not in `lbctl stats`: "
        "2 queued jobs that no host began or recorded\n"
    )
    rows = list(csv.DictReader(said.out.splitlines()))
    assert sorted(row["id"] for row in rows) == ["12", "13_2", "14", "15", "h1-7"]
    assert rows[-1]["id"] == "13_2"  # by when they ended
    never_began = next(row for row in rows if row["id"] == "12")
    assert (never_began["state"], never_began["started"], never_began["slot_hours"]) == (
        "cancelled", "", "",
    )  # fmt: skip
    of_queue.answers["jobs"] = {"ok": True, "jobs": [], "missing": ["the dispatcher"]}
    of_queue.answers["queue.status"] = {"ok": False, "error": "silent", "code": "unavailable"}
    assert lbctl.main(["history", "--all"]) == 1
    assert capsys.readouterr().err == (
        "lbctl: the dispatcher did not answer: jobs that are in no host's record are not shown; "
        "see `lbctl doctor`\n"
    )
    assert lbctl.main(["history", "--all", "--drains"]) == 2


def listed(capsys, *words):
    """Returns the ids with --all."""
    return [job["id"] for job in json.loads(shown(capsys, "--all", "--json", *words).out)]


def test_a_job_that_its_host_could_not_record_is_listed_as_the_queue_knows_it(daemon, capsys):
    """It was in no list, without a word: its host's disk was full when it ended."""
    daemon("lim", status=STATUS, drains={"drains": []})
    on_record = {**JOB, "id": "20"}
    job = {**JOB, "id": "21", "slots": 3, "started": NOW_S - 3610.0, "submitted": NOW_S - 3700.0}
    server = daemon("lbm", past=past_of([on_record]), jobs={"jobs": [on_record, job]})
    said = shown(capsys, "--all", "--csv")
    hours = {row["id"]: row["slot_hours"] for row in csv.DictReader(said.out.splitlines())}
    assert (hours.keys(), float(hours["21"])) == ({"20", "21"}, pytest.approx(2.95))
    assert [one["ids"] for one in server.asked if one.get("ids")] == [["21"]]


def test_what_stats_do_not_count_is_said_with_a_complete_list(daemon, capsys):
    """The slot-hours of the list were more than those of `lbctl stats`, without a word."""
    unseen = {**JOB, "state": "unknown", "finished": None}
    on_record = [{**JOB, "id": "29", "state": "checkpoint"}, JOB, unseen, unseen]
    daemon("lim", status=STATUS, drains={"drains": []})
    daemon("lbm", past=past_of(on_record), jobs={"jobs": []})
    said = "1 stop at a checkpoint, 2 commands whose end nobody saw"
    for words in (("--csv",), ("--all",)):
        err = shown(capsys, *words).err
        assert err == f"lbctl: in this list, but not in `lbctl stats`: {said}\n"
    assert shown(capsys).err == ""


def test_no_job_is_listed_twice_though_its_record_is_not_among_those_asked_for(daemon, capsys):
    """As after it was queued again: its record has a later time of submission."""
    daemon("lim", status=STATUS, drains={"drains": []})
    in_queue = [{**JOB, "id": "22", "finished": NOW_S - 60}, {**JOB, "id": "23"}]

    def answer(request):
        return past_of(in_queue if request.get("ids") else [])(request)

    daemon("lbm", past=answer, jobs={"jobs": in_queue})
    assert listed(capsys) == []


EARLIER = {"submitted": NOW_S - 900.0, "started": NOW_S - 890.0, "finished": NOW_S - 880.0}


@pytest.mark.parametrize("other", [{"state": "checkpoint"}, EARLIER])
def test_the_record_of_another_end_is_not_that_of_this_one(daemon, capsys, other):
    """It stopped at a checkpoint, was queued again, or had the id in a ledger that was lost."""
    daemon("lim", status=STATUS, drains={"drains": []})
    job = {**JOB, "id": "24"}
    record = {**job, "finished": NOW_S - 71.0, **other}
    daemon("lbm", past=past_of([record]), jobs={"jobs": [job]})
    said = shown(capsys, "--all", "--json")
    assert [one["id"] for one in json.loads(said.out)] == ["24", "24"]
    assert "`lbctl stats`: 1 queued job that no host began or recorded" in said.err


@pytest.mark.parametrize("how", [{"is_mute": True}, {"withheld": "admin.hosts"}])
def test_what_a_host_does_not_say_is_not_taken_for_missing(daemon, capsys, how):
    daemon("lim", status=STATUS, drains={"drains": []})
    in_queue = [{**JOB, "id": "25"}, {**LOST, "id": "26"}, {**QUEUED, "id": "27"}]
    daemon("lbm", past=past_of([], **how), jobs={"jobs": in_queue})
    assert listed(capsys) == ["26", "27"]


def test_ends_of_the_future_are_left_out_aloud(daemon, capsys):
    daemon("lim", status=STATUS, drains={"drains": []})
    daemon("lbm", past=past_of([JOB], is_ahead=True))
    assert "ended more than an hour ahead of the clock here are not shown" in shown(capsys).err


UNSURE = "lbctl: h2: 1 queued job may be missing from this list, since it"


@pytest.mark.parametrize(
    ("how", "ids", "says"),
    [
        ({"withheld": "admin.hosts"}, ["25"],
         f"{UNSURE} withholds its record of them (admin.hosts there)"),
        ({"is_mute": True}, [], "lbctl: h2: 2 queued jobs may be missing from this list, since it "
                                 "does not say which of them it has on record"),
    ],
)  # fmt: skip
def test_what_a_host_withholds_is_said_and_is_not_what_was_submitted_here(
    daemon, capsys, how, ids, says
):
    """The queue's jobs that had run on a host that was replaced were left out without a word, also
    those submitted from here, of which it withholds none."""
    daemon("lim", status={"hosts": [{"name": "h2"}], "self": "h1"}, drains={"drains": []})
    in_queue = [{**JOB, "id": "24", "host": "h2"}, {**JOB, "id": "25", "host": "h2"},
                {**JOB, "id": "26", "host": "h2", "origin": "h3"}]  # fmt: skip
    recorded = [in_queue[0]]
    daemon("lbm", past=past_of(recorded, **how), jobs={"jobs": in_queue})
    said = shown(capsys, "--all", "--json")
    assert [job["id"] for job in json.loads(said.out)] == ["24", *ids]
    assert says in said.err.splitlines()


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)])
def test_a_host_whose_record_begins_within_the_time_of_the_list_is_named(daemon, capsys, form):
    """Only `lbctl stats` named it: what had run there before was missing without a word."""
    daemon("lim", status={"hosts": [{"name": "h1"}, {"name": "h2"}]}, drains={"drains": []})
    begun = {"h1": NOW_S - 90000.0, "h2": NOW_S - 1800.0}

    def answer(request):
        jobs = [JOB] if request["of"] == "h1" else []
        return {"ok": True, "jobs": jobs, "more": False, "record_since": begun[request["of"]]}

    daemon("lbm", past=answer, jobs={"jobs": []})
    when = Clock(time.time()).time_of_day(begun["h2"])  # after midnight with the day
    assert shown(capsys, *form, "--since", "1h").err == f"lbctl: h2: on record only since {when}\n"
    assert shown(capsys, *form, "--since", "20m").err == ""
    assert shown(capsys, *form).err == "", "the oldest job of the list is later"


def test_a_host_that_is_gone_has_no_record_of_its_jobs(daemon, capsys):
    daemon("lim", status=STATUS, drains={"drains": []})
    daemon("lbm", past=past_of([]), jobs={"jobs": [{**JOB, "id": "28", "host": "h9"}]})
    assert listed(capsys) == ["28"]


def test_a_list_of_the_latest_asks_for_no_older_ones(daemon, capsys):
    daemon("lim", status=STATUS, drains={"drains": []})
    old = [{**JOB, "id": str(number), "finished": NOW_S - 75.0} for number in range(30, 40)]
    server = daemon("lbm", past=past_of([JOB]), jobs={"jobs": old})
    assert listed(capsys, "--limit", "1") == ["h1-7"]
    assert not [one for one in server.asked if one.get("ids")]


def test_what_hosts_could_not_record_is_said_once(daemon, capsys):
    daemon("lim", status=STATUS, drains={"drains": []})
    gaps = [{"commands": 3, "since": NOW_S - 900.0, "until": NOW_S - 300.0, "not_yet": False}]
    past = {"ok": True, "jobs": [JOB], "more": False, "gaps": gaps}
    daemon("lbm", past=lambda _: past, jobs={"jobs": []})
    for words in ((), ("--csv",), ("--json",), ("--all",)):
        (line,) = shown(capsys, *words, "--since", "1h").err.splitlines()
        assert line.startswith("lbctl: h1 could not record 3 commands that ended between ")
    assert shown(capsys, "--since", "1m").err == f"lbctl: {NONE_BEGUN}\n"
    assert shown(capsys).err == "", "it was before the oldest job of the list"
