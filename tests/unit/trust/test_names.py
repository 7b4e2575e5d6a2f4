"""What a certificate may name, and for which host it is accepted."""

import pytest

from lbd.trust.names import (
    DIGITS_MAX,
    ISSUES_NAMED,
    Identity,
    asked_names,
    identity_of,
    names_of,
    why_not,
)


def test_a_certificate_names_its_host_and_issue():
    assert names_of("h2", 0) == ["h2", "0.h2.lbd", "any.lbd"]
    assert identity_of(names_of("h2", 0)) == Identity("h2", 0)
    assert identity_of(names_of("a.b-c_d", 3)) == Identity("a.b-c_d", 3)


def test_every_name_of_a_host_is_one_that_is_requested_or_below_it():
    asked = asked_names("h2")
    for name in names_of("h2", 12):
        assert any(name == one or name.endswith(f".{one}") for one in asked)
    assert not any(one in names_of("h3", 0) for one in asked if one != "any.lbd")


def test_many_issues_do_not_make_it_long():
    names = names_of("h2", 1000)
    assert len(names) == ISSUES_NAMED + 2
    assert identity_of(names) == Identity("h2", 1000)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["h2"],
        ["any.lbd"],
        ["0.h2.lbd"],  # not the name itself
        ["h2", "x.h2.lbd"],
        ["h2", "h3", "0.h2.lbd", "0.h3.lbd"],
        ["h2", "0.h3.lbd"],
        ["h2", "0.h2.lbd.example.org"],
        ["h2", "0.h2.lbd"],  # without the one that all have
        ["h2", "h2", "0.h2.lbd", "any.lbd"],
        ["h2", "0.h2.lbd", "any.lbd", "x.example.org"],
        ["h2", "0.h2.lbd", "any.lbd", "0.h3.lbd."],
        ["h2", "9.h2.lbd", "any.lbd"],
        ["h2", "00.h2.lbd", "any.lbd"],
        ["h2", f"{'9' * 5000}.h2.lbd", "any.lbd"],
        ["0.h1.lbd.", "0.0.h1.lbd..lbd", "any.lbd"],
        ["10.0.0.1", "0.10.0.0.1.lbd", "any.lbd"],
    ],
)
def test_anything_else_names_nobody(names):
    assert identity_of(names) is None


@pytest.mark.parametrize(
    ("host", "fault"),
    [
        ("h2", ""),
        ("node-7.example.org", ""),
        ("0.h2.lbd", "is not a valid host name"),
        ("any.LBD", "is not a valid host name"),
        ("0.h2.lbd.", "is not a valid host name"),
        ("10.0.0.1", "is an address"),
        ("7", "is not a valid host name"),
        ("1-2", "has no letter"),
        ("h" * 201, "is not a valid host name"),
    ],
)
def test_names_that_could_be_taken_for_another(host, fault):
    assert why_not(host).startswith(fault)
    assert bool(why_not(host)) == bool(fault)


@pytest.mark.parametrize("digits", [DIGITS_MAX, DIGITS_MAX + 1])
def test_the_digits_of_an_issue_are_limited(digits):
    issue = 10 ** (digits - 1)
    known = Identity("h2", issue) if digits == DIGITS_MAX else None
    assert identity_of(names_of("h2", issue)) == known
