"""Slurm's commands, ours beside Slurm's own: one job from `sbatch` until `squeue` has forgotten it,
and a workflow of Snakemake through its slurm plugin.

The workflow's rival is Snakemake itself with `--cores`, which starts each job as a child. Through
the plugin each job starts Snakemake twice more, whatever the queue; so beside it are the plugin in
front of no queue at all (instant_slurm.py), and the same with `--cores`, where only the commands go
through the queue. Snakemake is the one that `tests/snakemake` has installed.

The plugin has more jobs than there are slots: with as many it idles until its next look at them, 1,
11, 21 s, and so on after each look that finds no job ended.
"""

import os
import subprocess
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.bench.measure import ENVIRONMENT, CannotMeasureError, in_turns, say, summarise
from tests.bench.queue_rivals import TUNED
from tests.bench.queueing import SETTINGS, rival
from tests.bench.rivals import slurm
from tests.bench.row import Bound, Row
from tests.bench.stage import ROOT, Lab, Stage
from tests.bench.warm_ssh import found

NAMES = ("slurm-job", "snakemake", "snakemake-lbrun")
SNAKEMAKE = ROOT / "build/snakemake/bin/snakemake"
JOB_TIMEOUT_S, WORKFLOW_TIMEOUT_S = 30.0, 1800.0
JOB_ASKED, WORKFLOW_ASKED = Bound(0.3), Bound(1.3)
INSTANT = Path(__file__).with_name("instant_slurm.py")
NO_QUEUE, NO_QUEUE_ASKED = "the plugin without a queue", Bound(1.3)
SLOTS = 8
JOBS, QUICK_JOBS = 200, 16
WORKFLOW = """
rule all:
    input: expand("out/{{n}}", n=range({count}))
localrules: all
rule one:
    output: touch("out/{{n}}")
    shell: "{prefix}sleep 1"
"""
PLUGIN = (
    "--executor", "slurm", "--slurm-no-account", "--jobs", "1000", "--default-resources",
    "slurm_partition=lbd", "--slurm-init-seconds-before-status-checks", "1",
    "--seconds-between-status-checks", "1",
)  # fmt: skip
Environment = dict[str, str]


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    rows: list[Row] = []
    settings = (*SETTINGS, f"lbm.slots={SLOTS}")
    with stage.new_lab("slurm-commands", 1, *settings) as lab:
        ours = environment_of(stage, lab)
        if "slurm-job" in wanted:
            rows += one_job(stage, ours)
        rows += workflows(stage, ours, wanted) if wanted.intersection(NAMES[1:]) else []
    return rows


def environment_of(stage: Stage, lab: Lab) -> Environment:
    """The environment of h1, where Slurm's commands are ours."""
    directory = stage.directory / "slurm-bin"
    argv = stage.installation.lbd("slurm", "install", directory)
    subprocess.run(argv, env=ENVIRONMENT, check=True, capture_output=True)
    environment = lab.environment("h1")
    front = stage.installation.front().parent
    return environment | {"PATH": f"{directory}:{front}:{environment['PATH']}"}


