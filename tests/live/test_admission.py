"""The owner's rules: what they refuse, how a refusal reads, and that a change loses no job."""

import functools
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from lbd.lab.plan import toml
from lbd.local.json_socket import Refusal
from tests.live.cluster import FAST
from tests.live.conftest import reloading
from tests.live.test_users import ANN, as_user, asked_by

TRUE = os.path.realpath("/bin/true")


@pytest.fixture
def rules(reloaded):
    """rules(key=value, …): sets h2's rules."""
    return functools.partial(reloaded, "admission")


def on_h2(lab, *command):
    return lab.run("h1", "lbrun", "-H", "h2", *command)


def refused(result, rule):
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr.startswith("lbrun: h2: ")
    assert f"(admission.{rule})" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("users", ("somebody",)),
        ("deny_users", ("*",)),
        ("groups", ("nogroup",)),
        ("deny_groups", ("*",)),
        ("origins", ("h7",)),
        ("deny_origins", ("h*",)),
        ("programs", ("/usr/bin/nothing",)),
        ("deny_programs", (TRUE,)),
        ("deny_programs", (os.path.basename(TRUE),)),
        ("when", ("* * 31 2 *",)),
    ],
)
def test_a_caller_who_named_the_host_is_told_which_rule_refused(two, rules, rule, value):
    rules(**{rule: value})
    refused(on_h2(two, "true"), rule)


def test_a_program_is_recognised_by_its_real_path(two, rules, tmp_path):
    link = tmp_path / "harmless"
    link.symlink_to(sys.executable)
    rules(deny_programs=(os.path.realpath(sys.executable),))
    result = on_h2(two, link, "-c", "print(1)")
    refused(result, "deny_programs")
    assert f"{link} is a link to {os.path.realpath(sys.executable)} (admission" in result.stderr
    rules(programs=(os.path.realpath(sys.executable),))
    assert on_h2(two, link, "-IS", "-c", "print(1)").stdout == "1\n"


def test_every_host_shows_which_rules_hold(two, rules):
    rules(groups=("staff",), programs=(TRUE,))
    for host in two.hosts:
        said = two.run(host, "lbctl", "status", "h2", check=True).stdout
        assert said.endswith(
            "\nh2: takes only commands of the group staff (admission.groups)\n"
            f"h2: runs only {TRUE} (admission.programs)\n"
        )


def test_a_job_for_a_named_host_is_refused_before_it_has_a_slot(make_lab):
    """The queue would ask the host only when one of its slots is free."""
    lab = make_lab(2, "none", "--mode", "fcfs", settings=FAST)
    with reloading(lab) as reload:
        reload("admission", slots=1)
        holder = lab.run("h1", "lbrun", "-d", "-H", "h2", "sleep", "600", check=True).stdout.strip()
        lab.wait_until(lambda: state_of(lab, holder) == "running", "it holds the slot")
        reload("admission", slots=1, users=("somebody",))
        for typed_on, how in itertools.product(("h1", "h2"), ("-q", "-d")):
            refused(lab.run(typed_on, "lbrun", how, "-H", "h2", "true"), "users")
        reload("admission", slots=1, programs=("/usr/bin/no-such-program",))
        for typed_on, how in itertools.product(("h1", "h2"), ("-q", "-d")):
            refused(lab.run(typed_on, "lbrun", how, "-H", "h2", "true"), "programs")
        refused(on_h2(lab, "true"), "programs")  # nor does a plain command wait for the slot
        assert state_of(lab, holder) == "running"
        known = lab.run("h1", "lbrun", "-d", "--idempotency-key", "k", "-H", "h2", "true")
        assert known.returncode == 0
        waits = lab.lbctl_json("h1", "job", known.stdout.strip())
        assert waits["state"] == "pending"
        assert lab.run("h1", "lbctl", "kill", holder).returncode == 0
        assert lab.run("h1", "lbctl", "wait", waits["id"]).returncode == 1
        assert "(admission.programs)" in lab.lbctl_json("h1", "job", waits["id"])["reason"]


def state_of(lab, job):
    return json.loads(lab.run("h1", "lbctl", "job", "--json", job).stdout)["state"]


def test_a_user_is_told_which_variables_the_program_rules_withhold(two, rules):
    rules(deny_programs=("/usr/bin/nothing",))
    result = two.run("h1", "lbrun", "-v", "-H", "h2", "true", env={"CLASSPATH": "/x"})
    assert "withheld there (admission.deny_programs): " in result.stderr
    assert "CLASSPATH" in result.stderr


def test_a_closed_host_is_not_a_candidate(two, rules):
    rules(when=("* * 31 2 *",))
    two.wait_until(lambda: remote(two).returncode == 125, "h1 knows that h2 is closed")
    why = "h2: it accepts no commands at this time (admission.when)"
    assert why in remote(two, "--explain").stderr
    assert why in remote(two).stderr
    assert why in two.run("h1", "lbctl", "status").stdout
    result = two.run("h1", "lbrun", "true")
    assert (result.returncode, result.stderr) == (0, "")
    rules()
    two.wait_until(lambda: remote(two).returncode == 0, "h2 is open again")


def remote(lab, *options):
    return lab.run("h1", "lbrun", "--remote", *options, "true")


