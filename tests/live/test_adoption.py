"""A restart of LIM or LBM does not end what runs: no byte of it is lost or repeated."""

import signal
from functools import partial

import pytest

from tests.live.cluster import Lab
from tests.live.restarting import SETTINGS, Stream, restart

MIB = 1 << 20


LAB = partial(Lab.up, 2, settings=SETTINGS)


@pytest.mark.parametrize("hosts", [("h2",), ("h1",), ("h1", "h2")], ids=["far", "near", "both"])
def test_a_stream_goes_on(lab, hosts):
    stream = Stream(lab, "h1", "h2", 40 * MIB, seed="-".join(hosts))
    lab.wait_until(lambda: stream.got_bytes > 4 * MIB, "it streams")
    restart(lab, *hosts)
    assert stream.finish() == (0, "")
    assert stream.got_bytes == 40 * MIB
    assert stream.is_whole()
    lab.wait_until(lambda: not lab.jobs_alive(), "nothing is left", 30, lab.jobs_alive)


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGKILL])
def test_a_restart_of_a_lim_affects_nothing_that_runs(lab, number):
    stream = Stream(lab, "h1", "h2", slow_s=0.01, seed=str(number))
    lab.wait_until(lambda: stream.got_bytes > 0, "it streams")
    for host in lab.hosts:
        lab.kill(host, "lim", number.name.removeprefix("SIG"))
        lab.wait_until(lambda host=host: lab.pids()[host]["lim"] is None, "its LIM is gone")
        lab.start(host, "lim")
    lab.wait_until(
        lambda: lab.ask("h2", "lim", "status")["hosts"][1]["jobs"]["foreign"] == 1,
        "the new LIM knows of it", 30, lambda: lab.ask("h2", "lim", "status"),
    )  # fmt: skip
    stream.enough()
    assert stream.finish() == (0, "")
    assert stream.is_whole()
