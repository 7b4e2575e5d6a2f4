"""lbctl against canned answers: what it prints, asks, refuses and returns."""

import json
import re
import subprocess
import sys

import pytest

from lbd.cli import lbctl
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
    assert lines[0] == "cluster lab   algorithm GLOBAL   centre h1   dispatcher none"
    assert lines[2].split()[:4] == ["HOST", "STATE", "LOAD", "CPU"]
    assert re.match(r"h1 \*  up     0\.50  1\.00 .* 25%  .* 1/2 ", lines[3])
    assert re.match(r"h2    down      –", lines[4])
    assert lines[-1] == "h2: unheard for 31 s"
    assert "\x1b" not in out
    assert err == ""


def test_a_revoked_host_is_said_to_be(daemon, capsys):
    hosts = [HOST, {**HOST, "name": "h2", "state": "late", "revoked": True}]
    daemon("lim", status={**STATUS, "hosts": hosts})
    assert lbctl.main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"h2 +revoked ", lines[4])
    assert lines[-1].startswith("h2: revoked; it may join again")


def test_status_for_scripts_is_the_contract(daemon, capsys):
    daemon("lim", status=STATUS)
    assert lbctl.main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, **STATUS}


def test_without_a_daemon_one_line(daemon, capsys):
    assert lbctl.main(["status"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"lbctl: lim is not running \(.*\); `lbd up` starts it.*\n", err)


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


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"cpu_s": 2.5}, "the least time for it and those already there; its CPU time is 2.50 s"),
        ({"cpu_s": None}, "those already there; of its CPU time nothing is learnt yet"),
        ({"cpu_s": 0.02, "reason": "no-gain"}, "gain by its going; its CPU time is 20.0 ms"),
    ],
)
def test_explain_says_what_predict_took_for_the_cpu_time(daemon, capsys, answer, said):
    daemon("lim", place={**PLACED, "algorithm": "PREDICT", **answer})
    assert lbctl.main(["explain", "cc"]) == 0
    assert said in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    "answer", [{"algorithm": "GLOBAL"}, {"algorithm": "PREDICT", "reason": "below-threshold"}]
)
def test_the_cpu_time_is_no_reason_where_it_was_not_looked_at(daemon, capsys, answer):
    daemon("lim", place={**PLACED, "cpu_s": 2.5, **answer})
    assert lbctl.main(["explain", "cc"]) == 0
    assert "CPU time" not in capsys.readouterr().out


def test_jobs(daemon, capsys):
    lbm = daemon("lbm", jobs={"jobs": [JOB]})
    assert lbctl.main(["jobs"]) == 0
    assert "cc -c 'a b.c'" in capsys.readouterr().out
    assert lbctl.main(["jobs", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"schema": 1, **JOB}]
    lbm.answers["jobs"] = {"jobs": [], "missing": ["h3"]}
    assert lbctl.main(["jobs", "--json"]) == 0
    assert capsys.readouterr() == ("[]\n", "lbctl: these hosts did not answer: h3\n")
    lbm.answers["jobs"] = {"jobs": [JOB]}
    asked = [request for request in lbm.asked if request["op"] == "jobs"]
    assert [request["all"] for request in asked] == [False, True, False]
    assert lbctl.main(["jobs", "h1-8"]) == 2
    assert capsys.readouterr().err == "lbctl: no job 'h1-8'; did you mean \"h1-7\"?\n"


def test_drain_waits_for_a_sample_taken_after_it(daemon, capsys):
    rows = [
        {**HOST, "age_s": 0.0, "jobs": {"local": 0, "foreign": 2}},
        {**HOST, "age_s": 9.0, "jobs": {"local": 0, "foreign": 0}},  # older than the drain
        {**HOST, "age_s": 0.0, "jobs": {"local": 0, "foreign": 0}},
    ]
    seen = iter(rows)
    answers = {"status": lambda request: {"ok": True, **STATUS, "hosts": [next(seen)]}, "drain": {}}
    daemon("lim", **answers)
    assert lbctl.main(["drain", "h1", "--wait"]) == 0
    assert next(seen, None) is None
    assert capsys.readouterr().out == "h1 is drained and empty\n"


def test_drain_gives_up_in_time(daemon, capsys):
    daemon("lim", status=STATUS, drain={})
    assert lbctl.main(["drain", "h1", "--wait", "--timeout", "0"]) == 1
    assert capsys.readouterr().out == "h1 is drained; 1 jobs of other hosts still run there\n"


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


def test_a_parameter_that_follows_the_load_is_said_to(daemon, capsys):
    daemon("lim", param={"name": "lim.min_gain", "value": 0.1 * 0.75, "as_set": 0.1})
    assert lbctl.main(["param", "min_gain", "0.1"]) == 0
    out, err = capsys.readouterr()
    assert out == "lim.min_gain = 0.075\n"
    assert err == "lbctl: lim.min_gain is set to 0.1; lim.adaptive turns it with the load\n"


