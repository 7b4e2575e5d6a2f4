"""What a dispatcher shows each host that connects, before it hears anything of it.

It follows from a secret of the ledger and from the host's name. So it is known to that host and to
the dispatchers of this ledger: another host that the queue's settings come to name, for all hosts
or only for that one, gets to know nothing of what the former dispatcher has started there, and
cannot renew it, end it, or have its end forgotten.
"""

import hmac
import secrets

from lbd.dispatch.ledger.store import Store
from lbd.dispatch.ledger.trouble import passing
from lbd.net.submitter import LEDGER_TOKEN_BYTES

PARTS = ("ledger_secret_1", "ledger_secret_2")  # among the counters, which are integers
PART_BITS, PART_BYTES = 63, 8


async def ledger_secret(ledger: Store) -> bytes:
    """Returns the ledger's secret; a new ledger gets one. Raises LedgerTrouble, after a moment."""
    async with passing():
        return b"".join([await part(ledger, name) for name in PARTS])


async def part(ledger: Store, name: str) -> bytes:
    found = await ledger.counter(name)
    if found is None:
        found = secrets.randbits(PART_BITS)
        await ledger.set_counter(name, found)
    return found.to_bytes(PART_BYTES)


def ledger_token(secret: bytes, host: str) -> bytes:
    return hmac.digest(secret, host.encode(), "sha256")[:LEDGER_TOKEN_BYTES]
