"""lbsh beside the shell it stands for: the same words, statuses and directories; and its shims."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import assume, given, settings

from tests.live import sanitized
from tests.live.cluster import FAST, Lab
from tests.live.lbsh_programs import make_commands
from tests.unit.cli.shell_strings import COMMANDS, make_programs

SHELLS = [path for path in ("/bin/dash", "/bin/bash") if os.path.exists(path)]


@pytest.fixture
def commands(tmp_path):
    return make_commands(tmp_path)


LAB = partial(Lab.up, 3, "none", settings=(*FAST, "lbm.slots=8"))


def by_each(lab, shell, words, commands, **options):
    """(stdout, stderr, status) by the plain shell, by lbsh, and in place of sh also by lbsh in
    Python and by the compiled one with sanitizers."""
    env = {"LBD_SHELL": shell, "PATH": f"{commands.path}"}
    path = Path(lab.environment("h1")["PATH"].split(":")[0])
    others = (path / "lbsh-python", sanitized.programs() / "lbsh") if shell != "/bin/bash" else ()
    programs = [shell, path / "lbsh", *filter(Path.exists, others)]
    results = [
        lab.run("h1", program, *words, env=env, timeout=60, **options) for program in programs
    ]
    return [(r.stdout, r.stderr, r.returncode) for r in results]


STRINGS = [
    "shows a b", "shows 'a  b' \"c d\" \\e -DV=\\\"1\\\" ''", "fails", "dies", "true", "false",
    "nosuchcommand x", "./nosuchfile", "/no/such/file", "locked", "folder",
    "plain-text x", "/", ".", "", " ", "exit 7", "fails; echo $?", "fails || shows or",
    "set -e; fails; shows never", "set -o pipefail 2>/dev/null; fails | cat; echo $?",
    "cat <<x\n$((1+2)) `shows q`\nx\n", "shows *", "(exit 5); echo $?", "exec shows gone",
    "trap 'shows bye' EXIT; fails", "f() { shows f \"$@\"; }; f 1 2", "shows a | tr a b",
    "X=1 sh -c 'echo $X'", "x=$(fails); echo $?", "dies; echo $?", "nosuch; echo $?",
    "locked; echo $?", "command -V if", "echo $0 $#", "sh -c 'echo $0'", "shows 'unended",
    "if", "shows >out; cat out", "shows a &\nwait $!; echo $?", "umask", "echo \"$PWD\"",
    "cd /; shows; pwd", "shows -- -x", "printf '%s|' a b", "'shows' x", "kill -9 $$",
    "exec -a other shows x", "shows \"$(nosuch)\"", "test -t 0; echo $?", "ulimit -n",
    "read x; echo \"$x\"", "echo", "echo ''", "  echo  'a  b' \"c\" d ", "echo '' x ''",
    "echo -n x", "echo -- x", "echo - x", "echo x -n", "echo 'a\\tb\\c' d", "echo x\\\\y",
    "'echo' x", "echo x >&-", f"echo {'x' * 5000}", f"echo {'x ' * 2047}x y", "echo é",
]  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("text", STRINGS)
def test_a_string_means_what_it_means_to_the_shell(lab, commands, shell, text):
    plain, *ours = by_each(lab, shell, ["-c", text], commands, cwd=commands.directory)
    assert ours == [plain] * len(ours)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("output", ["&-", "/dev/full", "/dev/null"])
def test_output_that_cannot_be_written_is_reported_as_the_shell_does(lab, commands, shell, output):
    env = {"LBD_SHELL": shell, "PATH": f"{commands.path}:{lab.environment('h1')['PATH']}"}
    results = [
        lab.run("h1", "sh", "-c", f'"$0" -c "echo x y" >{output}', program, env=env)
        for program in (shell, "lbsh")
    ]
    plain, ours = ((r.stdout, r.stderr, r.returncode) for r in results)
    assert ours == plain
    assert ours[2] == (0 if output == "/dev/null" else 1)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "words",
    [
        ["-ec", "fails; shows never"], ["-e", "-c", "fails"], ["-xc", "shows a"],
        ["-c", "shows $0 $1 $2", "name", "a", "b"], ["-uc", "shows $unset"], ["-nc", "shows a"],
        ["-ec", "shows simple", "name"], ["script", "a", "b c"], ["-e", "script", "a"],
        ["-x", "script"], ["nosuchscript"], ["-c"], ["--", "script", "a"], ["-s", "a"],
    ],
)  # fmt: skip
def test_a_command_line_means_what_it_means_to_the_shell(lab, commands, shell, words):
    (commands.directory / "script").write_text('shows "$0" "$@"; fails; echo $?\n')
    plain, *ours = by_each(
        lab, shell, words, commands, cwd=commands.directory, input='shows piped "$@"\n'
    )
    assert ours == [plain] * len(ours)


@pytest.mark.parametrize("text", ["wrong", "wrong; echo $?"])
def test_an_executable_file_that_cannot_run_has_its_status_and_one_line(lab, commands, text):
    """A shim cannot know it beforehand; only the wording differs from the shell's."""
    plain, *ours = by_each(lab, "/bin/sh", ["-c", text], commands)
    said = "lbsh: wrong: No such file or directory\n"
    assert ours == [(plain[0], said, plain[2])] * len(ours)


