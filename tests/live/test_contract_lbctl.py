"""lbctl as the command-line contract has it: what it prints and where, and what it changes."""

import json
import os
import re
import shutil
import subprocess

import pytest
from cluster import client_environment
from contract import assert_one_line, bounded

READING = {
    "status": ("status",), "jobs": ("jobs",), "jobs --all": ("jobs", "--all"),
    "explain": ("explain", "true"), "algorithm": ("algorithm",), "param": ("param",),
    "param NAME": ("param", "min_gain"), "doctor": ("doctor",),
}  # fmt: skip
reading = pytest.mark.parametrize("command", READING.values(), ids=READING)
LBCTL = ("status", "top", "jobs", "explain", "drain", "undrain", "algorithm", "param", "doctor")


def lbctl(lab, *words, host="h1", **options):
    return lab.run(host, "lbctl", *words, **options)


# Reading


def as_json(words):
    return ("explain", "--json", "true") if words[0] == "explain" else (*words, "--json")


@reading
def test_data_alone_on_standard_output(lab, command, running):
    running("h2", "so that there is one")
    for words in (command, as_json(command)):
        result = lbctl(lab, *words)
        assert (result.returncode, result.stderr) == (0, ""), words
        assert result.stdout.endswith("\n")
        assert "\x1b" not in result.stdout
        assert "\t" not in result.stdout


def test_no_jobs_print_nothing_on_standard_output(lab):
    result = lab.wait_until(lambda: (r := lbctl(lab, "jobs")).stdout == "" and r, "no jobs")
    assert result.returncode == 0
    if result.stderr:
        assert_one_line(result.stderr, "lbctl")
    assert lab.lbctl_json("h1", "jobs") == []


@reading
def test_every_object_carries_its_schema(lab, command):
    lab.run("h1", "lbrun", "-H", "h2", "true", check=True)
    reply = json.loads(lbctl(lab, *as_json(command)).stdout)
    for item in reply if isinstance(reply, list) else [reply]:
        assert item["schema"] == 1
    if "--all" in command:
        assert reply


NUMBER = (int, float)
JOB = {"id": str, "name": (str, type(None)), "command": list, "user": str, "origin": str,
       "host": (str, type(None)), "state": str, "attempt": int, "tier": (int, type(None)),
       "exit_status": (int, type(None)), "submitted": NUMBER, "started": (*NUMBER, type(None)),
       "finished": (*NUMBER, type(None)), "cpu_s": (*NUMBER, type(None)), "slots": int,
       "array_index": (int, type(None)), "reason": (str, type(None))}  # fmt: skip
ENDINGS = {"ends-well": ("true", "done", 0), "ends-badly": ("exit 5", "failed", 5),
           "is-killed": ("kill -TERM $$", "failed", 143)}  # fmt: skip


@pytest.mark.parametrize("where", ["--local", "--remote"])
def test_jobs_have_every_key_of_the_contract(lab, where):
    for name, (script, _, _) in ENDINGS.items():
        lab.run("h1", "lbrun", where, "--name", f"{name}{where}", "sh", "-c", script)
    rows = lab.lbctl_json("h1", "jobs", "--all")
    for row in rows:
        wrong = {key: row.get(key, "absent") for key, kind in JOB.items()
                 if not isinstance(row.get(key, "absent"), kind)}  # fmt: skip
        assert not wrong, wrong
    found = {row["name"]: row for row in rows}
    for name, (script, state, status) in ENDINGS.items():
        row = found[f"{name}{where}"]
        if where == "--remote":  # only the caller knows of a command that became its own child
            assert (row["state"], row["exit_status"]) == (state, status), name
        assert row["exit_status"] in (None, status)
        assert row["command"] == ["sh", "-c", script]
        assert (row["origin"], row["attempt"], row["array_index"]) == ("h1", 1, None)
        assert (row["host"] == "h1") == (where == "--local")
        assert row["submitted"] <= row["started"] <= row["finished"]


@pytest.fixture
def running(lab):
    """running("h2", "name"): a job that runs until it is told to end, as lbctl shows it."""
    started = []

    def start(host, name):
        options = ("--local",) if host == "h1" else ("-H", host)
        job = lab.popen("h1", "lbrun", *options, "--name", name, "cat", stdin=subprocess.PIPE)
        started.append(job)
        row = lab.wait_until(
            lambda: [row for row in lab.lbctl_json("h1", "jobs") if row["name"] == name], "it runs"
        )[0]
        return job, row

    yield start
    for job in started:
        job.stdin.close()
        with bounded(job):
            job.wait()