def one_job(stage: Stage, ours: Environment) -> list[Row]:
    """Beside Slurm as Debian has it, and one that schedules as soon as it can."""
    rows: list[Row] = []
    for name, settings in (("Slurm", ""), ("Slurm, scheduling at once", TUNED)):
        with ExitStack() as stack:
            mark, directory = stage.others.mark(), stage.directory / f"slurm-{len(rows)}"
            cases = {"ours": partial(job_s, ours)}
            start = partial(slurm, more=settings)
            if rival(stack, start, directory, name) is not None:
                theirs = ENVIRONMENT | {"SLURM_CONF": str(directory / "slurm.conf")}
                cases["theirs"] = partial(job_s, theirs)
            found = in_turns(cases, max(3, stage.runs // 5), stage.rng, 1)
            others = stage.others.share_since(mark)
            samples = {one: summarise([s * 1e3 for s in times]) for one, times in found.items()}
            asked = None if settings else JOB_ASKED
            title = "sbatch --wrap true until squeue has it no more"
            rows.append(
                Row(title, "ms", samples["ours"], name, samples.get("theirs"), asked, others)
            )
    return rows


def job_s(environment: Environment) -> float:
    sbatch, squeue = (program(name, environment) for name in ("sbatch", "squeue"))
    began_s = time.perf_counter()
    job = said([sbatch, "--parsable", "-o", "/dev/null", "--wrap", "true"], environment).strip()
    asked = [squeue, "-h", "-j", job, "-t", "PD,R,CF,CG", "-o", "%i"]
    while said(asked, environment, may_fail=True):  # it fails once the job is forgotten
        if time.perf_counter() - began_s > JOB_TIMEOUT_S:
            raise CannotMeasureError(f"job {job} does not end")
    return time.perf_counter() - began_s


def program(name: str, environment: Environment) -> str:
    path = Path(environment["PATH"].partition(":")[0]) / name
    return str(path) if path.exists() else found(name)


def said(argv: list[str], environment: Environment, *, may_fail: bool = False) -> str:
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    if done.returncode and not may_fail:
        raise CannotMeasureError(f"{argv[0]}: {done.stderr.strip()[-200:]}")
    return done.stdout


def workflows(stage: Stage, ours: Environment, wanted: set[str]) -> list[Row]:
    """Once each: they take minutes."""
    if not SNAKEMAKE.exists():
        raise CannotMeasureError("no Snakemake: tests/snakemake installs it")
    count, cores = QUICK_JOBS if stage.quick else JOBS, ("--cores", str(SLOTS))
    rows: list[Row] = []
    for name, words, prefix in (("snakemake", PLUGIN, ""), ("snakemake-lbrun", cores, "lbrun -q ")):
        if name not in wanted:
            continue
        mark = stage.others.mark()
        local = workflow_s(stage, f"{name}-local", count, ENVIRONMENT, *cores)
        own = workflow_s(stage, name, count, ours, *words, prefix=prefix)
        rivals = {" ".join(cores): (local, WORKFLOW_ASKED)}
        if words is PLUGIN:
            try:
                none = workflow_s(stage, f"{name}-no-queue", count, no_queue(stage), *words)
                rivals[NO_QUEUE] = none, NO_QUEUE_ASKED
            except CannotMeasureError as problem:
                say(f"no plugin without a queue beside us: {problem}")
        title = f"{name}, {count} jobs of a second, {SLOTS} slots"
        others = stage.others.share_since(mark)
        rows += [
            Row(title, "s", summarise([own]), rival, summarise([theirs]), asked, others)
            for rival, (theirs, asked) in rivals.items()
        ]
    return rows


def no_queue(stage: Stage) -> Environment:
    """An environment whose Slurm commands start at once what they are given."""
    directory = stage.directory / "no-queue"
    directory.mkdir()
    for name in ("sbatch", "sacct", "squeue", "srun", "scancel", "scontrol", "sinfo"):
        path = directory / name
        path.write_text(f'#!/bin/sh\nexec {stage.interpreter()} {INSTANT} {name} "$@"\n')
        path.chmod(0o755)
    own = {"INSTANT_DIRECTORY": str(directory), "INSTANT_SLOTS": str(SLOTS)}
    return ENVIRONMENT | own | {"PATH": f"{directory}:{ENVIRONMENT['PATH']}"}


def workflow_s(
    stage: Stage, name: str, count: int, environment: Environment, *words: str, prefix: str = ""
) -> float:
    directory = stage.directory / f"workflow-{name}"
    directory.mkdir()
    (directory / "Snakefile").write_text(WORKFLOW.format(count=count, prefix=prefix))
    environment = environment | {"HOME": str(directory), "USER": os.environ.get("USER", "root")}
    began_s = time.monotonic()
    done = subprocess.run(
        [SNAKEMAKE, "--latency-wait", "10", *words], cwd=directory, env=environment,
        capture_output=True, text=True, timeout=WORKFLOW_TIMEOUT_S,
    )  # fmt: skip
    elapsed_s = time.monotonic() - began_s
    if done.returncode or len(list((directory / "out").iterdir())) != count:
        raise CannotMeasureError(f"Snakemake ended with {done.returncode}: {done.stderr[-300:]}")
    return elapsed_s
