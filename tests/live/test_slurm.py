"""Slurm's commands on real hosts: scripts written for Slurm, and Snakemake through two plugins."""

import os
import pwd
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.book import DOCS, blocks, check_shown
from tests.live.cluster import FAST, Lab, wait_until

SNAKEMAKE = Path(__file__).resolve().parents[2] / "build/snakemake/bin/snakemake"
PAGE = DOCS / "how-to/slurm-commands.md"
OURSELVES = pwd.getpwuid(os.geteuid()).pw_name
SETTINGS = (*FAST, "dispatch.lease_s=20", "lbm.slots=4", "resources.gpu=2")
WORKFLOW = """
localrules: all, total
rule all:
    input: "out/sum"
rule part:
    output: "out/{n}"
    threads: 2
    resources: mem_mb=2000, runtime=10
    shell: "echo {wildcards.n} cpus $SLURM_CPUS_PER_TASK > {output}"
rule total:
    input: expand("out/{n}", n=[1, 2])
    output: "out/sum"
    shell: "cat {input} > {output}"
"""


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS)


@pytest.fixture(scope="module")
def slurm(lab, tmp_path_factory):
    """Runs one of the commands on h2."""
    directory = tmp_path_factory.mktemp("slurm") / "bin"
    lab.run("h2", "lbd", "slurm", "install", str(directory), check=True)

    def run(name, *words, status=0, **options):
        environment = lab.environment("h2")
        environment["PATH"] = f"{directory}:{environment['PATH']}"
        command = [name if "/" in name else str(directory / name), *words]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, **options
        )
        assert done.returncode == status, (done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout if not status else done.stderr + done.stdout

    return run


def test_the_usual_case(slurm, tmp_path):
    """As the documentation's page shows it."""
    usual = [
        block
        for block in blocks(PAGE)
        if block.mark.endswith("test_the_usual_case") or block.text.startswith("#!/bin/bash\n")
    ]
    script, *sessions = usual
    (tmp_path / "fit.sh").write_text(script.text)
    (tmp_path / "fit").write_text("#!/bin/sh\nuntil test -e end; do sleep 0.05; done\n")
    (tmp_path / "fit").chmod(0o755)
    job = "12"
    for number, session in enumerate(sessions):
        for shown in session.text.replace(" ann ", f" {OURSELVES} ").split("$ ")[1:]:
            command, _, output = shown.partition("\n")
            words = command.replace("12", job).split()
            if words[0] == "cat":
                printed = (tmp_path / words[1]).read_text()
            else:
                printed = slurm(*words, cwd=tmp_path)
            check_shown(output, printed, session.place)
            if words[0] == "sbatch":
                job = printed.split()[-1]
                of_it = ("squeue", "-h", "-j", job, "-o", "%t")
                wait_until(lambda asked=of_it: slurm(*asked) == "R\n", "it runs")
        if number == 0:
            (tmp_path / "end").touch()
            slurm("sbatch", "--wait", "-d", f"afterok:{job}", "--wrap", "true", cwd=tmp_path)


def test_a_script_with_its_options_runs_as_an_array(slurm, tmp_path):
    (tmp_path / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH -J fit --array=1-3%2\n#SBATCH --mem=200M -t 5 -o out.%A_%a\n"
        'echo "$1 $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_JOB_NAME $SLURM_SUBMIT_DIR"\n'
        "cat; test $SLURM_ARRAY_TASK_ID != 2\n"
    )
    said = slurm("sbatch", "--wait", "job.sh", "word", cwd=tmp_path, status=1)
    job = said.split()[-1]
    assert said == f"Submitted batch job {job}\n"
    for index in (1, 2, 3):
        text = (tmp_path / f"out.{job}_{index}").read_text()
        assert text == f"word {job} {index} fit {tmp_path}\n"
    assert "Command=job.sh" in slurm("scontrol", "-o", "show", "job", job)
    done = slurm("sacct", "-X", "-P", "-n", "-j", job, "--format=JobIDRaw,State,ExitCode,AllocCPUS")
    assert done == (f"{job}_1|COMPLETED|0:0|1\n{job}_2|FAILED|1:0|1\n{job}_3|COMPLETED|0:0|1\n")


def test_a_login_bash_finds_srun_and_what_the_user_has_exported(slurm, tmp_path):
    (tmp_path / ".bash_profile").write_text("PATH=/usr/bin:/bin\n")
    (tmp_path / "job.sh").write_text(
        "#!/bin/bash -l\n#SBATCH -n 2 -o log\nmodule load fit\nsrun printenv SLURM_PROCID | sort\n"
        "exec srun -n 1 printenv SLURM_NTASKS\n"
    )
    module = "BASH_FUNC_module%%=() { echo module $*; }"
    said = slurm(
        "/usr/bin/env", f"HOME={tmp_path}", module, "sbatch", "--wait", "job.sh", cwd=tmp_path
    )
    job = said.split()[-1]
    assert said == f"Submitted batch job {job}\n"
    assert (tmp_path / "log").read_text() == "module load fit\n0\n1\n1\n"
    assert "Command=job.sh" in slurm("scontrol", "-o", "show", "job", job)


def test_what_waits_of_an_array_is_a_line_that_can_be_cancelled(slurm, tmp_path):
    words = ["--parsable", "-a", "1-9%2", "--begin=now+1hour", "--wrap", "true"]
    job = slurm("sbatch", *words, cwd=tmp_path).strip()
    assert slurm("squeue", "-h", "-j", job, "-o", "%i %F %K %A") == (
        f"{job}_[1-9%2] {job} 1-9%2 {job}\n"
    )
    slurm("scancel", f"{job}_[1,4-9%2]")
    assert slurm("squeue", "-hr", "-j", job, "-o", "%i") == f"{job}_2\n{job}_3\n"
    slurm("scancel", job)


def test_dependencies_times_questions_and_cancelling(slurm, tmp_path):
    first = slurm("sbatch", "--parsable", "--begin=now+1hour", "--wrap", "true", cwd=tmp_path)
    first = first.strip()
    after = ["--parsable", f"--dependency=afterany:{first}", "-o", "said"]
    second = slurm("sbatch", *after, "--wrap", "srun -n1 echo $SLURM_CPUS_ON_NODE", cwd=tmp_path)
    second = second.strip()
    shown = slurm("squeue", "-h", "-j", f"{first},{second}", "-o", "%i|%t|%r")
    assert shown == f"{first}|PD|BeginTime\n{second}|PD|Dependency\n"
    assert "JobState=PENDING Reason=Dependency" in slurm("scontrol", "-o", "show", "job", second)
    slurm("scontrol", "update", f"JobId={first}", "TimeLimit=5", "JobName=other")
    assert "TimeLimit=00:05:00" in slurm("scontrol", "-o", "show", "job", first)
    assert slurm("squeue", "--noheader", "--name", "other", "--format=%A") == f"{first}\n"
    slurm("scancel", first)
    slurm("scancel", first)  # it has ended: no error
    slurm("sbatch", "--wait", f"--dependency=afterok:{second}", "--wrap", "true", cwd=tmp_path)
    assert (tmp_path / "said").read_text() == "1\n"
    assert slurm("sacct", "-nP", "-j", first, "-o", "State") == "CANCELLED\n"
    assert slurm("sinfo", "-h", "-o", "%P %D") == "lbd* 2\n"
    assert slurm("srun", "-c", "2", "printenv", "LBD_SLOTS") == "2\n"


def test_steps_share_a_jobs_slots_and_a_requeued_job_appends(slurm, tmp_path):
    (tmp_path / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH -n 2 --gpus-per-node=2 --open-mode=append -o log\n"
        "echo $SLURM_GPUS_ON_NODE $SLURM_JOB_GPUS; srun -l printenv SLURM_PROCID >tasks\n"
        "for i in 1 2 3 4; do srun --exclusive -n1 --mpi=none -o step.%j.$i ./one & done; wait\n"
        "[ $SLURM_RESTART_COUNT = 1 ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }\n"
    )
    one = tmp_path / "one"
    one.write_text(
        "#!/bin/sh\nmkdir a 2>/dev/null || mkdir b || exit 1\necho in; ls -d a b 2>&1\n"
        "rmdir b 2>/dev/null || rmdir a\n"
    )
    one.chmod(0o755)
    job = slurm("sbatch", "--parsable", "--wait", "job.sh", cwd=tmp_path).strip()
    assert (tmp_path / "log").read_text() == "2 0,1\n" * 2
    assert sorted((tmp_path / "tasks").read_text().splitlines()) == ["0: 0", "1: 1"]
    for number in range(1, 5):  # a third at the same time would have failed
        assert (tmp_path / f"step.{job}.{number}").read_text().startswith("in\n")


def test_a_refused_script_queues_nothing(slurm, tmp_path):
    before = slurm("sacct", "-nP", "-a", "-o", "JobID")
    for words, line in (
        (
            ("--gres=gpu:a100:1", "--wrap", "true"),
            "sbatch: error: --gres gpu:a100:1 is not supported",
        ),
        (
            ("-d", "afterok:99999", "--wrap", "true"),
            "sbatch: error: --dependency: no job 99999 of yours",
        ),
        (("none.sh",), "sbatch: error: Unable to open file none.sh: No such file or directory"),
    ):
        said = slurm("sbatch", *words, cwd=tmp_path, status=1)
        assert said.startswith(line)
        assert said.count("\n") == 1
    assert slurm("sacct", "-nP", "-a", "-o", "JobID") == before


def test_the_commands_of_nextflow(lab, slurm, tmp_path):
    """Word for word, with what its launcher has at its top."""
    (tmp_path / ".command.run").write_text(
        f"#!/bin/bash\n#SBATCH -J nf-hello_(1)\n#SBATCH -o {tmp_path}/.command.log\n"
        "#SBATCH --no-requeue\n#SBATCH --signal B:USR2@30\n#SBATCH -c 2\n#SBATCH -t 00:00:31\n"
        "#SBATCH --mem 100M\n#SBATCH -p lbd\n"
        "trap 'echo $LBD_SLOTS; exit 3' USR2\nsleep 20 &\nwait\n"
    )
    said = slurm("sbatch", ".command.run", cwd=tmp_path)
    found = re.search(r"Submitted batch job (\d+)", said)
    assert found
    states = ["squeue", "--noheader", "-o", "%i %t", "-t", "all", "-p", "lbd", "-u", "root"]
    lab.wait_until(lambda: f"{found[1]} F\n" in slurm(*states), "its signal ends it", 20)
    assert (tmp_path / ".command.log").read_text() == "2\n"
    assert slurm("scancel", found[1]) == ""


def test_the_commands_of_cromwell(lab, slurm, tmp_path):
    """Word for word, as its example of a backend has them."""
    (tmp_path / "script").write_text("echo $SLURM_NTASKS $SLURM_CPUS_ON_NODE $PWD; read a <fifo\n")
    os.mkfifo(tmp_path / "fifo")
    words = ["-J", "cromwell_a1_hello", "-D", str(tmp_path), "-o", str(tmp_path / "stdout")]
    words += ["-e", str(tmp_path / "stderr"), "-t", "600", "-p", "lbd", "-n", "2"]
    words += ["--mem-per-cpu=100", "--wrap", f"/usr/bin/env bash {tmp_path}/script"]
    said = slurm("sbatch", *words)
    found = re.fullmatch(r"Submitted batch job (\d+).*\n", said)
    assert found
    lab.wait_until(lambda: (tmp_path / "stdout").exists(), "it runs")
    assert found[1] in slurm("squeue", "-j", found[1])
    slurm("scancel", found[1])
    lab.wait_until(lambda: found[1] not in slurm("squeue", "-j", found[1]), "it has ended")
    assert (tmp_path / "stdout").read_text() == f"2 2 {tmp_path}\n"
    said = slurm("squeue", "-j", "99999", status=1)
    assert said == "squeue: error: slurm_load_jobs error: Invalid job id specified\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--executor", "slurm", "--slurm-no-account", "--default-resources", "slurm_partition=lbd",
         "--slurm-init-seconds-before-status-checks", "1"),
        ("--executor", "cluster-generic", "--cluster-generic-cancel-cmd", "scancel",
         "--default-resources", "mem_mb=1000", "--cluster-generic-submit-cmd",
         "sbatch --parsable -c {threads} --mem {resources.mem_mb}M -o /dev/null"),
    ],
    ids=["slurm", "cluster-generic"],
)  # fmt: skip
def test_snakemake_runs_a_workflow(slurm, tmp_path, words):
    if not SNAKEMAKE.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("tests/snakemake installs it")
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    slurm(str(SNAKEMAKE), "--jobs", "4", "--latency-wait", "5", *words, cwd=tmp_path)
    assert (tmp_path / "out/sum").read_text() == "1 cpus 2\n2 cpus 2\n"
