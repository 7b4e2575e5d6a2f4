"""What a dispatcher shows to a host is known to that host and to the dispatchers of one ledger."""

import asyncio

from lbd.dispatch.host_connection import HostConnection
from lbd.dispatch.ledger.ledger_tokens import PARTS, ledger_secret, ledger_token
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.submitter import LEDGER_TOKEN_BYTES
from tests.unit.dispatch.ledger.test_ledger import opened
from tests.unit.dispatch.ledger.test_longest_lease import ledger  # noqa: F401  # of both stores
from tests.unit.dispatch.services import asking
from tests.unit.dispatch.services import opened as dispatcher_on
from tests.unit.until import until


async def test_the_next_dispatcher_of_a_ledger_has_the_same_secret(ledger):  # noqa: F811
    secret = await ledger_secret(ledger)
    assert await ledger_secret(ledger) == secret
    assert len(secret) == 16
    assert secret != bytes(16)


async def test_a_secret_of_which_only_a_part_was_written_is_completed(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as made:
        await made.set_counter(PARTS[0], (1 << 63) - 1)
        secret = await ledger_secret(made)
        assert secret[:8] == b"\x7f" + b"\xff" * 7
        assert await ledger_secret(made) == secret


def test_each_host_has_another_token():
    tokens = {ledger_token(secret, host) for secret in (b"1", b"2") for host in ("h1", "h2", "h21")}
    assert len(tokens) == 6
    assert {len(token) for token in tokens} == {LEDGER_TOKEN_BYTES}


async def test_it_is_the_first_that_a_host_hears(tmp_path):
    async with dispatcher_on(tmp_path / "ledger.sqlite") as world:
        heard = []

        async def write(data):
            heard.append(pb.WorkDown.FromString(data))

        world.dispatcher.line_opened("h3", HostConnection(write, 1 << 20))
        await until(lambda: heard)
        expected = ledger_token(world.dispatcher.ledger_secret, "h3")
        assert heard == [pb.WorkDown(ledger_token=expected)]


async def test_each_answer_about_jobs_shows_it(tmp_path):
    """So that a host believes of its jobs only what comes from the ledger that has them."""
    async with dispatcher_on(tmp_path / "ledger.sqlite") as world:
        token, context = world.dispatcher.token_of("h2"), Context()
        submitted = await world.submit(asking())
        asked = pb.JobsAsked(user="ann", selectors=["1"], by_number=True).SerializeToString()
        jobs = pb.JobsInfo.FromString(await world.desk._jobs(asked, context))
        missing = pb.JobsAsked(user="ann", selectors=["7"], by_number=True).SerializeToString()
        none = pb.JobsInfo.FromString(await world.desk._jobs(missing, context))
        watching = asyncio.create_task(world.desk._watch(asked, context))
        await until(lambda: len(context.sent) == 2)
        order = pb.ActRequest(user="ann", verb="kill", selectors=["1"]).SerializeToString()
        acted = pb.ActReply.FromString(await world.desk._act(order, context))
        await watching
        assert (jobs.jobs[0].id, none.error, acted.done_ids) == (1, "no job 7 in the queue", ["1"])
        first, second, *_ = map(pb.JobsInfo.FromString, context.sent)
        assert first == pb.JobsInfo(ledger_token=token)
        assert not second.ledger_token
        shown = {one.ledger_token for one in (submitted, jobs, none, acted)}
        assert shown == {token}


class Context:
    def __init__(self):
        self.sent = []

    async def write(self, data):
        self.sent.append(data)
