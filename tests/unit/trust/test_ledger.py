"""An authority that is restored from a copy, or moves: revoked hosts stay revoked."""

import json
from dataclasses import asdict, replace

import pytest

from lbd.errors import ConfigError, LbdError
from lbd.trust.ledger import ISSUES_SKIPPED, NUMBERS_SKIPPED, Known, Ledger, read_ledger
from lbd.trust.revocations import Revocations

MORE = ISSUES_SKIPPED - 1  # a revoked host may have joined again, and been revoked, since the copy
HOSTS = {"h1": Known(0, 9.0), "h2": Known(2, 9.0), "h3": Known(1, 9.0, revoked=True)}
LEDGER = Ledger("c", "h1", 5, HOSTS)


def test_the_list_has_the_lowest_issue_of_each_host_ever_revoked():
    assert LEDGER.revocations() == Revocations(5, {"h2": 2, "h3": 2})


def test_of_the_others_only_those_with_a_valid_certificate_count():
    hosts = HOSTS | {"h4": Known(0, 8.0), "a5": Known(0, 9.5)}
    assert Ledger("c", "h1", 5, hosts).others("h1", 8.0) == ["a5", "h2"]
    assert Ledger("c", "h1", 5, hosts).others("h9", 7.9) == ["a5", "h1", "h2", "h4"]


def test_a_copy_is_believed_by_hosts_that_have_heard_of_later_revocations():
    again = LEDGER.begun_again(Revocations(), is_home_new=False)
    assert again.number == 5 + NUMBERS_SKIPPED
    assert LEDGER.begun_again(Revocations(9), is_home_new=False).number == 9 + NUMBERS_SKIPPED
    assert again.hosts == HOSTS | {"h3": replace(HOSTS["h3"], issue=1 + MORE)}


@pytest.mark.parametrize("home", ["h1", "h9"])
def test_the_old_certificate_of_a_home_that_lost_it_no_longer_counts(home):
    again = Ledger("c", home, 5, HOSTS).begun_again(Revocations(), is_home_new=True)
    assert [host for host, known in again.hosts.items() if known.revoked] == (
        ["h1", "h3"] if home == "h1" else ["h3"]
    )


@pytest.mark.parametrize(
    ("heard", "lowest"),
    [
        (Revocations(3), {"h2": 2, "h3": 2 + MORE}),  # from before the copy
        (Revocations(7, {"h2": 2, "h3": 2}), {"h2": 2, "h3": 2 + MORE}),  # the same
        (Revocations(7, {"h2": 3, "h3": 2}), {"h2": 3 + MORE, "h3": 2 + MORE}),
        (
            Revocations(7, {"h2": 5, "h9": 1}),  # h9 joined after the copy
            {"h2": 5 + MORE, "h3": 2 + MORE, "h9": 1 + MORE},
        ),
    ],
)
def test_a_host_revoked_after_the_copy_stays_revoked_where_it_moves_to(heard, lowest):
    moved = LEDGER.moved_to("h1", "10.0.0.1:7901", heard)
    number = max(5, heard.number) + NUMBERS_SKIPPED
    assert moved.revocations() == Revocations(number, lowest, "h1 10.0.0.1:7901")
    assert moved.hosts["h2"].revoked == (lowest["h2"] > 2)


@pytest.mark.parametrize(
    ("host", "heard"),
    [("h3", Revocations()), ("h9", Revocations()), ("h2", Revocations(7, {"h2": 3}))],
)
def test_it_moves_to_no_host_that_is_revoked_or_joined_later(host, heard):
    with pytest.raises(LbdError, match="is revoked, or joined after this copy"):
        LEDGER.moved_to(host, "10.0.0.3:7901", heard)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"cluster": "c", "home": "h1", "number": "x", "hosts": {}, "tokens": []}',
     '{"cluster": "c", "home": "h1", "number": 1, "hosts": {"h1": {}}, "tokens": []}',
     '{"cluster": "c", "home": "h1", "number": 1, "hosts": [], "tokens": []}'],
)  # fmt: skip
def test_a_damaged_ledger_is_one_line(tmp_path, text):
    (tmp_path / "ledger.json").write_text(text)
    with pytest.raises(ConfigError, match=r"ledger\.json is damaged: "):
        read_ledger(tmp_path / "ledger.json")


def test_the_place_it_has_moved_to_is_read_again(tmp_path):
    file = tmp_path / "ledger.json"
    moved = LEDGER.moved_to("h1", "10.0.0.1:7901", Revocations())
    file.write_text(json.dumps(asdict(moved)))
    assert read_ledger(file) == moved