@pytest.mark.parametrize("shell", SHELLS)
def test_any_string(lab, shell, tmp_path_factory):
    """What the compiled lbsh takes as simple is also what a shell makes of it."""
    directory, work = make_programs(tmp_path_factory.mktemp("bin")), tmp_path_factory.mktemp("w")
    lbsh = shutil.which("lbsh", path=lab.environment("h1")["PATH"])
    env = {"PATH": str(directory), "LBD_SHELL": shell, "LBD_CONFIG": "/dev/null"}
    env["XDG_STATE_HOME"] = str(directory)

    @settings(max_examples=400, deadline=None, derandomize=bool(os.environ.get("CI")))
    @given(COMMANDS)
    def check(text):
        assume(not set("|&") & set(text))  # commands that run side by side complain in any order
        plain, ours = (
            subprocess.run(
                [program, "-c", text], env=env, cwd=tempfile.mkdtemp(dir=work),
                capture_output=True, timeout=90, stdin=subprocess.DEVNULL,
            )
            for program in (shell, lbsh)
        )  # fmt: skip
        assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode)
        assert ours.stderr == plain.stderr

    check()


def test_files_given_as_descriptors_and_the_environment_pass(lab, commands):
    commands("env-of", 'printf "%s" "$GIVEN"; cat <&7')
    commands("runs", 'exec 7<"$0.in"; exec lbsh -c env-of')
    (commands.directory / "runs.in").write_text(" through 7")
    env = {"GIVEN": "a\nb  c", "PATH": f"{commands.path}:{lab.environment('h1')['PATH']}"}
    result = lab.run("h1", str(commands.directory / "runs"), env=env)
    assert result.stdout == "a\nb  c through 7", result.stderr


# -- the shims --------------------------------------------------------------------------------


def shims_of(lab, commands, host="h1", **env):
    env = {"PATH": f"{commands.path}:{lab.environment(host)['PATH']}", **env}
    result = lab.run(host, "lbsh", "-c", 'echo "$LBD_SHIMS"; echo "$PATH"', env=env, check=True)
    shims, path = result.stdout.splitlines()
    assert path.split(":")[0] == shims
    return Path(shims)


def test_the_shims_are_private_links_to_the_front(lab, commands):
    shims = shims_of(lab, commands)
    assert (shims / "seldom").is_symlink()
    target = os.readlink(shims / "seldom")
    assert os.path.basename(target) == "lbrun"
    assert os.access(target, os.X_OK)
    for directory in (shims.parent, shims.parent.parent):
        status = directory.lstat()
        assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o700)
    names = set(os.listdir(shims))
    assert not names & {"sed", "cat", "ls", "sh", "make", "lbsh", "lbrun", "vi", "locked", "folder"}


def test_no_shim_is_remade_while_nothing_has_changed(lab, commands):
    before = shims_of(lab, commands)
    stamp = before.parent / "stamp"
    seen = stamp.stat().st_ino
    for _ in range(3):
        assert shims_of(lab, commands) == before
    time.sleep(0.1)  # a directory that changed this instant is looked at twice
    shims_of(lab, commands)
    seen = stamp.stat().st_ino
    shims_of(lab, commands)
    assert stamp.stat().st_ino == seen


def test_a_new_program_gets_a_shim_and_a_removed_one_loses_it(lab, commands):
    before = shims_of(lab, commands)
    commands("fresh", "echo fresh")
    (commands.directory / "fails").unlink()
    after = shims_of(lab, commands)
    assert after != before
    assert after.parent == before.parent
    assert (after / "fresh").exists()
    assert not (after / "fails").is_symlink()


