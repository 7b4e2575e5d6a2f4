"""Whom a host asks for news of revocations."""

from types import SimpleNamespace

import pytest

from lbd.errors import Unavailable
from lbd.net.upkeep import Upkeep
from lbd.trust.files import HostFiles

HOME = "h1 10.0.0.1:7901"


@pytest.mark.parametrize(
    ("home", "asked"),
    [(HOME, ["h1", "h2"]), ("", ["h2"]), (None, ["h2"]), ("h3 10.0.0.3:1", ["h2"])],
)
async def test_without_the_authority_another_host_is_asked(tmp_path, monkeypatch, home, asked):
    files = HostFiles(tmp_path)
    if home is not None:
        files.home.write_text(home)
    tls = SimpleNamespace(files=files, own_name="h3")
    others = {"h2": "10.0.0.2:7901"} | ({"h1": "10.0.0.1:7901"} if home == HOME else {})
    upkeep = Upkeep(tls, None, lambda: dict(others), 60.0)
    seen = []

    async def exchange(name, target):
        seen.append(name)
        if name == "h1":
            raise Unavailable("h1: away")

    monkeypatch.setattr(upkeep, "_exchange", exchange)
    await upkeep._exchange_updates()
    assert seen == asked
