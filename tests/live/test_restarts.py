"""A daemon that restarts knows again what runs, and commands do not notice that it was down."""

from functools import partial

from tests.live.cluster import Lab
from tests.live.restarting import leave

LAB = partial(Lab.up, 2)
UNTIL_TOLD = "until read -t 0 stop; do lbrun --remote true </dev/null || exit $?; done"


def test_a_restarted_lim_counts_the_jobs_that_run(lab):
    burner = lab.popen("h1", "lbrun", "-H", "h2", "sh", "-c", "while :; do :; done")
    try:
        busy = lambda: index_of(lab, "h2") > 0.3  # noqa: E731
        lab.wait_until(busy, "the job is part of h2's load", 20)
        lab.kill("h2", "lim")
        lab.start("h2", "lim")
        lab.wait_until(busy, "and after its LIM has restarted, too", 20)
    finally:
        burner.terminate()
        burner.wait()


def test_no_command_that_must_leave_fails_as_a_lim_restarts(lab):
    """The coordinator's LIM, or another."""
    for host in lab.hosts:
        loop = lab.popen(host, "bash", "-c", UNTIL_TOLD, stdin=-1, stderr=-1, text=True)
        leave(lab, host, "lim")
        lab.start(host, "lim")
        _, said = loop.communicate("stop\n", timeout=60)
        assert (loop.returncode, said) == (0, "")


def index_of(lab, host):
    rows = lab.ask(host, "lim", "status")["hosts"]
    return next(row["index"] for row in rows if row["name"] == host)