@pytest.mark.parametrize("host", ["h1", "h2"])
def test_a_running_job(lab, running, host):
    _, row = running(host, f"runs-on-{host}")
    assert (row["state"], row["exit_status"], row["finished"]) == ("running", None, None)
    assert (row["origin"], row["host"], row["command"]) == ("h1", host, ["cat"])
    for words in (("jobs",), ("jobs", row["id"])):
        shown = [line for line in lbctl(lab, *words).stdout.splitlines() if row["id"] in line]
        assert len(shown) == 1
        assert f"runs-on-{host}" in shown[0]
    assert [one["id"] for one in lab.lbctl_json("h1", "jobs", row["id"])] == [row["id"]]
    kind = "local" if host == "h1" else "foreign"
    lab.wait_until(
        lambda: {h["name"]: h["jobs"][kind] for h in lab.lbctl_json(host, "status")["hosts"]}[host],
        "status counts it",
    )


def test_an_explanation_says_where_why_and_how_others_rank(lab):
    for words in (("lbrun", "--explain"), ("lbctl", "explain")):
        result = lab.run("h1", *words, "--remote", "true")
        assert result.returncode == 0
        assert all(host in result.stdout for host in lab.hosts)
        reply = json.loads(lab.run("h1", *words, "--remote", "--json", "true").stdout)
        assert reply["host"] in ("h2", "h3")
        assert reply["reason"] in result.stdout


@pytest.mark.parametrize("table", [("status",), ("jobs", "--all"), ("param",), ("explain", "true")])
def test_tables_are_aligned(lab, table):
    """Every column starts or ends at the same place in every line."""
    lab.run("h1", "lbrun", "-H", "h2", "--name", "a-rather-long-label", "true", check=True)
    blocks = lbctl(lab, *table, check=True).stdout.split("\n\n")
    lines = next(b for b in blocks if re.match(r"[A-Z ]+\b", b)).rstrip("\n").splitlines()
    assert len(lines) >= 2
    assert lines == [line.rstrip() for line in lines]
    for found in re.finditer(r"\S+(?: \S+)*", lines[0]):
        start, end = found.span()
        left = all(len(x) <= start or start == 0 or x[start - 1] == " " for x in lines)
        right = all(len(x) < end or len(x) == end or x[end] == " " for x in lines)
        assert left or right, (found.group(), lines)


@pytest.mark.parametrize("table", [("status",), ("jobs", "--all"), ("doctor",)])
def test_colour_only_on_a_terminal_and_not_with_no_color(lab, table):
    if not shutil.which("script"):
        pytest.skip("script(1) is needed")
    words = ("script", "-qec", " ".join(("lbctl", *table)), "/dev/null")
    result = lab.run("h1", *words, env={"NO_COLOR": "1", "TERM": "xterm"})
    assert result.returncode == 0
    assert "\x1b" not in result.stdout
    assert "\x1b" not in lbctl(lab, *table, env={"TERM": "xterm"}).stdout


# The configuration's place, help, versions


@reading
def test_config_by_option_before_and_after_the_command(lab, command):
    config = str(lab.paths("h2").config)
    for words in (("--config", config, *command), (command[0], "--config", config, *command[1:]),
                  (command[0], f"--config={config}", *command[1:])):  # fmt: skip
        result = lbctl(lab, *words, env={"LBD_CONFIG": "/no/such/file"})
        assert result.returncode == 0, words
        assert "/no/such/file" not in result.stderr


def test_the_option_goes_before_the_variable(lab):
    config = str(lab.paths("h2").config)
    doctor = lbctl(lab, "--config", config, "doctor", "--json")
    assert json.loads(doctor.stdout)["host"] == "h2"
    assert json.loads(lbctl(lab, "doctor", "--json").stdout)["host"] == "h1"


PROGRAMS = [("lbd",), ("lbd", "lim"), ("lbd", "lbm"), ("lbd", "up"), ("lbd", "lab"), ("lbctl",),
            ("lbrun",)]  # fmt: skip