def test_a_shell_that_remembers_where_a_command_was_still_finds_it(lab, commands, tmp_path):
    """The set changes, more often than sets are kept, while a script runs."""
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"hash seldom; seldom before; read x <{go}; seldom after; command -v seldom"
    env = {"PATH": f"{commands.path}:{lab.environment('h1')['PATH']}"}
    running = lab.popen("h1", "lbsh", "-c", script, env=env, stdout=subprocess.PIPE, text=True)
    assert running.stdout.read(8) == "<before>"
    old = shims_of(lab, commands)
    for number in range(6):
        commands(f"fresh{number}", "echo fresh")
        time.sleep(0.06)
        assert shims_of(lab, commands) != old
    go.write_text("go\n")
    rest, _ = running.communicate(timeout=120)
    assert rest.startswith("<after>")
    assert rest.splitlines()[-1].endswith("/seldom")
    assert os.path.islink(old)
    assert (old / "seldom").exists()


def test_the_path_of_a_shim_works_without_lbsh(lab, commands):
    shim = shims_of(lab, commands) / "seldom"
    result = subprocess.run(
        [shim, "a b"], env={"PATH": commands.path}, capture_output=True, text=True, timeout=120
    )
    assert (result.stdout, result.stderr, result.returncode) == ("<a b>", "", 0)


@pytest.mark.parametrize("variable", ["HOME", "PATH", "LBD_CONFIG"])
def test_lbsh_inside_lbsh_with_another_home_or_path_or_none(lab, commands, tmp_path, variable):
    """An outer lbsh's shims must not find each other."""
    other = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:$PATH", "LBD_CONFIG": "/dev/null"}
    inner = f"{variable}={other[variable]} exec lbsh -c 'shows $PATH; shows x'"
    env = {"PATH": f"{commands.path}:{lab.environment('h1')['PATH']}"}
    result = lab.run("h1", "lbsh", "-c", inner, env=env, timeout=90)
    path, shown, _ = result.stdout.split(">")
    assert shown == "<x", result
    assert path.count("lbd-shims") == 1, result


def test_programs_that_look_for_themselves_find_themselves(lab, commands):
    python = shutil.which("python3")
    ask = f"{os.path.basename(python)} -c 'import sys; print(sys.prefix)'; gcc -print-prog-name=cc1"
    env = {"PATH": f"{os.path.dirname(python)}:{lab.environment('h1')['PATH']}"}
    plain, ours = (
        lab.run("h1", shell, "-c", ask, env=env, check=True).stdout for shell in ("sh", "lbsh")
    )
    assert ours == plain


def test_without_a_daemon_it_is_the_plain_shell(commands, lab, tmp_path):
    (tmp_path / "state").mkdir(mode=0o700)
    config = tmp_path / "lbd.toml"
    dirs = (tmp_path / "run", tmp_path / "state")
    config.write_text('[host]\nruntime_dir = "{}"\nstate_dir = "{}"\n'.format(*dirs))
    env = {"LBD_CONFIG": str(config), "PATH": f"{commands.path}:{lab.environment('h1')['PATH']}"}
    for text in ("shows a", "shows a; fails", "nosuch"):
        plain, ours = (lab.run("h1", shell, "-c", text, env=env) for shell in ("/bin/sh", "lbsh"))
        found = (ours.stdout, ours.stderr, ours.returncode)
        assert found == (plain.stdout, plain.stderr, plain.returncode)


def test_a_directory_of_another_users_is_not_used(lab, commands, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to own things as somebody else")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    env = {"HOME": str(home), "LBD_CONFIG": "/dev/null"}
    shims = shims_of(lab, commands, **env)
    assert not list(home.iterdir())
    assert str(shims).startswith("/var/tmp/")
    shutil.rmtree(shims.parent)


def test_a_missing_shell_is_127(lab, commands):
    result = lab.run("h1", "lbsh", "-c", "echo x; echo y", env={"LBD_SHELL": "nosuchshell"})
    assert result.returncode == 127
    assert "nosuchshell" in result.stderr
    assert all(line.startswith("lbsh: ") for line in result.stderr.splitlines())


def test_its_own_help_and_version(lab):
    assert lab.run("h1", "lbsh", "--version", check=True).stdout.startswith("lbsh ")
    assert "make -j8 SHELL=lbsh" in lab.run("h1", "lbsh", "--help", check=True).stdout


def test_the_doctor_looks_at_the_shims(lab, commands):
    shims = shims_of(lab, commands)
    env = {"PATH": f"{commands.path}:{lab.environment('h1')['PATH']}"}
    result = lab.run("h1", "lbctl", "doctor", "--json", env=env, check=True)
    checks = json.loads(result.stdout)["checks"]
    (found,) = (check for check in checks if check["name"] == "lbsh")
    assert found["state"] == "ok"
    assert str(shims.parent.parent) in found["says"]
