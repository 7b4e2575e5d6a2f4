"""Whatever is classified as simple is split by real shells into the same words."""

import os
import shutil
import subprocess

import pytest
from hypothesis import example, given, settings

from lbd.client.shell.options import read_invocation
from lbd.client.shell.words import RESERVED, simple_command
from tests.unit.cli.shell_strings import COMMANDS, make_programs

SHELLS = [name for name in ("dash", "bash") if shutil.which(name)]


@pytest.fixture(scope="module")
def show(tmp_path_factory):
    return make_programs(tmp_path_factory.mktemp("bin"))


@pytest.mark.parametrize("shell", SHELLS)
def test_simple_commands_are_split_as_a_shell_splits_them(shell, show):
    path = {"PATH": str(show), "HOME": "/nowhere", "LC_ALL": "C.UTF-8"}
    program = shutil.which(shell)
    taken = 0

    @settings(max_examples=1500, deadline=None, derandomize=bool(os.environ.get("CI")))
    @given(COMMANDS)
    @example("show -DV=\\\"1\\\" 'a\"b' \"c'd\" \\x ''")
    @example("show a=b %1 @x +y ,z :")
    def check(text):
        nonlocal taken
        words = simple_command(text)
        if words is None or words[0] not in ("show", "cc"):
            return
        taken += 1
        result = subprocess.run(
            [program, "-c", text], env=path, cwd=show, capture_output=True, timeout=90,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert result.stdout == b"".join(word.encode() + b"\0" for word in words), result.stderr

    check()
    assert taken > 20


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_builtins_and_keywords_are_left_to_the_shell(word):
    assert simple_command(f"{word} x") is None


@pytest.mark.parametrize("shell", SHELLS)
def test_no_builtin_of_a_real_shell_is_missing_from_the_list(shell):
    names = {p for d in ("/bin", "/usr/bin") if os.path.isdir(d) for p in os.listdir(d)}
    program = 'for n do case $(command -V "$n" 2>&1) in *builtin*|*keyword*) echo "$n";; esac; done'
    result = subprocess.run(
        [shell, "-c", program, shell, *sorted(names)], capture_output=True, text=True, check=True
    )
    assert not {word for word in result.stdout.split() if simple_command(word) is not None}


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "a=b", "a=b cc", "'cc' x", "cc *.c", "cc $x", "cc ~/x", "cc x;", "cc x &",
        "cc <x", "cc >x", "cc 2>&1", "cc x | y", "(cc)", "{ cc; }", "! cc", "cc #x", "cc\nx",
        "cc x\n", "%1", "cc {a,b}", "cc \\\nx", "cc 'x", 'cc "$x"', 'cc "\\x"', "cc é", "env",
        "echo x", "exec cc", "if", "[ x ]",
    ],
)  # fmt: skip
def test_left_to_the_shell(text):
    assert simple_command(text) is None


@pytest.mark.parametrize(
    ("arguments", "text", "direct"),
    [
        (["-c", "cc x"], "cc x", True),
        (["-ec", "cc x", "name", "a"], "cc x", True),
        (["-e", "-c", "cc x"], "cc x", True),
        (["-xc", "cc x"], "cc x", False),
        (["-c", "-x", "cc x"], "cc x", False),
        (["-o", "errexit", "-c", "cc x"], "cc x", False),
        (["+e", "-c", "cc x"], "cc x", False),
        (["-c", "--", "cc x"], "cc x", True),
        (["--posix", "-c", "cc x"], "cc x", False),
        (["--rcfile", "-c", "x"], None, False),
        (["script", "-c", "x"], None, False),
        (["-s", "-c"], None, False),
        (["-ic", "cc x"], "cc x", False),
        (["-lc", "cc x"], "cc x", False),
        (["-c"], None, False),
        ([], None, False),
    ],
)
def test_where_the_command_string_is(arguments, text, direct):
    invocation = read_invocation(arguments)
    assert (invocation.text, invocation.is_direct) == (text, direct)


def test_programs_that_read_commands_from_their_input():
    for arguments in ([], ["-i"], ["-s", "a", "b"], ["-l"], ["-e"], ["-"]):
        assert read_invocation(arguments).reads_input, arguments
    for arguments in (["x"], ["-c", "x"], ["-e", "x", "-s"], ["--", "x"]):
        assert not read_invocation(arguments).reads_input, arguments
