"""A daemon's operations on certificates, on their DER bytes: names, validity, and an authority
restricted to the names of one host.

Importing `cryptography` for that would cost each daemon ten megabytes. All input here has already
been verified by TLS.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

SEQUENCE, BOOLEAN, OCTETS, EXPLICIT_0, EXPLICIT_3 = 0x30, 0x01, 0x04, 0xA0, 0xA3
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
DNS_NAME = 0x82
TRUE = bytes((BOOLEAN, 1, 0xFF))
NAME_CONSTRAINTS = bytes((0x06, 0x03, 0x55, 0x1D, 0x1E))  # 2.5.29.30
ALTERNATIVE_NAMES = bytes((0x06, 0x03, 0x55, 0x1D, 0x11))  # 2.5.29.17, with its tag and length


def valid_s(der: bytes) -> tuple[float, float]:
    """Returns UNIX times: from, until. Raises ValueError if it is not a certificate."""
    _, both, _ = element(fields(der)[3], SEQUENCE)
    kind, first, rest = element(both)
    kind_until, second, _ = element(rest)
    return unix_s(kind, first), unix_s(kind_until, second)


def dns_names(der: bytes) -> list[str]:
    """Returns the subject's alternative names. Raises ValueError if it is not a certificate."""
    for field in fields(der):
        if field[0] == EXPLICIT_3:
            for extension in elements(element(element(field)[1], SEQUENCE)[1]):
                _, content, _ = element(extension, SEQUENCE)
                if content.startswith(ALTERNATIVE_NAMES):
                    return names_in(content[len(ALTERNATIVE_NAMES) :])
    return []


def names_in(value: bytes) -> list[str]:
    if value[:1] == bytes((BOOLEAN,)):  # critical
        _, _, value = element(value)
    _, names, _ = element(element(value, OCTETS)[1], SEQUENCE)
    return [element(n)[1].decode("ascii") for n in elements(names) if n[0] == DNS_NAME]


def narrowed(der: bytes, names: Iterable[str]) -> bytes:
    """Returns an authority's certificate that is good only for these names and names below them.

    Its signature becomes invalid, which does not matter for a trust anchor. TLS then refuses a
    certificate with any other name, within the handshake. Raises ValueError if it is not a
    certificate.
    """
    _, certificate, _ = element(der, SEQUENCE)
    signed, *signature = elements(certificate)
    *parts, extensions = elements(element(signed, SEQUENCE)[1])
    _, others, _ = element(element(extensions, EXPLICIT_3)[1], SEQUENCE)
    allowed = b"".join(packed(SEQUENCE, packed(DNS_NAME, name.encode("ascii"))) for name in names)
    value = packed(OCTETS, packed(SEQUENCE, packed(EXPLICIT_0, allowed)))
    ours = packed(SEQUENCE, NAME_CONSTRAINTS + TRUE + value)
    narrow = packed(EXPLICIT_3, packed(SEQUENCE, others + ours))
    return packed(SEQUENCE, packed(SEQUENCE, b"".join((*parts, narrow))) + b"".join(signature))


def packed(tag: int, content: bytes) -> bytes:
    """Encodes an element: the inverse of `element`."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def fields(der: bytes) -> list[bytes]:
    """Returns the signed fields: serial number, algorithm, issuer, validity, subject, key,
    extensions."""
    _, certificate, _ = element(der, SEQUENCE)
    _, signed, _ = element(certificate, SEQUENCE)
    found = [field for field in elements(signed) if field[0] != EXPLICIT_0]  # the version
    if len(found) < 6:
        raise ValueError("not the DER of a certificate")
    return found


def elements(data: bytes) -> Iterator[bytes]:
    """Yields each element with its tag and length."""
    while data:
        _, _, rest = element(data)
        yield data[: len(data) - len(rest)]
        data = rest


def element(data: bytes, wanted: int = 0) -> tuple[int, bytes, bytes]:
    """Returns (tag, content, rest) of the element that `data` begins with."""
    if len(data) < 2 or (wanted and data[0] != wanted):
        raise ValueError("not the DER of a certificate")
    size, at = data[1], 2
    if size & 0x80:
        count = size & 0x7F
        size, at = int.from_bytes(data[2 : 2 + count], "big"), 2 + count
    if at + size > len(data):
        raise ValueError("not the DER of a certificate: cut short")
    return data[0], data[at : at + size], data[at + size :]


def unix_s(kind: int, text: bytes) -> float:
    digits = text.decode("ascii", "replace").removesuffix("Z")
    if kind == UTC_TIME:  # RFC 5280: 50 to 99 are in the last century
        digits = ("19" if digits >= "50" else "20") + digits
    if len(digits) != 14 or not digits.isdecimal() or kind not in (UTC_TIME, GENERALIZED_TIME):
        raise ValueError("not the time of a certificate")
    month, day, hour, minute, second = (int(digits[at : at + 2]) for at in range(4, 14, 2))
    return datetime(int(digits[:4]), month, day, hour, minute, second, tzinfo=UTC).timestamp()
