"""The numbers that a dispatcher reports as queued: some bytes are kept here for each job."""

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.errors import Unavailable
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.net.gen import dispatch_pb2 as pb


@pytest.mark.parametrize(("first", "count"), [(1, 2**32 - 1), (1, 0), (0, 1), (-5, 1)])
async def test_numbers_that_no_jobs_can_have_are_refused(tmp_path, monkeypatch, first, count):
    """The LBM filled 4 GB with the states of four thousand million jobs."""
    config = Config(host=HostConfig(name="h1", address="127.0.0.1", state_dir=str(tmp_path)))
    client = DispatcherClient(config, None, None)
    reply = pb.SubmitReply(first=first, count=count, ledger_token=b"one")

    async def one(*_given, **_named):
        return reply

    async def several(*_given, **_named):
        yield pb.JobsInfo(submitted=reply)

    monkeypatch.setattr(client, "_channel", one)
    monkeypatch.setattr(client, "_ask_once", one)
    monkeypatch.setattr(client, "_answers", several)
    for submit in (client.submit, client.submit_and_watch):
        with pytest.raises(Unavailable, match=f"has queued {count} jobs from number {first}"):
            await submit(pb.SubmitRequest(user="ann"))
