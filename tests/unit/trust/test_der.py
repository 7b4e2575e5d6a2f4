"""Certificates parsed and narrowed as bytes, compared with `cryptography`."""

import ssl
from calendar import timegm

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from lbd.trust import der
from lbd.trust.authority import Authority

INT = 0x02
PART = der.packed(INT, b"\x01")


@pytest.fixture
def authority_der(tmp_path):
    made = Authority(tmp_path / "authority", 86400.0)
    made.create("c", "h1", 1e9)
    return ssl.PEM_cert_to_DER_cert(made.certificate.decode())


@pytest.mark.parametrize(
    ("size", "head"),
    [
        (0, b"\x02\x00"),
        (127, b"\x02\x7f"),
        (128, b"\x02\x81\x80"),
        (255, b"\x02\x81\xff"),
        (256, b"\x02\x82\x01\x00"),
        (70_000, b"\x02\x83\x01\x11\x70"),
    ],
)
def test_packed_elements_are_read_again(size, head):
    content = b"c" * size
    assert der.packed(INT, content) == head + content
    assert der.element(head + content + b"rest", INT) == (INT, content, b"rest")
    assert list(der.elements(head + content + PART)) == [head + content, PART]
    if size:
        with pytest.raises(ValueError, match="cut short"):
            der.element(head + content[:-1])


@given(st.integers(0, 255), st.binary(max_size=300), st.binary(max_size=3), st.data())
def test_an_element_ends_where_its_length_says(tag, content, rest, data):
    whole = der.packed(tag, content)
    assert der.element(whole + rest) == (tag, content, rest)
    with pytest.raises(ValueError, match="not the DER"):
        der.element(whole[: data.draw(st.integers(0, len(whole) - 1))])


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x30\x00"])
def test_invalid_elements(data):
    with pytest.raises(ValueError, match="not the DER"):
        der.element(data, INT)


def certificate(parts):
    return der.packed(der.SEQUENCE, der.packed(der.SEQUENCE, b"".join(parts)))


def test_a_certificate_has_six_fields_besides_its_version():
    version = der.packed(der.EXPLICIT_0, PART)
    assert der.fields(certificate([version, *[PART] * 6])) == [PART] * 6
    with pytest.raises(ValueError, match="not the DER of a certificate"):
        der.fields(certificate([version, *[PART] * 5]))


@pytest.mark.parametrize(
    ("kind", "text", "day"),
    [
        (der.UTC_TIME, b"491231235958Z", (2049, 12, 31, 23, 59, 58)),
        (der.UTC_TIME, b"500102030405Z", (1950, 1, 2, 3, 4, 5)),
        (der.GENERALIZED_TIME, b"20500102030405Z", (2050, 1, 2, 3, 4, 5)),
    ],
)
def test_times(kind, text, day):
    assert der.unix_s(kind, text) == timegm((*day, 0, 0, 0))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (der.UTC_TIME, b"20500102030405Z"),
        (der.GENERALIZED_TIME, b"205001020304Z"),
        (der.GENERALIZED_TIME, b"2050010203040506Z"),
        (der.GENERALIZED_TIME, b"2050010203040xZ"),
        (der.GENERALIZED_TIME, b"2050010203040\xff"),
        (INT, b"20500102030405Z"),
    ],
)
def test_invalid_times(kind, text):
    with pytest.raises(ValueError, match="not the time of a certificate"):
        der.unix_s(kind, text)


def test_an_authority_is_narrowed_to_names(authority_der):
    narrow = der.narrowed(authority_der, ["h2", "n" * 200])
    before, after = map(x509.load_der_x509_certificate, (authority_der, narrow))
    constraints = after.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert constraints.value.permitted_subtrees == [x509.DNSName("h2"), x509.DNSName("n" * 200)]
    assert constraints.value.excluded_subtrees is None
    assert [e for e in after.extensions if e.oid != constraints.oid] == list(before.extensions)
    assert after.public_key() == before.public_key()
    assert after.signature == before.signature
    assert der.valid_s(narrow) == der.valid_s(authority_der)


def test_names_of_other_kinds_are_skipped():
    names = der.packed(0x87, b"\x7f\0\0\1") + der.packed(der.DNS_NAME, b"h2")
    value = der.packed(der.OCTETS, der.packed(der.SEQUENCE, names))
    for extension in (value, der.TRUE + value):
        extensions = der.packed(
            der.SEQUENCE, der.packed(der.SEQUENCE, der.ALTERNATIVE_NAMES + extension)
        )
        found = certificate([*[PART] * 6, der.packed(der.EXPLICIT_3, extensions)])
        assert der.dns_names(found) == ["h2"]
    assert der.dns_names(certificate([PART] * 6)) == []
