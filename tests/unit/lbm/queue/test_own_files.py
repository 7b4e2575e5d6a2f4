"""What is reported of an output file that a shell cannot open."""

import subprocess

import pytest

from lbd.lbm.queue.own_files import EXIT_CANNOT_OPEN, why_not_opened, writing_to

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


@pytest.mark.parametrize("names", [(b"a: b/out", b""), (b"", b"a: b/out"), (b"ok", b"a: b/out")])
def test_the_shell_of_this_host_is_understood(tmp_path, names):
    argv = writing_to(*names, [b"touch", b"ran"], appends=False)
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=20)
    assert ended.returncode == EXIT_CANNOT_OPEN
    assert why_not_opened(ended.stderr, *names).startswith(
        "cannot open the output file a: b/out: No"
    )
    assert not (tmp_path / "ran").exists()
