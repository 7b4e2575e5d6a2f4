"""The memory that orders with long inputs take, while they run and when they have ended."""

from lbd.lbm.keeper_link import ProcessExit
from tests.unit.lbm.queue.test_attempt_guards import KEY, attempts, host, start, start_of
from tests.unit.until import until

__all__ = ["attempts", "host"]


async def test_nothing_long_of_an_attempt_is_kept_once_its_end_is_settled(host, attempts):
    """It is part of cycles. Some hundred jobs with 4 MiB of input ended an LBM that may have 2 GiB,
    and everybody's commands with it."""
    order = start_of(environment=[b"LONG=" + b"x" * (1 << 20)])
    order.spec.input = bytes(1 << 22)
    attempt = start(attempts, order)
    await until(lambda: attempt.execution.process is not None)
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
    await until(lambda: attempt.is_over)
    assert attempt.start.ByteSize() > 1 << 22
    attempts._settled(KEY)
    assert attempt.start.ByteSize() + attempt.request.ByteSize() < 100
    assert not attempt.common.request.environment
    assert (attempt.start.job, attempt.start.attempt) == KEY


async def test_an_input_is_copied_by_the_command(host, attempts):
    order = start_of()
    order.spec.input = b"typed\n"
    attempt = start(attempts, order)
    await until(lambda: attempt.execution.process is not None)
    ((order, _),) = host.link.orders
    assert order.copies_input
