"""`lbd lbm`: the load balance manager in the foreground."""

from lbd.cli.wiring import run_daemon
from lbd.config import Config
from lbd.lbm.daemon import Lbm


def run(config: Config) -> int:
    """Until TERM. Raises LbdError."""
    return run_daemon("lbd lbm", lambda stop: Lbm(config, stop).run())
