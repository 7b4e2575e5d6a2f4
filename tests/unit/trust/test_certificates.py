"""The contents of certificates, and who may look at the authority's files."""

import stat

import pytest
from cryptography import x509

from lbd.errors import ConfigError
from lbd.trust import authority as a
from lbd.trust import der
from lbd.trust.files import first_certificate
from tests.unit.trust.test_authority import DAY_S, NOW_S, joined, read


@pytest.fixture
def authority(tmp_path):
    made = a.Authority(tmp_path / "authority", 10 * DAY_S)
    made.create("c", "h1", NOW_S)
    return made


def test_what_certificates_may_be_used_for(authority):
    """The authority's signs hosts' and lists; a host's serves and calls, and signs nothing."""
    own = x509.load_pem_x509_certificate(authority.certificate)
    hosts = x509.load_pem_x509_certificate(joined(authority, "h2"))
    found = [{e.oid._name: (e.critical, e.value) for e in one.extensions} for one in (own, hosts)]
    constraints = [one["basicConstraints"] for one in found]
    assert [(must, value.ca, value.path_length) for must, value in constraints] == [
        (True, True, 0), (True, False, None),
    ]  # fmt: skip
    must, usage = found[0]["keyUsage"]
    may = {name for name in vars(x509.KeyUsage) if getattr(usage, f"_{name}", False)}
    assert (must, may) == (True, {"key_cert_sign", "crl_sign"})
    assert not found[0]["subjectKeyIdentifier"][0]
    must, usages = found[1]["extendedKeyUsage"]
    assert (must, {one._name for one in usages}) == (False, {"serverAuth", "clientAuth"})
    assert not found[1]["subjectAltName"][0]


@pytest.mark.parametrize(("life_s", "before_s"), [(600.0, 60.0), (DAY_S, 300.0)])
def test_a_certificate_is_valid_from_a_little_before(tmp_path, life_s, before_s):
    """Clocks differ by some minutes; for a short lifetime it is a tenth."""
    authority = a.Authority(tmp_path / "authority", life_s)
    authority.create("c", "h1", NOW_S)
    begin_s, _ = der.valid_s(read(joined(authority, "h2")))
    assert NOW_S - begin_s == pytest.approx(before_s, abs=1.5)


def test_an_authority_is_valid_for_twenty_years_from_a_little_before(authority):
    begin_s, end_s = der.valid_s(read(authority.certificate))
    assert begin_s == pytest.approx(NOW_S - 300.0, abs=1.5)
    assert end_s == pytest.approx(NOW_S + 20 * 365.25 * DAY_S, abs=1.5)


def test_a_host_is_revoked_once(authority):
    joined(authority, "h2")
    authority.revoke("h2")
    with pytest.raises(ConfigError, match="h2 is already revoked"):
        authority.revoke("h2")


@pytest.mark.root
def test_the_group_of_the_daemons_may_read_the_ledger_but_not_the_key(authority):
    authority.show_to(65534)
    of_group = {
        path.name: (path.stat().st_gid, stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXG)
        for path in (authority.root, *authority.root.iterdir())
    }
    assert of_group["authority"] == (65534, stat.S_IRGRP | stat.S_IXGRP)
    assert of_group["ledger.json"] == (65534, stat.S_IRGRP)
    assert of_group["authority.pem"][1] == 0


def test_the_subject_of_a_long_name_is_as_long_as_a_certificate_allows(authority):
    """Its other names, which count, are whole."""
    host = "h" * 63 + "." + "x" * 63
    made = joined(authority, host)
    (subject,) = x509.load_pem_x509_certificate(made).subject
    assert subject.value == host[:64]
    assert host in der.dns_names(read(made))


@pytest.mark.parametrize("pem", [b"", b"\xff\xfe", b"-----END CERTIFICATE-----\n"])
def test_a_file_without_a_certificate_is_reported(pem):
    with pytest.raises(ConfigError, match="no certificate in it"):
        first_certificate(pem)
