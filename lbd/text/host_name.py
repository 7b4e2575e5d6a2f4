"""The rule for host names: one definition for the configuration, certificates and messages.

A name becomes part of job ids, of lines that scripts parse, and of the names in a certificate. It
is therefore ASCII and has no dot at either end, because TLS drops a trailing dot before it compares
names. Its last label is not `lbd`, because in a certificate that label marks lbd's own names (see
`trust.names`). It is not a number and does not begin like a task id (`12_3`): the seventh command
of a host named `3` would be called `3-7`, and cancelling `3-7` would cancel the queued jobs 3 to 7.
"""

import re

LABEL_OF_OURS = ".lbd"
CHARS_MAX = 200  # lbd's own names in a certificate are a few characters longer
ADDRESS_CHARS_MAX = 253
SHAPE = re.compile(r"(?=[a-z0-9])[a-z0-9_-]+(?:\.[a-z0-9_-]+)*(?<=[a-z0-9])", re.ASCII | re.I)
NUMBERS = re.compile(r"[0-9]+(?:_[0-9].*)?")
PARTS = re.compile(r"(?=.)([^0-9]*)([0-9]*)", re.ASCII)
NAME_RULE = (
    "is not a valid host name: letters and digits with - . _ between them, at most "
    f"{CHARS_MAX} characters, not just a number, and not ending in {LABEL_OF_OURS}"
)


def is_host_name(name: str) -> bool:
    if len(name) > CHARS_MAX or name.lower().endswith(LABEL_OF_OURS) or NUMBERS.fullmatch(name):
        return False
    return is_address_name(name)


def in_order(name: str) -> tuple[tuple[str, int], ...]:
    """A key to sort names by: h2 before h10."""
    return tuple((letters, int(digits or 0)) for letters, digits in PARTS.findall(name))


def is_address_name(name: str) -> bool:
    """Returns whether the name could be resolved on the network. Its domain may be `lbd`."""
    return len(name) <= ADDRESS_CHARS_MAX and SHAPE.fullmatch(name) is not None
