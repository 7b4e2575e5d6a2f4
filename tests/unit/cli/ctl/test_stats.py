"""`lbctl stats` against canned answers of hosts."""

import csv
import json
import math
import time
from datetime import datetime

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.exports.spreadsheet import csv_name, csv_text
from lbd.console.figures import Clock
from lbd.console.record_gaps import late_records
from lbd.lbm.usage.measures import GROUPS_MAX
from tests.unit.cli.canned import STATUS

ANSWER = {
    "trouble": "",
    "user": None,
    "record_since": None,
    "by_user": [],
    "by_host": [],
}


def row(key, jobs):
    """Returns a row as a host reports it."""
    return [key, jobs, 0, 0, 0, 0.0, *[jobs, float(jobs), float(jobs)] * 3, [], [], [], 0.0]


@pytest.fixture
def two_hosts(daemon):
    """h1 has more commands than it reports, h2 three jobs that never started on any host."""
    rare = [row(f"c{number}", 1) for number in range(GROUPS_MAX - 2)]
    told = {
        "h1": {"all": row("", 250), "by_command": [row("cc", 60), row("ls", 30), *rare],
               "by_user": [row("ann", 250)], "by_host": [row("h1", 250)]},
        "h2": {"all": row("", 53), "by_command": [row("cc", 53)], "by_user": [row("ann", 53)],
               "by_host": [row("h2", 50)]},
    }  # fmt: skip
    daemon("lim", status=STATUS)
    daemon("lbm", stats=lambda request: {"ok": True, **ANSWER, **told[request["of"]]})


def test_jobs_of_commands_that_hosts_did_not_report_are_counted(two_hosts, capsys):
    assert lbctl.main(["stats", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["algorithm"]) == (303, "GLOBAL")
    shown = [(one["command"], one["jobs"]) for one in found["by_command"]]
    assert shown[:2] == [("cc", 113), ("ls", 30)]
    assert found["left_out"] == {"by_command": 62, "by_user": 0, "by_host": 3}


def test_where_no_cpu_time_is_known_none_is_shown(two_hosts, capsys, monkeypatch):
    """It was 0s, as if that were known."""
    monkeypatch.setenv("COLUMNS", "250")
    assert lbctl.main(["stats"]) == 0
    header, *rows = (line for line in capsys.readouterr().out.splitlines() if "  " in line)
    assert header.split()[-1] == "CPU"
    assert next(line for line in rows if line.startswith("cc")).split()[-1] == "–"


def test_a_table_for_a_spreadsheet_has_a_header_and_few_digits(two_hosts, capsys):
    assert lbctl.main(["stats", "--csv"]) == 0
    header, total, *rows = csv.reader(capsys.readouterr().out.splitlines())
    assert header[:5] == ["by", "name", "jobs", "failed", "ran_s"]
    assert header[-3:] == ["slot_hours", "since", "until"]
    assert total[:4] == ["all", "", "303", "0"]
    assert ["command", "cc", "113", "0"] in [row[:4] for row in rows]
    assert {len(row) for row in rows} == {len(header)}
    assert all(len(figure) <= 9 for row in rows for figure in row[2:-2])


def test_for_figures_until_a_time_the_hosts_are_asked_for_that_time(daemon, capsys):
    daemon("lim", status=STATUS)
    lbm = daemon("lbm", stats={"ok": True, **ANSWER, "all": row("", 1), "by_command": []})
    assert lbctl.main(["stats", "--since", "2026-01-01", "--until", "2026-01-02"]) == 0
    assert lbm.asked[0]["until"] - lbm.asked[0]["since"] == pytest.approx(86400.0, abs=1.0)
    assert "that ended from 2026-01-01 00:00 until 2026-01-02 00:00" in capsys.readouterr().out
    yesterday = datetime.fromtimestamp(time.time() - 86400.0)
    until = f"{yesterday:%Y-%m-%dT%H:%M}"
    assert lbctl.main(["stats", "--since", "2026-01-01", "--until", until]) == 0
    ended = f"that ended from 2026-01-01 00:00 until {yesterday:%Y-%m-%d %H:%M}"
    assert ended in capsys.readouterr().out, "one form of date on one line"
    span = ["--since", "2026-01-01T09:38:00", "--until", "2026-01-01T09:38:07"]
    assert lbctl.main(["stats", *span]) == 0
    ended = "that ended from 2026-01-01 09:38:00 until 2026-01-01 09:38:07"
    assert ended in capsys.readouterr().out  # without seconds, all such tables had one heading
    span = ["--since", "2026-01-01T09:37:59", "--until", "2026-01-01T09:38:05"]
    assert lbctl.main(["stats", *span]) == 0
    ended = "that ended from 2026-01-01 09:37:59 until 2026-01-01 09:38:05"
    assert ended in capsys.readouterr().out
    assert lbctl.main(["stats", "--since", "2026-01-02", "--until", "2026-01-01"]) == 2
    assert "--since is later than --until" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (3, "3"), (1 / 3, "0.333333333"), (123456.789, "123456.789"), (math.nan, ""), (None, ""),
        (0.0, "0"), (1.2e9, "1200000000"), (3.1e-7, "0.00000031"),
    ],
)  # fmt: skip
def test_figures_of_a_file_add_up(figure, shown):
    assert csv_text(figure) == shown


