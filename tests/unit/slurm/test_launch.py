"""The lines of `sh` that run a script of `sbatch`."""

import os
import subprocess

from lbd.slurm.sbatch import LAUNCH


def launched(script, tmp_path, **variables):
    """What a job with this script prints, where it runs."""
    (tmp_path / "input").write_bytes(script)
    lines = f"interpreter=/bin/sh option= input=/dev/null signal= after=\n{LAUNCH}"
    with open(tmp_path / "input", "rb") as stdin:
        return subprocess.run(
            ["sh", "-c", lines, "job.sh"], stdin=stdin, capture_output=True, check=False, text=True,
            env={"PATH": os.environ["PATH"], "LBD_SLOTS": "1", "LBD_ATTEMPT": "1"} | variables,
        )  # fmt: skip


def test_nobody_puts_another_script_in_its_place(tmp_path):
    """In a TMPDIR where everybody may write, somebody is quick: as soon as a file is there."""
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
