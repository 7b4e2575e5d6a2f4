"""Hosts that are no room for a command whose host's owner is back."""

from lbd.lbm.link import wire as tags
from lbd.lbm.owner.watch import standing
from tests.unit.lbm.inbound.test_attached_job import begin, host, until
from tests.unit.lbm.queue import test_attempt_guards as guards

__all__ = ["host"]


async def test_a_plain_command_never_returns_to_where_it_was_typed(host):
    """Room there counted: the command was ended, and then waited for the host it had left."""
    job, _ = begin(host, 1, excluded=["h3"])
    await until(lambda: tags.STARTED in job.talk.said)
    assert standing(job).excluded == {"h1", "h3"}


def test_a_queued_job_may_go_to_the_host_where_it_was_typed():
    host = guards.host.__wrapped__()
    made = guards.attempt_of(host, [], excluded=["h3"])
    assert made.request.origin == "h2"
    assert standing(made).excluded == {"h3"}
