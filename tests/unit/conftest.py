import pytest


@pytest.fixture
def authority(tmp_path):
    from tests.unit.enrolment import made_authority  # much is imported, and few tests need it

    return made_authority(tmp_path / "authority")
