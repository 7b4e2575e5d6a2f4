import pytest

from tests.postgres import Postgres
from tests.unit.dispatch.services import opened


@pytest.fixture(scope="session")
def postgres():
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
async def world(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        yield world
