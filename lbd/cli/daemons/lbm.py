"""`lbd lbm`: runs the load balance manager in the foreground."""

import ctypes
from dataclasses import replace

from lbd.cli.daemons.cluster_settings import ClusterSettings
from lbd.cli.daemons.wiring import run_daemon
from lbd.config.load import load
from lbd.config.schema import Config
from lbd.lbm.daemon import Lbm
from lbd.net.trusted import trust_of

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
BUFFER_BYTES_MAX = 8 << 20
HEAP_KEPT_BYTES = 16 << 20


def keep_buffers_on_the_heap() -> None:
    """Makes glibc reuse the megabyte buffers of streams instead of mapping new pages for each.

    The page faults took a third of a stream's CPU time. Other C libraries have no mallopt.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, BUFFER_BYTES_MAX)
        mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES)


def check(config: Config) -> None:
    """Raises ConfigError for what the daemon would refuse."""
    trust_of(config)


def run(config: Config) -> int:
    """Runs until TERM. Raises LbdError."""
    keep_buffers_on_the_heap()

    def reread() -> Config:
        return load(config.path or None, config.overrides)

    begun = with_queue(config)
    return run_daemon("lbd lbm", config, lambda stop, ready: Lbm(begun, stop, ready, reread).run())


def with_queue(config: Config) -> Config:
    """Returns the configuration with the queue's hosts as this host's LIM saved them. A restarting
    LIM takes a moment to answer, and nobody must be told meanwhile that the cluster has no queue.
    """
    own = ClusterSettings(config).config.dispatch
    return replace(config, dispatch=replace(config.dispatch, host=own.host, standby=own.standby))
