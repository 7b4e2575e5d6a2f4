"""The script of `sbatch`: its `#SBATCH` lines, and the lines of `sh` that run it.

The script is sent as the job's input, so it may change or vanish once it is submitted. On the job's
host it is a file without a name, which nobody else can replace: a few lines of `sh` keep it as a
descriptor, set SLURM_…, and run it with an empty standard input. These lines are in a variable, so
that `lbctl jobs` shows the script's name instead. An empty file of the job's user counts its steps.
"""

import glob
import os
import re
import shlex
import sys

from lbd.slurm.options import Given, Grammar, SlurmError, read_all
from lbd.text.job_phrases import LAUNCH_LINE, LAUNCHER

LINE_CHARS_MAX = 1 << 16
LOGIN_SHELLS = ("bash", "sh", "dash", "ksh")  # these read the files below
ALWAYS_FOUND = ("/bin", "/usr/bin", "/usr/local/bin")
OF_ALL_LOGINS = "/etc/profile"
AFTER_PROFILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "after_profile.bash")
OWN_LOGIN_FILES = (".bash_profile", ".bash_login", ".profile")  # bash reads the first it finds
ALSO_READ = (".bashrc",)  # by the others, as a rule
SETS_PATH = re.compile(r"^[ \t]*(export[ \t]+)?PATH=(?!.*\$\{?PATH)", re.MULTILINE)
SETS_BASH_ENV = re.compile(r"^[ \t]*([^#\n]*[\s;])?BASH_ENV=", re.MULTILINE)  # Lmod's does
CALLS_SRUN = re.compile(r"^[ \t]*([^#\n]*[\s;|&(`])?srun\b", re.MULTILINE)
# Variables of the lines below, whose $@ are the script's arguments. `signal`, if set, is sent to
# the script `after` that many seconds. `commands`, if set, is the directory of our srun, which a
# login bash would not find; it reads `profile` after the user's profile.
LAUNCHED = ("interpreter", "option", "input", "signal", "after", "commands", "profile")
LAUNCH = r"""
[ -z "${BASH_VERSION:-}" ] || set +p
unset SBATCH_LAUNCH
export SLURM_JOB_ID="$LBD_JOB_ID" SLURM_JOBID="$LBD_JOB_ID" SLURM_CLUSTER_NAME=lbd
export SLURM_JOB_NODELIST="$LBD_HOST" SLURM_NODELIST="$LBD_HOST" SLURMD_NODENAME="$LBD_HOST"
export SLURM_SUBMIT_HOST="$LBD_ORIGIN" SLURM_CPUS_ON_NODE="$LBD_SLOTS" SLURM_NNODES=1
export SLURM_JOB_CPUS_PER_NODE="$LBD_SLOTS" SLURM_JOB_NUM_NODES=1
export SLURM_NPROCS="$SLURM_NTASKS" SLURM_TASKS_PER_NODE="$SLURM_NTASKS" SLURM_PROCID=0
export SLURM_LOCALID=0 SLURM_NODEID=0
export SLURM_JOB_PARTITION=lbd SLURM_RESTART_COUNT=$((LBD_ATTEMPT - 1))
if [ -n "${LBD_ARRAY_ID:-}" ]; then
    export SLURM_ARRAY_JOB_ID="$LBD_ARRAY_ID" SLURM_ARRAY_TASK_ID="$LBD_ARRAY_INDEX"
fi
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    export SLURM_JOB_GPUS="$CUDA_VISIBLE_DEVICES"
    SLURM_GPUS_ON_NODE=$(IFS=,; set -- $SLURM_JOB_GPUS; echo $#)
    export SLURM_GPUS_ON_NODE
fi
exec 4<&0
[ -f /dev/fd/4 ] || { echo "sbatch: this job has lost its script; submit it again" >&2; exit 1; }
if steps=$(mktemp 2>/dev/null) && [ -f "$steps" ] && [ -w "$steps" ]; then
    exec 3<>"$steps"
    rm -f "$steps"
else
    exec 3<&4
fi
export SLURM_LBD_SCRIPT="/proc/$$/fd/3"
if [ -n "$commands" ] && [ -r "$profile" ]; then
    export SLURM_LBD_COMMANDS="$commands" SLURM_LBD_BASH_ENV="${BASH_ENV:-}" BASH_ENV="$profile"
fi
early=${signal:+timeout --foreground --preserve-status -s $signal $after}
exec $early "$interpreter" ${option:+"$option"} /dev/fd/4 "$@" <"$input"
"""


def script_of(typed: Given) -> tuple[str, bytes]:
    """Returns the script's name and text. Raises SlurmError."""
    if "wrap" in typed.values:
        if typed.rest:
            raise SlurmError("Script arguments not permitted with --wrap option")
        return "wrap", b"#!/bin/sh\n" + os.fsencode(typed.values["wrap"]) + b"\n"
    if not typed.rest:
        return "sbatch", sys.stdin.buffer.read()
    try:
        with open(typed.rest[0], "rb") as file:
            return os.path.basename(typed.rest[0]), file.read()
    except OSError as problem:
        raise SlurmError(f"Unable to open file {typed.rest[0]}: {problem.strerror}") from None


