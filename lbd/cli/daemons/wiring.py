"""Where the outside world is chosen: the event loop, the log, how a daemon is stopped."""

import asyncio
import faulthandler
import gc
import os
import signal
from collections.abc import Awaitable, Callable

import uvloop

from lbd.cli.daemons.journal import set_up_log
from lbd.config.schema import Config
from lbd.errors import EXIT_RESTART, LbdError
from lbd.launch.rlimits import raise_descriptor_limit
from lbd.process import last_words, log_level
from lbd.process.service_manager import LEAVING, ServiceManager, has_terminal
from lbd.process.stop import Stop

GARBAGE_THRESHOLDS = (20_000, 20, 50)

Ready = Callable[[str], None]
DaemonMain = Callable[["Stop", Ready], Awaitable[None]]


def run_daemon(program: str, config: Config, main: DaemonMain) -> int:
    """Run `main(stop, ready)` until it returns; TERM and INT set `stop`, only that ends it well.

    So does USR2, for a daemon that has nothing to hand over; then another must start at once.
    `main` calls `ready(status)` when programs that depend on it may come.
    """
    # The libuv in uvloop before 0.23 takes files and epoll_ctl to io_uring unasked, the latter past
    # the closing of descriptors, and gains nothing by it here. Later ones leave files alone, and
    # let nobody turn the other off.
    os.environ.setdefault("UV_USE_IO_URING", "0")
    set_up_log(program, config.host.name)
    raise_descriptor_limit()
    faulthandler.enable()  # a watchdog ends us with ABRT: then the log says where we hung
    manager, daemon = ServiceManager(os.environ), program.removeprefix("lbd ")

    stop = Stop(lambda: manager.notify(LEAVING), manager.report)

    def make_way() -> None:
        stop.makes_way = True
        stop.set()

    def end() -> None:
        manager.notify("STOPPING=1")
        stop.set()

    async def body() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        if not has_terminal():  # then it is no hang-up; the LBM reads its rules again
            loop.add_signal_handler(signal.SIGHUP, lambda: None)
        loop.add_signal_handler(signal.SIGUSR2, make_way)
        manager.feed_watchdog(loop)
        log_level.follow(loop, config.host.runtime_dir, config.log.level)

        def ready(status: str) -> None:
            manager.ready(status)
            last_words.forget(config.host.runtime_dir, daemon)
            look_for_garbage_seldom()

        await main(stop, ready)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(body())
    except (BaseExceptionGroup, LbdError) as problem:
        error = first_error(problem) if isinstance(problem, BaseExceptionGroup) else problem
        if error is not None and daemon == "dispatcher":  # which others on this host wait for
            last_words.leave(config.host.runtime_dir, daemon, str(error))
        raise error or problem from None
    return EXIT_RESTART if stop.makes_way else 0


def look_for_garbage_seldom() -> None:
    """What is there now stays for good; each job makes some objects and few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def first_error(group: BaseExceptionGroup[BaseException]) -> LbdError | None:
    """The first error of ours in what a task group raised: it has the line for the person."""
    for problem in group.exceptions:
        if isinstance(problem, LbdError):
            return problem
        if isinstance(problem, BaseExceptionGroup) and (found := first_error(problem)):
            return found
    return None
