"""What is reported of an output file that a shell cannot open."""

import os
import subprocess

import pytest

from lbd.keeper.spawn_order import SUBJECT_AT
from lbd.lbm.inbound.submitted import Common
from lbd.lbm.queue.own_files import EXIT_CANNOT_OPEN, why_not_opened, writing_to
from lbd.net.gen import lbm_pb2

DASH = b"lbd: 1: cannot create no/7.out: Directory nonexistent\n"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (DASH, "No such directory"),
        (b"lbd: line 1: no/7.out: No such file or directory\n", "No such file or directory"),
        (b"lbd: line 0: can't create no/7.out: nonexistent directory\n", "No such directory"),
        (b"lbd: 1: cannot create no/7.out: Is a directory\n", "Is a directory"),
        (b"lbd: 1: cannot create no/7.out: \x1b[1m\xff\n", "?[1m?"),
    ],
)
def test_messages_of_shells(said, why):
    assert why_not_opened(said, b"no/7.out", b"") == (
        f"cannot open the output file no/7.out: {why}"
    )


def test_the_file_in_question_is_named():
    assert "file no/7.out:" in why_not_opened(DASH, b"out", b"no/7.out")


@pytest.mark.parametrize(
    "said", [b"", b"no such key\n", DASH + b"more\n", DASH.replace(b"7", b"8")]
)
def test_the_message_of_a_command_is_no_reason(said):
    assert why_not_opened(said, b"no/7.out", b"") == ""


@pytest.mark.parametrize("odd_names", [False, True])
@pytest.mark.parametrize("names", [(b"a: b/out", b""), (b"", b"a: b/out"), (b"ok", b"a: b/out")])
def test_the_shell_of_this_host_is_understood(tmp_path, names, odd_names):
    argv = writing_to(*names, [b"touch", b"ran"], appends=False, odd_names=odd_names)
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=20)
    assert ended.returncode == EXIT_CANNOT_OPEN
    assert why_not_opened(ended.stderr, *names).startswith(
        "cannot open the output file a: b/out: No"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"BASH_FUNC_f%%": "() { :; }", "A.B": "1", "BASH_ENV": "own", "SHELLOPTS": "braceexpand"},
    ],
)
def test_the_command_has_every_variable(tmp_path, names):
    """dash drops those whose names are none of its own."""
    given = {"PATH": os.environ["PATH"], "PWD": str(tmp_path), "SHLVL": "1", **names}
    (tmp_path / "own").write_text("echo own\n")
    request = lbm_pb2.RunRequest(environment=[f"{one}={given[one]}".encode() for one in given])
    odd_names = Common(request, "").has_odd_names
    assert odd_names == bool(names)
    argv = writing_to(b"out", b"", [b"env", b"-0"], appends=False, odd_names=odd_names)
    assert argv[SUBJECT_AT] == b"env"  # where the keeper puts the program that it has found
    subprocess.run(argv, cwd=tmp_path, env=given, check=True, timeout=20)
    found = (tmp_path / "out").read_text().split("\0")[:-1]
    kept = dict(one.split("=", 1) for one in found)
    assert "privileged" not in kept.pop("SHELLOPTS", "")
    given.pop("SHELLOPTS", "")
    assert {name: kept.get(name) for name in given} == given
