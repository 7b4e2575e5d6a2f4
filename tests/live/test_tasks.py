"""Ten tasks of a newcomer and ten of an administrator, done with what README and docs say.

Each task names the page that somebody would look into who knows the program in brackets, and what
they would have typed there. The page must contain the words that do it here, and the words must
work.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.live.cluster import Lab

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.live


@dataclass(frozen=True)
class Task:
    name: str
    habit: str  # what is typed elsewhere
    page: str
    words: tuple[str, ...]  # words that the page must contain
    script: str
    shows: tuple[str, ...] = ()  # strings in its output, of both kinds
    status: int = 0

    def __str__(self):
        return self.name


NEWCOMER = (
    Task("run one command on another host", "ssh h2 uname -n", "README.md", ("lbrun -H",),
         "lbrun -v -H h2 uname -n", ("on h2",)),
    Task("see where it would run", "squeue --start", "README.md", ("lbrun --explain",),
         "lbrun --explain make", ("make: runs here, on h1", "h2")),
    Task("build", "distcc: make -j8 CC=distcc", "docs/how-to/from-distcc.md", ("SHELL=lbsh",),
         "printf 'all: a b\\n%%: ; @echo $@ >$@\\n' >Makefile; make -s -j2 SHELL=lbsh; cat a b",
         ("a\nb\n",)),
    Task("a list of items", "parallel -j4 cmd ::: a b c", "docs/how-to/from-gnu-parallel.md",
         ("xargs -P", "lbrun"), "printf '%s\\n' a b c | xargs -P2 -I@ lbrun echo item-@",
         ("item-a", "item-b", "item-c")),
    Task("queue a job and see its output", "sbatch job.sh; tail -f slurm-1.out",
         "docs/how-to/from-slurm.md", ("lbrun -d", "lbctl logs -f"),
         "lbrun -d echo queued >/dev/null; lbctl logs -f last", ("queued",)),
    Task("wait for it", "sbatch --wait", "README.md", ("lbctl wait last",),
         "lbrun -d false >/dev/null; lbctl wait last", status=1),
    Task("an array, and what of it failed", "sbatch --array=1-3 job.sh; sacct",
         "docs/how-to/arrays.md", ("--array", "lbctl job"),
         "lbrun -d --array 1-3 sh -c 'test $LBD_ARRAY_INDEX != 2' >/dev/null; "
         "lbctl wait last; lbctl job last", ("2 done, 1 failed", "2 (exit 1)")),
    Task("only the failed ones again", "scontrol requeue 12_2", "docs/how-to/arrays.md",
         ("lbctl requeue --failed",),
         "lbrun -d --array 1-3 sh -c 'test $LBD_ARRAY_INDEX != 2' >/dev/null; "
         "lbctl wait last; lbctl requeue --failed last; lbctl wait last", ("queued again: ",), 1),
    Task("end a runaway command", "scancel; ps, kill", "docs/how-to/find-and-end-jobs.md",
         ("lbctl jobs", "lbctl kill"),
         "lbrun -H h2 --name runaway sleep 60 & until lbctl jobs --name runaway | grep running; "
         "do sleep 0.1; done; lbctl kill --name runaway; wait", ("killed h1-",)),
    Task("a time limit", "timeout 1 cmd; sbatch -t", "docs/how-to/from-slurm.md", ("--timeout",),
         "lbrun --timeout 0.3 sleep 9", ("time limit",), 124),
)  # fmt: skip
ADMINISTRATOR = (
    Task("which hosts there are, and how busy", "sinfo", "README.md", ("lbctl status",),
         "lbctl status", ("h1 (here)", "h2", "up")),
    Task("drain a host and say why", "scontrol update node=h2 state=drain reason=disk",
         "docs/how-to/drain.md", ("lbctl drain h3 --reason",),
         "lbctl drain h2 --reason disk --wait; lbctl status",
         ("h2 is drained and empty", "h2: drained by ", ": disk")),
    Task("who drained it, later", "sacctmgr show event", "docs/how-to/drain.md",
         ("lbctl undrain", "lbctl history --drains"),
         "lbctl undrain h2; lbctl history --drains", ("h2 takes jobs again", ", until ", ": disk")),
    Task("find out what is wrong", "slurmctld -D -vvv", "docs/how-to/troubleshoot.md",
         ("lbctl doctor",), "lbctl doctor", ("LIM", "0 faults",)),
    Task("another algorithm, for good", "scontrol reconfigure",
         "docs/how-to/choose-an-algorithm.md", ("--save", "--reset"),
         "lbctl algorithm LOWEST --save; lbctl algorithm --reset",
         ("saved, so it survives restarts", "each host's lbd.toml applies to lim.algorithm again")),
    Task("a parameter, misspelt", "scontrol show config", "docs/how-to/choose-an-algorithm.md",
         ("lbctl param",), "lbctl param min_gian 0.2", ('did you mean "min_gain"?',), 2),
    Task("what failed of late", "sacct --state=F", "docs/how-to/find-and-end-jobs.md",
         ("lbctl history",), "lbrun -H h2 false; lbctl history --state failed", ("false",)),
    Task("how long jobs take", "sreport", "docs/how-to/measure.md", ("lbctl stats",),
         "lbctl stats --since 1h", ("MEDIAN", "P95", "all")),
    Task("new rules of the owner", "kill -HUP", "docs/how-to/upgrade.md", ("lbctl reload",),
         "lbctl reload", ("rules",)),
    Task("a command of another scheduler", "squeue", "docs/how-to/from-slurm.md", ("lbctl jobs",),
         "lbctl squeue", ('use "lbctl jobs"',), 2),
)  # fmt: skip


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs")


def test_there_are_ten_tasks_of_each_kind():
    assert (len(NEWCOMER), len(ADMINISTRATOR)) == (10, 10)


@pytest.mark.parametrize("task", NEWCOMER + ADMINISTRATOR, ids=str)
def test_a_task_is_done_as_the_page_says(lab, task, tmp_path):
    page = (ROOT / task.page).read_text()
    assert [word for word in task.words if word not in page] == []
    done = lab.run("h1", "sh", "-c", task.script, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert [text for text in task.shows if text not in said] == [], said
    assert done.returncode == task.status, said
