"""What is said of the names of `-o` and `--error` when a job is submitted."""

import os
from types import SimpleNamespace

import pytest

from lbd.client.complaints import Trouble
from lbd.client.output_names import check_place, doubt
from lbd.client.queue import check_outputs
from lbd.text.name_patterns import LETTERS, fill_in, unknown_in


@pytest.fixture
def directory(tmp_path):
    for name in ("logs", "run1", "50%"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    return os.fsencode(tmp_path)


@pytest.mark.parametrize(
    "name", ["x", "logs/x", "file", "logs/%j", "run%a/x", "%h/x", "/tmp/x", "/x"]
)
def test_a_name_that_a_job_may_write_is_accepted(directory, name):
    check_place("-o", name.encode(), directory)


def test_a_per_cent_sign_in_the_working_directory_is_no_pattern(directory):
    check_place("-o", b"x", directory + b"/50%")
    with pytest.raises(Trouble, match="there is no directory"):
        check_place("-o", b"gone/x", directory + b"/50%")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone/x", "there is no directory HERE/gone; create it first"),
        ("gone/%j.out", "there is no directory HERE/gone; create it first"),
        ("gone/%a/x", "there is no directory HERE/gone; create it first"),
        ("/gone-of-lbd/r%a/x", "there is no directory /gone-of-lbd; create it first"),
        ("file/x", "not a directory"),
        ("file/%a/x", "not a directory"),
        ("logs", "is a directory"),
        ("logs/", "is a directory"),
    ],
)
def test_a_name_that_no_job_could_write_is_refused(directory, name, says):
    with pytest.raises(Trouble) as caught:
        check_place("-o", name.encode(), directory)
    assert str(caught.value) == f"-o {name}: {says.replace('HERE', os.fsdecode(directory))}"


KNOWN = "there are %j (job id), %A (array id), %a (array index), %h (host) and %%"


@pytest.mark.parametrize(
    ("name", "indexes", "says"),
    [
        ("out.%N", "", f"%N is no pattern and stays as it is; {KNOWN}"),
        ("%4a", "1-3", f"%4 is no pattern and stays as it is; {KNOWN}"),
        ("100%", "", f"% is no pattern and stays as it is; {KNOWN}"),
        ("out.%a", "", "%a is empty without --array"),
        ("%j/x", "", "lbd does not create its directory, which must be there when the job begins"),
        (
            "%A/%a",
            "1-3",
            "lbd does not create its directory, which must be there when the job begins",
        ),
        ("run%a/x", "2-5%2", "there is no directory run2; lbd does not create it"),
        ("run%a/x", "1,7", ""),
        ("run%a/x", "1-3", ""),
        ("%h/x", "", ""),
        ("out.%j.%A.%h.%%a", "", ""),
        ("out.%a", "1-3", ""),
        ("out", "", ""),
    ],
)
def test_a_name_that_is_probably_a_mistake_causes_a_warning(directory, name, indexes, says):
    assert doubt("-o", name.encode(), directory, indexes) == (f"-o {name}: {says}" if says else "")


def test_one_line_is_said(directory, capfd):
    values = {"output": "a.%N", "error": "b.%N", "array": "1-3"}
    typed = {"output": "-o", "error": "--error"}
    check_outputs(SimpleNamespace(values=values, typed=typed), directory)
    assert capfd.readouterr().err == (
        f"lbrun: -o a.%N: %N is no pattern and stays as it is; {KNOWN}\n"
    )


def test_the_known_letters_are_those_that_are_filled_in():
    for byte in range(256):
        sign = b"%" + bytes((byte,))
        assert (unknown_in(sign) == sign) == (fill_in(sign, "12_7", 7, "h2") == sign)
        assert (unknown_in(sign) == b"") == (sign[1:] in LETTERS)
