"""`lbd slurm install DIR`: Slurm's commands as small programs that speak to our queue."""

from pathlib import Path

from lbd.cli.program import Parser
from lbd.errors import LbdError
from lbd.slurm.program import NAMES, install


def main(argv: list[str]) -> int:
    parser = Parser(
        "lbd slurm",
        "Slurm's commands as small programs that speak to the queue of this cluster:\n"
        + ", ".join(NAMES),
        ("lbd slurm install ~/slurm-bin      then: PATH=~/slurm-bin:$PATH snakemake …",),
    )
    parser.add_version()
    parser.add_argument("command", metavar="install", choices=("install",))
    parser.add_argument("directory", metavar="DIR", type=Path, help="where they are put")
    options = parser.parse_args(argv)
    directory: Path = options.directory
    try:
        made = install(directory)
    except OSError as problem:
        raise LbdError(f"{problem.filename or directory}: {problem.strerror}") from None
    print(f"{directory}: {', '.join(path.name for path in made)}")
    return 0
