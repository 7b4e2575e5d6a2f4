"""The authority on disk: who gets a certificate, who is refused and why, what is private."""

import base64
import hashlib
import json
import os
import ssl
import stat
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from lbd.errors import ConfigError, LbdError, PeerError
from lbd.trust import authority as a
from lbd.trust import certificates, der
from lbd.trust.enrol import enrol, install
from lbd.trust.files import HostFiles, make_private_dir, write_private
from lbd.trust.names import Identity, identity_of, names_of
from lbd.trust.revocations import Revocations

NOW_S = time.time()
DAY_S = 86400.0


@pytest.fixture
def authority(tmp_path):
    made = a.Authority(tmp_path / "authority", 10 * DAY_S)
    made.create("c", "h1", NOW_S)
    return made


def request(host="h2"):
    return certificates.new_request(certificates.new_key(), host)


def not_signed_by_its_key(pem):
    last = -len("\n-----END CERTIFICATE REQUEST-----\n")
    der_bytes = base64.b64decode(b"".join(pem.splitlines()[1:-1]))
    changed = der_bytes[:-1] + bytes([der_bytes[-1] ^ 1])
    return pem[: pem.index(b"\n") + 1] + base64.encodebytes(changed) + pem[last + 1 :]


def of_another_kind():
    """Returns a request for a key of an unsupported type, although it proves possession of it."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "h2")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    made = builder.sign(ed25519.Ed25519PrivateKey.generate(), None)
    return made.public_bytes(serialization.Encoding.PEM)


def joined(authority, host, now_s=NOW_S):
    token = authority.new_token("", 60, now_s)
    return authority.join(token.id, host, request(host), now_s)


def read(pem):
    return ssl.PEM_cert_to_DER_cert(pem.decode().partition("-----END CERTIFICATE-----\n")[0]
                                    + "-----END CERTIFICATE-----\n")  # fmt: skip


def test_a_token_may_be_for_several_hosts_each_under_a_name_that_is_free(authority):
    token = authority.new_token("", 60, NOW_S, uses=2)
    authority.join(token.id, "h2", request(), NOW_S)
    with pytest.raises(LbdError, match="already joined"):
        authority.join(token.id, "h2", request(), NOW_S)
    authority.join(token.id, "h3", request("h3"), NOW_S)
    with pytest.raises(LbdError, match="already been used, by h3"):
        authority.join(token.id, "h4", request("h4"), NOW_S)


def test_a_used_token_of_a_ledger_that_counts_no_uses_stays_used(authority):
    used, fresh = (authority.new_token("", 60, NOW_S) for _ in range(2))
    authority.join(used.id, "h2", request(), NOW_S)
    ledger = json.loads(authority.ledger_file.read_text())
    for token in ledger["tokens"]:
        del token["uses_left"]
    authority.ledger_file.write_text(json.dumps(ledger))
    with pytest.raises(LbdError, match="already been used, by h2"):
        authority.join(used.id, "h3", request("h3"), NOW_S)
    authority.join(fresh.id, "h3", request("h3"), NOW_S)


def test_a_token_may_be_for_as_many_hosts_as_is_said(authority):
    authority.new_token("", 60, NOW_S, a.USES_MAX)


@pytest.mark.parametrize(("host", "uses"), [("h2", 2), ("", 0), ("", a.USES_MAX + 1)])
def test_how_many_hosts_may_use_a_token_is_bounded(authority, host, uses):
    with pytest.raises(ConfigError):
        authority.new_token(host, 60, NOW_S, uses)


def test_a_token_gives_one_certificate(authority):
    token = authority.new_token("", 60, NOW_S)
    made = authority.join(token.id, "h2", request(), NOW_S)
    assert identity_of(der.dns_names(read(made))) == Identity("h2", 0)
    begin_s, end_s = der.valid_s(read(made))
    assert begin_s <= NOW_S
    assert end_s == pytest.approx(NOW_S + 10 * DAY_S, abs=2)
    assert certificates.is_signed_by(made, authority.certificate)
    with pytest.raises(LbdError, match="has already been used, by h2"):
        authority.join(token.id, "h3", request("h3"), NOW_S)


def test_a_directory_holds_one_authority(authority):
    before = authority.certificate
    with pytest.raises(ConfigError, match=r".* already contains an authority"):
        authority.create("c", "h1", NOW_S)
    assert authority.certificate == before
    assert authority.has_key


def test_no_authority_is_made_for_a_host_that_no_certificate_can_name(tmp_path):
    made = a.Authority(tmp_path / "authority", DAY_S)
    with pytest.raises(ConfigError, match="is an address"):
        made.create("c", "10.0.0.1", NOW_S)
    assert not made.root.exists()


def test_a_host_that_joins_gets_the_revocations_so_far(authority, tmp_path):
    joined(authority, "h2")
    signed, files = authority.revoke("h2"), HostFiles(tmp_path / "tls")
    own = authority.credentials()
    install(files, own, authority.certificate, "h1", "127.0.0.1:7901", signed)
    assert files.read_signed() == signed
    assert files.read_revocations() == Revocations(1, {"h2": 1})


def test_refusals(authority):
    token = authority.new_token("h2", 60, NOW_S)
    with pytest.raises(LbdError, match="is for h2, not for h3"):
        authority.join(token.id, "h3", request("h3"), NOW_S)
    with pytest.raises(LbdError, match="expired 5 s ago"):
        authority.join(token.id, "h2", request(), NOW_S + 65)
    with pytest.raises(LbdError, match="is unknown"):
        authority.join("00000000", "h2", request(), NOW_S)
    with pytest.raises(ConfigError, match="is an address"):
        authority.join(token.id, "10.0.0.1", request(), NOW_S)
    with pytest.raises(PeerError, match="not a certificate request"):
        authority.join(token.id, "h2", b"garbage", NOW_S)
    with pytest.raises(PeerError, match="does not prove possession of its key"):
        authority.join(token.id, "h2", not_signed_by_its_key(request()), NOW_S)
    with pytest.raises(PeerError, match="does not prove possession of its key"):
        authority.join(token.id, "h2", of_another_kind(), NOW_S)
    # none of these attempts has spent it, and it is good until its last moment
    authority.join(token.id, "h2", request(), NOW_S + 60)


def test_a_name_is_taken_until_it_is_revoked_or_has_expired(authority):
    joined(authority, "h2")
    for name in ("h2", "H2"):
        with pytest.raises(LbdError, match="host h2 has already joined"):
            joined(authority, name)
    joined(authority, "h2", NOW_S + 10 * DAY_S)


def test_a_token_for_a_name_replaces_the_host_that_has_it(authority):
    joined(authority, "h2")
    token = authority.new_token("h2", 60, NOW_S)
    again = authority.join(token.id, "h2", request(), NOW_S)
    assert identity_of(der.dns_names(read(again))) == Identity("h2", 1)
    signed = authority.signed_list()
    assert a.verified(signed, authority.certificate) == Revocations(1, {"h2": 1})
    with pytest.raises(LbdError, match="h2 is revoked"):
        authority.renew("h2", 0, request(), NOW_S)


def test_revoked_certificates_are_below_the_lowest_issue(authority):
    joined(authority, "h2")
    signed = authority.revoke("h2")
    assert a.verified(signed, authority.certificate) == Revocations(1, {"h2": 1})
    with pytest.raises(LbdError, match="h2 is revoked"):
        authority.renew("h2", 0, request(), NOW_S)
    again = joined(authority, "h2")
    assert identity_of(der.dns_names(read(again))) == Identity("h2", 1)
    assert "0.h2.lbd" in names_of("h2", 1)  # for hosts that have not heard of it yet
    assert authority.ledger().revocations() == Revocations(1, {"h2": 1})
    with pytest.raises(LbdError, match="h2 is revoked"):  # the holder of the old one
        authority.renew("h2", 0, request(), NOW_S)
    authority.renew("h2", 1, request(), NOW_S)


def test_what_cannot_be_revoked(authority):
    for host in ("h2", "h3", "h4"):
        joined(authority, host)
    authority.revoke("h3")
    with pytest.raises(ConfigError, match=r"host 'h9' has no certificate; .*: h2, h4$"):
        authority.revoke("h9")
    authority.admit("h1", request("h1"), NOW_S)
    with pytest.raises(ConfigError, match="authority is on h1"):
        authority.revoke("h1")


def test_a_list_signed_by_another_authority_is_refused(authority, tmp_path):
    joined(authority, "h2")
    other = a.Authority(tmp_path / "other", DAY_S)
    other.create("c", "h1", NOW_S)
    signed = authority.revoke("h2")
    for wrong in (signed.replace(b"h2", b"h3"), b"", b"\n", b"xx\n{}", b"\xff\n{}", signed[1:]):
        with pytest.raises(PeerError):
            a.verified(wrong, authority.certificate)
    with pytest.raises(PeerError):
        a.verified(signed, other.certificate)


def test_everything_is_private(authority, tmp_path):
    files = HostFiles(tmp_path / "tls")
    enrol(authority, files, "h1", "127.0.0.1:7901", NOW_S)
    for root in (authority.root, files.root):
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        for path in root.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert files.read_home() == ("h1", "127.0.0.1:7901")
    assert files.read_authority() == authority.certificate
    assert not files.revoked.exists()
    own = files.read_credentials()
    certificate = x509.load_pem_x509_certificate(own.chain)
    assert certificate.public_key() == certificates.private_key(own.key).public_key()
    files.credentials.chmod(0o640)
    with pytest.raises(ConfigError, match="accessible to others"):
        files.read_credentials()


def test_a_file_is_private_before_its_first_byte(tmp_path, monkeypatch):
    """Even if the umask would leave it open, and if something is in the way."""
    seen = []
    real = a.os.fsync
    monkeypatch.setattr(
        a.os, "fsync", lambda fd: (seen.append(stat.S_IMODE(a.os.fstat(fd).st_mode)), real(fd))
    )
    before = a.os.umask(0)
    try:
        write_private(tmp_path / "key", b"secret")
    finally:
        a.os.umask(before)
    assert seen[0] == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("name", ["0.h1.lbd.", "0.h1.lbd", "h2.", "*.h1.lbd.", "h 2", "h\n2"])
def test_no_certificate_is_given_for_an_invalid_host_name(authority, name):
    """A token for any host once made its holder h1, by the first of these names."""
    token = authority.new_token("", 60, NOW_S)
    for attempt in (
        lambda: authority.join(token.id, name, request("x"), NOW_S),
        lambda: authority.admit(name, request("x"), NOW_S),
        lambda: authority.renew(name, 0, request("x"), NOW_S),
        lambda: authority.new_token(name, 60, NOW_S),
    ):
        with pytest.raises(LbdError):
            attempt()
    assert authority.ledger().hosts == {}
    authority.join(token.id, "h2", request(), NOW_S)  # it is not spent


def test_names_that_differ_only_in_case_are_one_host(authority):
    """Even if the first has been revoked: its old certificate would be taken for the second's."""
    joined(authority, "h2")
    authority.revoke("h2")
    for now_s in (NOW_S, NOW_S + 11 * DAY_S):
        with pytest.raises(LbdError, match="TLS cannot tell it from H2"):
            joined(authority, "H2", now_s)
    joined(authority, "h2")


