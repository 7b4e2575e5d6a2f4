"""What a command placed by lbrun sees: its arguments and surroundings, as if it ran here."""

import json
import os
import resource
import shutil
import subprocess

import pytest
from contract import PYTHON, everywhere

from lbd.lab import processes

ARGV = [
    ["plain"],
    ["two words", "  leading and trailing  "],
    ["it's", '"double"', "`tick`", "$HOME", "$(true)", "\\", "a\\nb"],
    ["*", "~", "!x", "#x", ";", "&", "|", "<", ">"],
    ["line\nbreak", "tab\there", "\n", "\r\n"],
    ["", "", "after two empty ones"],
    ["-H", "h9", "--", "--help", "-", "--local", "-q"],
    [b"\xff\xfe\x80".decode("utf-8", "surrogateescape"), "ünïcödé", "\x01\x1b[31m\x7f"],
    ["x" * 100_000],
    [str(number) for number in range(5000)],
    ["=", "A=B", "{}", "[a]", "%s", "%%"],
]  # fmt: skip

SAY_ARGV = "import sys, os, json; print(json.dumps([os.fsencode(w).hex() for w in sys.argv[1:]]))"


@everywhere
@pytest.mark.parametrize("words", ARGV, ids=range(len(ARGV)))
def test_arguments_are_untouched(lab, where, words):
    result = lab.run("h1", "lbrun", *where, *PYTHON, "-c", SAY_ARGV, *words)
    assert (result.returncode, result.stderr) == (0, "")
    assert [bytes.fromhex(word) for word in json.loads(result.stdout)] == [
        os.fsencode(word) for word in words
    ]


@everywhere
def test_a_double_dash_ends_the_options(lab, where):
    result = lab.run("h1", "lbrun", *where, "--", "echo", "-H", "h9")
    assert (result.returncode, result.stdout) == (0, "-H h9\n")


@everywhere
def test_the_command_sees_its_own_name_as_argument_0(lab, where):
    result = lab.run("h1", "lbrun", *where, "sh", "-c", "tr '\\0' ' ' </proc/$$/cmdline; :")
    assert result.stdout.startswith("sh -c ")


# Environment


SAY_ENVIRONMENT = (
    "import os, json; print(json.dumps({k.hex(): v.hex() for k, v in os.environb.items()}))"
)
OURS = ("LBD_", processes.MARK, processes.MARK_HOST)


def environment_seen(lab, where, environment, *options):
    """The whole environment of a command, without the variables that lbd sets."""
    result = subprocess.run(
        lab.command("h1", shutil.which("lbrun", path=lab.environment("h1")["PATH"]),
                    *where, *options, *PYTHON, "-c", SAY_ENVIRONMENT),
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, b"")
    pairs = json.loads(result.stdout).items()
    seen = {bytes.fromhex(name): bytes.fromhex(value) for name, value in pairs}
    return {
        name: value for name, value in seen.items() if not name.decode("latin1").startswith(OURS)
    }


def environment_given(lab, **more):
    mine = lab.environment("h1")
    marks = {name: mine[name] for name in mine if name.startswith(OURS)}
    return {os.fsencode(name): os.fsencode(value) for name, value in {**marks, **more}.items()}


def without_ours(environment):
    return {
        name: value
        for name, value in environment.items()
        if not name.decode("latin1").startswith(OURS)
    }


# With LC_ALL, and PWD as it is, no interpreter on the way has a reason to add variables.
BASE = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/root", "PWD": os.getcwd()}
ENVIRONMENTS = {
    "plain": {},
    "values": {b"A": b"", b"B": b"two words", b"C": b"x=y=z", b"D": b"line\nbreak"},
    "long": {b"LONG": b"x" * 100_000},
    "stale-pwd": {b"PWD": b"/somewhere/else"},
    "no-home": {b"HOME": b""},
    "not-utf-8": {b"BYTES": bytes(range(1, 256))},
    "dotted-names": {b"some.dotted.name": b"1", b"with-dash": b"2", b" ": b"3", b"9lives": b"4"},
    "not-utf-8-name": {b"\xff\xfe": b"1", "ü".encode(): b"2"},
    "bash-function": {b"BASH_FUNC_greet%%": b"() {  echo hello\n}"},
    "what-shells-set": {b"IFS": b",", b"OPTIND": b"7", b"PS1": b"$ ", b"PPID": b"1", b"_": b"/x",
                        b"OLDPWD": b"/old", b"SHLVL": b"9"},
    "python": {b"PYTHONPATH": b"/nowhere", b"PYTHONHOME": b"/nowhere", b"PYTHONSTARTUP": b"/x"},
    "many": {f"N{number}".encode(): str(number).encode() for number in range(2000)},
}  # fmt: skip


@everywhere
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_whole_environment_arrives(lab, where, name):
    given = {**environment_given(lab, **BASE), **ENVIRONMENTS[name]}
    assert environment_seen(lab, where, given) == without_ours(given)


