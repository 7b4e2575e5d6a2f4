"""Which dispatcher an LBM obeys, and how long it waits for an answer."""

import asyncio

import grpc
import grpc.aio
import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry
from lbd.errors import Unavailable
from lbd.lbm.queue import dispatcher_client
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.question import Unanswered
from tests.unit.lbm.queue.test_dispatcher_client import Lim, OneDispatcher, PlainPeers


async def test_a_host_that_is_no_longer_named_gives_no_more_orders(tmp_path):
    """An LBM stayed with a dispatcher for as long as that answered, whatever the settings said."""

    async def work(_, context):
        await context.write(b"order")
        await asyncio.Event().wait()

    server = grpc.aio.server()
    methods = {"Work": grpc.stream_stream_rpc_method_handler(work)}
    service = grpc.method_handlers_generic_handler("lbd.v1.Dispatch", methods)
    server.add_generic_rpc_handlers([service])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    own = HostConfig(name="h1", address="127.0.0.1", state_dir=str(tmp_path))
    hosts = tuple(HostEntry(name, "127.0.0.1") for name in ("h2", "h3"))
    config = Config(
        host=own, cluster=ClusterConfig(hosts=hosts), dispatch=DispatchConfig(host="h2", port=port)
    )
    client = DispatcherClient(config, PlainPeers(), Lim())
    try:
        async with asyncio.timeout(20):
            call = await client.work()
            assert await client.read(call, 30.0) == b"order"
            client.follow(["h2", "h3"])
            assert not call.done()
            reading = asyncio.create_task(client.read(call, 30.0))
            client.follow(["h3"])
            with pytest.raises(Unanswered):
                await reading
    finally:
        await server.stop(None)


@pytest.mark.parametrize("is_watched", [False, True])
async def test_an_array_may_take_long_to_be_queued(tmp_path, monkeypatch, is_watched):
    """100,000 tasks that each wait for another: "does not answer", though they were queued."""
    monkeypatch.setattr(dispatcher_client, "ASK_S", 0.0)
    dispatcher, peers = OneDispatcher(), PlainPeers()
    own = HostConfig(name="h1", address="127.0.0.1", state_dir=str(tmp_path))
    queue = DispatchConfig(host="h1", port=dispatcher.port)
    client = DispatcherClient(Config(host=own, dispatch=queue), peers, Lim())
    submit = client.submit_and_watch if is_watched else client.submit
    await dispatcher.start()
    try:
        assert await submit(pb.SubmitRequest(user="ann", is_array=True))
        with pytest.raises(Unavailable, match="does not answer"):
            await submit(pb.SubmitRequest(user="ann"))
    finally:
        await peers.channels.popitem()[1].close()
        await dispatcher.stop()
        dispatcher._place.close()
