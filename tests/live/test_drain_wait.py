"""`lbctl drain --wait` says that a host is empty only if it is known to be."""

import subprocess
from functools import partial

import pytest

from tests.live.cluster import FAST, Lab

LAB = partial(Lab.up, 2, "none", settings=FAST)


@pytest.mark.parametrize("restarted", ["h1", "h2"])
def test_a_lim_that_is_restarted_meanwhile_does_not_make_the_host_empty(lab, restarted):
    """On the host that waits, or on the drained one: as an upgrade does."""
    with lab.popen("h1", "lbrun", "-H", "h2", "cat", stdin=subprocess.PIPE) as running:
        lab.wait_until(lambda: foreign(lab) == 1, "the command runs")
        waiting = lab.popen("h1", "lbctl", "drain", "h2", "--wait", stdout=-1, stderr=-1, text=True)
        try:
            lab.wait_until(lambda: lab.states("h1").get("h2") == "drained", "h2 is drained")
            for _ in range(3):
                lab.kill(restarted, "lim", "TERM")
                lab.wait_until(lambda: lab.pids()[restarted]["lim"] is None, "it has ended")
                lab.start(restarted, "lim")
                lab.wait_until(lambda: foreign(lab) == 1, "it is known again what runs there")
                assert waiting.poll() is None, waiting.communicate()
        finally:
            running.stdin.close()
        out, err = waiting.communicate(timeout=60)
        lab.run("h1", "lbctl", "undrain", "h2")
        assert (waiting.returncode, out) == (0, "h2 is drained and empty\n"), err


def foreign(lab):
    rows = lab.ask("h1", "lim", "status")["hosts"]
    return next((row["jobs"]["foreign"] for row in rows if row["name"] == "h2"), None)
