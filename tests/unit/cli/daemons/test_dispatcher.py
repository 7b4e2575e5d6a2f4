"""Which store a configuration means, and the line for one that it cannot be."""

import sys

import pytest

from lbd.cli.daemons.dispatcher import make_lead
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config
from lbd.errors import ConfigError

URL = "postgresql://lbd@db/lbd"


def lead(**dispatch):
    return make_lead(Config(dispatch=DispatchConfig(host="h1", **dispatch)))


@pytest.mark.parametrize("store", ["", "sqlite:///var/lib/ledger", URL, "postgres://db/lbd"])
def test_stores_that_there_are(store):
    assert lead(store=store) is not None


@pytest.mark.parametrize(
    ("dispatch", "says"),
    [
        ({"store": "mysql://db/lbd"}, "write sqlite:///path/of/the/file or postgresql://"),
        ({"store": "sqlite://relative"}, "write sqlite:///path/of/the/file"),
        ({"store": "nothing"}, "write sqlite:///path/of/the/file"),
        ({"standby": ("h2",)}, "only with dispatch.store = .postgresql"),
    ],
)
def test_stores_that_cannot_be(dispatch, says):
    with pytest.raises(ConfigError, match=says):
        lead(**dispatch)


def test_without_its_library_postgresql_says_what_to_install(monkeypatch):
    for name in ("postgres_leadership", "postgres", "connection"):
        monkeypatch.delitem(sys.modules, f"lbd.dispatch.ledger.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigError, match=r"no module asyncpg; .* -m pip install .asyncpg"):
        lead(store=URL)
