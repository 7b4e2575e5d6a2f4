"""The warning for scripts that are run by a login shell and would not find our srun."""

import pytest

from lbd.slurm.script import is_login_shell, launcher, lost_path, path_kept
from lbd.text.job_phrases import LAUNCH_LINE, LAUNCHER

PROFILE = "if true; then\n  PATH=/usr/bin:/bin\nfi\n"
SCRIPT = "#!/bin/sh -l\n#SBATCH -n 2\n\necho\nsrun -n 2 fit\n"


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
        "#!/bin/sh -l starts a login shell, which sets PATH again, so line 5 may not find this "
        "srun: put `export PATH=/data/slurm-bin:$PATH` at the end of "
        f"{tmp_path}/.profile"
    )
    assert warning(bash_profile="PATH=$PATH:x\n").endswith(f"{tmp_path}/.bash_profile")


@pytest.mark.parametrize(
    "call", ["srun fit", "  time srun fit", "x=$(srun -n1 fit)", "cd /; srun fit", "cd /&&srun fit"]
)
def test_a_call_of_srun_is_seen(call, warning):
    assert "line 2 may" in warning(f"#!/bin/sh -l\n{call}\n")


@pytest.mark.parametrize(
    "script",
    ["#!/bin/sh\nsrun fit\n", "#!/bin/sh -l\n# srun fit\nfit\n", "#!/bin/sh -l\nmysrun-x\n"],
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


def test_a_bash_finds_it_unless_a_profile_sets_bash_env(warning, tmp_path):
    """As that of Lmod does."""
    script = SCRIPT.replace("/sh", "/bash")
    assert warning(script) == ""
    sets = "if true; then export BASH_ENV=/opt/lmod/init/bash; fi\n"
    assert "line 5 may" in warning(script, profile=PROFILE + sets)
    (tmp_path / "etc.d").mkdir()
    (tmp_path / "etc.d/lmod.sh").write_text(sets)
    assert "line 5 may" in warning(script)
    assert path_kept("#!/usr/bin/env -S bash -l", "/data/bin")[0] == "/data/bin"
    for first in ("#!/bin/sh -l", "#!/bin/bash", "#!/bin/bash -e"):
        assert path_kept(first, "/data/bin") == ("", "")
    assert path_kept("#!/bin/bash -l", "/usr/local/bin") == ("", "")


@pytest.mark.parametrize(
    ("interpreter", "option", "expected"),
    [
        ("/bin/bash", "", ("/bin/bash", "-pc", LAUNCH_LINE)),
        ("/bin/bash", "-l", ("/bin/bash", "-pc", LAUNCH_LINE)),
        ("/usr/bin/env", "bash", ("/usr/bin/env", "bash", "-pc", LAUNCH_LINE)),
        ("/usr/bin/env", "-S bash -e", ("/usr/bin/env", "bash", "-pc", LAUNCH_LINE)),
        ("/bin/sh", "-e", LAUNCHER),
        ("/usr/bin/env", "python3", LAUNCHER),
        ("/usr/bin/env", "", LAUNCHER),
    ],
)
def test_a_script_of_bash_is_started_by_bash(interpreter, option, expected):
    assert launcher(interpreter, option) == expected