def test_only_what_a_host_left_out_is_reported_as_left_out(two_hosts, capsys):
    """Jobs that were refused have no host, so no host left them out."""
    assert lbctl.main(["stats"]) == 0
    out = capsys.readouterr().out
    commands, users, hosts = (out.index(f"\n{title}\n") for title in ("COMMANDS", "USERS", "HOSTS"))
    assert "… 88 more (--json)" in out[commands:users]
    assert (
        "62 jobs of other commands are not included: each host reports only its 100"
        in out[commands:users]
    )
    assert out[users:hosts].split("\n")[3:] == [""]
    note = "3 plain commands ended before starting: cancelled while waiting, or refused"
    end = out[hosts:].splitlines()
    assert end[-4:-2] == [note, ""]
    assert [line.partition(":")[0] for line in end[-2:]] == ["SLOWDOWN", "WRONG"]
    assert "without" not in out[hosts:]


def of_user(request):
    """Returns an LBM's answer to an administrator; ann is not one."""
    user = request["user"] if request["user"] != "bob" else "ann"
    return {"ok": True, **ANSWER, "user": user, "all": row("", 2), "by_command": []}


def test_the_figures_of_one_user(daemon, capsys):
    daemon("lim", status=STATUS)
    daemon("lbm", stats=of_user)
    assert lbctl.main(["stats", "--user", "ann"]) == 0
    assert capsys.readouterr().out.startswith("jobs of ann that ended within ")
    assert lbctl.main(["stats", "--user", "bob"]) == 1
    said = "lbctl: --user bob: only administrators can see other users' jobs\n"
    assert capsys.readouterr() == ("", said)


