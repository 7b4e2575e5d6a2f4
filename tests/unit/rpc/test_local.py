"""What is said of a question that this host cannot answer."""

import asyncio
import errno
import os

import pytest

from lbd.rpc import local
from lbd.rpc.local import Refusal

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/state/notes")


@pytest.mark.parametrize(
    ("fault", "told"),
    [(FULL, "/state/notes: No space left on device"), (TimeoutError(), r"TimeoutError\(\)")],
)
async def test_trouble_with_the_system_is_an_answer_too(tmp_path, fault, told):
    async def answer(_question, _caller):
        raise fault

    server = await local.serve_json(tmp_path / "x.sock", answer, 0o600)
    with pytest.raises(Refusal, match=f"^{told}$") as refusal:
        await asyncio.to_thread(local.ask, tmp_path / "x.sock", {"op": "note"}, 5.0)
    assert refusal.value.code == "unavailable"
    server.close()
