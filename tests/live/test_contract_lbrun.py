"""lbrun's options, exit statuses and messages, as the command-line contract has them."""

import json
import re
import signal
import subprocess
from functools import partial

import pytest
from contract import PYTHON, WHERE, assert_one_line, everywhere, read_status, shell_status

pytestmark = pytest.mark.usefixtures("client")

# Exit statuses


@pytest.mark.parametrize(("where", "step"), [("away", 1), ("asked", 25), ("stay", 25)])
def test_every_exit_status(lab, where, step):
    options = " ".join(WHERE[where])
    script = f'for i in $(seq 0 {step} 255); do lbrun {options} sh -c "exit $i"; echo $?; done'
    result = lab.run("h1", "sh", "-c", script, timeout=90)
    assert result.stderr == ""
    assert [int(line) for line in result.stdout.split()] == list(range(0, 256, step))


DEADLY = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "XCPU", "XFSZ", "SYS", "RTMIN",
]  # fmt: skip


@everywhere
@pytest.mark.parametrize("name", DEADLY)
def test_ended_by_a_signal(lab, where, name):
    number = getattr(signal, f"SIG{name}")
    script = f"import os; os.kill(os.getpid(), {int(number)})"
    words = ("lbrun", *where, *PYTHON, "-c", f"import signal; signal.signal({number}, 0)\n{script}")
    if name == "KILL":
        words = ("lbrun", *where, *PYTHON, "-c", script)
    assert shell_status(lab.run("h1", *words).returncode) == 128 + number


@pytest.mark.parametrize("where", [("--local",), (), ("-H", "h2"), ("--remote",), ("-H", "h1")])
def test_time_limit(lab, where, tmp_path):
    status = tmp_path / "status"
    result = lab.run("h1", "lbrun", *where, "--timeout", "0.3", "--status-file", status,
                     "sh", "-c", "echo begun; sleep 60; echo never", timeout=40)  # fmt: skip
    assert (result.returncode, result.stdout) == (124, "begun\n")
    assert_one_line(result.stderr, "lbrun", "0.3 s")
    seen = read_status(status)
    assert (seen["exit_status"], seen["cause"]) == (124, "timeout")


@everywhere
@pytest.mark.parametrize("limit", ["60", "1.5m", "1h30m", "90s", "100.5"])
def test_a_time_limit_that_is_not_reached(lab, where, limit):
    result = lab.run("h1", "lbrun", *where, "--timeout", limit, "sh", "-c", "exit 3")
    assert (result.returncode, result.stderr) == (3, "")


@pytest.mark.parametrize("where", [*WHERE.values(), ("--remote",)])
def test_not_found_and_not_executable(lab, where, tmp_path):
    plain, broken = tmp_path / "plain", tmp_path / "broken"
    plain.write_text("not executable")
    broken.write_bytes(b"#!/no/such/interpreter\n")
    broken.chmod(0o755)
    table = [
        ("no-such-command_", {127}), ("/no/such/file", {127}), ("./nothing", {127}), ("", {127}),
        (plain, {126}), (tmp_path, {126}), (f"{plain}/below", {126, 127}), (broken, {126, 127}),
        ("x" * 300, {126, 127}),
    ]  # fmt: skip
    for word, status in table:
        result = lab.run("h1", "lbrun", *where, word)
        assert result.returncode in status, word
        assert result.stdout == ""
        assert_one_line(result.stderr, "lbrun", str(word)[:200])


# Requests that cannot be met: one line, 125, nothing run


