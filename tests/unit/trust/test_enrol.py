"""A host's trust files: what is written when it joins, and when the authority's address changes."""

import time

import pytest

from lbd.trust.authority import verified
from lbd.trust.enrol import follow_address
from lbd.trust.revocations import Revocations
from tests.unit.enrolment import DAY_S, enrolled, made_authority

BEFORE, AFTER = "127.0.0.1:7901", "10.0.0.7:7901"


@pytest.fixture
def files(authority):
    """Those of the authority's own host."""
    return enrolled(authority, "h1")


def test_a_host_that_has_joined_has_all_its_files(authority, files):
    assert files.exist()
    assert files.read_home() == ("h1", BEFORE)
    assert files.read_authority() == authority.certificate
    begin_s, end_s = files.read_credentials().valid_s
    assert begin_s <= time.time() <= end_s <= time.time() + DAY_S


def test_all_hosts_of_a_cluster_and_no_others_have_its_digest(authority, files, tmp_path):
    other = enrolled(made_authority(tmp_path / "other"), "h1")
    assert files.cluster() == enrolled(authority, "h2").cluster() != other.cluster()


def test_a_new_address_of_the_authoritys_host_is_signed_for_all_hosts(authority, files):
    follow_address(authority, files, "h1", AFTER)
    assert files.read_home() == ("h1", AFTER)
    signed = files.read_signed()
    assert verified(signed, authority.certificate) == Revocations(1, {}, f"h1 {AFTER}")
    assert authority.ledger().number == 1
    follow_address(authority, files, "h1", AFTER)
    assert authority.ledger().number == 1, "it is where it was"
    follow_address(authority, files, "h1", BEFORE)  # and back
    assert (files.read_home(), authority.ledger().number) == (("h1", BEFORE), 2)


@pytest.mark.parametrize("why", ["it is where it was", "its host is another", "others sign"])
def test_an_address_is_recorded_only_by_the_signer_on_the_authoritys_host(
    authority, files, monkeypatch, why
):
    """A copy of the authority that was left on a host says nothing about where it is."""
    if why == "others sign":
        monkeypatch.setattr(type(authority), "has_key", False)
    home = "h2" if why == "its host is another" else "h1"
    follow_address(authority, files, home, BEFORE if why == "it is where it was" else AFTER)
    assert files.read_home() == ("h1", BEFORE)
    assert not files.revoked.exists()
    assert authority.ledger().number == 0
