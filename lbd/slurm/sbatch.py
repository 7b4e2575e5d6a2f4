"""`sbatch`: submits a script to the queue."""

import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator

from lbd.client.complaints import say
from lbd.slurm.hostlist import hosts_in
from lbd.slurm.needs import limit_words, memory_of, need_words, number_of, tasks_of
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
from lbd.slurm.script import (
    LAUNCH,
    LAUNCHED,
    in_script,
    launcher,
    lost_path,
    path_kept,
    script_of,
    shebang,
)
from lbd.slurm.times import begin_text, limit_s
from lbd.text.index_list import is_number

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
OPTION = re.compile(r"--[a-z]+(-[a-z]+)*")
# What a user of sbatch has typed, by the option of lbrun that is named in a message.
OF_LBRUN = dict.fromkeys(
    ("--after", "--after-ok", "--after-failed", "--after-any", "--after-task"), "--dependency"
) | {"--timeout": "--time", "--need": "--gres", "--feature": "--constraint"}
SIGNAL_MAX, SIGNAL_BEFORE_S = 64, 60
HOW = {
    "afterok": "--after-ok", "afternotok": "--after-failed", "afterany": "--after-any",
    "aftercorr": "--after-task",
}  # fmt: skip
USAGE = "usage: sbatch [OPTIONS] [SCRIPT [ARG...]], or sbatch [OPTIONS] --wrap 'COMMAND'"


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    typed = read_all(words, GRAMMAR)
    if "help" in typed.plain:
        print(USAGE)
        return 0
    name, script = script_of(typed)
    source = name if typed.rest else "standard input"
    faults: list[str] = []
    text = script.decode(errors="surrogateescape")
    given = typed.over(in_script(text, source, faults, GRAMMAR))
    interpreter, option = shebang(script, f"{name}: " if typed.rest else "")
    check_all(given, name, source, faults)
    commands = os.path.dirname(os.path.abspath(sys.argv[0]))
    values = [
        interpreter, option, standard_input(given), *signal_words(given.values),
        *path_kept(text.partition("\n")[0], commands),
    ]  # fmt: skip
    assigned = " ".join(map("=".join, zip(LAUNCHED, map(shlex.quote, values), strict=True)))
    words = [*lbrun_words(given, name), "-e", f"SBATCH_LAUNCH={assigned}\n{LAUNCH}", "--"]
    words += [*launcher(interpreter, option), name, *typed.rest[1:]]
    job = submitted(words, script, given, source)
    warning = lost_path(text, commands, os.path.expanduser("~"))
    if warning and "quiet" not in given.plain:
        say(f"warning: {source}: {warning}", "sbatch")
    if "quiet" not in given.plain or "parsable" in given.plain:
        print(job if "parsable" in given.plain else f"Submitted batch job {job}", flush=True)
    if "wait" not in given.plain:
        return 0
    wait([job])
    return max((one.exit_status or int(one.state != "COMPLETED") for one in jobs([job])), default=1)


def submitted(words: list[str], script: bytes, given: Given, source: str) -> str:
    """Returns the job's id. Raises SlurmError, in the words of sbatch and with the line of the
    script."""
    try:
        return submit(words, script)
    except SlurmError as problem:
        fault = OPTION.sub(lambda found: OF_LBRUN.get(found[0], found[0]), str(problem))
    chdir = given.values.get("chdir", "")
    if fault.startswith(("--output", "--error")) and chdir and not os.path.isdir(chdir):
        fault = f"--chdir {chdir}: {os.strerror(errno.ENOENT)}"
    raise SlurmError(with_line(fault, given, source))


def check_all(given: Given, name: str, source: str, faults: list[str]) -> None:
    """`name`: of the script; `source`: of its lines in messages. Raises SlurmError with a line for
    each of `faults` and of those found here."""
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
        lambda: number_of(values, "cpus-per-task", 1),
        lambda: tasks_of(values),
        lambda: task_variables(values.get("array", "")),
        lambda: begin_text(values.get("begin", "")),
        *(
            lambda option=option: pattern(option, values.get(option, ""), name)
            for option in ("output", "error")
        ),
        lambda: hosts_of(values),
        lambda: dependencies(values.get("dependency", "")),
        lambda: signal_words(values),
    )
    for check in checks:
        try:
            check()
        except SlurmError as problem:
            faults.append(with_line(str(problem), given, source))
    if faults:
        raise SlurmError(*dict.fromkeys(faults))


def with_line(fault: str, given: Given, source: str) -> str:
    """Adds the line of the script that has the first option that the fault names."""
    named = OPTION.search(fault)
    line = given.lines.get(named[0].removeprefix("--")) if named else None
    return f"{source}: line {line}: {fault}" if line and "(line " not in fault else fault


def check_refused(given: Given) -> None:
    """Raises SlurmError; names the partition only along with other faults."""
    for name, ours in ONLY.items():
        if given.values.get(name, ours[0]) not in ours:
            refuse(given, name)
    if given.refused and not is_ours(given.values):
        refuse(given, "partition")
    given.check(GRAMMAR)


def refuse(given: Given, option: str) -> None:
    line = f" (line {given.lines[option]})" if option in given.lines else ""
    given.refused[option] = f"--{option} {given.values[option]}{line}"


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
    words += limit_words(values, cpus * tasks)
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
            f"--partition {values['partition']}: lbd has only the partition {PARTITION}; "
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
    yield from task_variables(values.get("array", ""))


def task_variables(array: str) -> list[tuple[str, str]]:
    """Raises SlurmError."""
    if not array:
        return []
    from lbd.text.index_list import count_of, read_array

    try:
        runs, _ = read_array(array)
    except ValueError as problem:
        raise SlurmError(f"--array {problem}") from None
    return [
        ("SLURM_ARRAY_TASK_COUNT", str(count_of(runs))),
        ("SLURM_ARRAY_TASK_MIN", str(min(first for first, _, _ in runs))),
        ("SLURM_ARRAY_TASK_MAX", str(max(last for _, last, _ in runs))),
        ("SLURM_ARRAY_TASK_STEP", str(runs[0][2])),
    ]


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
    hosts = hosts_in(values.get("nodelist", ""))
    if len(hosts) > 1:
        raise SlurmError(f"--nodelist {values['nodelist']} is not supported by lbd: name one host")
    for host in hosts:
        words += ["-H", host]
    for host in hosts_in(values.get("exclude", "")):
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
            width = re.match("[0-9]*", letter + rest)
            sign = f"%{width[0]}{(letter + rest)[width.end() :][:1]}" if width else "%"
            raise SlurmError(f"--{option} {text}: {sign} is not supported by lbd")
    return "".join(pieces)


def dependencies(text: str) -> list[str]:
    """Raises SlurmError."""
    words: list[str] = []
    if "?" in text:
        raise SlurmError(f"--dependency {text}: of several, lbd waits for all (,), not for any (?)")
    for one in listed(text):
        how, *ids = one.split(":")
        if how in HOW and not all(ids):
            raise SlurmError(f"--dependency {one}: a job's id is missing after a colon")
        if how not in HOW or not ids or any("+" in job for job in ids):
            raise SlurmError(f"--dependency {one} is not supported by lbd; it has {', '.join(HOW)}")
        words += [HOW[how], ",".join(ids)]
    return words
