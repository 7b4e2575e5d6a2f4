"""Queued jobs that need more of a host than slots."""

import pytest

from lbd.config.dispatch import MODES
from lbd.model import Facts, Needs
from tests.unit.dispatch.core.test_queues import Table

GPU = Needs((("gpu", 1),))
BOTH = Needs((("gpu", 2),))


def facts(gpus=2, used=0, features=("linux",), memory=0, given=0):
    return Facts(features, (("gpu", gpus, used),) if gpus else (), memory, given)


@pytest.mark.parametrize("mode", MODES)
def test_it_runs_where_its_needs_are_met(mode):
    table = Table(mode)
    table.host("h1", 4, facts=facts(gpus=0))
    table.host("h2", 4, facts=facts(), load=9.0)
    assert table.arrive("a", needs=GPU) == ["a@h2"]
    assert table.arrive("b", needs=BOTH) == []
    assert table.ended("a") == ["b@h2"]


def test_under_strict_fcfs_a_head_that_waits_for_a_resource_delays_the_rest():
    table = Table()
    table.host("h1", 4, facts=facts())
    assert table.arrive("a", needs=GPU) == ["a@h1"]
    assert table.arrive("b", needs=BOTH) == []
    assert table.arrive("c") == []
    assert table.ended("a") == ["b@h1", "c@h1"]


def test_a_job_that_no_host_can_take_steps_aside_until_one_joins():
    table = Table()
    table.host("h1", 1, facts=facts(gpus=0))
    assert table.arrive("a", needs=GPU) == []
    assert table.arrive("b") == ["b@h1"]
    assert table.host("h2", 1, facts=facts(gpus=1)) == ["a@h2"]


def test_a_host_that_gets_the_missing_resource_takes_the_jobs_that_wait_for_it():
    table = Table()
    table.host("h1", 1, facts=facts(features=("linux",)))
    assert table.arrive("a", needs=Needs(features=("big",))) == []
    assert table.host("h1", 1, facts=facts(features=("big", "linux"))) == ["a@h1"]


def test_resources_in_use_by_others_count_and_are_free_with_the_next_heartbeat():
    table = Table()
    table.host("h1", 4, facts=facts(used=1))
    assert table.arrive("a", needs=BOTH) == []
    assert table.host("h1", 4, facts=facts(used=0)) == ["a@h1"]
    assert table.arrive("b", needs=GPU) == []  # the queue's own use is not in the heartbeat


def test_memory_counts_as_requested():
    table = Table()
    table.host("h1", 9, facts=facts(memory=8 << 30, given=1 << 30))
    assert table.arrive("a", needs=Needs(memory_bytes=4 << 30)) == ["a@h1"]
    assert table.arrive("b", needs=Needs(memory_bytes=4 << 30)) == []
    assert table.ended("a") == ["b@h1"]


def test_an_array_with_needs_is_never_started_ahead_of_free_slots():
    table = Table()
    table.host("h1", 1, ahead=2, facts=facts(gpus=4))
    assert table.arrive("1", array=1, array_index=1, needs=GPU) == ["1@h1"]
    table.ended("1")
    assert table.arrive("2", array=1, array_index=2, needs=GPU) == ["2@h1"]
    assert table.arrive("3", array=1, array_index=3, needs=GPU) == []


def test_a_lost_attempt_keeps_its_resources_until_its_end_is_known():
    table = Table()
    table.host("h1", 4, facts=facts())
    table.arrive("a", needs=BOTH)
    table.gone("h1")
    assert table.host("h1", 4, facts=facts()) == []
    assert table.arrive("b", needs=GPU) == []
    assert table.lost("a") == ["a@h1"]
    assert table.ended("a") == ["b@h1"]