@everywhere
def test_nothing_is_added_to_a_bare_environment(lab, where):
    given = environment_given(lab)
    assert environment_seen(lab, where, given) == bare_python_environment()


def bare_python_environment():
    """What the same Python shows without lbrun: it may add to its own environment (LC_CTYPE)."""
    words = [*PYTHON, "-c", SAY_ENVIRONMENT]
    result = subprocess.run(words, env={}, capture_output=True, check=True)
    pairs = json.loads(result.stdout).items()
    return {bytes.fromhex(name): bytes.fromhex(value) for name, value in pairs}


@everywhere
def test_a_bare_environment_as_a_c_program_sees_it(lab, where):
    given = environment_given(lab)
    lbrun = shutil.which("lbrun", path=lab.environment("h1")["PATH"])
    result = subprocess.run(
        lab.command("h1", lbrun, *where, "/usr/bin/env"), env=given, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=120,
    )  # fmt: skip
    lines = result.stdout.decode().splitlines()
    assert [line for line in lines if not line.startswith(OURS)] == []


@everywhere
def test_exported_shell_functions_work(lab, where):
    script = 'greet() { echo "hello $1"; }; export -f greet; exec "$@"'
    words = ["bash", "-c", script, "bash", "lbrun", *where, "bash", "-c", "greet you"]
    result = lab.run("h1", *words)
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello you\n", "")


EXTRA = [
    (("-e", "A=1"), {}, {"A": "1"}),
    (("--env", "A=x=y"), {}, {"A": "x=y"}),
    (("--env=A=",), {}, {"A": ""}),
    (("-e", "A=1", "-e", "B=two words", "-e", "A=3"), {}, {"A": "3", "B": "two words"}),
    (("-e", "A=new"), {"A": "old"}, {"A": "new"}),
    (("-e", "A"), {"A": "mine"}, {"A": "mine"}),
    (("-e", "NOT_SET_ANYWHERE"), {}, {}),
    (("-e", "dotted.name=1"), {}, {"dotted.name": "1"}),
    (("-e", "N=line\nbreak"), {}, {"N": "line\nbreak"}),
    (("-e", b"N=\xff".decode("utf-8", "surrogateescape")), {}, {"N": "\udcff"}),
]


@everywhere
@pytest.mark.parametrize(("options", "given", "added"), EXTRA, ids=range(len(EXTRA)))
def test_env_options(lab, where, options, given, added):
    environment = environment_given(lab, **BASE, **given)
    expected = {
        **without_ours(environment),
        **{os.fsencode(k): os.fsencode(added[k]) for k in added},
    }
    assert environment_seen(lab, where, environment, *options) == expected


@everywhere
def test_path_is_searched_as_the_caller_would(lab, where, tmp_path):
    tool = tmp_path / "a tool"
    tool.write_text("#!/bin/sh\necho found me\n")
    tool.chmod(0o755)
    path = f"{tmp_path}:{lab.environment('h1')['PATH']}"
    result = lab.run("h1", "lbrun", *where, "a tool", env={"PATH": path})
    assert (result.returncode, result.stdout) == (0, "found me\n")


@everywhere
def test_a_script_without_hash_bang_is_refused_or_run_but_not_lost(lab, where, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo ran\n")
    script.chmod(0o755)
    result = lab.run("h1", "lbrun", *where, str(script))
    assert (result.returncode, result.stdout) in [(0, "ran\n"), (126, "")]
    assert (result.stderr == "") == (result.returncode == 0)


def test_the_job_knows_where_it_is(lab):
    script = "echo $LBD_JOB_ID $LBD_HOST $LBD_ORIGIN"
    seen = [lab.run(origin, "lbrun", "-H", host, "sh", "-c", script).stdout.split()
            for origin in lab.hosts for host in lab.hosts]  # fmt: skip
    assert [words[1:] for words in seen] == [[h, o] for o in lab.hosts for h in lab.hosts]
    assert len({words[0] for words in seen}) == len(seen)


@pytest.mark.parametrize("options", [(), ("--local",), ("--timeout", "60")])
def test_a_job_that_runs_here_knows_it_too(lab, options):
    script = "echo $LBD_JOB_ID $LBD_HOST $LBD_ORIGIN"
    words = lab.run("h1", "lbrun", *options, "sh", "-c", script).stdout.split()
    assert words[1:] == ["h1", "h1"]


def test_the_job_id_is_the_one_lbctl_shows(lab):
    job = lab.run("h1", "lbrun", "-H", "h2", "sh", "-c", "echo $LBD_JOB_ID").stdout.strip()
    (row,) = lab.lbctl_json("h1", "jobs", job)
    assert (row["id"], row["host"], row["origin"]) == (job, "h2", "h1")


# Directory, umask, limits, niceness, identity


@everywhere
def test_working_directory(lab, where, tmp_path):
    here = tmp_path / "dir with ünïcode\nand a line break"
    here.mkdir()
    result = lab.run("h1", "lbrun", *where, "/bin/pwd", "-P", cwd=here)
    assert result.stdout == f"{here}\n"


@everywhere
@pytest.mark.parametrize("option", ["-C", "--chdir"])
def test_chdir(lab, where, option, tmp_path):
    (tmp_path / "sub").mkdir()
    for target in (str(tmp_path / "sub"), "sub", "./sub/../sub"):
        result = lab.run("h1", "lbrun", *where, option, target, "/bin/pwd", "-P", cwd=tmp_path)
        assert result.stdout == f"{tmp_path}/sub\n"


@everywhere
def test_a_relative_command_is_looked_up_in_the_new_directory(lab, where, tmp_path):
    (tmp_path / "sub").mkdir()
    tool = tmp_path / "sub" / "tool"
    tool.write_text("#!/bin/sh\necho found me\n")
    tool.chmod(0o755)
    result = lab.run("h1", "lbrun", *where, "-C", "sub", "./tool", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "found me\n")


@everywhere
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000, 0o137])
def test_umask(lab, where, umask, tmp_path):
    made = tmp_path / "made"
    lab.run("h1", "lbrun", *where, *PYTHON, "-c", f"open({str(made)!r}, 'w')", umask=umask)
    assert made.stat().st_mode & 0o777 == 0o666 & ~umask