WRONG = [
    (("-q",), "no queue"), (("--detach",), "no queue"), (("-qd",), "-q"),
    (("-q", "--local"), "queue"), (("-n", "0"), "at least"), (("--slots=4-1",), "backwards"),
    (("-q", "-n2"), "no queue"), (("-q", "-n", "two"), "two"), (("-q", "-n", "4-2"), "4-2"),
    (("-q", "-n", "0"), "0"),
    (("--array", "1-3"), "--array"), (("-o", "out"), "-o"), (("--error", "err"), "--error"),
    (("--idempotency-key", "k"), "-key"), (("-d", "--array", "3-1"), "3-1"),
    (("-d", "--array", "x"), "like 1-10"), (("-q", "-o", "out"), "-o"), (("-d", "-t"), "-t"),
    (("--frobnicate",), "--frobnicate"), (("-Z",), "-Z"), (("--hots", "h2"), "--host"),
    (("--remot",), "--remote"), (("--explian",), "--explain"),
    (("--status-fil", "x"), "--status-file"),
    (("-H", "h9"), "h9"), (("-H", "H2"), '"h2"'), (("-H", "h22"), '"h2"'), (("-H", ""), "host"),
    (("-x", "h9"), "h9"), (("-x", "H2"), '"h2"'), (("-H", "h2", "-x", "h2"), "h2"),
    (("--local", "--remote"), "--local"), (("--local", "-H", "h2"), "--local"),
    (("--remote", "-H", "h1"), "--remote"), (("--local", "-x", "h1"), "h1"),
    (("--remote", "-x", "h2", "-x", "h3"), ""),
    (("--timeout", "abc"), "abc"), (("--timeout", "-1"), "-1"), (("--timeout", ""), "duration"),
    (("--timeout", "1x"), "1x"), (("--timeout", "nan"), "nan"), (("--timeout", "inf"), "inf"),
    (("--mem", "lots"), "lots"), (("--mem", "-1"), "-1"), (("--mem", "1Q"), "1Q"),
    (("--mem", ""), "size"), (("--mem", "2"), "2G"), (("-H", "h2", "--mem", "1023"), "unit"),
    (("-e", "=x"), "=x"), (("-e", ""), "name"), (("-C", "/no/such/dir"), "/no/such/dir"),
    (("-C", "/etc/passwd"), "/etc/passwd"), (("-H", "h2", "-C", "/no/such/dir"), "/no/such/dir"),
    (("--json",), "--json"), (("--status-file", "/no/such/dir/file"), "/no/such/dir"),
    (("--local=yes",), "--local"), (("--config", "/no/such/lbd.toml"), "/no/such/lbd.toml"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "part"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_option_is_refused(lab, options, part, tmp_path):
    result = lab.run("h1", "lbrun", *options, "touch", "ran", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr, "lbrun", part)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", ["-H", "-x", "-C", "-e", "--name", "--timeout", "--mem",
                                     "--status-file", "--config", "--host"])  # fmt: skip
def test_a_missing_value_or_command(lab, options):
    for words in ([options], [options, "x"]):
        result = lab.run("h1", "lbrun", *words)
        assert (result.returncode, result.stdout) == (125, "")
        assert_one_line(result.stderr)


def test_no_command(lab):
    for words in ([], ["--"], ["--local"], ["--explain"]):
        result = lab.run("h1", "lbrun", *words)
        assert (result.returncode, result.stdout) == (125, "")
        assert_one_line(result.stderr, "lbrun", "command")


def test_a_drained_host_is_not_used_on_demand(lab):
    lab.run("h1", "lbctl", "drain", "h2", check=True)
    try:
        lab.wait_until(lambda: lab.states("h1")["h2"] == "drained", "h2 is drained")
        result = lab.run("h1", "lbrun", "-H", "h2", "true")
        assert result.returncode == 125
        assert_one_line(result.stderr, "lbrun", "h2", "drain")
        for _ in range(5):
            assert on(lab, "--remote") == "h3"
    finally:
        lab.run("h1", "lbctl", "undrain", "h2", check=True)
        lab.wait_until(lambda: lab.states("h1")["h2"] == "up", "h2 is back")


# Where it runs


def on(lab, *options, origin="h1"):
    result = lab.run(origin, "lbrun", *options, "sh", "-c", "echo $LBD_HOST")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


