"""Runs one of Slurm's commands, by the name it is called by; and `lbd slurm install`, which puts
them into a directory."""

import importlib
import os
import sys

from lbd.client.complaints import say
from lbd.slurm.options import SlurmError, ignore

TYPE_CHECKING = False  # importing typing takes a while
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ("sbatch", "srun", "squeue", "scancel", "sinfo", "sacct", "scontrol")
SCRIPT = """\
#!{python} -IS
# {name} of lbd, by `lbd slurm install`: speaks to the queue of this host's cluster.
import sys

sys.path[:0] = {path!r}
from lbd.slurm.program import run

run("{name}", {ignored!r})
"""


def run(name: str, ignored: str = "") -> None:
    """Never returns. `ignored`: comma-separated option names that it was installed to ignore."""
    status = 1
    try:
        if sys.argv[1:] in (["--version"], ["-V"]):
            os.write(1, b"slurm of lbd\n")
            os._exit(0)
        ignore(ignored)
        command: Callable[[list[str]], int] = importlib.import_module(f"lbd.slurm.{name}").run
        status = command(sys.argv[1:])
        sys.stdout.flush()
    except SlurmError as problem:
        for line in problem.lines:
            say(f"error: {line}", name)
    except BrokenPipeError:
        os._exit(1)
    except KeyboardInterrupt:
        status = 130
    os._exit(status)


def install(directory: "Path", ignored: str = "") -> "list[Path]":
    """Installs the commands. `ignored`: as for `run`. Raises OSError; FileExistsError rather than
    replace files of others."""
    from pathlib import Path

    from lbd.process.whole_file import write_whole

    directory.mkdir(parents=True, exist_ok=True)
    own, made = str(Path(__file__).resolve().parent.parent.parent), []
    for name in NAMES:
        path = directory / name
        if path.is_symlink() or (path.exists() and "`lbd slurm install`" not in head_of(path)):
            raise FileExistsError(17, "is there already, and is not ours", str(path))
    for name in NAMES:
        path = directory / name
        text = SCRIPT.format(python=sys.executable, name=name, path=[own], ignored=ignored)
        write_whole(path, text.encode(), 0o755)
        made.append(path)
    return made


def head_of(path: "Path") -> str:
    with path.open("rb") as file:
        return file.read(400).decode(errors="replace")
