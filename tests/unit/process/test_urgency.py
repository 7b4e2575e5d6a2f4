"""A process that runs before others, and its children."""

import os

import pytest

from lbd.process.urgency import Urgency


def how():
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    return policy, os.getpriority(os.PRIO_PROCESS, 0)


def in_a_child(what):
    """Runs `what`, which returns a bool, in a child of its own."""
    if (pid := os.fork()) == 0:
        done = False
        try:
            done = what()
        finally:
            os._exit(0 if done else 1)
    assert os.waitpid(pid, 0)[1] == 0


def is_before_others():
    policy, nice = how()
    return policy == os.SCHED_RR or nice < 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs CAP_SYS_NICE")
def test_its_children_run_as_others_do():
    def raised():
        Urgency().become(urgent=True)
        in_a_child(lambda: not is_before_others())
        return is_before_others()

    in_a_child(raised)


@pytest.mark.parametrize("may_be_real_time", [True, False])
def test_it_runs_as_before_when_that_is_over(may_be_real_time):
    set_scheduler = os.sched_setscheduler

    def refused(pid, policy, param):
        if policy & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR:
            raise PermissionError
        set_scheduler(pid, policy, param)

    def there_and_back():
        if not may_be_real_time:
            os.sched_setscheduler = refused
        os.nice(3)
        before, urgency = how(), Urgency()
        urgency.become(urgent=True)
        urgency.become(urgent=True)
        urgency.become(urgent=False)
        return how() == before and not urgency.is_raised

    in_a_child(there_and_back)
