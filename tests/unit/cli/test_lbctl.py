"""`lbctl` against canned answers: what it prints, asks, refuses and returns."""

import contextlib
import json
import re
import subprocess
import sys

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs.listing import ASK_AGAIN
from tests.unit.cli.canned import HOST, JOB, STATUS

PLACED = {
    "verdict": "there", "host": "h2", "reason": "lowest", "algorithm": "GLOBAL",
    "candidates": [
        {"name": "h2", "load": 0.5, "age_s": 0.1, "willing": True, "why": ""},
        {"name": "h1", "load": 1.5, "age_s": 0.0, "willing": False, "why": "drained"},
    ],
}  # fmt: skip


def refusal(error, code):
    return lambda request: {"ok": False, "error": error, "code": code}


def test_status_for_people(daemon, capsys):
    daemon("lim", status=STATUS)
    assert lbctl.main(["status"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "cluster lab   algorithm GLOBAL   coordinator h1   dispatcher none"
    assert lines[2].split()[:4] == ["HOST", "STATE", "LOAD", "CPU"]
    assert re.match(r"h1 \(here\)  up     0\.50  1\.00 .* 25%  .* 1/2 ", lines[3])
    assert re.match(r"h2         down      –", lines[4])
    assert lines[-1] == "h2: unheard for 31 s"
    assert "\x1b" not in out
    assert err == ""


def test_status_of_one_host_shows_its_rules(daemon, capsys):
    rules = ["takes only commands of the group staff (admission.groups)", "runs only a\x1b[2J b"]
    daemon("lim", status=STATUS)
    daemon("lbm", owners={"host": "h2", "admission": rules})
    assert lbctl.main(["status", "h2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["HOST", "h2"]
    assert lines[2:] == [
        "", "h2: unheard for 31 s", f"h2: {rules[0]}", "h2: runs only a?[2J b",
    ]  # fmt: skip
    assert lbctl.main(["status", "h2", "--json"]) == 0
    (host,) = json.loads(capsys.readouterr().out)["hosts"]
    assert host["admission"] == [rules[0], "runs only a?[2J b"]


def test_status_of_a_host_that_does_not_report_its_rules_or_does_not_exist(daemon, capsys):
    daemon("lim", status=STATUS)
    daemon("lbm", owners=refusal("down", "unavailable"))
    assert lbctl.main(["status", "h2"]) == 0
    assert capsys.readouterr().err == "lbctl: the rules of h2 are not known: down\n"
    assert lbctl.main(["status", "h9"]) != 0
    said = 'lbctl: no host "h9" in this cluster; lbctl status lists them\n'
    assert capsys.readouterr() == ("", said)


def test_a_dispatcher_that_does_not_answer_is_reported_as_silent(daemon, tmp_path, capsys):
    with (tmp_path / "lbd.toml").open("a") as config:
        config.write('[dispatch]\nhost = "h1"\nstandby = ["h2"]\nstore = "postgresql://db/x"\n')
    daemon("lim", status=STATUS)
    daemon("lbm", **{"queue.status": refusal("no dispatcher", "unavailable")})
    assert lbctl.main(["status"]) == 0
    assert "   dispatcher on h1 or h2: no answer\n" in capsys.readouterr().out


def test_a_dispatcher_that_takes_no_jobs_says_so_in_status(daemon, tmp_path, capsys):
    with (tmp_path / "lbd.toml").open("a") as config:
        config.write('[dispatch]\nhost = "h1"\n')
    full = "/var/lib/lbd is full, so the queue takes no new jobs; those in it go on"
    queue = {"mode": "fcfs", "leader": "h1", "queued": 0, "running": 0}
    daemon("lim", status=STATUS)
    daemon("lbm", **{"queue.status": {"ok": True, **queue, "full": full}})
    assert lbctl.main(["status"]) == 0
    assert f"\ndispatcher on h1: {full}\n" in capsys.readouterr().out
    assert lbctl.main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cluster"]["dispatcher"] == {**queue, "full": full}


def test_where_the_lbm_is_missing_the_dispatcher_is_not_blamed(daemon, tmp_path, capsys):
    with (tmp_path / "lbd.toml").open("a") as config:
        config.write('[dispatch]\nhost = "h9"\n')
    daemon("lim", status=STATUS)
    assert lbctl.main(["status"]) == 0
    said = "   dispatcher on h9: not known, as this host's LBM is not running\n"
    assert said in capsys.readouterr().out
    assert lbctl.main(["status", "--json"]) == 0
    cluster = json.loads(capsys.readouterr().out)["cluster"]
    assert cluster["dispatcher"] is None
    assert "LBM is not running" in cluster["dispatcher_unknown"]


def test_of_a_host_that_is_down_no_figures_of_before_are_shown(daemon, capsys):
    """A host that was off was shown with its slots taken."""
    busy = {**HOST, "slots": {"total": 2, "used": 2}, "jobs": {"local": 3, "foreign": 2}}
    hosts = [HOST, *({**busy, "name": f"{state}1", "state": state} for state in ("late", "down"))]
    daemon("lim", status={**STATUS, "hosts": hosts})
    assert lbctl.main(["status"]) == 0
    head, _, *rows = (line.split() for line in capsys.readouterr().out.splitlines()[2:6])
    late, down = (dict(zip(head, row, strict=False)) for row in rows)  # TIER is empty
    names = "LOAD", "CPU", "UTIL", "SLOTS", "FROM", "FOREIGN"
    assert [down[name] for name in names] == ["–"] * 6
    assert [late[name] for name in names[3:]] == ["2/2", "3", "2"]


def test_a_revoked_host_is_reported_as_revoked(daemon, capsys):
    hosts = [HOST, {**HOST, "name": "h2", "state": "late", "revoked": True}]
    daemon("lim", status={**STATUS, "hosts": hosts})
    assert lbctl.main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"h2 +revoked ", lines[4])
    assert lines[-1].startswith(
        "h2: revoked, and not seen with a new certificate; to get one, run `lbctl token create"
    )


def test_status_for_scripts_is_the_contract(daemon, capsys):
    daemon("lim", status=STATUS)
    assert lbctl.main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, **STATUS}


def test_without_a_daemon_one_line(daemon, capsys):
    assert lbctl.main(["status"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"lbctl: lim is not running \(.*\); start it with: lbd up.*\n", err)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [("unknown host h9", "usage", 2), ("only root", "denied", 1), ("h2 is down", "unavailable", 1)],
)
def test_a_refusal_is_one_line(daemon, capsys, error, code, status):
    daemon("lim", drain=refusal(error, code))
    assert lbctl.main(["drain", "h9"]) == status
    assert capsys.readouterr() == ("", f"lbctl: {error}\n")


@pytest.mark.parametrize("answer", [{"hosts": 3}, {"hosts": [1]}, {"hosts": [], "cluster": []}])
def test_an_answer_of_another_version_is_one_line(daemon, capsys, answer):
    daemon("lim", status={**STATUS, **answer})
    code = lbctl.main(["status"])
    err = capsys.readouterr().err
    assert (code, err.count("\n")) in ((0, 0), (1, 1))


def test_explain(daemon, capsys):
    lim = daemon("lim", place=PLACED)
    assert lbctl.main(["explain", "-x", "h3", "--remote", "cc", "-c", "--json", "x.c"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("cc -c --json x.c: goes to h2: lowest (")
    assert "no: drained" in out
    asked = lim.asked[0]
    assert (asked["excluded"], asked["must_leave"], asked["dry"]) == (["h3"], True, True)
    assert lbctl.main(["explain", "--json", "true"]) == 0
    said = {"schema": 1, "command": ["true"], **PLACED, "trouble": None, "eligibility": None}
    assert json.loads(capsys.readouterr().out) == said


def test_explain_contains_the_numbers(daemon, capsys):
    here = {"verdict": "here", "host": "h1", "reason": "below-threshold"}
    daemon("lim", place={**PLACED, **here, "load_here": 0.0512, "local_threshold": 0.7})
    assert lbctl.main(["explain", "true"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert "h1: below-threshold (its load now, 0.05, is below 0.70 (lim.local_threshold)" in first
    assert last.startswith("LOAD WITH COMMAND is the load now plus ")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            {"cpu_s": 2.5},
            "the command and those already there would finish soonest; its learnt CPU time is 2.5s",
        ),
        ({"cpu_s": None}, "soonest; its CPU time is not known yet"),
        (
            {"cpu_s": 0.02, "reason": "no-gain"},
            "sooner on any other host; its learnt CPU time is 20ms",
        ),
    ],
)
def test_explain_says_what_predict_assumed_as_the_cpu_time(daemon, capsys, answer, said):
    daemon("lim", place={**PLACED, "algorithm": "PREDICT", **answer})
    assert lbctl.main(["explain", "cc"]) == 0
    assert said in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    "answer", [{"algorithm": "GLOBAL"}, {"algorithm": "PREDICT", "reason": "below-threshold"}]
)
def test_the_cpu_time_is_no_reason_where_it_was_not_considered(daemon, capsys, answer):
    daemon("lim", place={**PLACED, "cpu_s": 2.5, **answer})
    assert lbctl.main(["explain", "cc"]) == 0
    assert "CPU time" not in capsys.readouterr().out


def test_jobs(daemon, capsys):
    lbm = daemon("lbm", jobs={"jobs": [JOB]})
    assert lbctl.main(["jobs"]) == 0
    assert "cc -c 'a b.c'" in capsys.readouterr().out
    assert lbctl.main(["jobs", "--all", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found == {"schema": 1, **JOB, "ran_s": found["ran_s"]}
    lbm.answers["jobs"] = {"jobs": [], "missing": ["h3"]}
    assert lbctl.main(["jobs", "--json"]) == 1
    assert capsys.readouterr() == (
        "[]\n",
        f"lbctl: these hosts did not answer: h3; {ASK_AGAIN}\n",
    )
    lbm.answers["jobs"] = {"jobs": [JOB], "missing": ["h3"]}
    assert lbctl.main(["jobs", "h1-7"]) == 0  # nothing that was asked for is missing
    capsys.readouterr()
    lbm.answers["jobs"] = {"jobs": [JOB]}
    asked = [request for request in lbm.asked if request["op"] == "jobs"]
    assert [request["all"] for request in asked] == [False, True, False, True]
    lbm.answers["command.show"] = {"ok": False, "error": "no job h1-8", "code": "missing"}
    assert lbctl.main(["jobs", "h1-8"]) == 1
    assert capsys.readouterr().err == "lbctl: no job has the id 'h1-8'; did you mean \"h1-7\"?\n"
    assert lbctl.main(["jobs", "mine-3"]) == 1  # it may be a name
    assert "; by name: lbctl jobs --all --name mine-3\n" in capsys.readouterr().err


NOBODYS = {"jobs": [], "missing": []}
USERS = {**NOBODYS, "only_of": "ann"}
HIDDEN = "you see only your own jobs; those of bob are for administrators"


@pytest.mark.parametrize(
    ("words", "jobs", "queue", "said", "asked"),
    [
        ([], USERS, {"running": 9, "queued": 3},
         "none of your jobs runs or waits (others: 9 running, 3 waiting); --all shows ended ones",
         True),
        (["--user", "ann"], USERS, {"running": 0, "queued": 3},
         "none of your jobs runs or waits (others: 3 waiting); --all shows ended ones", True),
        ([], USERS, {"running": 0, "queued": 0},
         "none of your jobs runs or waits; --all shows ended ones", True),
        (["--name", "x"], USERS, {"running": 9, "queued": 3},
         "no jobs; --all shows those that have ended, too", False),
        (["--user", "bob"], USERS, {"running": 9, "queued": 3}, HIDDEN, False),
        ([], NOBODYS, {"running": 9, "queued": 3},
         "no jobs; --all shows those that have ended, too", False),
        ([], {"jobs": [JOB], "only_of": "ann"}, {"running": 9}, "", False),
        (["--host", "h9"], NOBODYS, {}, "no host 'h9' in this cluster", False),
        (["--host", "h2"], NOBODYS, {}, "no jobs; --all shows those that have ended, too", False),
    ],
)  # fmt: skip
def test_an_empty_list_says_what_others_have(daemon, capsys, words, jobs, queue, said, asked):
    """A user saw "no jobs" while the cluster was full; the queue is asked only then."""
    daemon("lim", status=STATUS)
    lbm = daemon("lbm", status={}, jobs=jobs, **{"queue.status": queue})
    assert lbctl.main(["jobs", *words]) == 0
    assert capsys.readouterr().err == (f"lbctl: {said}\n" if said else "")
    assert any(one["op"] == "queue.status" for one in lbm.asked) is asked


def test_status_says_who_drained_a_host_and_when(daemon, capsys):
    noted = {**HOST, "state": "drained", "drained": {"reason": "disk", "by": "ann", "since": 1.0}}
    nothing = {**HOST, "name": "h2", "drained": {"reason": "", "by": "", "since": None}}
    daemon("lim", status={**STATUS, "hosts": [noted, nothing]})
    assert lbctl.main(["status", "--utc"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "h1: drained by ann since 1970-01-01 00:00: disk", "h2: drained",
    ]  # fmt: skip


def test_algorithm_and_param(daemon, capsys):
    lim = daemon(
        "lim", status=STATUS, algorithm={"algorithm": "LOWEST"},
        param={"name": "lim.min_gain", "value": 0.2},
    )  # fmt: skip
    assert lbctl.main(["algorithm", "LOWEST"]) == 0
    assert lbctl.main(["param", "min_gain", "0.2"]) == 0
    assert lbctl.main(["param", "min_gain", "--json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("LOWEST\nlim.min_gain = 0.2\n{")
    assert lim.asked[1]["value"] == 0.2
    assert "value" not in lim.asked[2]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("lim.min_gain", 0.1 * 0.75, "0.075"),
        ("lim.down_after_s", 86400.0, "86400"),
        ("lim.probe_limit", 3, "3"),
        ("lim.adaptive", 1.0, "true"),
        ("lim.adaptive", 0.0, "false"),
        ("load.index", "site:gpu", "site:gpu"),
    ],
)
def test_a_parameter_is_shown_as_one_would_write_it(daemon, capsys, name, value, shown):
    daemon("lim", param={"name": name, "value": value})
    assert lbctl.main(["param", name]) == 0
    assert capsys.readouterr() == (f"{name} = {shown}\n", "")


@pytest.mark.parametrize(
    ("word", "meant"), [("squeue", "jobs"), ("scancel", "kill"), ("sinfo", "status")]
)
def test_a_word_of_another_scheduler_is_answered_with_our_word(capsys, word, meant):
    assert lbctl.main([word]) == 2
    said = f"lbctl: no command '{word}'; use \"lbctl {meant}\"; see lbctl --help\n"
    assert capsys.readouterr().err == said


def test_words_of_other_schedulers_lead_to_commands_but_are_not_commands():
    ours = {"lbrun", "lbrun -d", "lbrun -q"}
    assert {*lbctl.ELSEWHERE.values()} - ours <= {*lbctl.COMMANDS}
    assert not {*lbctl.ELSEWHERE} & {*lbctl.COMMANDS}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["submit"], "lbctl: no command 'submit'; use \"lbrun -d\"; "),
        (["squeue"], "lbctl: no command 'squeue'; use \"lbctl jobs\"; "),
        (["config", "get"], "lbctl config: no command 'get'; use \"lbctl config show\"; "),
        (["config", "shwo"], "lbctl config: no command 'shwo'; did you mean \"show\"?; "),
        (["config", "x"], "lbctl config: no command 'x'; allowed: check, show, set; "),
        (["jobs", "-a"], 'lbctl jobs: unrecognized arguments: -a; did you mean "--all"?; '),
        (["jobs", "-n"], "lbctl jobs: unrecognized arguments: -n; see "),  # --name, --no-header
    ],
    ids=" ".join,
)
def test_a_wrong_word_leads_to_the_right_one(capsys, words, said):
    with contextlib.suppress(SystemExit):
        lbctl.main(words)
    assert capsys.readouterr().err.startswith(said)


def test_a_parameter_that_follows_the_load_is_marked_so(daemon, capsys):
    daemon("lim", param={"name": "lim.min_gain", "value": 0.1 * 0.75, "as_set": 0.1})
    assert lbctl.main(["param", "min_gain", "0.1"]) == 0
    out, err = capsys.readouterr()
    assert out == "lim.min_gain = 0.075\n"
    assert err == "lbctl: lim.min_gain is set to 0.1; lim.adaptive adjusts it with the load\n"


def test_the_params_are_exactly_those_the_lim_knows(daemon, capsys):
    def param(request):
        if request["name"] not in ("min_gain", "smoothing_s"):
            return {"ok": False, "error": "no such parameter", "code": "usage"}
        return {"ok": True, "name": f"x.{request['name']}", "value": 0.5}

    daemon("lim", param=param)
    assert lbctl.main(["param", "--json"]) == 0
    params = {"x.min_gain": 0.5, "x.smoothing_s": 0.5}
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "params": params, "saved": {}}
    assert lbctl.main(["param"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["x.min_gain", "0.5"]


@pytest.mark.parametrize("name", ["", *lbctl.COMMANDS])
def test_every_command_explains_itself(capsys, name):
    assert lbctl.main([*filter(None, [name]), "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: lbctl {name}".strip())


def test_a_reader_that_goes_away_is_no_error(daemon):
    daemon("lim", status=STATUS)
    command = f"{sys.executable} -m lbd.cli.lbctl top --json --interval 0.1s | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=90)
    assert json.loads(result.stdout)["self"] == "h1"
    assert result.stderr == ""


def test_top_without_a_terminal(daemon, capsys):
    assert lbctl.main(["top"]) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_json_may_stand_before_the_command(daemon, capsys):
    daemon("lim", status=STATUS)
    assert lbctl.main(["--json", "status"]) == 0
    before = capsys.readouterr().out
    assert lbctl.main(["status", "--json"]) == 0
    assert json.loads(before) == json.loads(capsys.readouterr().out)


def test_if_an_argument_is_missing_only_the_command_is_reported(daemon, capsys):
    daemon("lim")
    assert lbctl.main(["explain"]) == 2
    assert "required: COMMAND;" in capsys.readouterr().err


def test_a_table_of_jobs_is_found_where_it_is(capsys):
    assert lbctl.main(["jobs", "--csv"]) == 2
    assert "; `lbctl history --csv` lists ended jobs" in capsys.readouterr().err
