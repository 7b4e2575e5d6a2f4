"""A command whose program a host never admits does not wait for hours that admit its user."""

import errno

import pytest

from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config
from lbd.keeper.local_account import Admit, Refuse
from lbd.lbm.keeper_link import SpawnFailed
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.queue import test_attempt_guards as guards
from tests.unit.until import until

host, news = guards.host, guards.news  # fixtures
RULED_OUT = SpawnFailed("admission.programs", 0, ("/usr/bin/uname", "/usr/bin/uname"))


@pytest.fixture
def closed(host):
    """By day it takes others than bob, and at all hours only gcc."""

    async def not_now(user, uid, origin):
        return Refuse("everybody may from 18:00", wait_s=60.0, then=Admit(None))

    host.rules.config = Config(admission=AdmissionConfig(programs=("/usr/bin/gcc",)))
    host.link.forbids = RULED_OUT
    host.admit = not_now
    host.phase_of = lambda refused: "not-yet" if refused.wait_s else "admission"
    return host


async def refusal(host, news):
    client = guards.SimpleNamespace(spool=guards.Spool())
    run = lbm_pb2.RunRequest(argv=[b"uname"], directory=b"/home/bob", closed_fds=7)
    spec = pb.StoredSpec(run_request=run.SerializeToString())
    start = pb.Start(job="7", attempt=1, lease_s=30.0, spec=spec, origin="h2", user="bob", uid=1)
    guards.Attempt(host, client, start, news.append, guards.clock_s() + 30.0).begin()
    await until(lambda: news)
    return news[0].phase, news[0].reason


async def test_it_is_refused_for_good(closed, news):
    """It waited for the hours of `everybody_when`, only to be refused then."""
    phase, reason = await refusal(closed, news)
    assert phase == "admission"
    assert reason.startswith("uname is not allowed here")
    (order,) = closed.link.checked
    assert (order.directory, order.stamp) == (b"/", None)


async def test_a_program_that_is_not_there_yet_may_be_there_by_then(closed, news):
    closed.link.forbids = SpawnFailed("exec", errno.ENOENT)
    assert await refusal(closed, news) == ("not-yet", "everybody may from 18:00")


async def test_without_rules_on_programs_the_keeper_is_not_asked(closed, news):
    closed.rules.config = Config()
    assert await refusal(closed, news) == ("not-yet", "everybody may from 18:00")
    assert not closed.link.checked
