"""What a submission says that comes to nothing before it is sent."""

from types import SimpleNamespace

import pytest

from lbd.errors import Unavailable
from lbd.lbm.queue import submit
from lbd.lbm.session.request import ClientRequest


async def test_a_directory_that_cannot_be_examined_means_that_nothing_was_queued():
    """The line left open whether the job was in the queue."""

    class Looker:
        async def at(self, *_, is_current):
            raise Unavailable("its file server does not answer")

    home = SimpleNamespace(looker=Looker(), unshared=None)
    caller, peer = SimpleNamespace(uid=1001), SimpleNamespace(pid=1, check=lambda: None)
    request = ClientRequest(argv=[b"true"], mode="auto", directory=b"/work")
    with pytest.raises(Unavailable) as problem:
        await submit.make_submission(home, caller, peer, request, None, [])
    assert str(problem.value) == (
        "/work cannot be accessed here: its file server does not answer; nothing was queued"
    )
