"""`lbd lbm`: the load balance manager in the foreground."""

import uvloop

from lbd.config import Config
from lbd.lbm.daemon import Lbm


def run(config: Config) -> int:
    """Until TERM. Raises LbdError."""

    async def main() -> None:
        await Lbm(config).run()

    uvloop.run(main())
    return 0
