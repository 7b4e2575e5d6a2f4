"""The environment that a command gets, as its options say."""

import pytest

from lbd.client.complaints import Trouble
from lbd.client.options import read_options
from lbd.client.surroundings import make_environment

NAMED = "lbrun: -e NOSUCHVAR: there is no such variable here\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-v", "-e", "NOSUCHVAR"], NAMED),
        (["-d", "-v", "--env", "NOSUCHVAR"], NAMED),
        (["-e", "NOSUCHVAR"], ""),
        (["-v", "-e", "HOME", "-e", "NOSUCHVAR=1", "-e", "no.such=1"], ""),
        (["-d", "-e", "is.there"], ""),
    ],
)  # fmt: skip
def test_a_variable_that_is_not_there_is_said_to_whom_wants_to_know(
    monkeypatch, capfd, words, said
):
    monkeypatch.setattr("posix.environ", {b"HOME": b"/root", b"is.there": b"1"})
    assert b"NOSUCHVAR" not in make_environment(read_options([*words, "true"])) or not said
    assert capfd.readouterr() == ("", said)


@pytest.mark.parametrize("name", ["err.txt", "/tmp/err", "err-%j"])
def test_of_a_queued_command_the_file_that_slurm_takes_is_refused(name):
    """It did nothing, without a word, and standard error went to the file of -o."""
    with pytest.raises(Trouble, match=r": there is no such variable here; .* use --error$"):
        make_environment(read_options(["-d", "-o", "out.txt", "-e", name, "true"]))
