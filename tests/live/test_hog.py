"""One user's commands on all slots of a host: what the queue's jobs of others get there."""

import contextlib
from functools import partial

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.contract import kill_tree
from tests.live.queued_jobs import job, submit
from tests.live.test_users import ANN, as_user

pytestmark = pytest.mark.root

SLOTS = 4
SETTINGS = (
    *FAST, f'users.allow=["{ANN}"]', f"lbm.slots={SLOTS}", "dispatch.load_ceiling=10000",
)  # fmt: skip
LAB, OPEN = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS), True


@contextlib.contextmanager
def hog(lab):
    """Commands of ANN hold all slots of h2."""
    words = (*as_user(ANN), "lbrun", "-H", "h2", "sleep", "600")
    started = [lab.popen("h1", *words) for _ in range(SLOTS)]
    try:
        lab.wait_until(lambda: used(lab) == SLOTS, "all slots are taken")
        yield
    finally:
        for process in started:
            kill_tree(process.pid)
            process.wait()


def used(lab):
    hosts = lab.lbctl_json("h2", "status")["hosts"]
    return next(host["slots"]["used"] for host in hosts if host["name"] == "h2")


def state(lab, name):
    return job(lab, name)["state"]


def test_a_queued_job_of_another_user_starts_beside_the_hogs_commands(lab):
    """It stayed in the queue for as long as they ran, though a command of that user's without the
    queue was let in at once."""
    with hog(lab):
        first = submit(lab, "-H", "h2", "sleep", "600")
        second = submit(lab, "-H", "h2", "true")
        lab.wait_until(lambda: state(lab, first) == "running", "there is room for one")
        assert (state(lab, second), used(lab)) == ("pending", SLOTS + 1)
        assert lab.run("h1", "lbctl", "kill", first).returncode == 0
        assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", second).returncode == 0
        third = submit(lab, "-H", "h2", "sleep", "600")
        lab.wait_until(lambda: state(lab, third) == "running", "there is room again")
    lab.wait_until(lambda: used(lab) == 1, "the commands have ended")
    fourth = submit(lab, "-H", "h2", "true")
    assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", fourth).returncode == 0
    assert [job(lab, name)["attempt"] for name in (first, second, third, fourth)] == [1, 1, 1, 1]
    assert lab.run("h1", "lbctl", "kill", third).returncode == 0
    lab.wait_until(lambda: used(lab) == 0, "each slot is freed once")
