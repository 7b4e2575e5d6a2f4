"""Who administers whose jobs: the dispatcher's host decides, not the asking host."""

import contextlib
from dataclasses import replace

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import AdminConfig, Config, HostConfig
from tests.unit.dispatch.services import asking, opened

ROOT = {"user": "root", "uid": 0, "is_admin": True}
CONFIG = Config(host=HostConfig(name="h1"), dispatch=DispatchConfig(host="h1", standby=("h4",)))


@contextlib.asynccontextmanager
async def of_two_hosts(path, config=CONFIG):
    """Job 1 of ann on h2, job 2 of bob on h3."""
    async with opened(path / "ledger.sqlite", config) as world:
        for host, user in (("h2", "ann"), ("h3", "bob")):
            world.trust.name = host
            inner = {"origin": host, "user": user}
            assert not (await world.submit(asking(inner, origin=host, user=user))).error
        yield world


@pytest.mark.parametrize("verb", ["kill", "hold", "release", "requeue"])
async def test_a_host_speaks_for_its_administrators_about_its_own_jobs_alone(tmp_path, verb):
    async with of_two_hosts(tmp_path) as world:
        world.trust.name = "h3"
        reply = await world.act(verb=verb, selectors=["1"], **ROOT)
        (line,) = reply.errors
        assert line.startswith(
            "permission denied: job 1 is not yours; administrators can act on it from h1"
        )
        assert not reply.done_ids
        reply = await world.act(verb="hold", selectors=["1-2"], **ROOT)
        assert list(reply.done_ids) == ["2"]
        assert len(reply.errors) == 1
        told = {job.id: job.reason for job in (await world.jobs()).jobs}
        assert told[2].startswith("held by root")
        assert not told[1].startswith("held")


@pytest.mark.parametrize(
    ("host", "named", "may"),
    [
        ("h1", (), True),
        ("h4", (), True),
        ("h3", ("h3",), True),
        ("h3", ("h?",), True),
        ("h3", ("h",), False),
        ("", (), False),
    ],
)
async def test_who_is_believed_the_dispatchers_host_says(tmp_path, host, named, may):
    config = replace(CONFIG, admin=AdminConfig(hosts=named))
    async with of_two_hosts(tmp_path, config) as world:
        world.trust.name = host or "h9"
        reply = await world.act(verb="kill", selectors=["1"], **ROOT)
        assert (list(reply.done_ids) == ["1"]) == may


async def test_a_user_who_is_no_administrator_acts_on_their_own_jobs_from_any_host(tmp_path):
    async with of_two_hosts(tmp_path) as world:
        world.trust.name = "h3"
        reply = await world.act(verb="kill", selectors=["1"], user="ann", uid=1001)
        assert list(reply.done_ids) == ["1"]
        reply = await world.act(verb="kill", selectors=["2"], user="ann", uid=1001)
        assert reply.errors == ["permission denied: job 2 is not yours"]


async def test_who_held_a_job_is_told_in_few_words_whatever_its_host_says(tmp_path):
    async with of_two_hosts(tmp_path) as world:
        world.trust.name = "h3"
        root = ROOT | {"user": "root\x1b[2J\n" * 28}
        assert list((await world.act(verb="hold", selectors=["2"], **root)).done_ids) == ["2"]
        (job,) = (await world.jobs(selectors=["2"])).jobs
        assert len(job.reason) < 500
        assert job.reason.isprintable()


@pytest.mark.parametrize("verb", ["kill", "hold", "release"])
async def test_nobody_hears_from_an_order_that_anothers_array_has_ended(tmp_path, verb):
    """Of a job that was no array, it was permission denied."""
    ann, bob = {"user": "ann", "uid": 1001}, {"user": "bob", "uid": 1002}
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking(is_array=True, first_index=1, count=2))
        await world.submit(asking())
        other = str((await world.submit(asking(bob, **bob))).first)
        await world.act(verb="kill", selectors=["1-3"], **ann)
        denied = "permission denied: job 1 is not yours"
        for selectors in (["1"], ["1_[1-2]"]):
            refused = await world.act(verb=verb, selectors=selectors, **bob)
            assert list(refused.errors) == [denied]
        if verb != "release":  # nothing of theirs is held
            some = await world.act(verb=verb, selectors=["1", other], **bob)
            assert (list(some.errors), list(some.done_ids)) == ([denied], [other])
        for asker in (ann, ROOT):
            done = await world.act(verb=verb, selectors=["1"], **asker)
            assert list(done.errors) == [f"nothing to {verb}: all these jobs have ended"]
