"""Where the next worker of an executor starts."""

from random import Random

import pytest

from lbd.python.core.worker_hosts import WorkerHost, next_host


@pytest.mark.parametrize(
    ("hosts", "own", "aside", "expected"),
    [
        ([WorkerHost("a", load=1.0), WorkerHost("b")], {}, set(), "b"),
        ([WorkerHost("a", slots=2), WorkerHost("b", slots=2)], {"a": 1}, set(), "b"),
        ([WorkerHost("a", cores=4, slots=4), WorkerHost("b")], {"a": 1}, set(), "a"),
        ([WorkerHost("a", speed=2.0), WorkerHost("b")], {}, set(), "a"),
        ([WorkerHost("a"), WorkerHost("b", load=3.0)], {"a": 1}, set(), "b"),
        ([WorkerHost("a"), WorkerHost("b", load=3.0)], {}, {"a"}, "b"),
        ([WorkerHost("a")], {"a": 1}, set(), None),
        ([], {}, set(), None),
    ],
)
def test_the_host_with_the_most_room_is_chosen(hosts, own, aside, expected):
    assert next_host(hosts, own, aside, Random(1)) == expected


def test_ties_are_broken_at_random():
    rng = Random(1)
    hosts = [WorkerHost("a"), WorkerHost("b")]
    assert {next_host(hosts, {}, set(), rng) for _ in range(20)} == {"a", "b"}