def test_all_params_are_those_the_lim_knows(daemon, capsys):
    def param(request):
        if request["name"] not in ("min_gain", "smoothing_s"):
            return {"ok": False, "error": "no such parameter", "code": "usage"}
        return {"ok": True, "name": f"x.{request['name']}", "value": 0.5}

    daemon("lim", param=param)
    assert lbctl.main(["param", "--json"]) == 0
    params = {"x.min_gain": 0.5, "x.smoothing_s": 0.5}
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "params": params}
    assert lbctl.main(["param"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["x.min_gain", "0.5"]


@pytest.mark.parametrize("name", ["", *lbctl.COMMANDS])
def test_every_command_explains_itself(capsys, name):
    assert lbctl.main([*filter(None, [name]), "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: lbctl {name}".strip())


LIM_DOCTOR = {
    "scope": "jobs", "scope_reason": "set", "sampling_hz": 10.0, "sampling_cost_core": 0.002,
    "cores": 2.0, "speed": 1.0, "version": "0.1.0", "fds_open": 20, "fds_limit": 4096, "peers": [],
    "algorithm": "GLOBAL",
}  # fmt: skip
LBM_DOCTOR = {"keeper": 12, "containment": "cgroup2", "version": "0.1.0"}


def peer(**changes):
    return {
        "name": "h2", "reachable": True, "rtt_s": 0.001, "version": "0.1.0", "clock_skew_s": 0.0,
        "algorithm": "GLOBAL", "error": "", **changes,
    }  # fmt: skip


DOCTOR_FINDS = [
    ({}, {}, 0, "0 faults, "),
    ({"peers": [peer()]}, {}, 0, "reached in 1.0 ms"),
    ({"peers": [peer(reachable=False, error="timeout")]}, {}, 1, "not reached: timeout"),
    ({"peers": [peer(version="0.0.9")]}, {}, 0, "runs lbd 0.0.9, this host 0.1.0"),
    (
        {"peers": [peer(reachable=False, skewed=True, error="h2 is too old for h1: upgrade h2")]},
        {},
        1,
        "mend: upgrade h2",
    ),
    ({"peers": [peer(clock_skew_s=-7.0)]}, {}, 1, "its clock is -7.0 s from ours"),
    ({"peers": [peer(algorithm="LOWEST")]}, {}, 1, "uses LOWEST, this host GLOBAL"),
    ({"version": "0.0.9"}, {}, 1, "restart the daemons"),
    ({"fds_open": 4000}, {}, 1, "4000 of 4096 in use"),
    ({"sampling_cost_core": 0.05}, {}, 0, "costs too much"),
    ({}, {"keeper": None}, 1, "no job can start here"),
    ({}, {"containment": "session"}, 0, "held by session and subreaper"),
]


@pytest.mark.parametrize(("lim", "lbm", "code", "says"), DOCTOR_FINDS)
def test_doctor_names_each_fault(daemon, capsys, lim, lbm, code, says):
    daemon("lim", doctor={**LIM_DOCTOR, **lim}, peers={"peers": []}, status=STATUS)
    daemon("lbm", status={**LBM_DOCTOR, **lbm}, explain={"candidates": []}, shims={})
    assert lbctl.main(["doctor"]) == code
    out = capsys.readouterr().out
    assert says in out
    assert code == 0 or "mend: " in out


def test_doctor_without_daemons_still_reports(daemon, capsys):
    assert lbctl.main(["doctor", "--json"]) == 1
    reply = json.loads(capsys.readouterr().out)
    assert (reply["schema"], reply["faults"]) == (1, 2)
    faults = [check for check in reply["checks"] if check["state"] == "fault"]
    assert all("not running" in f["says"] and "lbd up" in f["mend"] for f in faults)


def test_doctor_names_a_configuration_fault(tmp_path, capsys):
    path = tmp_path / "lbd.toml"
    path.write_text("[lim]\nprt = 1\n")
    assert lbctl.main(["doctor", "--config", str(path)]) == 1
    assert f'{path}:2: lim.prt: unknown key; did you mean "port"?' in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_fault(daemon):
    daemon("lim", status=STATUS)
    command = f"{sys.executable} -m lbd.cli.lbctl top --json --interval 0.1s | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20)
    assert json.loads(result.stdout)["self"] == "h1"
    assert result.stderr == ""


def test_top_without_a_terminal(daemon, capsys):
    assert lbctl.main(["top"]) == 2
    assert "needs a terminal" in capsys.readouterr().err