def test_changes_to_the_ledger_wait_for_each_other(authority):
    """`lbctl` and the LIM are two processes: neither's change may be lost in the other's."""
    other = a.Authority(authority.root, DAY_S)
    made = []
    second = threading.Thread(target=lambda: made.append(other.new_token("h3", 60, NOW_S)))
    save = authority._save

    def save_late(ledger):
        second.start()
        second.join(0.5)  # as long as our change is not written it cannot end
        save(ledger)

    authority._save = save_late
    made.append(authority.new_token("h2", 60, NOW_S))
    second.join(20)
    assert len(made) == 2
    assert {token.id for token in authority.ledger().tokens} == {token.id for token in made}


@pytest.mark.parametrize("life_s", [0.0, -1.0, a.TOKEN_LIFE_MAX_S + 1, float("inf"), float("nan")])
def test_a_token_expires(authority, life_s):
    with pytest.raises(ConfigError, match="must be 1 second to 30 days"):
        authority.new_token("h2", life_s, NOW_S)
    authority.new_token("h2", a.TOKEN_LIFE_MAX_S, NOW_S)
    authority.new_token("h2", 1.0, NOW_S)


def test_a_revoked_host_has_no_token_left(authority):
    """Otherwise a token that was made for it before would let it in again."""
    joined(authority, "h2")
    before = authority.new_token("h2", 60, NOW_S)
    others = authority.new_token("h3", 60, NOW_S)
    authority.revoke("h2")
    with pytest.raises(LbdError, match="is unknown here"):
        authority.join(before.id, "h2", request(), NOW_S)
    authority.join(others.id, "h3", request("h3"), NOW_S)


