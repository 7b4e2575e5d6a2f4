"""The connection to PostgreSQL is encrypted and its server verified, unless set otherwise."""

import pytest

from lbd.dispatch.ledger.database_url import about_password, exposed, mode_in_force

HERE = [
    "postgresql:///lbd",
    "postgresql://lbd@localhost/lbd",
    "postgresql://lbd:a%40b@127.0.0.1:5433/lbd",
    "postgresql://[::1]:5432/lbd",
    "postgresql://%2Frun%2Fpostgresql/lbd",
    "postgresql:///lbd?host=/tmp&user=lbd",
]
AWAY = [
    "postgresql://lbd@db.example/lbd",
    "postgres://lbd:pw@10.0.0.9:5432/lbd",
    "postgresql://[2001:db8::1]/lbd",
    "postgresql:///lbd?host=db.example",
    "postgresql://localhost,db.example/lbd",
    "postgresql:///lbd?service=there",
    "postgresql://localhost@db.example/lbd",
    "postgresql://127.0.0.1.example/lbd",
]


@pytest.mark.parametrize("url", HERE)
def test_on_this_machine_the_defaults_of_the_driver_apply(url):
    assert mode_in_force(url, {}) == ""
    assert exposed(url, {}) == ""


@pytest.mark.parametrize("url", AWAY)
def test_elsewhere_it_is_encrypted_and_the_server_is_known(url):
    assert mode_in_force(url, {"PGSSLMODE": "disable"}) == "verify-full"
    assert exposed(url, {}) == ""
    with_query = f"{url}{'&' if '?' in url else '?'}sslmode="
    assert mode_in_force(f"{with_query}disable", {}) == "disable"
    assert "unencrypted (sslmode=disable)" in exposed(f"{with_query}disable", {})
    assert "to a server whose identity is not checked (sslmode=require)" in exposed(
        f"{with_query}require", {}
    )
    assert exposed(f"{with_query}verify-ca", {}) == ""


def test_the_location_in_the_environment_counts():
    assert mode_in_force("postgresql:///lbd", {"PGHOST": "db.example"}) == "verify-full"
    assert mode_in_force("postgresql:///lbd", {"PGHOST": "/run/postgresql"}) == ""
    assert mode_in_force("postgresql:///lbd", {"PGSERVICE": "there"}) == "verify-full"


async def test_a_server_without_tls_is_refused(monkeypatch):
    """One on another machine: not a byte of a password or a command goes there."""
    asyncpg = pytest.importorskip("asyncpg")
    from lbd.dispatch.ledger import connection

    asked = {}

    async def connect(_url, **options):
        asked.update(options)
        raise asyncpg.InterfaceError("no")

    monkeypatch.setattr(connection.asyncpg, "connect", connect)
    with pytest.raises(connection.Unavailable):
        await connection.Connection("postgresql://db.example/lbd", "test", 10.0).first()
    assert asked["ssl"] == "verify-full"
    with pytest.raises(connection.Unavailable):
        await connection.Connection("postgresql://localhost/lbd", "test", 10.0).first()
    assert asked["ssl"] is None


@pytest.mark.parametrize(
    ("url", "given", "mode", "says"),
    [
        ("postgresql://lbd@db.example/lbd", {}, None, "No such file or directory"),
        ("postgresql://lbd@db.example/lbd", {}, 0o640, "is ignored because others can read it"),
        ("postgresql://lbd@db.example/lbd", {}, 0o600, "is the one in /"),
        ("postgresql://lbd:secret@db.example/lbd", {}, None, "is the one in dispatch.store"),
        ("postgresql://lbd@db.example/lbd", {"PGPASSWORD": "secret"}, None, "in PGPASSWORD"),
    ],
)
def test_the_source_of_the_password_is_reported(tmp_path, url, given, mode, says):
    path = tmp_path / "pass"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    found = about_password(url, {"PGPASSFILE": str(path), **given})
    assert says in found
    assert "secret" not in found


async def test_a_refused_password_is_reported_with_its_file(monkeypatch, tmp_path):
    asyncpg = pytest.importorskip("asyncpg")
    from lbd.dispatch.ledger import connection

    async def connect(_url, **_options):
        raise asyncpg.InvalidPasswordError('password authentication failed for user "lbd"')

    monkeypatch.setattr(connection.asyncpg, "connect", connect)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with pytest.raises(connection.ConfigError, match=r'user "lbd"; .*/none: No such file'):
        await connection.Connection("postgresql://lbd@db.example/lbd", "test", 10.0).first()
