"""An LBM obeys the dispatcher that the settings name."""

import asyncio

import grpc
import grpc.aio
import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.net.question import Unanswered
from tests.unit.lbm.queue.test_dispatcher_client import Lim, PlainPeers


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
