"""The steps that bring files to a host and back: commands of ours, beside the user's."""

import pytest

from lbd.config.schema import StageConfig
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.journey_events import Refused
from lbd.lbm.session.peer_process import Traits
from lbd.lbm.session.request import ClientRequest
from lbd.lbm.staging.attached_files import Staging
from lbd.lbm.staging.attached_transfer import FilesPace
from lbd.local import client_tags as tags
from lbd.model import HostId, JobId


class Peer:
    def traits(self):
        return Traits()


class Run:
    """Refuses, after it has seen the request."""

    asked: list

    async def start(self, request):
        self.asked.append(request)
        return Refused("seen")

    def close(self, number=0):
        pass


@pytest.mark.parametrize(("step", "suffix"), [("unpack", "in"), ("pack", "out")])
async def test_the_errors_of_a_step_are_not_in_what_it_packs(step, suffix):
    """If a user's output and errors are one terminal, both outputs of the command are merged."""
    Run.asked = []
    request = ClientRequest([b"true"], fetch=[b"out"], flags=tags.FLAG_JOINED, closed_fds=4)
    job = Job(JobId("h1-1"), (b"true",), "ann", HostId("h1"), HostId("h2"), 1.0)
    staging = Staging(StageConfig(), "h2", Run, None, job, request, (1000, Peer()))
    assert await staging._start(step, suffix, FilesPace(sends=True)) == Refused("seen")
    staging.close()
    (asked,) = Run.asked
    assert (asked.joined_outputs, asked.closed_fds, asked.job_id) == (False, 0, f"h1-1.{suffix}")
