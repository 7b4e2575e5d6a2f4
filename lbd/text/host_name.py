"""What a host may be called: one definition for the configuration, certificates and messages.

A name becomes part of job ids, of lines that scripts take apart, and of the names in a certificate.
So it is ASCII without a dot at either end, for TLS drops one before it compares, and without `lbd`
as its last label, for in a certificate that marks a name of ours (see `trust.names`). Nor is it a
number, or begins like a task's (`12_3`): the seventh command of a host `3` would be called `3-7`,
and who ends that would end the jobs 3 to 7 of the queue.
"""

import re

LABEL_OF_OURS = ".lbd"
CHARS_MAX = 200  # ours in a certificate are longer by a few
ADDRESS_CHARS_MAX = 253
SHAPE = re.compile(r"(?=[a-z0-9])[a-z0-9_-]+(?:\.[a-z0-9_-]+)*(?<=[a-z0-9])", re.ASCII | re.I)
NUMBERS = re.compile(r"[0-9]+(?:_[0-9].*)?")
NAME_RULE = (
    "is not a valid host name: letters and digits with - . _ between them, at most "
    f"{CHARS_MAX} characters, not just a number, and not ending in {LABEL_OF_OURS}"
)


def is_host_name(name: str) -> bool:
    if len(name) > CHARS_MAX or name.lower().endswith(LABEL_OF_OURS) or NUMBERS.fullmatch(name):
        return False
    return is_address_name(name)


def is_address_name(name: str) -> bool:
    """Returns whether the network might resolve this; its domain may be `lbd`."""
    return len(name) <= ADDRESS_CHARS_MAX and SHAPE.fullmatch(name) is not None
