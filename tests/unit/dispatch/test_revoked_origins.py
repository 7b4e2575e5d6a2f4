"""Jobs of a host that was revoked begin nowhere, and end, unless it joins again."""

import asyncio

from lbd.cli.daemons import aids
from lbd.dispatch import daemon
from lbd.dispatch.core.revoked_origins import GRACE_S, RevokedOrigins
from lbd.model import JobId
from tests.unit.dispatch.services import asking, opened
from tests.unit.until import until


def test_its_jobs_are_to_be_ended_once_after_a_while():
    origins = RevokedOrigins()
    origins.revoked({"h2"}, 100.0)
    assert origins.why_not("h2").startswith("h2, where it was submitted, is revoked")
    assert (origins.why_not("h1"), origins.due(100.0 + GRACE_S - 1)) == ("", [])
    assert origins.due(100.0 + GRACE_S) == ["h2"]
    origins.ended("h2")
    assert origins.due(1000.0) == []
    assert origins.why_not("h2")


def test_a_machine_that_was_installed_anew_has_its_jobs_go_on():
    """The token made for its name has revoked its earlier certificates."""
    origins = RevokedOrigins()
    origins.revoked({"h2"}, 100.0)
    origins.heard("h2")
    assert (origins.why_not("h2"), origins.due(1000.0)) == ("", [])


def test_of_those_revoked_earlier_it_is_not_known_whether_they_have_joined_again():
    origins = RevokedOrigins(["h2"])
    assert origins.due(1e9) == []
    assert origins.why_not("h2")
    origins.heard("h2")
    assert not origins.why_not("h2")


async def test_no_job_of_a_revoked_host_begins_and_all_of_them_end(tmp_path, monkeypatch):
    """One that it had queued in a user's name began on another host after `lbctl revoke`."""
    monkeypatch.setattr(aids, "REVOKED_EVERY_S", 0.0)
    now_s = [daemon.clock_s()]
    monkeypatch.setattr(aids, "clock_s", lambda: now_s[0])
    async with opened(tmp_path / "ledger.sqlite") as world:
        for origin in ("h2", "h1"):
            world.trust.name = origin
            asked = asking({"origin": origin}, origin=origin)
            assert (await world.submit(asked)).error == ""
        world.dispatcher.revoked.revoked({"h2"}, now_s[0])
        started = []
        line = world.host("h3")
        monkeypatch.setattr(line, "start", lambda start: started.append(start.job))
        life, when = world.dispatcher.life, (daemon.clock_s(), world.dispatcher.rng)
        world.dispatcher.carry(life.host_is(life.hosts.known["h3"].slots, *when))
        why = f"h3: {world.dispatcher.revoked.why_not('h2')}"
        await until(lambda: started and life.jobs[JobId("1")].reason == why)
        assert started == ["2"]
        ending = asyncio.create_task(aids.end_jobs_of_revoked(world.dispatcher))
        now_s[0] += GRACE_S
        await until(lambda: JobId("1") not in life.jobs)
        ending.cancel()
        (job,) = (await world.jobs(selectors=["1"])).jobs
        assert (job.state, JobId("2") in life.jobs) == ("cancelled", True)
        assert "the revocation of h2" in job.reason
