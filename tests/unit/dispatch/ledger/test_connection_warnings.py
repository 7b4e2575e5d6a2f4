"""What asyncpg itself prints while it connects."""

import warnings

import asyncpg
import pytest

from lbd.dispatch.ledger.connection import Connection


async def test_its_warning_about_a_pgpass_that_others_can_read_is_not_shown(monkeypatch):
    """We report it in a line of our own."""

    async def connect(*_, **__):
        warnings.warn("password file '.pgpass' has group or world access", stacklevel=1)
        raise OSError("nobody there")

    monkeypatch.setattr(asyncpg, "connect", connect)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(OSError, match="nobody there"):
            await Connection("postgresql://db/lbd", "h1", 30.0).get()
    assert seen == []
