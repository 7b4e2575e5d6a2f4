"""Tokens: accepted whole or refused, and nothing of the secret in what is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.errors import ConfigError
from lbd.trust.token import ORDER_P256, PREFIX, Token, joining_command, parse

TOKEN = Token(bytes(range(16)), bytes(range(100, 132)))
TEXT = "lbd1-AAECAwQFBgcICQoLDA0OD2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6e3x9fn-AgYKDTReAWA"
NUMBER = 0x6E83C26E17FF329846851AA2BC903C500498DC67A72040F7E614625937224332


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=32, max_size=32))
def test_a_round_trip(secret, fingerprint):
    token = Token(secret, fingerprint)
    assert parse(token.text()) == token
    assert 0 < token.private_number < ORDER_P256
    assert len(token.text()) < 80


@given(st.integers(0, len(TOKEN.text()) - 1), st.sampled_from("aZ0-_="))
def test_a_typing_error_is_noticed(place, mark):
    text = TOKEN.text()
    changed = text[:place] + mark + text[place + 1 :]
    if changed != text:
        with pytest.raises(ConfigError):
            parse(changed)


@pytest.mark.parametrize("more", ["!", " ", "\n", "!!!!"])
def test_characters_that_no_token_has_are_not_skipped(more):
    with pytest.raises(ConfigError, match="mistyped"):
        parse(TOKEN.text()[:20] + more + TOKEN.text()[20:])


@given(st.text())
def test_anything_else_is_refused_in_one_line(text):
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("cut", [1, 5, 30, 60])
def test_a_part_of_a_token_is_refused(cut):
    with pytest.raises(ConfigError, match="cut short or mistyped"):
        parse(TOKEN.text()[:-cut])


def test_its_displayed_id_says_nothing_of_the_secret():
    assert TOKEN.id not in TOKEN.text()
    assert len(TOKEN.id) == 8


def test_every_release_derives_the_same_from_a_token():
    """The host that joins and the authority may run different ones."""
    assert TOKEN.id == "8b0a3ef8"
    assert TOKEN.text() == TEXT
    assert TOKEN.private_number == NUMBER


def test_the_secret_of_a_token_is_no_argument_of_a_program():
    """These are visible to every user of a host."""
    command = joining_command("10.0.0.1:7901", TEXT)
    assert command == f"echo {TEXT} | lbctl join 10.0.0.1:7901 -"


def test_a_token_has_its_prefix():
    with pytest.raises(ConfigError, match="not a token"):
        parse(TOKEN.text().removeprefix(PREFIX))


@pytest.mark.parametrize("size", [0, 47, 49])
def test_a_token_of_another_size_is_refused_though_its_checksum_is_right(size):
    with pytest.raises(ConfigError, match="cut short or mistyped"):
        parse(Token(b"", bytes(size)).text())
