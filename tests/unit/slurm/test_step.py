"""A step of a job: its number, its tasks, its files, and its share of the job's slots."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from lbd.slurm.options import LET_BE, SlurmError
from lbd.slurm.step import SCRIPT, TURN, file_name, lock

STEP = [sys.executable, "-c", "from lbd.slurm.program import run; run('srun')"]
JOB = {"SLURM_JOB_ID": "12_7", "LBD_JOB_ID": "12_7", "LBD_SLOTS": "2", "LBD_HOST": "h2",
       "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "7"}  # fmt: skip


@pytest.fixture
def job(monkeypatch):
    """Makes this process the first of the job, with its script open."""
    with tempfile.TemporaryFile() as script:
        for name, value in (JOB | {SCRIPT: f"/proc/{os.getpid()}/fd/{script.fileno()}"}).items():
            monkeypatch.setenv(name, value)
        yield script


def step(*words):
    return subprocess.Popen([*STEP, *words], stdin=subprocess.PIPE)


def status_of(*words):
    return done(*words).returncode


def done(*words, **options):
    return subprocess.run([*STEP, *words], capture_output=True, text=True, check=False, **options)


@contextlib.contextmanager
def held(job, *places):
    """Waits until others hold them."""
    for byte in places:
        while lock(job.fileno(), byte):
            lock(job.fileno(), byte, fcntl.F_UNLCK)
    yield


def test_exclusive_steps_wait_for_free_slots_of_their_job(job, tmp_path, monkeypatch):
    monkeypatch.setenv(LET_BE, "exclusive")  # of a job
    log = tmp_path / "log"
    with (
        step("--exclusive", "-c2", "sh", "-c", f"read go; echo first >>{log}") as both,
        held(job, TURN + 1, TURN + 2),
        step("--exclusive", "-n1", "sh", "-c", f"echo second >>{log}") as other,
        held(job, TURN),
    ):
        assert not log.exists()
        both.communicate(b"go\n")
        other.communicate()
        assert (both.returncode, other.returncode) == (0, 0)
    assert log.read_text() == "first\nsecond\n"


def test_a_step_has_its_files(job, tmp_path):
    (tmp_path / "in").write_text("what is in it\n")
    words = ["-D", str(tmp_path), "-i", "in", "-o", "out.%j.%t", "sh", "-c", "cat; echo bad >&2"]
    assert status_of(*words) == 0
    assert (tmp_path / "out.12_7.0").read_text() == "what is in it\nbad\n"
    words = [
        "-D",
        str(tmp_path),
        "--open-mode=append",
        "-o",
        "out.12_7.0",
        "-e",
        "none",
        "sh",
        "-c",
        "pwd >&2; echo x",
    ]
    assert status_of(*words) == 0
    assert (tmp_path / "out.12_7.0").read_text() == "what is in it\nbad\nx\n"


def test_names_of_files(job, monkeypatch):
    assert file_name("output", "%x.%A_%a.%N.%J.100%%", "fit") == "fit.12_7.h2.12_7.0.100%"
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(SlurmError, match=r"^--output %j: %j is not supported by lbd here$"):
        file_name("output", "%j", "fit")


def test_a_step_has_a_process_for_each_of_its_tasks(job, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "2")
    script = (
        "cat; echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NPROCS; exit $SLURM_PROCID"
    )
    ran = done("-l", "sh", "-c", script, input="in\n")
    assert sorted(ran.stdout.splitlines()) == ["0: 0 0 2 2", "0: in", "1: 1 1 2 2"]
    assert (ran.returncode, ran.stderr) == (1, "srun: error: h2: task 1: Exited with exit code 1\n")
    ran = done("-n1", "--label", "sh", "-c", script + "; echo none >&2", input="")
    assert (ran.stdout, ran.returncode) == ("0: 0 0 1 1\n", 0)
    assert status_of("-n1", "-K", "--gres=gpu:0", "true") == 0
    assert status_of("-n1", "--gres=none", "true") == 0
    assert status_of("-n1", "--gres=gpu:1,x:0", "true") == 1
    ran = done(
        "-D", tmp_path, "-o", "both", "-e", "own.%t", "sh", "-c", script + "; : >&2", input=""
    )
    assert sorted((tmp_path / "both").read_text().splitlines()) == ["0 0 2 2", "1 1 2 2"]
    assert {"own.0", "own.1"} <= {path.name for path in tmp_path.iterdir()}


def test_more_tasks_than_slots_are_refused_naming_the_option(job, monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "2")
    said = "srun: error: --ntasks 2 --cpus-per-task 2 needs 4 slots, and the job has 2"
    assert done("-n2", "-c2", "true").stderr == f"{said}\n"
    assert done("-c2", "true").stderr == f"{said}; the job has -n 2: for one, write -n 1\n"


@pytest.mark.parametrize("whose", ["step", "group"])
def test_a_signal_reaches_each_task_once(job, tmp_path, whose):
    """Including a signal to the job's group; the step is not its first process."""
    script = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [10, 12])\n"
        "os.write(1, b'ready\\n')\n"
        "while (got := signal.sigwait([10, 12])) == 10: os.write(1, b'got\\n')\n"
    )
    shell = ["sh", "-c", 'trap : USR1 USR2; "$@" & echo $!; wait $!; wait $!; wait $!', "sh"]
    words = [*shell, *STEP, "-n2", sys.executable, "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, process_group=0) as ran:
        try:
            pid = int(ran.stdout.readline())
            send, to = (os.kill, pid) if whose == "step" else (os.killpg, ran.pid)
            assert [ran.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
            send(to, signal.SIGUSR1)
            assert [ran.stdout.readline() for _ in range(2)] == ["got\n"] * 2
            send(to, signal.SIGUSR2)
            assert ran.stdout.read() == ""
        finally:
            os.killpg(ran.pid, signal.SIGKILL)


def test_on_request_a_failure_ends_the_other_tasks(job):
    script = "[ $SLURM_PROCID = 0 ] && exit 3; exec sleep 1000"
    ran = done("-n2", "-K", "sh", "-c", script)
    assert ran.returncode == 128 + signal.SIGTERM
    assert ran.stderr == (
        "srun: error: h2: task 0: Exited with exit code 3\nsrun: error: h2: task 1: Terminated\n"
    )


def test_a_step_ends_at_its_time_limit_with_all_it_has_started(job, tmp_path):
    left = tmp_path / "left"
    orphan = f"trap '' TERM; echo $$ >{left}.new; mv {left}.new {left}; exec sleep 1000"
    script = f'(sh -c "$0" &); until [ -e {left} ]; do sleep 0.01; done; exec sleep 1000'
    ran = done("-n1", "-t", "0:02", "sh", "-c", script, orphan)
    assert (ran.returncode, ran.stderr) == (
        124,
        "srun: error: the step ended at its time limit of 2 s\n"
        "srun: error: h2: task 0: Terminated\n",
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(left.read_text()), 0)
    ran = done("-n1", "-t", "1:00:00", "sh", "-c", "(exit 7 &); exit 3")  # it need not wait
    assert (ran.returncode, ran.stderr) == (3, "srun: error: h2: task 0: Exited with exit code 3\n")


@pytest.mark.parametrize("given", ["--mem=50M", "--mem-per-cpu=50M", "--mem=50M -t 5"])
def test_a_process_of_a_step_has_the_memory_of_the_step(job, given):
    shown = ["-n1", *given.split(), "sh", "-c", "ulimit -d; ulimit -H -d"]
    assert done(*shown).stdout == "51200\n51200\n"
    unlimited = subprocess.run(shown[-3:], capture_output=True, text=True, check=True).stdout
    assert done("-n1", "--mem=0", *shown[-3:]).stdout == unlimited


def test_a_step_cannot_be_kept_off_its_jobs_host(job):
    said = "srun: error: --exclude: within a job of lbd a step runs on the job's host, h2\n"
    assert done("-n1", "-x", "h1,h2", "true").stderr == said
    assert status_of("-n1", "-x", "h1", "true") == 0


def test_steps_are_numbered(job, tmp_path):
    said = [done("-n1", "-o", f"{tmp_path}/%J.%s", "printenv", "SLURM_STEP_ID") for _ in range(3)]
    assert [ran.returncode for ran in said] == [0, 0, 0]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        f"12_7.{number}.{number}": f"{number}\n" for number in range(3)
    }