LIMITS = {
    "nofile": (resource.RLIMIT_NOFILE, (200, 300)),
    "nofile-soft": (resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
    "core-none": (resource.RLIMIT_CORE, (0, 0)),
    "core": (resource.RLIMIT_CORE, (4096, 1 << 20)),
    "stack": (resource.RLIMIT_STACK, (4 << 20, 64 << 20)),
    "fsize": (resource.RLIMIT_FSIZE, (1 << 30, 1 << 31)),
    "cpu": (resource.RLIMIT_CPU, (1000, 2000)),
    "data": (resource.RLIMIT_DATA, (8 << 30, 9 << 30)),
    "memlock": (resource.RLIMIT_MEMLOCK, (65536, 131072)),
}


@everywhere
@pytest.mark.parametrize("name", LIMITS)
def test_resource_limits(lab, where, name):
    number, limits = LIMITS[name]
    say = f"import resource; print(resource.getrlimit({number}))"
    set_limit = (
        "import os, resource, sys; "
        f"resource.setrlimit({number}, {limits}); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    result = lab.run("h1", *PYTHON, "-c", set_limit, "lbrun", *where, *PYTHON, "-c", say)
    assert (result.stdout, result.stderr) == (f"{limits}\n", "")


@everywhere
@pytest.mark.parametrize("nice", [0, 7, 19])
def test_niceness(lab, where, nice):
    lowered = ("nice", "-n", str(nice))
    result = lab.run("h1", *lowered, "lbrun", *where, "nice")
    assert result.stdout == lab.run("h1", *lowered, "nice").stdout


@everywhere
def test_identity(lab, where):
    result = lab.run("h1", "lbrun", *where, "sh", "-c", "id; id -G")
    assert result.stdout == lab.run("h1", "sh", "-c", "id; id -G").stdout


@everywhere
def test_identity_of_a_plain_user(lab, where):
    result = lab.run("h1", *as_nobody(), "lbrun", *where, "id")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == lab.run("h1", *as_nobody(), "id").stdout


def test_a_plain_user_gets_no_rights_on_the_way(lab):
    result = lab.run("h1", *as_nobody(), "lbrun", "-H", "h2", "cat", "/etc/shadow")
    assert (result.returncode, result.stdout) == (1, "")


def as_nobody():
    """A prefix to run as another user, who may still read where these programs are installed."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv, to become another user")
    identity = ("--reuid", "65534", "--regid", "65534", "--clear-groups")
    return ("setpriv", *identity, "--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")


# Descriptors and signals


SAY_DESCRIPTORS = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"


@everywhere
def test_no_stray_descriptors(lab, where):
    """A descriptor left open beside 0, 1 and 2 would hold pipes open that the command has
    closed."""
    result = lab.run("h1", "lbrun", *where, *PYTHON, "-c", SAY_DESCRIPTORS)
    assert result.stdout == "[0, 1, 2]\n"


SAY_SIGNALS = "sed -n 's/^Sig\\(Blk\\|Ign\\):\\s*//p' /proc/self/status"


@everywhere
@pytest.mark.parametrize("more", [(), ("--timeout", "60")])
def test_signals_are_as_the_caller_has_them(lab, where, more):
    """Neither blocked nor ignored: a command must die of SIGPIPE when nobody reads its output."""
    plain = lab.run("h1", "sh", "-c", SAY_SIGNALS)
    result = lab.run("h1", "lbrun", *where, *more, "sh", "-c", SAY_SIGNALS)
    assert result.stdout == plain.stdout


@pytest.mark.parametrize("options", [("--local",), ()])
def test_nohup_also_works_for_a_command_that_runs_here(lab, options):
    plain = lab.run("h1", "nohup", "sh", "-c", SAY_SIGNALS)
    result = lab.run("h1", "nohup", "lbrun", *options, "sh", "-c", SAY_SIGNALS)
    assert result.stdout == plain.stdout
