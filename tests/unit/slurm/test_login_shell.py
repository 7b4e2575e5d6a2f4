"""The warning for scripts that are run by a login shell and would not find our srun."""

import pytest

from lbd.slurm.script import is_login_shell, lost_path

PROFILE = "if true; then\n  PATH=/usr/bin:/bin\nfi\n"
SCRIPT = "#!/bin/bash -l\n#SBATCH -n 2\n\necho\nsrun -n 2 fit\n"


@pytest.mark.parametrize(
    ("first", "expected"),
    [("#!/bin/bash -l", True), ("#! /bin/bash --login", True), ("#!/usr/bin/env -S bash -el", True),
     ("#!/bin/bash", False), ("#!/bin/bash -e", False), ("#!/usr/bin/python3 -l", False),
     ("#!/bin/bash --posix", False), ("#!", False)],
)  # fmt: skip
def test_what_is_a_login_shell(first, expected):
    assert is_login_shell(first) == expected


@pytest.fixture
def warning(tmp_path):
    def of(script=SCRIPT, directory="/data/slurm-bin", profile=PROFILE, **files):
        (tmp_path / "etc").write_text(profile)
        for name, text in files.items():
            (tmp_path / f".{name}").write_text(text)
        return lost_path(script, directory, str(tmp_path), str(tmp_path / "etc"))

    return of


def test_it_names_the_line_and_the_file_that_bash_reads(warning, tmp_path):
    assert warning() == (
        "#!/bin/bash -l starts a login shell, which sets PATH again, so line 5 may not find this "
        "srun: put `export PATH=/data/slurm-bin:$PATH` at the end of "
        f"{tmp_path}/.profile"
    )
    assert warning(bash_profile="PATH=$PATH:x\n").endswith(f"{tmp_path}/.bash_profile")


@pytest.mark.parametrize(
    "call", ["srun fit", "  time srun fit", "x=$(srun -n1 fit)", "cd /; srun fit", "cd /&&srun fit"]
)
def test_a_call_of_srun_is_seen(call, warning):
    assert "line 2 may" in warning(f"#!/bin/bash -l\n{call}\n")


@pytest.mark.parametrize(
    "script",
    ["#!/bin/bash\nsrun fit\n", "#!/bin/bash -l\n# srun fit\nfit\n", "#!/bin/bash -l\nmysrun-x\n"],
)
def test_others_have_none(script, warning):
    assert warning(script) == ""


def test_none_where_a_login_finds_it(warning):
    assert warning(directory="/usr/local/bin") == ""
    assert warning(profile="PATH=/opt:$PATH\nexport PATH=/x:${PATH}\n") == ""
    assert warning(bashrc="PATH=/data/slurm-bin:$PATH") == ""


@pytest.mark.parametrize("home", ["~", "$HOME", "${HOME}"])
def test_none_where_the_home_is_named(warning, tmp_path, home):
    own = f"{tmp_path}/bin"
    assert warning(directory=own, bashrc="PATH=/opt/bin:$PATH:~/other/bin\n") != ""
    assert warning(directory=own, bashrc=f"export PATH={home}/bin:$PATH\n") == ""
