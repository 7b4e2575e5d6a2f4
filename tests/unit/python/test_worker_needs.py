"""What each worker of an executor needs of its host."""

import pytest

from lbd.model import NO_NEEDS, Needs
from lbd.python.cluster_hosts import host_of, need_words
from lbd.python.executor import needs_of

GPU = Needs((("gpu", 2),), ("big",), ("slow",))


def row(features=("big",), **gpus):
    return {
        "name": "h1", "state": "up", "slots": {"total": 8, "used": 0}, "features": list(features),
        "resources": {"gpu": gpus} if gpus else {},
    }  # fmt: skip


def test_they_are_passed_to_lbrun_as_they_were_read():
    assert needs_of(["gpu=2"], ["big"], ["slow"]) == needs_of({"gpu": 2}, ("big",), {"slow"}) == GPU
    assert need_words(GPU) == ["--need=gpu=2", "--feature=big", "--not-feature=slow"]
    assert need_words(NO_NEEDS) == []


@pytest.mark.parametrize(
    ("given", "raised"),
    [
        (("gpu", (), ()), TypeError), (((), "big", ()), TypeError), (((), (), "big"), TypeError),
        ((["gpu=0"], (), ()), ValueError), (((), ["b b"], ()), ValueError),
    ],
)  # fmt: skip
def test_impossible_needs_are_refused(given, raised):
    with pytest.raises(raised):
        needs_of(*given)


@pytest.mark.parametrize(
    ("seen", "slots"),
    [
        (row(total=5, used=4), 2),  # others will give them back
        (row(total=1, used=0), None),
        (row(), None),
        (row(features=("big", "slow"), total=4, used=0), None),
    ],
)  # fmt: skip
def test_a_host_has_as_many_workers_as_its_resources_allow(seen, slots):
    found = host_of(seen, GPU)
    assert (found and found.slots) == slots
    assert host_of(seen).slots == 8
