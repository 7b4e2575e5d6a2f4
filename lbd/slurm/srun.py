"""`srun`: runs a command through the queue and waits; within a job of ours it runs a step at
once."""

import os

from lbd.slurm.hostlist import hosts_in
from lbd.slurm.needs import limit_words, memory_of, number_of, tasks_of
from lbd.slurm.options import PARTITION, Given, Grammar, SlurmError, let_be, listed, read, words_of
from lbd.slurm.sbatch import GRAMMAR as SBATCH
from lbd.slurm.sbatch import check_shape, exported, hosts_of, variables
from lbd.slurm.step import next_number, redirect, take_slots
from lbd.slurm.times import limit_s

# --cpu-bind is accepted but ignored, as by Slurm without a plug-in that binds
ONLY = {"mpi": ("none",)}
GRAMMAR = Grammar(
    words_of(
        "chdir cpus-per-task cpu-bind exclude export job-name mem mem-per-cpu nodelist nodes ntasks"
        " ntasks-per-node tasks-per-node partition time comment gres gpus gpus-per-node constraint"
        " input output error open-mode mpi exclusive kill-on-bad-exit"
    ),
    words_of("unbuffered overlap exact verbose quiet help no-requeue label pty"),
    {
        letter: name for letter, name in SBATCH.short.items()
        if name not in ("array", "begin", "dependency", "error", "input", "output", "wait",
                        "oversubscribe")
    } | {"u": "unbuffered", "l": "label", "K": "kill-on-bad-exit", "I": "immediate",
         "o": "output", "e": "error", "i": "input", "d": "dependency"},
    (SBATCH.refused - {"exclusive"}) | words_of(
        "signal jobid multi-prog dependency array begin immediate"
        " het-group bcast cpus-per-gpu"
    ),
    words_of("hold no-kill overcommit contiguous"),
    optional=words_of("exclusive kill-on-bad-exit immediate nice"),
    instead=SBATCH.instead,
    kept=words_of("exclusive"),  # it means something else for a step than for a job
)  # fmt: skip
COUNTS = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS", "SLURM_TASKS_PER_NODE",
          "SLURM_STEP_TASKS_PER_NODE")  # fmt: skip
OF_ONE_TASK = (
    ("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0"), ("SLURM_NODEID", "0"), ("SLURM_NNODES", "1"),
    ("SLURM_JOB_NUM_NODES", "1"), ("SLURM_JOB_PARTITION", PARTITION),
    *((name, "1") for name in COUNTS if name != "SLURM_NTASKS"),
)  # fmt: skip
USAGE = "usage: srun [OPTIONS] COMMAND [ARG...]"


def run(words: list[str]) -> int:
    """Becomes the command, or lbrun. Raises SlurmError."""
    given = read(words, GRAMMAR)
    if "help" in given.plain:
        print(USAGE)
        return 0
    if not given.rest:
        raise SlurmError("No command given to execute.")
    check_shape(given.values)
    is_step = bool(os.environ.get("SLURM_JOB_ID") and os.environ.get("LBD_JOB_ID"))
    check_as_it_is(given, is_step=is_step)
    if is_step:
        return step(given)
    if (tasks := tasks_of(given.values)) > 1:
        raise SlurmError(
            f"--ntasks {tasks} is not supported by lbd outside a job of sbatch: srun starts one "
            f"process here; use sbatch -n {tasks} --wait --wrap 'srun COMMAND'"
        )
    if "label" in given.plain:
        raise SlurmError("--label is not supported by lbd outside a job of sbatch: srun starts one "
                         "process here")  # fmt: skip
    words = lbrun_words(given)
    check_host(given.values.get("nodelist", ""))
    redirect(given.values, name_of(given))
    from lbd.client.lbrun import main

    # The queue gives no terminals, so a command that needs one starts at once where there is room.
    main(["-t" if "pty" in given.plain else "-q", *words, "--", *given.rest])
    return 1


def check_as_it_is(given: Given, *, is_step: bool) -> None:
    """Checks options that are accepted only with the value that describes what happens anyway.
    Raises SlurmError."""
    for option, ours in ONLY.items():
        value = given.values.get(option, ours[0])
        if value.split(",")[-1] not in ours:
            given.refused[option] = f"--{option} {value}"
    whose = given.values.get("exclusive")
    if whose is not None and (whose or not is_step) and "exclusive" not in let_be():
        given.refused["exclusive"] = f"--exclusive {whose}".strip()
    given.check(GRAMMAR)


def check_host(nodelist: str) -> None:
    """Refuses a host that does not exist, for which `lbrun -q` would wait. Raises SlurmError."""
    if not nodelist:
        return
    from lbd.slurm.sinfo import hosts, text_of
    from lbd.text.spelling import nearest

    try:
        known = [text_of(row.get("name")) for row in hosts()]
    except SlurmError:  # lbrun says what is wrong
        return
    for host in hosts_in(nodelist):
        if known and host not in known:
            near = nearest(host, known)
            meant = f'; did you mean "{near}"?' if near else "; `sinfo` lists them"
            raise SlurmError(f"Invalid node name specified: no host {host} in this cluster{meant}")


