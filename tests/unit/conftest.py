import pytest


@pytest.fixture
def authority(tmp_path):
    from tests.unit.enrolment import made_authority  # much is imported, and few tests need it

    return made_authority(tmp_path / "authority")


@pytest.fixture(autouse=True)
def no_own_lab(monkeypatch, tmp_path):
    """Where a lab of the caller's runs, messages say how to act from it."""
    monkeypatch.setattr("lbd.local.own_lab.default_runtime_dir", lambda: str(tmp_path))
