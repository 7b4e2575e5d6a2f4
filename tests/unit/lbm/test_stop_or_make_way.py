"""Whether the LBM ends what runs or leaves it to the next one: the first signal decides."""

import asyncio
import signal

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.lbm import daemon
from lbd.lbm.daemon import Lbm
from lbd.process.stop import Stop


class Attempts:
    """What runs here ends only after another signal has come."""

    def __init__(self, late):
        self.late, self.has_ended = late, False

    async def run(self):
        await asyncio.Event().wait()

    async def end_all(self):
        signal.raise_signal(self.late)
        await asyncio.sleep(0.05)
        self.has_ended = True


async def nothing(*_):
    return None


@pytest.fixture
def lbm(tmp_path, monkeypatch):
    """An LBM without a keeper. `handed_over` is what it left to the next one."""
    dirs = {"runtime_dir": str(tmp_path), "state_dir": str(tmp_path)}
    own = HostConfig(name="h1", address="127.0.0.1", **dirs)
    lbm = Lbm(Config(host=own), Stop(), lambda _: None, lambda: Config(host=own))
    lbm.handed_over = []

    async def hand_over(*left):
        lbm.handed_over.append(left)

    monkeypatch.setattr(daemon, "hand_over", hand_over)
    for part, name in ((lbm._keeper, "connect"), (lbm._keeper, "end"), (lbm, "_take_over"),
                       (lbm._report, "report")):  # fmt: skip
        monkeypatch.setattr(part, name, nothing)
    return lbm


async def test_a_restart_that_is_asked_for_while_it_ends_what_runs_comes_too_late(lbm):
    """It handed over what it had just ended, to an LBM that does not come."""
    lbm._attempts = attempts = Attempts(signal.SIGUSR2)
    lbm._ready = lambda _: lbm._stop.set()
    async with asyncio.timeout(20):
        await lbm.run()
    assert attempts.has_ended
    assert lbm.handed_over == []


async def test_a_restart_leaves_what_runs(lbm):
    lbm._attempts = attempts = Attempts(signal.SIGUSR2)
    lbm._ready = lambda _: signal.raise_signal(signal.SIGUSR2)
    async with asyncio.timeout(20):
        await lbm.run()
    assert not attempts.has_ended
    assert len(lbm.handed_over) == 1
