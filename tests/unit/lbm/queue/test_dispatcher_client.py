"""Where the dispatcher and the other LBMs are expected to be."""

import asyncio
import contextlib
import time

import grpc
import grpc.aio
import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry
from lbd.errors import Unavailable
from lbd.lbm.queue import dispatcher_client, other_spools
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.lbm.queue.one_dispatcher import Lim, PlainPeers


class NoPeers:
    """Records which address was requested."""

    metadata = ()

    def __init__(self):
        self.wanted = []

    def channel(self, host, target):
        self.wanted.append((host, target))
        raise Unavailable("nobody is there")


@pytest.mark.parametrize(
    ("host", "lbm", "dispatcher"),
    [("h1", "[fd00::1]:7902", "[fd00::1]:7903"),
     ("h2", "[fd00::2]:7912", "[fd00::2]:7903"),
     ("h3", "[fd00::3]:7902", "[fd00::3]:7903"),
     ("h4", "10.0.0.4:7902", "10.0.0.4:7903")],
)  # fmt: skip
async def test_addresses_of_both_families(tmp_path, host, lbm, dispatcher):
    own = HostConfig(name="h1", address="fd00::1", state_dir=str(tmp_path))
    entries = (HostEntry("h2", "fd00::2", lbm_port=7912), HostEntry("h4", "10.0.0.4"))
    config = Config(
        host=own, cluster=ClusterConfig(hosts=entries), dispatch=DispatchConfig(host=host)
    )
    peers = NoPeers()
    client = DispatcherClient(config, peers, Lim())
    with pytest.raises(Unavailable):
        await client.jobs(pb.JobsAsked())
    with pytest.raises(Unavailable):
        await anext(client.spools.logs(host, pb.LogsRequest()))
    assert peers.wanted == [(host, dispatcher), (host, lbm)]


async def test_the_settings_of_the_cluster_say_where_it_is(tmp_path):
    own = HostConfig(name="h1", address="10.0.0.1", state_dir=str(tmp_path))
    entries = (HostEntry("h2", "10.0.0.2"),)
    config = Config(host=own, cluster=ClusterConfig(hosts=entries))
    peers = NoPeers()
    client = DispatcherClient(config, peers, Lim())
    with pytest.raises(Unavailable, match="no queue; `lbctl queue enable HOST`"):
        await client.jobs(pb.JobsAsked())
    assert not client.has_queue.is_set()
    client.follow(["h2"])
    assert client.has_queue.is_set()
    with pytest.raises(Unavailable, match="nobody is there"):
        await client.jobs(pb.JobsAsked())
    assert (peers.wanted, client.leader) == ([("h2", "10.0.0.2:7903")], "h2")
    client.follow(())
    assert (client.hosts, client.leader, client.has_queue.is_set()) == ((), "", False)


async def test_a_user_who_asks_for_too_much_keeps_no_other_waiting(tmp_path, monkeypatch):
    """Commands of megabytes used up all that the dispatcher accepts from one host."""
    own = HostConfig(name="h1", address="10.0.0.1", state_dir=str(tmp_path))
    queue = DispatchConfig(host="h1", host_bytes_per_s=1 << 16)
    peers = NoPeers()
    peers.channel = lambda _host, _target: ClosedChannel()
    client = DispatcherClient(Config(host=own, dispatch=queue), peers, Lim())
    asked = []

    async def ask(_channel, _method, data, *_):
        asked.append(pb.SubmitRequest.FromString(data).user)
        return pb.SubmitReply(first=1, count=1, ledger_token=b"one").SerializeToString()

    monkeypatch.setattr(dispatcher_client, "ask", ask)
    large = [pb.SubmitRequest(user="eve", command=[bytes(1 << 20)]) for _ in range(12)]
    flood = [asyncio.create_task(client.submit(one)) for one in large]
    await asyncio.sleep(0)
    await client.submit(pb.SubmitRequest(user="ann", command=[b"true"]))
    assert asked.count("ann") == 1
    assert 0 < asked.count("eve") <= 3
    # A submission that would have to wait for longer than eight seconds is refused at once.
    refused = [task for task in flood if task.done() and task.exception()]
    assert len(refused) >= 4
    assert "eve makes too many requests to the queue" in str(refused[0].exception())
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


class Closed:
    """A call whose channel is closed under it, as of a revoked host: gRPC cancels its reader."""

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise asyncio.CancelledError

    async def read(self):
        raise asyncio.CancelledError

    def cancel(self):
        pass


class ClosedChannel:
    def get_state(self, try_to_connect=False):
        return grpc.ChannelConnectivity.READY

    def unary_stream(self, _method):
        return lambda _data, metadata: Closed()


@pytest.mark.parametrize("hosts", [("h2",), ("h2", "h3")])
async def test_a_closed_channel_ends_a_call_but_no_task(tmp_path, hosts):
    own = HostConfig(name="h1", address="10.0.0.1", state_dir=str(tmp_path))
    entries = (HostEntry("h2", "10.0.0.2"), HostEntry("h3", "10.0.0.3"))
    config = Config(host=own, cluster=ClusterConfig(hosts=entries))
    peers = NoPeers()
    peers.channel = lambda _host, _target: ClosedChannel()
    client = DispatcherClient(config, peers, Lim())
    client.follow(hosts)
    with pytest.raises(Unavailable):
        await client.read(Closed(), 60.0)
    with pytest.raises(Unavailable):
        await anext(client.watch(pb.JobsAsked()))
    with pytest.raises(Unavailable):
        await anext(client.spools.logs("h2", pb.LogsRequest()))
    with pytest.raises(Unavailable):
        await anext(client.spools.files("h2", pb.FilesRequest()))


