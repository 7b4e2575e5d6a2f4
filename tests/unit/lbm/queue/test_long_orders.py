"""The memory that orders with long inputs take, also once they have ended; and long answers."""

import gc
import weakref

import pytest

from lbd.errors import Unavailable
from lbd.lbm.keeper_link import ProcessExit
from lbd.net import parsing
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.lbm.queue.test_attempt_guards import KEY, attempts, host, start, start_of
from tests.unit.until import until

__all__ = ["attempts", "host"]


async def test_nothing_long_of_an_attempt_is_kept_once_its_end_is_settled(host, attempts):
    """Some hundred jobs with 4 MiB of input, each part of a cycle, ended an LBM that may have
    2 GiB, and everybody's commands with it."""
    order = start_of(environment=[b"LONG=" + b"x" * (1 << 20)])
    order.spec.input = bytes(1 << 22)
    kept = weakref.ref(start(attempts, order))
    await until(lambda: kept().execution.process is not None)
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
    await until(lambda: kept().is_over)
    assert attempts._held.orders.all_bytes > 1 << 22
    host.link.spawns.clear()
    gc.disable()
    attempts._settled(pb.Held(job=KEY[0], attempt=KEY[1]))
    gone = kept() is None
    gc.enable()
    assert gone
    assert attempts._held.orders.all_bytes == 0


async def test_an_input_is_copied_by_the_command(host, attempts):
    order = start_of()
    order.spec.input = b"typed\n"
    attempt = start(attempts, order)
    await until(lambda: attempt.execution.process is not None)
    ((order, _),) = host.link.orders
    assert order.copies_input


@pytest.mark.parametrize("way", ["jobs", "watch"])
async def test_an_answer_too_long_to_be_read_is_no_fault_of_the_dispatchers(
    client, dispatcher, monkeypatch, way
):
    """It was said not to answer, and the next questions went to other hosts."""
    await dispatcher.start()
    await client.jobs(pb.JobsAsked())
    dispatcher.answer = pb.JobsInfo(jobs=[pb.JobInfo(command=[b""] * 20_000)])
    monkeypatch.setattr(parsing, "ANSWER_FIELDS_MAX", 10_000)
    asked = client.jobs(pb.JobsAsked()) if way == "jobs" else anext(client.watch(pb.JobsAsked()))
    with pytest.raises(Unavailable, match="more to say than this host reads; ask for fewer jobs"):
        await asked
    assert (client._doubted, client._lost_s) == ("", None)
