"""What an executor takes."""

import pytest

import lbd
from lbd.python import executor as module


def limits_of(monkeypatch, **options):
    seen = []
    monkeypatch.setattr(module, "Crew", lambda limits, settings: seen.append(limits))
    lbd.Executor(**options)
    return seen[0]


def test_the_number_of_workers_has_the_name_that_other_executors_give_it_too(monkeypatch):
    assert limits_of(monkeypatch, max_workers=3) == limits_of(monkeypatch, slots=3)
    assert limits_of(monkeypatch, max_workers=3).slots == 3
    assert limits_of(monkeypatch).slots is None


@pytest.mark.parametrize(
    ("options", "error"),
    [({"slots": 1, "max_workers": 2}, TypeError), ({"max_workers": 0}, ValueError)],
)
def test_workers_that_cannot_be_are_refused(options, error):
    with pytest.raises(error):
        lbd.Executor(**options)
