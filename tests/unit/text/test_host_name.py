"""What a host may be called, wherever a name comes from."""

import pytest

from lbd.errors import ConfigError, PeerError
from lbd.net import convert
from lbd.text.host_name import is_host_name
from lbd.trust.authority import check_name

PROPER = ["h2", "lbd", "node-7.example.org", "a.b-c_d", "0.h2", "H2", "h" * 200, "lbd.org"]
IMPROPER = [
    "", ".", "h2.", ".h2", "h..2", "h2-", "-h2", "h 2", "h2\n", "h\x1b2", "h/2", "*", "*.h1",
    "0.h1.lbd", "0.h1.lbd.", "0.h1.LBD", "any.lbd", "x.lbd..", "*.h1.lbd.", "hö", "٣h", "h２",
    "h" * 201,
]  # fmt: skip


@pytest.mark.parametrize("name", PROPER)
def test_names_of_hosts(name):
    assert is_host_name(name)
    assert convert.name(name) == name
    check_name(name)


@pytest.mark.parametrize("name", IMPROPER)
def test_what_is_none_is_refused_everywhere(name):
    assert not is_host_name(name)
    with pytest.raises(PeerError):
        convert.name(name)
    with pytest.raises(ConfigError):
        check_name(name)


def test_an_address_may_be_in_a_domain_of_that_name():
    assert convert.address("h1.lbd") == "h1.lbd"
    with pytest.raises(PeerError):
        convert.address("h1.lbd.")
