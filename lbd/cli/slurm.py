"""`lbd slurm install DIR`: installs Slurm's commands as small programs that use our queue."""

import shlex
from argparse import ArgumentTypeError
from pathlib import Path

from lbd.cli.program import Parser
from lbd.errors import LbdError
from lbd.slurm.options import listed
from lbd.slurm.program import NAMES, install
from lbd.slurm.sbatch import GRAMMAR, ONLY
from lbd.slurm.srun import GRAMMAR as SRUN
from lbd.slurm.srun import ONLY as SRUN_ONLY
from lbd.text.spelling import hint

USUAL = "account,partition,qos,mail-type,mail-user,hint,wckey"  # common in users' scripts


def main(argv: list[str]) -> int:
    parser = Parser(
        "lbd slurm",
        "Slurm's commands as small programs that speak to the queue of this cluster:\n"
        + ", ".join(NAMES),
        (
            "lbd slurm install ~/slurm-bin      then: PATH=~/slurm-bin:$PATH snakemake …",
            f"lbd slurm install ~/slurm-bin --ignore {USUAL}",
        ),
    )
    parser.add_version()
    parser.add_argument("command", metavar="install", choices=("install",))
    parser.add_argument("directory", metavar="DIR", type=Path, help="where to put them")
    parser.add_argument(
        "--ignore",
        metavar="OPTION,...",
        type=ignorable,
        default="",
        help="options in scripts to ignore because lbd has no equivalent, such as account; others "
        "like them are refused",
    )
    options = parser.parse_args(argv)
    directory: Path = options.directory
    try:
        made = install(directory, options.ignore)
    except OSError as problem:
        raise LbdError(f"{problem.filename or directory}: {problem.strerror}") from None
    print(f"{directory}: {', '.join(path.name for path in made)}")
    if not options.ignore:
        print("They refuse scripts that name an account, a partition, a QOS or mail. If yours do:")
        print(f"lbd slurm install {shlex.quote(str(directory))} --ignore {USUAL}")
    return 0


def ignorable(text: str) -> str:
    """Raises ArgumentTypeError unless the option is one that is refused and safe to ignore."""
    names = [name.strip().removeprefix("--") for name in listed(text)]
    allowed = {"partition", *ONLY, *GRAMMAR.refused, *GRAMMAR.refused_plain}
    allowed |= {*SRUN_ONLY, *SRUN.refused, *SRUN.refused_plain}
    allowed -= {*SRUN.instead}
    for name in names:
        if name in SRUN.instead:
            raise ArgumentTypeError(f"{name!r} cannot be ignored: {SRUN.instead[name]}")
        if name not in allowed:
            raise ArgumentTypeError(f"sbatch does not refuse {name!r}; {hint(name, allowed)}")
    return ",".join(names)
