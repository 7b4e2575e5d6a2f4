"""Would a command begin here? All that can be asked of that without starting anything.

The keeper goes all the way to the point of exec: a child becomes the user, goes to the directory,
compares it, looks for the program, asks the owner's rules for programs. Nothing runs, and no slot
is taken.
"""

from lbd.errors import LbdError
from lbd.keeper.spawn_order import Order
from lbd.lbm.core.execution_events import NotStarted
from lbd.lbm.inbound.order_from_request import explain
from lbd.lbm.keeper_link import KeeperLink, SpawnFailed
from lbd.net.gen import lbm_pb2

NO_DESCRIPTORS = 7  # all three are closed


async def dry_start(
    link: KeeperLink, request: lbm_pb2.RunRequest, order: Order, patience_s: float
) -> NotStarted | None:
    """Why it would not begin, None if it would. `order`: for `request`, and for this alone."""
    order.check, order.worker, order.closed_fds = True, False, NO_DESCRIPTORS
    order.job = f"check.{order.job}"
    try:
        await link.ask(order, patience_s)
    except SpawnFailed as found:
        return NotStarted(explain(request, found, order.allowed), found.phase, found.number)
    except TimeoutError:
        return NotStarted("its keeper did not answer in time", "late")
    except LbdError as problem:
        return NotStarted(str(problem), "keeper")
    return None
