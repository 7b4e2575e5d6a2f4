"""Valid names of hosts, wherever a name comes from."""

import pytest

from lbd.dispatch.core.job_selection import is_selector
from lbd.errors import ConfigError, PeerError
from lbd.net import convert
from lbd.text.host_name import in_order, is_host_name
from lbd.trust.authority import check_name

PROPER = [
    "h2",
    "lbd",
    "node-7.example.org",
    "a.b-c_d",
    "0.h2",
    "H2",
    "h" * 200,
    "lbd.org",
    "12_h3",
    "3h",
]
IMPROPER = [
    "", ".", "h2.", ".h2", "h..2", "h2-", "-h2", "h 2", "h2\n", "h\x1b2", "h/2", "*", "*.h1",
    "0.h1.lbd", "0.h1.lbd.", "0.h1.LBD", "any.lbd", "x.lbd..", "*.h1.lbd.", "hö", "٣h", "h２",
    "h" * 201, "12", "0", "12_3", "12_3a",
]  # fmt: skip


@pytest.mark.parametrize("name", PROPER)
def test_names_of_hosts(name):
    assert is_host_name(name)
    assert convert.name(name) == name
    check_name(name)


@pytest.mark.parametrize("name", IMPROPER)
def test_an_invalid_name_is_refused_everywhere(name):
    assert not is_host_name(name)
    with pytest.raises(PeerError):
        convert.name(name)
    with pytest.raises(ConfigError):
        check_name(name)


@pytest.mark.parametrize("name", [*PROPER, "10.0.0.1", "1-2"])
def test_no_command_of_a_host_is_called_as_jobs_of_the_queue_are(name):
    """`lbctl kill 3-7` means the jobs 3 to 7, and 12_3 a task."""
    assert is_host_name(name)
    assert not is_selector(f"{name}-7")


def test_an_address_may_be_in_a_domain_of_that_name():
    assert convert.address("h1.lbd") == "h1.lbd"
    with pytest.raises(PeerError):
        convert.address("h1.lbd.")


def test_names_are_sorted_by_their_numbers():
    names = ["h10", "h2", "h1", "a", "h", "h2b", "10.0.0.9", "10.0.0.10"]
    assert sorted(names, key=in_order) == [
        "10.0.0.9", "10.0.0.10", "a", "h", "h1", "h2", "h2b", "h10",
    ]  # fmt: skip
