"""The list of revoked hosts: what it says, and what is no such list."""

import pytest

from lbd.errors import PeerError
from lbd.trust.revocations import Revocations, parse

LIST = '{"number": 1, "lowest": {}, "home": "h2 %s"}'
MOST = 400 - len("h2 ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"number": 1, "lowest": {"h": "x"}}',
        '{"number": "1", "lowest": {}}',
        "1",
        "[" * 9999,
        LIST % "two words",
        LIST % ("t" * (MOST + 1)),
        " " * (1 << 20) + LIST % "t",
    ],
)
def test_an_invalid_list_is_refused(text):
    with pytest.raises(PeerError):
        parse(text)


def test_a_list_says_where_the_authority_is():
    home = "h2 " + "t" * MOST
    assert parse(LIST % ("t" * MOST)) == Revocations(1, {}, home)
    assert parse(Revocations(2, {"h3": 1}, home).text()) == Revocations(2, {"h3": 1}, home)


def test_a_host_that_was_never_revoked_may_have_any_issue():
    assert Revocations(1, {"h2": 3}).lowest_issue("h2") == 3
    assert Revocations(1, {"h2": 3}).lowest_issue("h3") == 0
