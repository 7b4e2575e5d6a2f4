"""Which store a configuration selects, and the error for one that is impossible."""

import contextlib
import sqlite3
import sys

import pytest

from lbd.cli.daemons.dispatcher import make_lead
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config, HostConfig
from lbd.errors import ConfigError

URL = "postgresql://lbd@db/lbd"


def lead(**dispatch):
    return make_lead(Config(dispatch=DispatchConfig(host="h1", **dispatch)))


@pytest.mark.parametrize("store", ["", "sqlite:///var/lib/ledger", URL, "postgres://db/lbd"])
def test_valid_stores(store):
    assert lead(store=store) is not None


@pytest.mark.parametrize(
    ("dispatch", "says"),
    [
        (
            {"store": "mysql://db/lbd"},
            "must be sqlite:///srv/lbd/ledger.sqlite .a whole path. or postgresql://",
        ),
        ({"store": "sqlite://relative"}, "must be sqlite:///srv/lbd/ledger.sqlite"),
        ({"store": "nothing"}, "must be sqlite:///srv/lbd/ledger.sqlite"),
        ({"standby": ("h2",)}, "only with dispatch.store = .postgresql"),
    ],
)
def test_invalid_stores(dispatch, says):
    with pytest.raises(ConfigError, match=says):
        lead(**dispatch)


@pytest.mark.parametrize("name", ["ledger.sqlite", "elsewhere/jobs"])
async def test_jobs_in_the_file_are_not_abandoned_for_a_database(tmp_path, name):
    from lbd.dispatch.ledger.sqlite import open_jobs

    file = tmp_path / name
    host = HostConfig(state_dir=str(tmp_path))
    store = "" if name == "ledger.sqlite" else f"sqlite://{file}"
    before = make_lead(Config(host=host, dispatch=DispatchConfig(host="h1", store=store)))
    await before.lead(print)
    await before.end()
    config = Config(host=host, dispatch=DispatchConfig(host="h1", store=URL))
    assert make_lead(config) is not None
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        columns = connection.execute("PRAGMA table_info(jobs)").fetchall()
        values = {name: "" for _, name, _, needed, default, _ in columns if needed and not default}
        for number, state in ((1, "pending"), (2, "done")):
            row = values | {"id": number, "state": state}
            marks = ", ".join("?" * len(row))
            names = ", ".join(row)
            connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", (*row.values(),))
    assert open_jobs(file) == 1
    with pytest.raises(ConfigError, match=f"1 job of the queue is in {file}"):
        make_lead(config)


def test_without_its_library_postgresql_says_what_to_install(monkeypatch):
    for name in ("postgres_leadership", "postgres", "connection"):
        monkeypatch.delitem(sys.modules, f"lbd.dispatch.ledger.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigError, match=r"no module asyncpg; .* -m pip install .asyncpg"):
        lead(store=URL)