def test_numbers_of_all_sections_are_aligned(two_hosts, capsys):
    assert lbctl.main(["stats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    end = lines[2].index("JOBS") + len("JOBS")
    ends = [line[:end].split()[-1] for line in lines if line.startswith(("all", "cc", "ann", "h2"))]
    assert ends == ["303", "113", "303", "50"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gcc -c", "gcc -c"),
        ("=HYPERLINK(A1)", "'=HYPERLINK(A1)"),
        ("\t@SUM(1)", "'@SUM(1)"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("a\x1b[2J\nb", "a?[2J b"),
    ],
)
def test_a_programs_name_is_no_formula_and_moves_no_cursor(name, shown):
    assert csv_name(name) == shown


ALL = ""  # a line for all hosts, without a name


@pytest.mark.parametrize(
    ("begun", "late"),
    [
        ((10.0, 20.0, 9000.0), ["h3"]),
        # the cluster itself began after the requested start
        ((5000.0, 5040.0, 9000.0), [ALL, "h3"]),
        ((9268.0, 9268.0, 9466.0), [ALL, "h3"]),  # it was replaced
        ((5000.0, 5010.0, 5050.0), [ALL]),  # set up together, or all have dropped older jobs
        ((15000.0, 15000.0, 15000.0), [ALL]),  # nothing of that time is on record
        ((10.0, None, 20.0), []),  # it does not say
        ((None, None, None), []),
        ((9000.0, 9000.0, None), []),
        ((10.0, 20.0, 15000.0), ["h3"]),  # after --until: it has nothing of that time
    ],
)
def test_a_host_whose_record_begins_late_is_named(begun, late):
    known = {f"h{at}": math.nan if first is None else first for at, first in enumerate(begun, 1)}
    lines = late_records(known, 10.0, 10_000.0, Clock(10_000.0, utc=True))
    assert [line.partition("on record only since ")[0].rstrip(": ") for line in lines] == late


BEGUN = {"h1": 1767261600.0, "h2": 1767225600.0}
DAY = "--since", "2026-01-01", "--until", "2026-01-02"


@pytest.fixture
def late(daemon):
    """h1's record begins ten hours after h2's; the jobs of a silent host are missing."""
    daemon("lim", status=STATUS)
    own = {"all": row("", 1), "by_command": []}
    daemon("lbm", stats=lambda asked: {"ok": True, **ANSWER, **own,
                                       "record_since": BEGUN[asked["of"]]})  # fmt: skip
    return f"h1: on record only since {Clock(1795600000.0).time_of_day(BEGUN['h1'])}\n"


def test_the_start_of_the_record_is_given_below_the_table(late, capsys):
    assert lbctl.main(["stats", *DAY]) == 0
    assert capsys.readouterr().out.endswith(late)


@pytest.mark.parametrize("form", [(), ("--csv",)])
def test_no_job_is_said_to_have_ended_only_of_a_time_on_record(daemon, capsys, form):
    """All jobs of that time had been dropped by `stats.keep_days`, on all hosts."""
    daemon("lim", status=STATUS)
    begun = BEGUN["h1"] + 86400.0
    daemon("lbm", stats={**ANSWER, "all": row("", 0), "by_command": [], "record_since": begun})
    assert lbctl.main(["stats", *DAY, *form]) == 0
    said = capsys.readouterr().err.splitlines()
    period = "from 2026-01-01 00:00 until 2026-01-02 00:00"
    assert said[:-1] == ([] if form else [f"lbctl: no job on record that ended {period}"])
    since = Clock(1795600000.0).time_of_day(begun)
    assert said[-1] == f"lbctl: on record only since {since}"


def test_the_start_of_the_record_is_given_beside_figures_for_programs(late, capsys):
    assert lbctl.main(["stats", *DAY, "--csv"]) == 0
    assert capsys.readouterr().err == f"lbctl: {late}"
    assert lbctl.main(["stats", *DAY, "--json"]) == 0
    found = capsys.readouterr()
    assert (json.loads(found.out)["record_since"], found.err) == (BEGUN, "")


def test_a_row_of_a_table_for_a_spreadsheet_has_its_period(late, capsys):
    assert lbctl.main(["stats", *DAY, "--csv"]) == 0
    header, total, *_ = csv.reader(capsys.readouterr().out.splitlines())
    assert header[-2:] == ["since", "until"]
    assert total[-2:] == ["2026-01-01T00:00:00", "2026-01-02T00:00:00"]


@pytest.mark.parametrize("form", [(), ("--csv",), ("--json",)])
def test_incomplete_figures_are_marked_as_such(daemon, capsys, form):
    daemon("lim", status=STATUS)
    answer = {"ok": True, **ANSWER, "all": row("", 1), "by_command": []}
    down = {"ok": False, "error": "down", "code": "unavailable"}
    daemon("lbm", stats=lambda asked: answer if asked["of"] == "h1" else down)
    assert lbctl.main(["stats", *form]) == 1
    found = capsys.readouterr()
    assert "jobs of these hosts are missing" in found.err
    assert found.out


def test_a_change_of_the_algorithm_is_noted_below_the_table(daemon, capsys):
    daemon("lim", status=STATUS)
    known = (1.0, "NOLB"), (1767232800.0, "LOWEST"), (1795600000.0, "GLOBAL")
    changes = [{"since": at, "algorithm": name} for at, name in known]
    told = {"h1": changes, "h2": []}
    daemon("lbm", stats=lambda asked: {"ok": True, **ANSWER, "all": row("", 1), "by_command": [],
                                       "algorithms": told[asked["of"]]})  # fmt: skip
    assert lbctl.main(["stats", *DAY]) == 0
    when = Clock(1795600000.0).time_of_day(1767232800.0)
    assert capsys.readouterr().out.endswith(f"{when}: algorithm NOLB → LOWEST\n")
    assert lbctl.main(["stats", *DAY, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["algorithm_changes"]
    assert found == [{"at": 1767232800.0, "was": "NOLB", "algorithm": "LOWEST"}]


@pytest.mark.parametrize("later_s", [-3600.0, 0.01])
def test_the_heading_names_the_algorithm_of_that_time_if_another_is_in_force_now(
    daemon, capsys, later_s
):
    """It named only that of now, although the table was of another; so it did if --since was the
    second of the change, as a line of `lbctl stats` shows it."""
    daemon("lim", status=STATUS)
    since_s, until_s = (datetime.fromisoformat(day).timestamp() for day in DAY[1::2])
    known = (1.0, "NOLB"), (since_s + later_s, "P2C"), (until_s + 0.3, "GLOBAL")
    told = [{"since": at, "algorithm": name} for at, name in known]
    daemon("lbm", stats=lambda _: {"ok": True, **ANSWER, "all": row("", 1), "by_command": [],
                                   "algorithms": told})  # fmt: skip
    assert lbctl.main(["stats", *DAY]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("; algorithm then P2C, now GLOBAL")


@pytest.mark.parametrize(
    ("jobs", "measured", "says"),
    [
        (250, 250, ""),
        (
            250,
            40,
            "without 210 of these 250 jobs, whose CPU time is below 10ms or not known",
        ),
        (1, 0, "without this job, whose CPU time is below 10ms or not known"),
    ],
)
def test_the_screen_says_how_many_jobs_have_no_cpu_time(daemon, capsys, jobs, measured, says):
    """Without it, a table of short commands looks as if all had the slowdown of a few."""
    total = row("", jobs)
    total[12:15] = [measured, 2.0 * measured, 4.0 * measured]
    daemon("lim", status={**STATUS, "hosts": STATUS["hosts"][:1]})
    answer = {**ANSWER, "all": total, "by_command": [row("cc", jobs)]}
    daemon("lbm", stats=lambda _: {"ok": True, **answer})
    assert lbctl.main(["stats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "SLOWDOWN: without" in line] == [f"SLOWDOWN: {says}"] * bool(
        says
    )


def test_what_is_not_on_record_of_that_time_is_said(daemon, capsys):
    """It was forgotten with a restart of the LBM, and said of any time."""
    now_s = time.time()
    ago = [{"commands": 7, "since": now_s - 9e5, "until": now_s - 8e5, "not_yet": False}]
    lost = [{"commands": 3, "since": now_s - 900, "until": now_s - 300, "not_yet": False}]
    waiting = [{"commands": 1, "since": now_s - 2, "until": now_s - 2, "not_yet": True}]
    told = {
        "h1": {"gaps": [*ago, *lost]},
        "h2": {"gaps": waiting, "trouble": "database or disk is full"},
    }
    sums = {**ANSWER, "all": row("", 1), "by_command": []}
    daemon("lim", status=STATUS)
    daemon("lbm", stats=lambda request: {"ok": True, **sums, **told[request["of"]]})
    assert lbctl.main(["stats", "--json", "--since", "1d"]) == 0
    said = capsys.readouterr()
    first, second = said.err.splitlines()
    assert first.startswith("lbctl: h1 could not record 3 commands that ended between ")
    assert second.startswith("lbctl: h2 has not yet recorded 1 command that ended at ")
    assert second.endswith(": database or disk is full")
    found = json.loads(said.out)
    assert found["not_recorded"] == 3
    assert found["gaps"] == [{"host": "h1", **lost[0]}, {"host": "h2", **waiting[0]}]
    assert lbctl.main(["stats", "--csv", "--since", "14d"]) == 0
    said = capsys.readouterr().err
    assert "10 commands" in said
    assert ", in 2 periods" in said


def test_the_time_since_the_backup_of_a_restored_host_is_said_to_be_missing(daemon, capsys):
    now_s = time.time()
    gap = {"commands": 0, "since": now_s - 900, "until": now_s - 300, "not_yet": False}
    daemon("lim", status=STATUS)
    sums = {**ANSWER, "all": row("", 1), "by_command": [], "gaps": [gap]}
    daemon("lbm", stats=lambda _: {"ok": True, **sums})
    assert lbctl.main(["stats", "--json"]) == 0
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith("lbctl: h1 has no record of what ended between ")
    assert line.endswith(": it was restored from a backup")
