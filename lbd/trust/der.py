"""What a daemon needs to know of a certificate, read from its DER bytes: whom it names, and when it
ends.

Importing `cryptography` for that would cost each daemon ten megabytes. What comes here has been
checked already, by TLS.
"""

from calendar import timegm
from collections.abc import Iterator

SEQUENCE, BOOLEAN, OCTETS, EXPLICIT_0, EXPLICIT_3 = 0x30, 0x01, 0x04, 0xA0, 0xA3
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
DNS_NAME = 0x82
ALTERNATIVE_NAMES = bytes((0x06, 0x03, 0x55, 0x1D, 0x11))  # 2.5.29.17, with its tag and length


def valid_s(der: bytes) -> tuple[float, float]:
    """UNIX times: from, until. Raises ValueError if it is no certificate."""
    _, both, _ = element(fields(der)[3], SEQUENCE)
    kind, first, rest = element(both)
    kind_until, second, _ = element(rest)
    return unix_s(kind, first), unix_s(kind_until, second)


def dns_names(der: bytes) -> list[str]:
    """The subject's alternative names. Raises ValueError if it is no certificate."""
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


def fields(der: bytes) -> list[bytes]:
    """Of what is signed: serial number, algorithm, issuer, validity, subject, key, extensions."""
    _, certificate, _ = element(der, SEQUENCE)
    _, signed, _ = element(certificate, SEQUENCE)
    found = [field for field in elements(signed) if field[0] != EXPLICIT_0]  # the version
    if len(found) < 6:
        raise ValueError("not the DER of a certificate")
    return found


def elements(data: bytes) -> Iterator[bytes]:
    """Each with its tag and length."""
    while data:
        _, _, rest = element(data)
        yield data[: len(data) - len(rest)]
        data = rest


def element(data: bytes, wanted: int = 0) -> tuple[int, bytes, bytes]:
    """(tag, content, what follows) of the element that `data` begins with."""
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
    if kind == UTC_TIME:  # RFC 5280: 50 to 99 are of the last century
        digits = ("19" if digits >= "50" else "20") + digits
    if len(digits) != 14 or not digits.isdecimal() or kind not in (UTC_TIME, GENERALIZED_TIME):
        raise ValueError("not the time of a certificate")
    parts = [int(digits[:4]), *(int(digits[at : at + 2]) for at in range(4, 14, 2))]
    return float(timegm((*parts, 0, 0, 0)))