def shebang(script: bytes, before: str) -> tuple[str, str]:
    """Returns the interpreter, and its option or "". Raises SlurmError, whose text has `before` at
    its start."""
    first = script.partition(b"\n")[0]
    words = os.fsdecode(first[2:]).split(None, 1)
    if not first.startswith(b"#!") or not words:
        raise SlurmError(
            f"{before}This does not look like a batch script. The first line must start with #! "
            "followed by the path to an interpreter."
        )
    return words[0], words[1].strip() if words[1:] else ""


def launcher(interpreter: str, option: str) -> tuple[str, ...]:
    """Returns the command that runs the lines above. For a script of bash it is that bash, since
    another shell may drop the functions that the user has exported, as dash does. As `privileged`
    it does not read $BASH_ENV, which is for the script, and passes functions on all the same."""
    words = without_env([interpreter, *option.split()])
    if not words or os.path.basename(words[0]) != "bash":
        return LAUNCHER
    env = [] if words[0] == interpreter else [interpreter]
    return (*env, words[0], "-pc", LAUNCH_LINE)


def in_script(text: str, source: str, faults: list[str], grammar: Grammar) -> Given:
    """Returns the options in the script's #SBATCH lines. Faults of unreadable lines are added to
    `faults`."""
    found = Given()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            break
        if not line.startswith("#SBATCH"):
            continue
        try:
            if len(line) > LINE_CHARS_MAX:  # shlex takes quadratic time
                raise SlurmError(f"it has more than {LINE_CHARS_MAX:,} characters")
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            given = read_all(words, grammar, mixed=True)
            if given.rest:
                raise SlurmError(f"{given.rest[0]!r} is no option")
        except (SlurmError, ValueError) as problem:
            faults.append(f"{source}: line {number}: {problem}")
            continue
        for option, text in given.refused.items():
            given.refused[option] = f"{text} (line {number})"
        given.lines = dict.fromkeys(given.values, number)
        found = given.over(found)
    return found


def path_kept(first: str, directory: str) -> tuple[str, str]:
    """Returns `directory` and the file by which a login bash finds it in PATH; empty for other
    interpreters. `first`: the script's first line."""
    words = without_env(first.removeprefix("#!").split())
    is_bash = bool(words) and os.path.basename(words[0]) == "bash"
    if not is_bash or not is_login_shell(first) or directory in ALWAYS_FOUND:
        return "", ""
    return directory, AFTER_PROFILE


def lost_path(script: str, directory: str, home: str, of_all: str = OF_ALL_LOGINS) -> str:
    """Returns a warning if the script's `srun` would not be found in `directory`, because it is run
    by a login shell, which sets PATH again; else "". A bash has it by $BASH_ENV, unless a profile
    sets that, too."""
    first, _, rest = script.partition("\n")
    calls = CALLS_SRUN.search(rest)
    if not calls or not is_login_shell(first) or directory in ALWAYS_FOUND:
        return ""
    own = [os.path.join(home, name) for name in OWN_LOGIN_FILES]
    own = [path for path in own if os.access(path, os.R_OK)][:1]
    more = sorted(glob.glob(f"{of_all}.d/*.sh"))
    texts = [
        read(path)
        for path in (of_all, *more, *own, *(os.path.join(home, one) for one in ALSO_READ))
    ]
    if path_kept(first, directory)[0] and not any(map(SETS_BASH_ENV.search, texts)):
        return ""
    below = directory.removeprefix(home)  # for ~/bin and $HOME/bin
    named = (directory,) if below == directory else (directory, f"~{below}", f"HOME{below}",
                                                     f"HOME}}{below}")  # fmt: skip
    is_set_again = any(map(SETS_PATH.search, texts))
    if not is_set_again or any(name in text for text in texts for name in named):
        return ""
    number = rest[: calls.end()].count("\n") + 2
    file = own[0] if own else os.path.join(home, OWN_LOGIN_FILES[-1])
    return (
        f"{first.strip()} starts a login shell, which sets PATH again, so line {number} may not "
        f"find this srun: put `export PATH={shlex.quote(directory)}:$PATH` at the end of {file}"
    )


def is_login_shell(first: str) -> bool:
    words = without_env(first.removeprefix("#!").split())
    return (
        bool(words)
        and os.path.basename(words[0]) in LOGIN_SHELLS
        and any(word == "--login" or re.fullmatch("-[a-z]*l[a-z]*", word) for word in words[1:])
    )


def without_env(words: list[str]) -> list[str]:
    """Returns the command that `env` starts; the words as they are if that is not the first."""
    if not words or os.path.basename(words[0]) != "env":
        return words
    return [word for word in words[1:] if word not in ("-S", "--split-string")]


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
