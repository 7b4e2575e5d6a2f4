"""The labs that a hostile user attacks: two hosts that an administrator set up, with another user
on them, or one host with a queue that runs one job at a time."""

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.privileged import two
from tests.live.test_users import ANN, BOB

__all__ = ("two",)  # the fixture

SETTINGS = (*FAST, f'users.allow=["{ANN}", "{BOB}"]', "lbm.slots=1", "dispatch.lease_s=3")


@pytest.fixture(scope="package")
def queue_lab():
    lab = Lab.up(1, "none", "--mode", "fcfs", settings=SETTINGS)
    lab.root.chmod(0o755)
    yield lab
    lab.down()
