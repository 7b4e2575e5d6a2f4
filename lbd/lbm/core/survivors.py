"""Commands that outlive their LBM, as the next one of their host sees them. Pure.

An LBM that is killed hands nothing over, and its keeper ends what it ran. That takes a while: what
ignores TERM lives until KILL. So the keeper remembers of each command what it holds of the host, in
bytes that it does not look into, and says it to the next LBM, for which the command holds all that
until its whole tree is gone. Without that another command would get the same GPU meanwhile.
"""

import json
from dataclasses import dataclass

from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Asked, Execution, Phase
from lbd.lbm.core.slots import NOTHING, Grant, Granted
from lbd.model import JobId, Needs

UNKNOWN = "the previous LBM did not hand over enough to continue it"


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a command holds of its host."""

    width: int = 1  # slots
    grant: Grant = NOTHING


ONE_SLOT = Belongings()


def pack_belongings(held: Belongings) -> bytes:
    """Nothing, of a command with one slot."""
    if held == ONE_SLOT:
        return b""
    resources = [[one.name, one.amount, one.indices] for one in held.grant.resources]
    return json.dumps([held.width, resources, held.grant.memory_bytes]).encode()


def read_belongings(data: bytes) -> Belongings:
    """Raises ValueError."""
    if not data:
        return ONE_SLOT
    try:
        width, resources, memory_bytes = json.loads(data)
        grant = Grant(
            tuple(
                Granted(str(name), int(amount), tuple(map(int, indices)))
                for name, amount, indices in resources
            ),
            int(memory_bytes),
        )
        return Belongings(max(1, int(width)), grant)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"a command's state cannot be read: {problem}") from None


def survivor(job: JobId, held: Belongings, *, is_ending: bool) -> Execution:
    """Its end is awaited, and then what it holds is free. `is_ending`: the keeper ends it already,
    with a grace; else it is killed."""
    amounts = tuple((one.name, one.amount) for one in held.grant.resources)
    needs = Needs(amounts, counted_bytes=held.grant.memory_bytes)
    spec = e.Spec(job, e.Kind.ATTACHED, "", 0.0, (held.width, held.width), needs=needs)
    asked = Asked.END if is_ending else Asked.KILL
    return Execution(
        spec, {}, Phase.SPAWNING, has_slot=True, asked=asked, cause=e.Cause.LOST, reason=UNKNOWN
    )