def test_a_link_in_place_of_a_directory_for_keys_is_not_followed(tmp_path):
    """The owner of the parent directory may have put one there, and root works here."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (tmp_path / "tls").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match=r"tls: (Not a directory|Too many levels)"):
        make_private_dir(tmp_path / "tls")
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
    assert list(elsewhere.iterdir()) == []


def test_tokens_are_limited_and_long_expired_ones_do_not_count(authority, monkeypatch):
    monkeypatch.setattr(a, "TOKENS_MAX", 2)
    authority.new_token("", 60, NOW_S)
    authority.new_token("", 60, NOW_S + 1)
    with pytest.raises(LbdError, match="there are 2 tokens"):
        authority.new_token("", 60, NOW_S + 1)
    authority.new_token("", 60, NOW_S + 60 + a.TOKEN_KEPT_S)
    assert len(authority.ledger().tokens) == 2


def test_a_revoked_token_is_gone(authority):
    tokens = [authority.new_token("", 60, NOW_S) for _ in range(2)]
    authority.revoke_token(tokens[0].id)
    assert [t.id for t in authority.ledger().tokens] == [tokens[1].id]
    with pytest.raises(ConfigError, match="no token"):
        authority.revoke_token(tokens[0].id)


def test_a_directory_that_cannot_be_opened_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"none: No such file or directory$"):
        a.Authority(tmp_path / "none", DAY_S).revoke_token("1")
    (tmp_path / "file").touch()
    assert not a.Authority(tmp_path / "file", DAY_S).exists()
    with (
        pytest.raises(ConfigError, match=r"file: Not a directory$"),
        a.opened_root(tmp_path / "file"),
    ):
        pass


def test_only_a_file_with_a_single_link_is_given_away(tmp_path):
    """`lbd authority` gives its files away as root, in a directory that others may have filled."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "linked").write_text("x")
    os.link(tmp_path / "linked", tmp_path / "other")
    (tmp_path / "link").symlink_to("file")
    with a.opened_file(tmp_path / "file") as file:
        assert os.read(file, 1) == b"x"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)
    for name in ("folder", "pipe", "linked", "other"):
        with pytest.raises(ConfigError, match="was not made by"), a.opened_file(tmp_path / name):
            pass
    with pytest.raises(OSError, match="Too many levels"), a.opened_file(tmp_path / "link"):
        pass


@pytest.mark.parametrize("keep", ["key", "chain"])
def test_an_incomplete_authority_does_not_count(authority, keep):
    kept = authority.credentials()
    authority.key_file.write_bytes(kept.key if keep == "key" else kept.chain)
    with pytest.raises(ConfigError, match="not an authority's key and certificate"):
        authority.credentials()


def test_a_token_carries_the_fingerprint_of_the_authority(authority):
    der_bytes = ssl.PEM_cert_to_DER_cert(authority.certificate.decode())
    expected = hashlib.sha256(der_bytes).digest()
    assert authority.new_token("", 60, NOW_S).fingerprint == expected