def name_of(given: Given) -> str:
    return given.values.get("job-name", os.path.basename(given.rest[0]))


def step(given: Given) -> int:
    """Runs a step, which has its job's resources. Raises SlurmError."""
    cpus, tasks = check_size(given.values)
    if "pty" in given.plain:
        raise SlurmError("--pty is not supported by lbd within a job")
    for option in ("gres", "gpus", "gpus-per-node", "constraint", "export"):
        value = given.values.get(option, "ALL")
        is_nothing = all(one == "none" or one.endswith(":0") for one in listed(value))
        if value != "ALL" and not (option == "gres" and is_nothing):
            raise SlurmError(f"--{option} is not supported by lbd within a job: it has the job's")
    here = os.environ.get("LBD_HOST", "")
    for option, is_elsewhere in (
        ("nodelist", here not in hosts_in(given.values.get("nodelist", here))),
        ("exclude", here in hosts_in(given.values.get("exclude", ""))),
    ):
        if is_elsewhere:
            raise SlurmError(
                f"--{option}: within a job of lbd a step runs on the job's host, {here}"
            )
    time_limit_s = limit_s(given.values.get("time", "0"))
    memory = memory_of(given.values, cpus * tasks)
    os.environ["SLURM_STEP_ID"] = os.environ["SLURM_STEPID"] = str(next_number())
    for variable in COUNTS:
        os.environ[variable] = str(tasks)
    if "cpus-per-task" in given.values:
        os.environ["SLURM_CPUS_PER_TASK"] = str(cpus)
    if "chdir" in given.values:
        try:
            os.chdir(given.values["chdir"])
        except OSError as problem:
            raise SlurmError(f"{given.values['chdir']}: {problem.strerror}") from None
    if "exclusive" in given.values:
        take_slots(cpus * tasks, slots_of_job())
    label = "label" in given.plain
    if tasks == 1 and not label and not time_limit_s:
        redirect(given.values, name_of(given))
        return become_task(given, 0, memory)
    from lbd.slurm.tasks import Tasks

    redirect(given.values, name_of(given), own=False)

    def become(rank: int) -> int:
        redirect(given.values, name_of(given), rank, own=True)
        return become_task(given, rank, memory)

    end_at_failure = given.values.get("kill-on-bad-exit", "0") != "0"
    all_tasks = Tasks(
        tasks, become, label=label, end_at_failure=end_at_failure, limit_s=time_limit_s
    )
    return all_tasks.run()


def check_size(values: dict[str, str]) -> tuple[int, int]:
    """Returns CPUs per task, and tasks. Raises SlurmError."""
    cpus, slots = number_of(values, "cpus-per-task", 1), slots_of_job()
    named = [one for one in ("ntasks", "ntasks-per-node", "tasks-per-node") if one in values]
    tasks = tasks_of(values if named else {"ntasks": os.environ.get("SLURM_NTASKS", "1")})
    if cpus * tasks > slots:
        of_job = "" if named or tasks == 1 else f"; the job has -n {tasks}: for one, write -n 1"
        raise SlurmError(
            f"--ntasks {tasks} --cpus-per-task {cpus} needs {cpus * tasks} slots, and the job has "
            f"{slots}{of_job}"
        )
    return cpus, tasks


def slots_of_job() -> int:
    return int(os.environ.get("LBD_SLOTS", "1"))


def become_task(given: Given, rank: int, memory: str) -> int:
    """Returns an exit status only on failure. `memory`: in KiB, as 100K, for each process; "": no
    limit but the job's."""
    from lbd.launch.exec import become, exit_status_of, let_pipes_break

    if memory:
        import resource

        from lbd.launch.rlimits import lower

        lower(resource.RLIMIT_DATA, int(memory.removesuffix("K")) << 10)
    os.environ["SLURM_PROCID"] = os.environ["SLURM_LOCALID"] = str(rank)
    let_pipes_break()
    environment = {os.fsencode(name): os.fsencode(text) for name, text in os.environ.items()}
    failure = become([os.fsencode(word) for word in given.rest], environment)
    os.write(2, f"srun: error: {given.rest[0]}: {failure.strerror}\n".encode())
    return exit_status_of(failure)


def lbrun_words(given: Given) -> list[str]:
    """Raises SlurmError."""
    values = given.values
    cpus = number_of(values, "cpus-per-task", 1)
    name = name_of(given)
    words = ["--name", name, "-n", str(cpus), *exported(values.get("export", "ALL"))]
    for variable, text in (*variables(given, name, cpus, 1), *OF_ONE_TASK):
        words += ["-e", f"{variable}={text}"]
    words += hosts_of(values)
    words += limit_words(values, cpus)
    if "chdir" in values:
        words += ["-C", values["chdir"]]
    if "no-requeue" in given.plain:
        words.append("--no-restart")
    return words
