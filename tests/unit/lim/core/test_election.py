import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core.election import Election, ranking
from lbd.model import HostId
from lbd.testing.builders import member
from lbd.testing.virtual_cluster import settled

ORDER = [HostId("h1"), HostId("h2"), HostId("h3")]
SILENCE_S = 6.0


def centre(election, now_s, gone=()):
    return election.centre(ORDER, lambda name, _: name in gone, now_s, SILENCE_S)


def test_configured_order_then_name():
    members = [member("zoe", 1 << 20), member("b", 1), member("a", 1 << 20), member("c", 0)]
    assert ranking(members) == ["c", "b", "a", "zoe"]


def test_the_best_ranked_is_assumed_until_it_proves_silent():
    election = Election(HostId("h3"))
    assert centre(election, 0.0) == "h1"
    assert centre(election, 6.0) == "h1"
    assert centre(election, 6.1) == "h2"
    assert centre(election, 12.1) == "h2"
    assert centre(election, 12.2) == "h3"


def test_a_vector_clears_suspicion():
    election = Election(HostId("h3"))
    centre(election, 0.0)
    assert centre(election, 6.1) == "h2"
    election.heard(HostId("h1"), 7.0)
    assert centre(election, 7.0) == "h1"
    assert centre(election, 13.0) == "h1"
    assert centre(election, 13.1) == "h2"


def test_a_former_centre_gets_its_time_when_it_is_next_in_line():
    election = Election(HostId("h3"))
    election.heard(HostId("h2"), 0.0)  # it led once, long ago
    election.heard(HostId("h1"), 100.0)
    assert centre(election, 100.0) == "h1"
    assert centre(election, 106.1) == "h2"
    assert centre(election, 112.0) == "h2"


def test_a_host_that_has_left_is_skipped_at_once_unless_heard():
    election = Election(HostId("h3"))
    assert centre(election, 0.0, gone={"h1", "h2"}) == "h3"
    election.heard(HostId("h1"), 1.0)
    assert centre(election, 1.0, gone={"h1", "h2"}) == "h1"


@pytest.mark.parametrize("name", ORDER)
def test_the_first_host_is_its_own_centre_at_once(name):
    expected = "h1"
    assert centre(Election(HostId(name)), 0.0) == expected


def test_every_centre_that_can_be_heard_is_known():
    election = Election(HostId("h3"))
    election.heard(HostId("h1"), 0.0)
    election.heard(HostId("h2"), 5.0)
    assert election.heard_lately(5.5, SILENCE_S) == {"h1", "h2"}
    assert election.heard_lately(8.0, SILENCE_S) == {"h2"}
    election.forget(HostId("h2"))
    assert election.heard_lately(8.0, SILENCE_S) == set()


@pytest.mark.parametrize("algorithm", ["GLOBAL", "CENTRAL", "LOWEST"])
def test_a_new_centre_of_which_little_was_kept_sends_everything_at_once(algorithm):
    """h2 acts as a centre, too, while it cannot hear h1, whom the others believe."""
    cluster = settled(5, params=LimConfig(algorithm=algorithm))
    cluster.cut_between({"h1"}, {"h2"})
    cluster.run(20)
    others = [cluster[name] for name in ("h3", "h4", "h5")]
    assert all(host.state._replica.has_part_of("h2") for host in others)
    assert {host.state.centre for host in others} == {"h1"}
    cluster.crash("h1")
    cluster.run_until(lambda: cluster.agreed_centre() == "h2", 20, "h2 is the centre")
    cluster.run(1.0)  # less than a keep-alive
    for host in others:
        copy = host.state._replica._copies["h2"]
        assert {line.sample.host for line in copy.lines.values()} >= {"h2", "h3", "h4", "h5"}
