"""State and ExitCode of ended jobs."""

import pytest

from lbd.slurm.queue import Job


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"exit_status": 124, "cause": "timeout", "reason": "over its time limit of 5s"},
         ("TIMEOUT", "0:15")),
        ({"exit_status": 137, "signal": 9, "cause": "memory", "reason": "killed: over its memory "
          "limit of 1G"}, ("OUT_OF_MEMORY", "0:125")),
        # no limit was set, or its child was killed
        ({"exit_status": 1, "cause": "memory", "reason": "killed: no memory"},
         ("OUT_OF_MEMORY", "0:125")),
        ({"exit_status": 124, "cause": "exited"}, ("FAILED", "124:0")),
        ({"exit_status": 125, "cause": "exited"}, ("FAILED", "125:0")),
        ({"exit_status": 137, "signal": 9, "cause": "signalled"}, ("FAILED", "0:9")),
        ({"exit_status": 3, "cause": None}, ("FAILED", "3:0")),
        ({"state": "cancelled", "exit_status": 143, "cause": "cancelled"}, ("CANCELLED", "0:15")),
        ({"state": "done", "exit_status": 0, "cause": "exited"}, ("COMPLETED", "0:0")),
    ],
)  # fmt: skip
def test_what_ended_a_job_is_not_guessed_from_its_exit_status(row, shown):
    """A command that exited with 124 was TIMEOUT, and the two others had lbd's exit statuses."""
    job = Job({"id": "3", "state": "failed", **row})
    assert (job.state, job.exit_code) == shown
