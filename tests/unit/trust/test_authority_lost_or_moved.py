"""An authority of which there is a copy on another machine, or whose host has lost its files."""

import time
from pathlib import Path

import pytest

from lbd.errors import ConfigError, LbdError
from lbd.trust import certificates
from lbd.trust.authority import is_superseded, sign, verified
from lbd.trust.revocations import Revocations
from tests.unit.enrolment import DAY_S, enrolled, made_authority, restored


def test_an_authority_is_superseded_by_the_newer_list_of_its_copy(authority):
    assert is_superseded(authority, restored(authority))
    assert not is_superseded(authority, authority.signed_list()), "its own list is no newer"


def test_a_newer_list_that_the_authority_has_not_signed_proves_nothing(authority, tmp_path):
    other = made_authority(tmp_path / "other")
    newer = sign(other.credentials(), Revocations(9))
    not_text = certificates.sign_text(authority.credentials(), b"\xff") + b"\n\xff"
    for signed in (newer, restored(authority).replace(b"\n", b"0\n"), not_text, b"garbage", b""):
        assert not is_superseded(authority, signed)


def test_the_signed_bytes_of_a_list_may_be_no_text(authority):
    signed = certificates.sign_text(authority.credentials(), b"\xff") + b"\n\xff"
    with pytest.raises(LbdError, match="not a list of revoked hosts"):
        verified(signed, authority.certificate)


def test_the_home_of_an_authority_that_lost_its_files_gets_another_certificate(authority):
    now_s = time.time()
    assert not authority.replace_home("h1", now_s), "it has none yet"
    enrolled(authority, "h1")
    enrolled(authority, "h2")
    with pytest.raises(LbdError, match="has already joined"):
        enrolled(authority, "h1")
    assert not authority.replace_home("h2", now_s), "that is not its home"
    assert authority.replace_home("h1", now_s)
    assert authority.ledger().revocations() == Revocations(1, {"h1": 1})
    enrolled(authority, "h1")
    assert not authority.replace_home("h1", now_s + 2 * DAY_S), "an expired one is not in the way"
    assert authority.ledger().number == 1


def test_an_authority_that_is_given_away_is_not_left_here(authority):
    with authority.given_away():
        assert authority.exists()
        copy = authority.key_file.read_bytes()
    assert copy
    assert list(authority.root.iterdir()) == []


def test_an_authority_whose_copy_could_not_be_made_stays(authority):
    def make_copy():
        with authority.given_away():
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        make_copy()
    authority.credentials()
    authority.ledger()


def test_an_authority_that_vanishes_meanwhile_is_one_line(authority, tmp_path):
    def away(ledger):
        authority.root.rename(tmp_path / "aside")
        return ledger

    with pytest.raises(ConfigError, match=r"ledger\.json: No such file or directory$"):
        authority.change(away)
    (tmp_path / "aside").rename(authority.root)

    def give_away():
        with authority.given_away():
            Path(authority.ledger_file).unlink()

    with pytest.raises(ConfigError, match=r": No such file or directory$"):
        give_away()
