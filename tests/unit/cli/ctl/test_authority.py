"""`lbctl authority`: it moves as a whole, is never lost, and every host learns where it is."""

import os
import re
import shutil
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.cli.ctl.cluster.authority import is_here
from lbd.config.access import DaemonsConfig
from lbd.config.load import load
from lbd.doctor.checks import authority_key, trust
from lbd.doctor.peers import authority
from lbd.errors import PeerError
from lbd.trust.authority import sign, verified
from lbd.trust.enrol import enrol, follow_address
from lbd.trust.files import EMPTY
from lbd.trust.ledger import ISSUES_SKIPPED
from lbd.trust.revocations import Revocations, parse
from tests.unit.cli.ctl.authority_hosts import Host, lbctl_on, refused, two_hosts


@pytest.fixture
def hosts(tmp_path):
    return two_hosts(tmp_path)


@pytest.fixture
def lbctl(capsys, monkeypatch):
    return lbctl_on(capsys, monkeypatch)


def test_it_is_given_and_taken_and_all_hosts_learn_of_it(hosts, lbctl, tmp_path):
    first, second = hosts
    file = tmp_path / "key.tar"
    old, new = first.tls(), second.tls()
    assert old.authority is not None
    assert new.authority is None
    assert "the authority is on h1" in lbctl(second, "authority").out

    said = lbctl(first, "authority", "give", file).out
    assert said.endswith(f"as root:\n  lbctl authority take {file}\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert not any(first.authority.root.iterdir())
    assert old.authority is None, "the LIM that runs there knows at once"
    assert "there is no authority in" in refused(lbctl(first, "token", "create", status=1))

    assert "the authority is now on h2;" in lbctl(second, "authority", "take", file).out
    assert new.authority is not None
    new.look()
    old.learn(second.files.read_signed())
    for host in hosts:
        assert host.files.read_home() == ("h2", "10.0.0.9:7901")
        assert lbctl(host, "authority").out == "the authority is on h2, 10.0.0.9:7901\n"
    assert lbctl(second, "token", "create", "h3").out.startswith("lbd1-")
    said = refused(lbctl(first, "token", "create", status=1))
    assert "the authority is on h2: run this there" in said
    lbctl(second, "revoke", "h1")
    old.learn(second.files.read_signed())
    assert old.is_revoked(old.identity), "it is a host like others now"
    assert "is already on h2" in refused(lbctl(second, "authority", "take", file, status=1))


def test_all_hosts_learn_of_a_new_address_of_its_host(hosts):
    first, second = hosts
    follow_address(first.authority, first.files, "h1", "10.0.0.7:7901")
    assert first.files.read_home() == ("h1", "10.0.0.7:7901")
    second.tls().learn(first.files.read_signed())
    assert second.files.read_home() == ("h1", "10.0.0.7:7901")
    stale = second.files.read_home()
    follow_address(first.authority, second.files, "h2", "10.0.0.2:7901")
    assert second.files.read_home() == stale, "a copy that was left there says nothing"


def test_where_its_host_is_lost_a_backup_will_do_and_revocations_stay(hosts, lbctl, tmp_path):
    first, second = hosts
    file, third = tmp_path / "b.tar", Host(tmp_path, "h3")
    enrol(first.authority, third.files, "h3", "10.0.0.1:7901", time.time())
    lbctl(first, "backup", file)
    second.tls().learn(first.authority.revoke("h3"))
    third.tls().learn(first.authority.signed_list())
    assert "h3 is revoked" in refused(lbctl(third, "authority", "take", file, status=1))
    lbctl(second, "authority", "take", file)
    assert verified(second.files.read_signed(), second.authority.certificate).lowest == {
        "h3": ISSUES_SKIPPED
    }
    # When the first host is back, with its old state:
    back = first.tls()
    assert back.authority is not None
    back.learn(second.files.read_signed())
    assert back.authority is None
    (found,) = authority_key(load(str(first.config)))
    assert (found.state, found.fix) == ("warn", f"rm -r {first.authority.root}")
    for words in (("token", "create"), ("revoke", "h2"), ("authority", "give", tmp_path / "c")):
        assert "the authority is on h2: run this there" in refused(lbctl(first, *words, status=1))
    lbctl(second, "authority", "give", file)
    lbctl(first, "authority", "take", file)
    assert back.authority is not None
    assert first.authority.ledger().number > second.files.read_revocations().number


@pytest.mark.parametrize("takes_first", [True, False])
def test_a_copy_put_back_on_another_host_leaves_the_authority_where_it_is(
    hosts, lbctl, tmp_path, takes_first
):
    """The host that had it is lost, and its queue moves to the same new host: in any order."""
    first, second = hosts
    file = tmp_path / "b.tar"
    (first.root / "state/settings.json").write_text("{}")
    lbctl(first, "backup", file)
    if takes_first:
        lbctl(second, "authority", "take", file)
    said = lbctl(second, "restore", file)
    assert said.out.startswith(f"restored from {file} (h1, ")
    assert said.out.splitlines()[0].endswith(": the cluster's settings")
    if takes_first:
        assert f"the authority on h2 is kept: it is not older; the one in {file}" in said.err
    else:
        assert "is on h1; if h1 is lost, run `lbctl authority take` here" in said.err
        assert not second.authority.exists()
        lbctl(second, "authority", "take", file)
    assert second.authority.ledger().home == "h2"
    assert "h1 is revoked" in lbctl(second, "revoke", "h1").out


def test_what_is_refused_changes_nothing(hosts, lbctl, tmp_path):
    first, second = hosts
    other, late, alone = (Host(tmp_path / "o", "h1", "other"), Host(tmp_path, "late"),
                          Host(tmp_path, "alone"))  # fmt: skip
    other.found()
    file, foreign, empty = tmp_path / "b.tar", tmp_path / "o.tar", tmp_path / "empty.tar"
    lbctl(first, "backup", file)
    enrol(first.authority, late.files, "late", "10.0.0.1:7901", time.time())
    lbctl(other, "backup", foreign)
    empty.write_bytes(b"")
    cut = tmp_path / "cut.tar"
    cut.write_bytes(file.read_bytes()[:-9000])
    before = {host: host.everything() for host in (second, late, alone)}
    for host, given, why in (
        (second, foreign, "whose authority is not this host's"),
        (second, empty, "is not an lbctl backup"),
        (second, cut, "is no"),
        (second, tmp_path / "none", "No such file"),
        (late, file, "late is revoked, or joined after this copy was made"),
        (alone, file, "`lbctl join` first"),
    ):
        assert why in refused(lbctl(host, "authority", "take", given, status=1))
    assert {host: host.everything() for host in before} == before


def test_on_a_terminal_a_token_comes_as_the_line_to_type(hosts, lbctl, monkeypatch):
    """It said `echo TOKEN | lbctl join`, with the token on a line of its own."""
    first, _ = hosts
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    head, line = lbctl(first, "token", "create", "h3").out.splitlines()
    assert head == "on h3, within 1h:"
    assert re.fullmatch(r"  echo lbd1-\S+ \| lbctl join \S+:7901 -", line)


def test_a_file_that_cannot_be_written_takes_nothing_away(hosts, lbctl, tmp_path):
    first, _ = hosts
    before = first.everything()
    lbctl(first, "authority", "give", tmp_path / "no/such/place", status=2)
    assert first.everything() == before


@pytest.mark.parametrize("home", ["h2", "h2 a b", "h" * 500 + " x", 7, ["h2", "x"], {"a": 1}])
def test_a_malformed_home_is_ignored(hosts, home):
    first, second = hosts
    said = Revocations(9, {}, "h2 10.0.0.2:7901")
    assert parse(said.text()) == said
    bad = sign(first.authority.credentials(), Revocations(9, {}, home))
    with pytest.raises(PeerError):
        second.tls().learn(bad)
    assert second.files.read_home()[0] == "h1"


def test_nobody_else_says_where_it_is(hosts, tmp_path):
    _, second = hosts
    other = Host(tmp_path / "o", "h1", "other")
    other.found()
    signed = sign(other.authority.credentials(), Revocations(9, {}, "evil 10.6.6.6:7901"))
    with pytest.raises(PeerError, match="not signed"):
        second.tls().learn(signed)
    assert second.files.read_home()[0] == "h1"


def test_what_the_daemons_wrote_revokes_nobody(hosts, lbctl, tmp_path):
    first, second = hosts
    lbctl(first, "backup", tmp_path / "b.tar")
    forged = Revocations(9, {"h1": 5}).text().encode()
    second.files.revoked.write_bytes(b"00\n" + forged)
    before = second.everything()
    said = refused(lbctl(second, "authority", "take", tmp_path / "b.tar", status=1))
    assert "not signed" in said
    assert second.everything() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_doctor_reports_that_the_process_with_the_key_is_missing(hosts, tmp_path):
    """Where the daemons are not root. Where they are, the LIM has the key."""

    def found(host, user):
        config = replace(load(str(host.config)), daemons=DaemonsConfig(user=user))
        return list(authority(SimpleNamespace(config=config, socket=lambda name: tmp_path / name)))

    first, second = hosts
    (fault,) = found(first, "")
    assert fault.state == "fault"
    assert "systemctl start lbd-authority" in fault.fix
    assert found(first, "root") == found(second, "") == []


def test_init_gives_the_host_of_the_authority_a_new_certificate_after_it_lost_its_files(
    hosts, lbctl
):
    """As after `apt purge`, which keeps the authority."""
    first, second = hosts
    old, other = first.tls(), second.tls()
    shutil.rmtree(first.root / "state")
    first.config.write_text(first.config.read_text().replace("10.0.0.9", "127.0.0.1"))
    config = load(str(first.config))
    (check,) = trust(config)
    assert (check.state, check.fix.endswith("is mounted. If it is, `lbctl init`")) == (
        "fault",
        True,
    )
    said = lbctl(first, "init")
    assert "the certificate that h1 had before is revoked" in said.err
    new = first.tls()
    assert new.identity.issue == old.identity.issue + 1
    other.learn(first.files.read_signed())
    assert other.is_revoked(old.identity)
    assert not other.is_revoked(new.identity)
    assert not other.is_revoked(other.identity)
    assert "has already joined" in refused(lbctl(first, "init", status=2))
    assert first.tls().identity == new.identity


def test_a_fresh_configuration_takes_the_cluster_name_of_the_kept_authority(hosts, lbctl):
    first, _ = hosts
    text = first.config.read_text().replace('[cluster]\nname = "c"\n', "")
    shutil.rmtree(first.root / "state")
    first.config.write_text(text.replace("10.0.0.9", "127.0.0.1"))
    lbctl(first, "init")
    assert load(str(first.config)).cluster.name == "c"


def test_the_revoked_host_of_the_authority_needs_no_token(hosts, lbctl, tmp_path):
    """It was to join by a token of its own, which no authority accepts."""
    first, _ = hosts
    first.config.write_text(first.config.read_text().replace("10.0.0.9", "127.0.0.1"))
    (first.root / "state").rename(tmp_path / "disk")
    lbctl(first, "init")
    shutil.rmtree(first.root / "state")
    (tmp_path / "disk").rename(first.root / "state")
    first.files.revoked.write_bytes(first.authority.signed_list())
    certificate = next(trust(load(str(first.config))))
    assert certificate.says.startswith("revoked")
    assert certificate.fix == "`lbctl init`, then `lbctl restart`"
    lbctl(first, "init")
    assert next(trust(load(str(first.config)))).state == "ok"


def test_an_old_copy_of_the_authority_is_of_no_use(hosts, lbctl, tmp_path):
    """A machine that was lost, and restored elsewhere, made tokens for a cluster of its own."""
    first, _ = hosts
    lbctl(first, "token", "create", "h9")
    restored = first.authority.ledger().begun_again(EMPTY, is_home_new=True)
    tls = first.tls()
    assert tls.authority is not None
    tls.learn(sign(first.authority.credentials(), restored.revocations()))
    assert (tls.authority, tls.is_out("h1", time.monotonic())) == (None, True)
    for words in (("token", "create", "h9"), ("revoke", "h2"), ("authority", "give", "k.tar")):
        line = refused(lbctl(first, *words, status=1))
        assert f"the authority in {first.authority.root} is an old copy" in line
    certificate = next(trust(load(str(first.config))))
    assert "a machine restored from a backup of this one is h1 now" in certificate.says
    assert str(first.authority.root) in certificate.fix


def test_a_host_may_leave_though_it_has_an_old_copy_of_the_authority(hosts):
    first, _ = hosts
    config = load(str(first.config))
    assert is_here(config)
    restored = first.authority.ledger().begun_again(EMPTY, is_home_new=True)
    first.tls().learn(sign(first.authority.credentials(), restored.revocations()))
    assert not is_here(config)


def test_who_may_not_look_is_not_told_to_create_an_authority(hosts, lbctl, monkeypatch):
    """An administrator who is not root, on a host without it, was sent to `lbctl init`."""
    _, second = hosts
    access = os.access
    monkeypatch.setattr(os, "access", lambda at, how: at != second.files.root and access(at, how))
    for words in (("token", "create", "h9"), ("revoke", "h1")):
        line = refused(lbctl(second, *words, status=1))
        assert line == "lbctl: only root can do that, on the host that has the authority"


def test_a_host_that_is_not_known_cannot_be_revoked(hosts, lbctl):
    first, _ = hosts
    lbctl(first, "revoke", "h2")
    line = refused(lbctl(first, "revoke", "nosuch", status=2))
    assert line.endswith("hosts with one: h1")
