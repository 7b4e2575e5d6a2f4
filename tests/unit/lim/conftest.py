import pytest

from lbd.lim.log_lines import LINES, Lines
from tests.unit.lim.daemons import config, running, up
from tests.unit.until import until


@pytest.fixture
async def two(tmp_path):
    async with running(config(tmp_path, "h1"), config(tmp_path, "h2")) as (one, other):
        await until(lambda: up(one, "h2") and up(other, "h1"))
        yield one, other


@pytest.fixture(autouse=True)
def all_lines_left(monkeypatch):
    """A process has so many lines about each host, which tests of floods use up."""
    monkeypatch.setattr(LINES, "_rates", Lines()._rates)
