import pytest

from tests.postgres import Postgres


@pytest.fixture(scope="session")
def postgres():
    server = Postgres()
    yield server
    server.close()
