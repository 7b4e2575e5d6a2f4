"""`-H HOST` asks that host itself, whatever this host's LIM believes about it."""

import signal
from functools import partial

import pytest

from tests.live.cluster import SERVED, Lab
from tests.live.contract import assert_one_line

LAB = partial(Lab.up, 2)


@pytest.fixture(autouse=True)
def lims_run(lab):
    yield
    for host in lab.hosts:
        lab.kill(host, "lim", "CONT")
    for host in lab.hosts:
        up = lambda host=host: set(lab.states(host).values()) == {"up"}  # noqa: E731
        lab.wait_until(up, f"{host} sees both")


def test_while_our_lim_is_stopped_and_after_it_continues(lab):
    assert lab.served("h1", "h2") == SERVED
    lab.kill("h1", "lim", "STOP")
    result = lab.run("h1", "lbrun", "true")  # it asks in vain, and leaves the LIM alone for a while
    assert result.returncode == 0
    assert_one_line(result.stderr, "lbrun", "lim")
    assert lab.served("h1", "h2") == SERVED
    lab.kill("h1", "lim", "CONT")
    assert lab.served("h1", "h2") == SERVED


def test_a_lim_that_continues_is_asked_at_once_if_nothing_else_will_do(lab):
    """Nothing has run there yet, so the address must come from the LIM."""
    lab.kill("h2", "lim", "STOP")
    assert "running here" in lab.run("h2", "lbrun", "true").stderr
    assert lab.run("h2", "lbrun", "-H", "h1", "true").returncode == 125
    lab.kill("h2", "lim", "CONT")
    assert lab.served("h2", "h1") == SERVED


def test_a_host_that_is_believed_down(lab):
    lab.kill("h2", "lim", "STOP")
    lab.wait_until(lambda: lab.states("h1")["h2"] == "down", "h1 has not heard of h2")
    assert lab.served("h1", "h2") == SERVED
    explained = lab.run("h1", "lbrun", "-H", "h2", "--explain", "true", check=True).stdout
    assert "down" in explained


def test_a_host_whose_lbm_does_not_answer_is_given_up_in_time(lab):
    stopped = lab.pids()["h2"]["lbm"]
    lab.kill("h2", "lbm", "STOP")
    try:
        result = lab.run("h1", "lbrun", "-H", "h2", "--timeout", "20", "true")
        assert result.returncode == 125
        assert_one_line(result.stderr, "lbrun", "h2")
    finally:
        lab.kill("h2", "lbm", signal.SIGCONT.name[3:])
    assert lab.pids()["h2"]["lbm"] == stopped
