"""The lines of `sh` that run a script of `sbatch`."""

import os
import subprocess

import pytest

from lbd.slurm.options import SlurmError
from lbd.slurm.script import LAUNCH, launcher, path_kept
from lbd.slurm.step import SCRIPT, next_number, take_slots


def launched(script, tmp_path, **variables):
    """Returns what a job with this script prints, where it runs."""
    (tmp_path / "input").write_bytes(script)
    lines = f"interpreter=/bin/sh option= input=/dev/null signal= after=\n{LAUNCH}"
    with open(tmp_path / "input", "rb") as stdin:
        return subprocess.run(
            ["sh", "-c", lines, "job.sh"], stdin=stdin, capture_output=True, check=False, text=True,
            env={"PATH": os.environ["PATH"], "LBD_SLOTS": "1", "LBD_ATTEMPT": "1"} | variables,
        )  # fmt: skip


@pytest.mark.parametrize("option", ["", "-l"])
def test_a_script_of_bash_has_what_the_user_exported_and_our_srun(tmp_path, option):
    """dash dropped exported functions, and a login shell's profile sets PATH again."""
    own, home, commands = tmp_path / "env", tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    commands.mkdir()
    (commands / "srun").write_text('#!/bin/sh\necho "srun $*"\n')
    (commands / "srun").chmod(0o755)
    (home / ".bash_profile").write_text("PATH=/usr/bin:/bin\nbash -c :\necho profile\n")
    own.write_text("echo own\n")
    (tmp_path / "input").write_text(
        "module load x\necho $BASH_ENV ${!SLURM_LBD_*}\nsrun a\nbash -c :\nexec srun b\n"
    )
    values = f"interpreter=/bin/bash option={option} input=/dev/null signal= after="
    kept = path_kept(f"#!/bin/bash {option}", str(commands))
    lines = f"{values} commands={kept[0]} profile={kept[1]}\n{LAUNCH}"
    environment = {
        "PATH": f"{commands}:/usr/bin:/bin", "HOME": str(home), "BASH_ENV": str(own),
        "BASH_FUNC_module%%": '() { echo "module $*"; }', "LBD_SLOTS": "1", "LBD_ATTEMPT": "1",
        "SBATCH_LAUNCH": lines,
    }  # fmt: skip
    with open(tmp_path / "input", "rb") as stdin:
        done = subprocess.run(
            [*launcher("/bin/bash", option), "job.sh"], stdin=stdin, capture_output=True,
            check=False, text=True, env=environment,
        )  # fmt: skip
    before = "own\nprofile\nown\n" if option else "own\n"
    assert (done.stdout, done.stderr) == (
        f"{before}module load x\n{own} SLURM_LBD_SCRIPT\nsrun a\nown\nsrun b\n", "",
    )  # fmt: skip


def test_nobody_puts_another_script_in_its_place(tmp_path):
    """In a TMPDIR that is writable for all, another user reacts as soon as a file appears."""
    shared, programs = tmp_path / "shared", tmp_path / "bin"
    shared.mkdir()
    programs.mkdir()
    quick = programs / "cat"
    quick.write_text(
        '#!/bin/sh\n/bin/cat "$@"\nfor file in "$TMPDIR"/*; do [ -e "$file" ] || continue\n'
        'rm "$file"; echo "echo swapped" >"$file"; done\n'
    )
    quick.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    done = launched(b"#!/bin/sh\necho own\ncat\n", tmp_path, TMPDIR=str(shared), PATH=path)
    assert (done.stdout, done.stderr) == ("own\n", "")


def test_a_script_needs_no_room_for_temporary_files(tmp_path):
    done = launched(b"#!/bin/sh\necho own\n", tmp_path, TMPDIR=str(tmp_path / "away"))
    assert (done.stdout, done.stderr) == ("own\n", "")


def test_steps_are_counted_by_a_separate_file_of_the_user(tmp_path):
    """The script belongs to the daemons: a process that is not its owner cannot set its times."""
    script = b"#!/bin/sh\nstat -Lc '%h %s %u' $SLURM_LBD_SCRIPT\n"
    done = launched(script, tmp_path)
    assert done.stdout == f"0 0 {os.geteuid()}\n"


def test_steps_are_not_counted_by_a_file_that_somebody_else_has_put_there(tmp_path, monkeypatch):
    path = tmp_path / "linked"
    path.touch()
    before = path.stat().st_mtime
    monkeypatch.setenv(SCRIPT, str(path))
    assert next_number() == 0
    assert path.stat().st_mtime == before
    with pytest.raises(SlurmError):
        take_slots(1, 1)
