"""Each ledger numbers its own jobs, so answers about a job count only if its own ledger gives
them."""

import contextlib

import pytest

from lbd.errors import Unavailable
from lbd.lbm.queue.dispatcher_client import AnotherLedger
from lbd.net.gen import dispatch_pb2 as pb

KILL = pb.ActRequest(verb="kill")


async def test_no_other_ledgers_answers_about_a_job_are_believed(client, dispatcher):
    """A host that was named dispatcher for a second or two ended other users' `lbrun -q` by a word,
    with output of its own: it has jobs of the same numbers."""
    await dispatcher.start()
    ledger = (await client.submit(pb.SubmitRequest(user="ann"))).ledger_token.hex()

    async def ask():
        found = [await client.jobs(pb.JobsAsked(), ledger), await client.act(KILL, ledger)]
        async with contextlib.aclosing(client.watch(pb.JobsAsked(), ledger)) as watching:
            return [*found, await anext(watching)]

    dispatcher.answer = pb.JobsInfo(ledger_token=b"one")
    assert len(await ask()) == 3
    for of_another in (b"two", b""):
        dispatcher.answer = pb.JobsInfo(ledger_token=of_another)
        dispatcher.ledger_token = of_another
        for work in (
            client.jobs(pb.JobsAsked(), ledger),
            client.act(KILL, ledger),
            anext(client.watch(pb.JobsAsked(), ledger)),
        ):
            with pytest.raises(AnotherLedger, match="h1 has another queue, without this job"):
                await work
        await client.jobs(pb.JobsAsked())  # of which nobody is to know anything


@pytest.mark.parametrize("token", [b"", b"x" * 17])
async def test_a_submission_is_taken_only_by_a_ledger_that_can_be_known_again(
    client, dispatcher, token
):
    dispatcher.ledger_token = token
    await dispatcher.start()
    for submit in (client.submit, client.submit_and_watch):
        with pytest.raises(Unavailable, match="h1 says that it has queued jobs, not where"):
            await submit(pb.SubmitRequest(user="ann"))
