"""When `lbctl join` replaces what an earlier one has left."""

import time

import pytest

from lbd.cli.ctl.trust import is_for_member, refuse_if_joined
from lbd.errors import ConfigError
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import HostFiles

NOW_S = time.time()
DAY_S = 86400.0


@pytest.fixture
def authority(tmp_path):
    made = Authority(tmp_path / "authority", 10 * DAY_S)
    made.create("c", "h1", NOW_S)
    return made


def member(authority, root, host):
    files = HostFiles(root)
    enrol(authority, files, host, "10.0.0.1:7901", NOW_S)
    return files


def test_a_host_may_ask_its_own_authority_again(authority, tmp_path):
    """It was revoked, and has not heard of it: as far as it knows, its certificate is valid."""
    files = member(authority, tmp_path / "h2", "h2")
    authority.revoke("h2")
    with pytest.raises(
        ConfigError, match=r"joined already, as h2, .*to leave that cluster, remove"
    ):
        refuse_if_joined(files)
    assert is_for_member(authority.new_token("h2", 60.0, NOW_S), files, "h2")


def test_another_cluster_another_name_and_the_authoritys_host_are_not_replaced(authority, tmp_path):
    files = member(authority, tmp_path / "h2", "h2")
    token = authority.new_token("h2", 60.0, NOW_S)
    assert not is_for_member(token, files, "h3")
    other = Authority(tmp_path / "other", 10 * DAY_S)
    other.create("c", "h1", NOW_S)
    assert not is_for_member(other.new_token("h2", 60.0, NOW_S), files, "h2")
    home = member(authority, tmp_path / "h1", "h1")
    assert not is_for_member(authority.new_token("h1", 60.0, NOW_S), home, "h1")


def test_what_has_not_joined_or_is_damaged_is_no_member(authority, tmp_path):
    files = HostFiles(tmp_path / "h2")
    token = authority.new_token("h2", 60.0, NOW_S)
    assert not is_for_member(token, files, "h2")
    member(authority, tmp_path / "h2", "h2")
    files.authority.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n")
    assert not is_for_member(token, files, "h2")
