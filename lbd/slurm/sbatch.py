"""`sbatch`: submits a script to the queue.

The script is sent as the job's input, so it may change or vanish once it is submitted. On the job's
host it is a file without a name, which nobody else can replace: a few lines of `sh` keep it as a
descriptor, set SLURM_…, and run it with an empty standard input. These lines are in a variable, so
that `lbctl jobs` shows the script's name instead. An empty file of the job's user counts its steps.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator

from lbd.slurm.needs import memory_of, need_words, number_of, tasks_of
from lbd.slurm.options import (
    PARTITION,
    Given,
    Grammar,
    SlurmError,
    let_be,
    let_be_too,
    listed,
    read_all,
    words_of,
)
from lbd.slurm.queue import jobs, submit, wait
from lbd.slurm.times import begin_text, limit_s
from lbd.text.index_list import is_number
from lbd.text.job_phrases import LAUNCHER

GRAMMAR = Grammar(
    words_of(
        "array begin chdir comment cpus-per-task dependency error exclude export input job-name mem"
        " mem-per-cpu nodelist nodes ntasks ntasks-per-node open-mode output partition time wrap"
        " kill-on-invalid-dep priority gres gpus gpus-per-node constraint signal tasks-per-node"
    ),
    words_of("parsable wait requeue no-requeue quiet verbose oversubscribe help"),
    {
        "a": "array", "b": "begin", "D": "chdir", "c": "cpus-per-task", "d": "dependency",
        "e": "error", "x": "exclude", "i": "input", "J": "job-name", "w": "nodelist", "N": "nodes",
        "n": "ntasks", "o": "output", "p": "partition", "t": "time", "W": "wait", "Q": "quiet",
        "v": "verbose", "s": "oversubscribe", "A": "account", "q": "qos", "C": "constraint",
        "G": "gpus", "H": "hold", "M": "clusters", "L": "licenses", "k": "no-kill",
        "S": "core-spec", "B": "extra-node-info", "m": "distribution", "h": "help",
    },
    words_of(
        "account qos gpus-per-task gpus-per-socket clusters licenses mail-type mail-user"
        " reservation deadline core-spec extra-node-info distribution nice switches tmp uid gid"
        " get-user-env profile hint cpu-freq mem-bind ntasks-per-core ntasks-per-socket"
        " ntasks-per-gpu cpus-per-gpu mem-per-gpu mincpus sockets-per-node cores-per-socket"
        " threads-per-core network power prefer propagate time-min thread-spec export-file"
        " exclusive wait-all-nodes wckey tres-per-task bb bbf acctg-freq batch cluster-constraint"
        " container container-id delay-boot gpu-bind gpu-freq gres-flags mcs-label nodefile"
    ),
    words_of("hold no-kill overcommit contiguous reboot spread-job use-min-nodes ignore-pbs"
             " test-only"),
    optional=words_of("exclusive nice get-user-env"),
    instead={"hold": "`lbctl hold ID` holds a job that is submitted",
             "test-only": "`lbctl predict` says when a job would begin",
             "gpus-per-task": "use --gres gpu:N for all that the job needs",
             "gpus-per-socket": "use --gres gpu:N for all that the job needs",
             "ntasks-per-gpu": "use --gres gpu:N and --ntasks",
             "cpus-per-gpu": "use -c N", "mincpus": "use -c N",
             "mem-per-gpu": "use --mem SIZE for all that the job needs",
             "tres-per-task": "use --gres NAME:N for all that the job needs"} | dict.fromkeys(
                 ("tmp", "licenses"), "use --gres NAME:N for what hosts have as [resources] NAME"),
)  # fmt: skip
PATTERN = {"j": "%j", "J": "%j", "a": "%a", "N": "%h", "A": "%A", "%": "%%", "n": "0", "t": "0"}
ONLY = {
    "open-mode": ("truncate", "t", "append", "a"),
    "kill-on-invalid-dep": ("yes",),  # the only behaviour
}
LINE_CHARS_MAX, SIGNAL_MAX, SIGNAL_BEFORE_S = 1 << 16, 64, 60
HOW = {
    "afterok": "--after-ok", "afternotok": "--after-failed", "afterany": "--after-any",
    "aftercorr": "--after-task",
}  # fmt: skip
# Variables of the lines below, whose $@ are the script's arguments. `signal`, if set, is sent to
# the script `after` that many seconds.
LAUNCHED = ("interpreter", "option", "input", "signal", "after")
LAUNCH = r"""
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
early=${signal:+timeout --foreground --preserve-status -s $signal $after}
exec $early "$interpreter" ${option:+"$option"} /dev/fd/4 "$@" <"$input"
"""
USAGE = "usage: sbatch [OPTIONS] [SCRIPT [ARG...]], or sbatch [OPTIONS] --wrap 'COMMAND'"


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    typed = read_all(words, GRAMMAR)
    if "help" in typed.plain:
        print(USAGE)
        return 0
    name, script = script_of(typed)
    faults: list[str] = []
    given = typed.over(in_script(script.decode(errors="surrogateescape"), name, faults))
    check_all(given, name, faults)
    interpreter, option = shebang(script, name)
    values = [interpreter, option, standard_input(given), *signal_words(given.values)]
    assigned = " ".join(map("=".join, zip(LAUNCHED, map(shlex.quote, values), strict=True)))
    words = [*lbrun_words(given, name), "-e", f"SBATCH_LAUNCH={assigned}\n{LAUNCH}", "--"]
    job = submit([*words, *LAUNCHER, name, *typed.rest[1:]], script)
    if "quiet" not in given.plain or "parsable" in given.plain:
        print(job if "parsable" in given.plain else f"Submitted batch job {job}", flush=True)
    if "wait" not in given.plain:
        return 0
    wait([job])
    return max((one.exit_status or int(one.state != "COMPLETED") for one in jobs([job])), default=1)


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


def shebang(script: bytes, name: str) -> tuple[str, str]:
    """Returns the interpreter, and its option or "". Raises SlurmError."""
    first = script.partition(b"\n")[0]
    words = os.fsdecode(first[2:]).split(None, 1)
    if not first.startswith(b"#!") or not words:
        raise SlurmError(
            f"{name}: This does not look like a batch script. The first line must start with #! "
            "followed by the path to an interpreter."
        )
    return words[0], words[1].strip() if words[1:] else ""


def in_script(text: str, name: str, faults: list[str]) -> Given:
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
            given = read_all(words, GRAMMAR, mixed=True)
            if given.rest:
                raise SlurmError(f"{given.rest[0]!r} is no option")
        except (SlurmError, ValueError) as problem:
            faults.append(f"{name}: line {number}: {problem}")
            continue
        for option, text in given.refused.items():
            given.refused[option] = f"{text} (line {number})"
        given.lines = dict.fromkeys(given.values, number)
        found = given.over(found)
    return found


def check_all(given: Given, name: str, faults: list[str]) -> None:
    """Raises SlurmError with a line for each of `faults` and of those found here."""
    values = given.values
    checks: tuple[Callable[[], object], ...] = (
        lambda: check_refused(given),
        lambda: check_nodes(values),
        lambda: None if given.refused else check_partition(values),
        *(
            lambda option=option: need_words({option: values[option]})
            for option in ("gres", "gpus", "gpus-per-node", "constraint")
            if option in values
        ),
        lambda: limit_s(values.get("time", "0")),
        lambda: memory_of(values, 1),
        lambda: hosts_of(values),
        lambda: dependencies(values.get("dependency", "")),
        lambda: signal_words(values),
    )
    for check in checks:
        try:
            check()
        except SlurmError as problem:
            named = re.search("--([a-z-]+)", str(problem))
            line = given.lines.get(named[1]) if named else None
            faults.append(f"{name}: line {line}: {problem}" if line else str(problem))
    if faults:
        raise SlurmError(*dict.fromkeys(faults))


def check_refused(given: Given) -> None:
    """Raises SlurmError; names the partition only along with other faults."""
    for name, ours in ONLY.items():
        if given.values.get(name, ours[0]) not in ours:
            given.refused[name] = f"--{name} {given.values[name]}"
    if given.refused and not is_ours(given.values):
        given.refused["partition"] = f"--partition {given.values['partition']}"
    given.check(GRAMMAR)


def is_ours(values: dict[str, str]) -> bool:
    """Returns whether the partition is ours, or none was given."""
    return values.get("partition", PARTITION) == PARTITION or "partition" in let_be()


def standard_input(given: Given) -> str:
    return os.path.abspath(given.values["input"]) if "input" in given.values else os.devnull


def lbrun_words(given: Given, script: str) -> list[str]:
    """Returns the options of `lbrun -d`. Raises SlurmError."""
    values = given.values
    cpus, tasks = number_of(values, "cpus-per-task", 1), tasks_of(values)
    check_shape(values)
    name = values.get("job-name", script)
    words = ["--name", name, "-n", str(cpus * tasks)]
    for option, text in variables(given, name, cpus, tasks):
        words += ["-e", f"{option}={text}"]
    words += exported(values.get("export", "ALL"))
    words += places(values, name)
    if "time" in values and (limit := limit_s(values["time"])):
        words += ["--timeout", str(limit)]
    if memory := memory_of(values, cpus * tasks):
        words += ["--mem", memory]
    words += need_words(values)
    if begin := begin_text(values.get("begin", "")):
        words += ["--begin", begin]
    for option, name_there in (("array", "--array"), ("chdir", "-C"), ("priority", "--priority")):
        if option in values:
            words += [name_there, values[option]]
    if "no-requeue" in given.plain:
        words.append("--no-restart")
    return words + dependencies(values.get("dependency", ""))


def check_shape(values: dict[str, str]) -> None:
    """Raises SlurmError unless it asks for one host of our partition."""
    check_nodes(values)
    check_partition(values)


def check_nodes(values: dict[str, str]) -> None:
    """Raises SlurmError."""
    if values.get("nodes", "1") not in ("1", "1-1"):
        raise SlurmError(
            f"--nodes {values['nodes']} is not supported by lbd: a job has all its slots on one "
            "host; submit an array"
        )


def check_partition(values: dict[str, str]) -> None:
    """Raises SlurmError."""
    if not is_ours(values):
        raise SlurmError(
            f"invalid partition specified: {values['partition']}; {PARTITION} is all; "
            f"take it out, or set {let_be_too(['partition'])}"
        )


def signal_words(values: dict[str, str]) -> list[str]:
    """Returns the signal for the script and the seconds before it is sent; empty without a time
    limit, which it depends on. Raises SlurmError."""
    if "signal" not in values:
        return ["", ""]
    from signal import Signals

    given, limit = values["signal"], limit_s(values.get("time", "0"))
    target, colon, rest = given.rpartition(":")
    name, at, before = rest.partition("@")
    name = name.upper().removeprefix("SIG")
    is_signal = is_number(name) and 0 < int(name) <= SIGNAL_MAX
    if (at and not is_number(before)) or not (is_signal or f"SIG{name}" in Signals.__members__):
        raise SlurmError(f"--signal {given} is not supported by lbd: write B:USR1@60")
    if not (colon and target == "B"):
        raise SlurmError(
            f"--signal {given} is not supported by lbd: only the script can get one, B:{rest}"
        )
    return [name, str(max(1, limit - int(before or SIGNAL_BEFORE_S)))] if limit else ["", ""]


def variables(given: Given, name: str, cpus: int, tasks: int) -> Iterator[tuple[str, str]]:
    """Yields the SLURM_… variables that are known at submission."""
    values = given.values
    yield "SLURM_JOB_NAME", name
    yield "SLURM_SUBMIT_DIR", os.getcwd()
    if "cpus-per-task" in values:
        yield "SLURM_CPUS_PER_TASK", str(cpus)
    if "comment" in values:
        yield "SLURM_JOB_COMMENT", values["comment"]
    yield "SLURM_NTASKS", str(tasks)
    if memory := memory_of(values, cpus * tasks):
        yield "SLURM_MEM_PER_NODE", str(max(1, int(memory[:-1]) // 1024))
    if "array" in values:
        from lbd.text.index_list import count_of, read_array

        try:
            runs, _ = read_array(values["array"])
        except ValueError as problem:
            raise SlurmError(f"--array {problem}") from None
        yield "SLURM_ARRAY_TASK_COUNT", str(count_of(runs))
        yield "SLURM_ARRAY_TASK_MIN", str(min(first for first, _, _ in runs))
        yield "SLURM_ARRAY_TASK_MAX", str(max(last for _, last, _ in runs))
        yield "SLURM_ARRAY_TASK_STEP", str(runs[0][2])


def exported(text: str) -> list[str]:
    """Returns the options that select the environment to pass on."""
    names = list(listed(text))
    words = [] if "ALL" in names else ["--clean-env"]
    for name in names:
        if name not in ("ALL", "NONE", "NIL"):
            words += ["-e", name]
    return words


def places(values: dict[str, str], name: str) -> list[str]:
    """Returns the options for the host and the output files. Raises SlurmError."""
    otherwise = "slurm-%A_%a.out" if "array" in values else "slurm-%j.out"
    words = ["-o", pattern("output", values.get("output", otherwise), name)]
    if "error" in values:
        words += ["--error", pattern("error", values["error"], name)]
    if values.get("open-mode", "t")[0] == "a":
        words.append("--append")
    return words + hosts_of(values)


def hosts_of(values: dict[str, str]) -> list[str]:
    """Raises SlurmError."""
    words: list[str] = []
    hosts = list(listed(values.get("nodelist", "")))
    if len(hosts) > 1:
        raise SlurmError(f"--nodelist {values['nodelist']} is not supported by lbd: name one host")
    for host in hosts:
        words += ["-H", host]
    for host in listed(values.get("exclude", "")):
        words += ["-x", host]
    return words


def pattern(option: str, text: str, name: str) -> str:
    """Converts a file name's patterns to lbrun's. Raises SlurmError."""
    pieces, rest = [], text
    while rest:
        before, sign, rest = rest.partition("%")
        pieces.append(before)
        if not sign:
            break
        letter, rest = rest[:1], rest[1:]
        if letter == "x":
            pieces.append(name.replace("%", "%%"))
        elif letter == "u":
            import getpass

            pieces.append(getpass.getuser())
        elif letter in PATTERN:
            pieces.append(PATTERN[letter])
        else:
            raise SlurmError(f"--{option} {text}: %{letter} is not supported by lbd")
    return "".join(pieces)


def dependencies(text: str) -> list[str]:
    """Raises SlurmError."""
    words: list[str] = []
    if "?" in text:
        raise SlurmError(f"--dependency {text}: of several, lbd waits for all (,), not for any (?)")
    for one in listed(text):
        how, *ids = one.split(":")
        if how not in HOW or not ids or any("+" in job for job in ids):
            raise SlurmError(f"--dependency {one} is not supported by lbd; it has {', '.join(HOW)}")
        words += [HOW[how], ",".join(ids)]
    return words