def test_everybody_is_told_how_long_a_host_is_closed(two, rules):
    opens = time.localtime(time.time() + 2 * 3600)
    rules(when=(f"{opens.tm_min} {opens.tm_hour} * * *",))
    said = re.compile(rf"until (\w+ )?{opens.tm_hour:02}:{opens.tm_min:02} \(admission\.when\)")
    assert said.search(on_h2(two, "true").stderr)
    two.wait_until(lambda: said.search(two.run("h1", "lbctl", "status").stdout), "h1 says so")
    assert said.search(remote(two).stderr)


def test_a_change_loses_no_job(two, rules):
    process = two.popen("h1", "lbrun", "-H", "h2", "sh", "-c", "read -r word; echo $word",
                        stdin=-1, stdout=-1, text=True)  # fmt: skip
    two.wait_until(lambda: running(two) == 1, "it runs")
    rules(deny_users=("*",))
    refused(on_h2(two, "true"), "deny_users")
    assert process.communicate("words\n", timeout=120)[0] == "words\n"
    assert process.returncode == 0


def running(lab):
    return sum(job["started"] is not None for job in lab.ask("h1", "lbm", "jobs")["jobs"])


def test_sighup_rereads_the_rules_and_does_nothing_else(two, rules):
    pids = two.pids()["h2"]
    config = two.paths("h2").config
    config.write_text(config.read_text() + toml({"admission": {"origins": ("h7",)}}))
    for daemon in ("lim", "lbm"):
        os.kill(pids[daemon], signal.SIGHUP)
    two.wait_until(lambda: on_h2(two, "true").returncode == 125, "the rules are in force")
    refused(on_h2(two, "true"), "origins")
    assert two.pids()["h2"] == pids


def test_faulty_rules_change_nothing(two, rules):
    rules(origins=("h7",))
    config = two.paths("h2").config
    config.write_text(config.read_text().replace("[admission]", "[admission]\nwhen = ['never']"))
    result = two.run("h2", "lbctl", "reload")
    assert result.returncode != 0
    assert re.fullmatch(r"lbctl: .*:\d+: admission\.when: .*not a time window.*\n", result.stderr)
    refused(on_h2(two, "true"), "origins")


def test_a_reload_names_what_still_waits_for_a_restart(two, reloaded):
    said = "the owner's rules have been reloaded\n"
    reloaded("admission", origins=("h7",))
    assert two.run("h2", "lbctl", "reload").stdout == said
    reloaded("tls", certificate_s=9999.0)
    more = "not in force yet: tls.certificate_s: takes effect after `lbctl restart`\n"
    assert two.run("h2", "lbctl", "reload").stdout == said + more


def test_one_group_by_day_and_everybody_by_night(make_lab):
    """A user outside the group waits in the queue until everybody may run, and closes no host."""
    lab = make_lab(2, "none", "--mode", "fcfs", settings=FAST)
    now = time.localtime(time.time() + 2 * 3600)
    later = f"{now.tm_hour:02}:{now.tm_min:02}"
    with reloading(lab) as reload:
        reload(
            "admission", users=("somebody",), everybody_when=(f"{now.tm_min} {now.tm_hour} * * *",)
        )
        result = on_h2(lab, "true")
        refused(result, "users")
        assert re.search(rf"; everybody may from (\w+ )?{later}$", result.stderr.strip())
        detached = lab.run("h1", "lbrun", "-d", "-H", "h2", "true", check=True)
        job = detached.stdout.strip()
        assert detached.stderr.startswith(f"lbrun: job {job} waits: it may run only on h2 (-H)")
        attached = lab.popen("h1", "lbrun", "-q", "-H", "h2", "true", stderr=subprocess.PIPE)
        assert b" waits: it may run only on h2 (-H)" in attached.stderr.readline()
        lab.wait_until(lambda: "everybody may from" in reason_of(lab, job), "it was refused")
        assert state_of(lab, job) == "pending"
        assert "when it takes everybody's" in lab.run("h1", "lbctl", "status", "h2").stdout
        assert "closed" not in lab.run("h1", "lbctl", "status").stdout
        assert "everybody may from" in lab.run("h1", "lbctl", "predict", "-H", "h2").stdout
        assert "no host takes" not in lab.run("h1", "lbctl", "predict").stdout
        reload("admission", when=(f"{now.tm_min} {now.tm_hour} * * *",))
        lab.wait_until(
            lambda: re.search(
                rf"no host takes it now: h2: .* until (\w+ )?{later}",
                " ".join(lab.run("h1", "lbctl", "predict", "-H", "h2").stdout.split()),
            ),
            "the hours of h2 are said",
        )
        reload("admission", users=("somebody",), everybody_when=("0:00-24:00",))
        assert on_h2(lab, "true").returncode == 0
        lab.wait_until(lambda: state_of(lab, job) == "done", "h2 says that it has other rules")
        assert attached.wait(20) == 0
        reload(
            "admission", users=("somebody",), programs=("/usr/bin/no-such-program",),
            everybody_when=(f"{now.tm_min} {now.tm_hour} * * *",),
        )  # fmt: skip
        refused(on_h2(lab, "true"), "programs")
        refused(lab.run("h1", "lbrun", "-d", "-H", "h2", "true"), "programs")
        assert "admission.programs" in lab.run("h1", "lbctl", "predict", "-H", "h2", "true").stdout


def reason_of(lab, job):
    return json.loads(lab.run("h1", "lbctl", "job", "--json", job).stdout)["reason"] or ""


def test_only_administrators_reload(two):
    as_user(ANN)
    two.root.chmod(0o755)
    with pytest.raises(Refusal, match=r"admin\.users"):
        asked_by(two, ANN, "reload", host="h2")
