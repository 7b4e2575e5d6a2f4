"""Slurm's commands in front of no queue at all, as far as Snakemake's slurm plugin calls them.

`instant_slurm.py NAME [ARGUMENT...]`: `sbatch` starts the script in the background, on one of
$INSTANT_SLOTS slots in turn; `sacct` says whether it has ended; `srun` becomes its command. The
time of a workflow through these is the least that any queue can take. State is in
$INSTANT_DIRECTORY.
"""

import fcntl
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path


def sbatch(words: list[str], directory: Path) -> None:
    """The plugin gives its command as `--wrap=`."""
    script = next(word.removeprefix("--wrap=") for word in words if word.startswith("--wrap="))
    following = dict(pairwise(words))
    output = os.path.expanduser(following.get("--output", os.devnull))
    with (directory / "last").open("a+") as last:
        fcntl.flock(last, fcntl.LOCK_EX)
        number = 1 + len(list(directory.glob("*.state")))
        state = directory / f"{number}.state"
        state.write_text("PENDING")
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()
    if os.fork():
        return
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(os.open(output.replace("%j", str(number)), os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(1, 2)
    slot = number % int(os.environ["INSTANT_SLOTS"])
    with (directory / f"slot{slot}").open("w") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        state.write_text("RUNNING")
        environment = os.environ | {"SLURM_JOB_ID": str(number)}
        status = subprocess.call(["/bin/sh", "-c", script], env=environment)
        state.write_text("FAILED" if status else "COMPLETED")


def main() -> None:
    name, *words = sys.argv[1:]
    directory = Path(os.environ["INSTANT_DIRECTORY"])
    if name == "sbatch":
        sbatch(words, directory)
    elif name == "sacct":
        for path in directory.glob("*.state"):
            print(f"{path.stem}|{path.read_text() or 'RUNNING'}")
    elif name == "srun":
        while words and words[0].startswith("-"):
            words.pop(0)
        os.execvp(words[0], words)
    elif name == "scontrol":
        print("MinJobAge               = 300 sec")


if __name__ == "__main__":
    main()