def test_host_remote_and_exclude(lab):
    assert on(lab, "-H", "h3") == "h3"
    assert on(lab, "--host=h2") == "h2"
    assert on(lab, "-Hh2") == "h2"
    assert on(lab, "-H", "h1") == "h1"
    assert on(lab, "-H", "h1", origin="h3") == "h1"
    assert on(lab, "--remote", "-x", "h2") == "h3"
    assert on(lab, "--remote", "--exclude", "h3") == "h2"
    assert on(lab, "-x", "h1", "-x", "h2") == "h3"
    assert on(lab, "-x", "h2", "-x", "h3") == "h1"
    assert on(lab, "-x", "h2,h3") == "h1"
    assert on(lab, "--remote", "--exclude=h1,h2", "-xh1") == "h3"
    assert {on(lab, "--remote") for _ in range(3)} <= {"h2", "h3"}
    assert on(lab, "--no-fallback", "-H", "h2") == "h2"


@pytest.mark.parametrize("names", ["", ",", "h2,", "h2,,h3"])
def test_a_list_of_hosts_without_a_name_is_refused(lab, names):
    result = lab.run("h1", "lbrun", "-x", names, "true")
    assert (result.returncode, result.stdout) == (125, "")
    said = f"lbrun: -x {names}: a host's name is missing; use -x h2 or -x h2,h3\n"
    assert result.stderr == said


VERBOSE = [
    (("--local",), r"h1 \(this host\): --local was given"),
    ((), r"(h1 \(this host\): load .* \(lim.local_threshold\)|h[123].*: .+)"),
    (("-H", "h2"), "h2: -H was given"),
    (("-H", "h1"), r"h1 \(this host\): -H was given"),
    (("--remote", "-x", "h2"), r"h3: --remote was given; its load will be [\d.]+, the lowest .*"),
    (("-x", "h1,h2"), r"h3: -x h1 was given; its load will be [\d.]+, the lowest .*"),
]


@pytest.mark.parametrize(("options", "place"), VERBOSE)
def test_verbose_says_where_and_why(lab, options, place):
    result = lab.run("h1", "lbrun", "-v", *options, "echo", "out")
    assert (result.returncode, result.stdout) == (0, "out\n")
    assert re.fullmatch(rf"lbrun: echo runs on {place}\n", result.stderr)


# --status-file


ENDINGS = [
    (("true",), {"exit_status": 0, "signal": None, "cause": "exited"}),
    (("sh", "-c", "exit 7"), {"exit_status": 7, "signal": None, "cause": "exited"}),
    (("sh", "-c", "exit 125"), {"exit_status": 125, "signal": None, "cause": "exited"}),
    (("sh", "-c", "exit 143"), {"exit_status": 143, "signal": None, "cause": "exited"}),
    (("sh", "-c", "kill -TERM $$"), {"exit_status": 143, "signal": 15, "cause": "signalled"}),
    (("sh", "-c", "kill -KILL $$"), {"exit_status": 137, "signal": 9, "cause": "signalled"}),
]


@everywhere
@pytest.mark.parametrize(("words", "expected"), ENDINGS, ids=range(len(ENDINGS)))
def test_status_file(lab, where, words, expected, tmp_path):
    result = lab.run("h1", "lbrun", *where, "--status-file", tmp_path / "status", *words)
    seen = read_status(tmp_path / "status")
    assert {**seen, **expected, "schema": 1, "attempt": 1} == seen
    assert seen["host"] == ("h2" if "h2" in where else "h1")
    assert shell_status(result.returncode) == expected["exit_status"]
    assert [file.name for file in tmp_path.iterdir()] == ["status"]


@everywhere
def test_status_file_of_a_command_that_cannot_start(lab, where, tmp_path):
    lab.run("h1", "lbrun", *where, "--status-file", tmp_path / "status", "/no/such/command")
    seen = read_status(tmp_path / "status")
    assert (seen["exit_status"], seen["signal"], seen["cause"]) == (127, None, "refused")
    assert "/no/such/command" in seen["reason"]
    assert seen["host"] == ("h2" if "h2" in where else "h1")


