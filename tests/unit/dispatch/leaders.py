"""A dispatcher's share in a PostgreSQL ledger, for tests."""

import contextlib

from lbd.dispatch.ledger.postgres_leadership import Leadership

TERM_S = 0.5


@contextlib.asynccontextmanager
async def led(url, name="h1", term_s=TERM_S):
    """Yields leadership and ledger as soon as `name` has them."""
    leadership = Leadership(url, name, term_s)
    try:
        await leadership.first()
        yield leadership, await leadership.lead(lambda _: None)
    finally:
        await leadership.end()
        await leadership.close()