@pytest.mark.parametrize("is_renewed", [False, True])
async def test_a_reader_who_stalls_has_no_call_open_and_misses_nothing(
    tmp_path, monkeypatch, is_renewed
):
    """256 stalled readers of one host kept its other users from all output there. A channel is
    closed once the host has a new certificate."""
    monkeypatch.setattr(other_spools, "STALLED_S", 0.05)
    printed = b"a" * 300_000 + b"b" * 300_000 + b"c" * 300_000
    open_calls, ended = set(), asyncio.Event()

    async def logs(data, context):
        asked = pb.LogsRequest.FromString(data)
        open_calls.add(context)
        ended.clear()
        try:
            for at in range(asked.output_at, len(printed), 300_000):
                piece = pb.LogsPiece(output=printed[at : at + 300_000], output_at=at + 300_000)
                await context.write(piece.SerializeToString())
        finally:
            open_calls.remove(context)
            ended.set()

    server = grpc.aio.server()
    methods = {"Logs": grpc.unary_stream_rpc_method_handler(logs)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("lbd.v1.Lbm", methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    own = HostConfig(name="h1", address="127.0.0.1", state_dir=str(tmp_path))
    entry = HostEntry("h2", "127.0.0.1", lbm_port=port)
    config = Config(host=own, cluster=ClusterConfig(hosts=(entry,)))
    peers = PlainPeers()
    client = DispatcherClient(config, peers, Lim())
    asked = pb.LogsRequest(job="7", attempt=1)
    try:
        async with asyncio.timeout(20):
            pieces = client.spools.logs("h2", asked)
            read = [(await anext(pieces)).output]
            await ended.wait()
            assert not open_calls
            if is_renewed:
                await peers.channels.popitem()[1].close()
            read += [piece.output async for piece in pieces]
    finally:
        await server.stop(None)
    assert b"".join(read) == printed
    assert asked.output_at == 0


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(dispatcher_client, "RESTART_S", 60.0)
    monkeypatch.setattr(dispatcher_client, "SUBMIT_RESTART_S", 60.0)


async def begun(work):
    """A task that has found no dispatcher."""
    task = asyncio.create_task(work)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            await asyncio.shield(task)
    return task


@pytest.mark.usefixtures("patient")
async def test_a_dispatcher_that_is_being_restarted_is_waited_for(client, dispatcher):
    """As one that applies a changed setting: an `lbrun -d` at that moment failed."""
    await dispatcher.start()
    await client.jobs(pb.JobsAsked())
    await dispatcher.stop()
    asked = (
        client.submit(pb.SubmitRequest(user="ann")),
        client.jobs(pb.JobsAsked()),
        client.act(pb.ActRequest(verb="kill")),
    )
    tasks = [await begun(work) for work in asked]
    await dispatcher.start()
    submitted, _, acted = await asyncio.gather(*tasks)
    assert (submitted.count, list(acted.done_ids)) == (1, ["1"])


@pytest.mark.usefixtures("patient")
async def test_a_possibly_queued_submission_is_queued_once_and_an_order_not_given_twice(
    client, dispatcher
):
    await dispatcher.start()
    dispatcher.goes_away = True
    reply = await client.submit(pb.SubmitRequest(user="ann"))
    assert (reply.first, len(dispatcher.keys), len(set(dispatcher.keys))) == (1, 2, 1)
    assert (await client.submit(pb.SubmitRequest(user="ann"))).first == 2
    dispatcher.goes_away, dispatcher.keys = True, []
    with pytest.raises(Unavailable, match="does not answer"):
        await client.act(pb.ActRequest(verb="requeue"))
    assert dispatcher.keys == ["act"]


@pytest.mark.usefixtures("patient")
async def test_a_watched_submission_is_queued_once_too(client, dispatcher):
    await dispatcher.start()
    dispatcher.goes_away = True
    reply, watching = await client.submit_and_watch(pb.SubmitRequest(user="ann"))
    assert (reply.first, len(dispatcher.keys), len(set(dispatcher.keys))) == (1, 2, 1)
    assert [[(job.id, job.state) for job in told.jobs] async for told in watching] == [
        [(1, "done")]
    ]
    assert dispatcher.asked == ["Queue", "Queue"]


@pytest.mark.parametrize("over", [0, -20])  # with its key
async def test_a_long_submission_is_not_held_while_it_is_watched(client, dispatcher, over):
    await dispatcher.start()
    long = pb.SubmitRequest(user="ann", command=[bytes(dispatcher_client.WATCHED_BYTES + over)])
    assert (await client.submit_and_watch(long))[1] is None
    assert dispatcher.asked == ["Submit"]


async def test_a_dispatcher_that_has_been_away_for_long_is_not_waited_for(client, dispatcher):
    client._lost_s = -1e6
    why = "the dispatcher on h1 cannot be reached; see `lbctl doctor`"
    for work in (client.submit(pb.SubmitRequest()), client.jobs(pb.JobsAsked())):
        with pytest.raises(Unavailable, match=why):
            await work


async def test_one_that_answers_without_end_has_its_share_of_the_time(client, dispatcher):
    """The updates of a watched job were read as fast as a dispatcher could send them."""
    await dispatcher.start()
    watching = client.watch(pb.JobsAsked())
    assert await anext(watching) == pb.JobsInfo()
    now_s, for_ever_s = time.monotonic(), float("inf")
    client._read_shares.turn_s("h1", now_s, for_ever_s, 1e6)  # as if it had cost that much
    next_one = await begun(anext(watching))
    assert not next_one.done()
    next_one.cancel()
    await asyncio.gather(next_one, return_exceptions=True)