def test_status_file_of_a_command_that_lbctl_killed(lab, tmp_path):
    words = ("lbrun", "-H", "h2", "--name", "killed", "--status-file", tmp_path / "status")
    with lab.popen("h1", *words, "sleep", "60", stderr=subprocess.PIPE, text=True) as lbrun:
        found = partial(
            lab.lbctl_json, "h1", "jobs", "--name", "killed", "--state", "running", "--host", "h2"
        )
        lab.wait_until(found, "it runs")
        lab.run("h1", "lbctl", "kill", "--name", "killed", check=True)
        assert lbrun.communicate(timeout=60)[1].startswith("lbrun: cancelled by ")
    seen = read_status(tmp_path / "status")
    assert (seen["exit_status"], seen["signal"], seen["cause"]) == (143, 15, "cancelled")
    assert seen["reason"].startswith("cancelled by ")


def test_status_file_tells_lbruns_125_from_the_commands(lab, tmp_path):
    lab.run("h1", "lbrun", "-H", "h9", "--status-file", tmp_path / "ours", "true")
    ours = read_status(tmp_path / "ours")
    assert (ours["exit_status"], ours["host"]) == (125, None)
    assert ours["cause"] != "exited"
    assert "h9" in ours["reason"]


def test_status_file_replaces_and_is_relative_to_the_caller(lab, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "status").write_text("x" * 10_000)
    lab.run(
        "h1", "lbrun", "-C", "sub", "--status-file", "status", "sh", "-c", "exit 4", cwd=tmp_path
    )
    assert read_status(tmp_path / "status")["exit_status"] == 4


# --explain, --mem, --name


@pytest.mark.parametrize("options", [(), ("-H", "h2"), ("--remote",), ("-x", "h2"), ("--local",)])
def test_explain_runs_nothing(lab, options, tmp_path):
    words = ("lbrun", *options, "--explain", "touch", str(tmp_path / "ran"))
    result = lab.run("h1", *words)
    assert (result.returncode, result.stderr) == (0, "")
    assert all(host in result.stdout for host in lab.hosts)
    as_json = lab.run("h1", *words[:-2], "--json", *words[-2:])
    reply = json.loads(as_json.stdout)
    assert (as_json.returncode, as_json.stderr, reply["schema"]) == (0, "", 1)
    assert reply.keys() >= {"host", "reason"}
    assert list(tmp_path.iterdir()) == []


def test_memory_limit(lab):
    hungry = (*PYTHON, "-c", "x = bytearray(300 << 20); print(len(x))")
    for where in ("--local", "--remote"):
        result = lab.run("h1", "lbrun", where, "--mem", "100M", *hungry)
        assert result.returncode not in (0, 125)
        assert result.stdout == ""
        result = lab.run("h1", "lbrun", where, "--mem", "1G", *hungry)
        assert (result.returncode, result.stderr) == (0, "")


@everywhere
@pytest.mark.parametrize("size", ["2G", "1.5G", "800000K", "1000000000", "1T"])
def test_sizes(lab, where, size):
    assert lab.run("h1", "lbrun", *where, "--mem", size, "true").returncode == 0


@everywhere
def test_the_name_is_shown(lab, where):
    name = "a label with späces 'and' \"quotes\""
    with lab.popen("h1", "lbrun", *where, "--name", name, "sleep", "600") as job:
        try:
            row = lab.wait_until(
                lambda: [row for row in lab.lbctl_json("h1", "jobs") if row["name"] == name],
                "the job is listed",
            )[0]
            assert (row["state"], row["command"]) == ("running", ["sleep", "600"])
            assert row["host"] == ("h2" if "h2" in where else "h1")
            assert name in lab.run("h1", "lbctl", "jobs", check=True).stdout
        finally:
            job.terminate()
        assert shell_status(job.wait(30)) == 143


@pytest.mark.parametrize("options", [("--no-restart",), ("-T",), ("--no-tty",), ("--no-fallback",)])
def test_options_that_change_nothing_here(lab, options):
    result = lab.run("h1", "lbrun", *options, "echo", "ok")
    assert (result.returncode, result.stdout, result.stderr) == (0, "ok\n", "")
