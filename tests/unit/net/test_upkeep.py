"""Whom a host asks for news of revocations."""

from types import SimpleNamespace

import pytest

from lbd.errors import Unavailable
from lbd.net.upkeep import Upkeep
from lbd.trust.files import HostFiles


@pytest.mark.parametrize(
    ("home", "asked"), [("h1 10.0.0.1:7901", ["h1", "h2"]), ("", ["h2"]), (None, ["h2"])]
)
async def test_without_the_authority_another_host_is_asked(tmp_path, monkeypatch, home, asked):
    files = HostFiles(tmp_path)
    if home is not None:
        files.home.write_text(home)
    tls = SimpleNamespace(files=files, revocations=SimpleNamespace(number=0))
    others = {"h1": "10.0.0.1:7901", "h2": "10.0.0.2:7901"} if home else {"h2": "10.0.0.2:7901"}
    upkeep = Upkeep(tls, None, None, lambda: dict(others), 60.0)
    seen = []

    async def exchange(name, target):
        seen.append(name)
        if name == "h1":
            raise Unavailable("h1: away")

    monkeypatch.setattr(upkeep, "_exchange", exchange)
    await upkeep._exchange_updates()
    assert seen == asked
