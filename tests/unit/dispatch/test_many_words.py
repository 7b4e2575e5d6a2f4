"""Jobs of very many words, each of which takes its host a moment at each start."""

import pytest

from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.stored_start import UnreadableSpec
from lbd.text.command_words import QUEUED_WORDS_MAX, TOO_MANY_WORDS
from tests.unit.dispatch.services import asking


@pytest.mark.parametrize("long", ["argv", "environment", "command"])
async def test_no_job_has_more_words_than_it_takes_a_moment_to_read(world, long):
    """Whatever its host has let in. The command that is listed counts, too."""
    inner = {"argv": [b"true"], "environment": []}
    most = QUEUED_WORDS_MAX if long == "command" else QUEUED_WORDS_MAX - len(inner["argv"])
    for more, error in ((0, ""), (1, f"this cannot be queued: {TOO_MANY_WORDS}")):
        words = [b""] * (most + more)
        if long == "command":
            asked = asking(command=words)
        else:
            asked = asking({**inner, long: inner[long] + words})
        assert (await world.submit(asked)).error == error
    assert len(await world.ledger.live()) == 1


async def test_one_with_more_words_in_an_older_ledger_cannot_be_started_anywhere(world):
    accepted = []
    for words in (QUEUED_WORDS_MAX, QUEUED_WORDS_MAX + 1, 240_000):
        spec = asking({"argv": [b""] * words}).spec.SerializeToString()
        sent = Submission("ann", 1000, "h2", "", b"id", spec)
        accepted.append((await world.ledger.submit(sent, 1.0)).submission)
    await world.dispatcher.start_of(accepted[0])
    for submission in accepted[1:]:  # of which the job ends, once every host was tried
        with pytest.raises(UnreadableSpec, match="from a file, or run it without the queue"):
            await world.dispatcher.start_of(submission)