LAB_VERBS = ("up", "env", "exec", "kill", "start", "cut", "heal", "status", "down")
HELPED = [
    *PROGRAMS,
    *(("lbctl", name) for name in LBCTL),
    *(("lbd", "lab", name) for name in LAB_VERBS),
]


def run(*words):
    return subprocess.run(
        words, env=client_environment(LBD_CONFIG="/no/such/file"), text=True, timeout=90,
        capture_output=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", HELPED, ids=" ".join)
def test_help(words):
    """Help needs no configuration, daemon or terminal, and names the program."""
    for option in ("--help", "-h"):
        result = run(*words, option)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.lower().startswith(f"usage: {' '.join(words)} ")
        assert max(map(len, result.stdout.splitlines())) <= 100


@pytest.mark.parametrize("words", [*PROGRAMS, ("lbctl", "status")], ids=" ".join)
def test_version(words):
    result = run(*words, "--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(rf"{words[0]}( {words[-1]})? \d+\.\d+\S*\n", result.stdout)


@pytest.mark.parametrize("name", LBCTL)
def test_the_main_help_names_every_command(name):
    assert re.search(rf"^ +{name} ", run("lbctl", "--help").stdout, re.MULTILINE)


UNKNOWN = [
    (("lbctl", "stauts"), '"status"'), (("lbctl", "undrian", "h1"), '"undrain"'),
    (("lbctl", "frobnicate"), "--help"), (("lbctl",), "status"), (("lbctl", "--frob"), "--frob"),
    (("lbctl", "status", "--jsno"), "--jsno"), (("lbctl", "status", "h1", "extra"), "extra"),
    (("lbctl", "stats", "--since", "x"), "'x'"), (("lbctl", "stats", "extra"), "extra"),
    (("lbctl", "stats", "--since", "0"), "--since"),
    (("lbctl", "advise", "--since", "1y"), "'1y'"), (("lbctl", "advise", "now"), "now"),
    (("lbctl", "drain"), "HOST"), (("lbctl", "drain", "h1", "h2"), "h2"),
    (("lbctl", "explain"), "COMMAND"), (("lbctl", "--config"), "--config"),
    (("lbd", "limm"), '"lim"'), (("lbd", "frobnicate"), "lim"), (("lbd",), "lim"),
    (("lbd", "lim", "--frob"), "--frob"), (("lbd", "lbm", "extra"), "extra"),
    (("lbd", "lab", "stauts"), "status"), (("lbd", "lab", "up", "--hosts", "x"), "--hosts"),
    (("lbd", "lab", "up", "--hosts", "0"), "--hosts"),
    (("lbd", "lab", "up", "--isolate", "x"), "namespaces"),
]  # fmt: skip
QUEUE_WRONG = [
    (("job", "h1-987654"), "h1-987654"), (("logs", "x"), "'x'"), (("kill", "5-2"), "backwards"),
    (("kill",), "ID"), (("kill", "-s", "NOSUCH", "1"), "NOSUCH"), (("wait", "--timeout", "x", "1"),
    "'x'"), (("hold", "-1"), "-1"), (("release", "0"), "'0'"), (("requeue", "@you"), "@you"),
    (("predict", "-n", "0"), "'0'"), (("predict", "-n", "two"), "'two'"), (("predict",), "queue"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "part"), UNKNOWN, ids=[" ".join(words) for words, _ in UNKNOWN])
def test_an_unknown_word(words, part):
    result = run(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert_one_line(result.stderr, words[0], part)


@pytest.mark.parametrize(("words", "part"), QUEUE_WRONG, ids=[" ".join(w) for w, _ in QUEUE_WRONG])
def test_the_queues_jobs_are_named_correctly(lab, words, part):
    result = lbctl(lab, *words)
    assert (result.returncode in (1, 2), result.stdout) == (True, "")
    assert_one_line(result.stderr, "lbctl", part)


# Steering


def test_a_refusal_changes_nothing(lab):
    before = [lbctl(lab, "param", "--json", host=host).stdout for host in lab.hosts]
    for words in (("algorithm", "LOWST"), ("algorithm", "lowest2"), ("param", "min_gain", "nan"),
                  ("param", "probe_limit", "1.5"), ("param", "probe_limit", "0"),
                  ("param", "lim.min_gain", ""), ("drain", ""), ("undrain", "h9"),
                  ("param", "exchange_period_s", "inf")):  # fmt: skip
        result = lbctl(lab, *words)
        assert (result.returncode, result.stdout) == (2, ""), words
        assert_one_line(result.stderr, "lbctl")
    assert [lbctl(lab, "param", "--json", host=host).stdout for host in lab.hosts] == before
    assert lab.lbctl_json("h1", "algorithm")["algorithm"] == "GLOBAL"
    assert set(lab.states("h1").values()) == {"up"}


@pytest.mark.parametrize("name", ["CENTRAL", "NOLB", "GLOBAL"])
def test_an_algorithm_holds_for_every_host(lab, name):
    try:
        lbctl(lab, "algorithm", name, host="h3", check=True)
        for host in lab.hosts:
            lab.wait_until(
                lambda host=host: lab.lbctl_json(host, "status")["cluster"]["algorithm"] == name,
                f"{host} follows",
            )
            reply = json.loads(lbctl(lab, "explain", "--json", "true", host=host).stdout)
            assert reply["algorithm"] == name
            assert lab.run(host, "lbrun", "-H", "h2", "true").returncode == 0
    finally:
        lbctl(lab, "algorithm", "GLOBAL", check=True)
        for host in lab.hosts:
            lab.wait_until(
                lambda host=host: lab.lbctl_json(host, "algorithm")["algorithm"] == "GLOBAL", "back"
            )


def test_drain_lets_running_jobs_run_and_waiting_jobs_wait(lab, running):
    job, row = running("h2", "stays")
    waiting = lab.popen("h1", "lbctl", "drain", "h2", "--wait", stdout=-1, stderr=-1, text=True)
    try:
        with bounded(waiting, 25):
            lab.wait_until(lambda: lab.states("h1")["h2"] == "drained", "h2 is drained")
            shown = {h["name"]: h["state"] for h in lab.lbctl_json("h1", "status")["hosts"]}
            assert shown == {"h1": "up", "h2": "drained", "h3": "up"}
            refused = lab.wait_until(
                lambda: (ended := lab.run("h1", "lbrun", "-H", "h2", "true")).returncode and ended,
                "it is refused",
            )
            assert refused.returncode == 125
            assert_one_line(refused.stderr, "lbrun", "h2", "drain")
            assert lab.run("h2", "lbrun", "--local", "true").returncode == 0
            assert (job.poll(), waiting.poll()) == (None, None)
            assert row["id"] in [one["id"] for one in lab.lbctl_json("h1", "jobs")]
            job.stdin.close()
            output, errors = waiting.communicate()
            assert waiting.returncode == 0
            assert all("waiting for 1 job" in line for line in errors.splitlines())
            assert "h2" in output
        assert job.wait(30) == 0
        for _ in range(2):  # repeating it is no error
            assert lbctl(lab, "drain", "h2").returncode == 0
    finally:
        for _ in range(2):
            assert lbctl(lab, "undrain", "h2").returncode == 0
        lab.wait_until(
            lambda: lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0, "h2 is back"
        )


PLAIN_USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
              "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")  # fmt: skip


@pytest.mark.root
def test_a_plain_user_may_look_but_not_change(lab):
    """The user may read every file on the way (the source tree may be closed to others), no
    more."""
    if os.geteuid() != 0 or lab.run("h1", *PLAIN_USER, "true").returncode != 0:
        pytest.skip("needs root and setpriv(1)")
    for command in READING.values():
        assert lab.run("h1", *PLAIN_USER, "lbctl", *command).returncode == 0, command
    for command in (("drain", "h2"), ("drain", "h1"), ("undrain", "h2"), ("algorithm", "LOWEST"),
                    ("param", "min_gain", "0.5"), ("drain", "h2", "--wait")):  # fmt: skip
        result = lab.run("h1", *PLAIN_USER, "lbctl", *command)
        assert (result.returncode, result.stdout) == (1, ""), command
        assert_one_line(result.stderr, "lbctl", "root")
    assert set(lab.states("h1").values()) == {"up"}
    assert lab.lbctl_json("h1", "algorithm")["algorithm"] == "GLOBAL"
    assert lab.lbctl_json("h1", "param", "min_gain")["value"] == 0.1
