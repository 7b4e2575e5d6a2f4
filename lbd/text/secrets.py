"""Removes secrets from a text. Pure.

A secret is recognised by its shape or by its name. When in doubt it is cut: readers of the text can
do without it.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

CUT = "***"
KNOWN_CHARS_MIN = 6  # a shorter value also occurs inside other words
RANDOM_CHARS_MIN = 24
NAMES = (
    r"(?<=_)pass|passw(?:or)?d|passphrase|pwd|secret|token|credentials?|api[_-]?key|"
    r"private[_-]?key|cookie"
)
BEGIN, END = "-----BEGIN [A-Z0-9 ]{1,40}-----", "-----END [A-Z0-9 ]{1,40}-----"
# Each repetition is bounded: a log may be hostile, and matching must take linear time.
PATTERNS = (
    # a key as in a file, also within one line of JSON or TOML, also truncated
    (re.compile(rf"{BEGIN}(?:(?!-----BEGIN ).){{0,20000}}?(?:{END}|(?=-----BEGIN )|\Z)", re.DOTALL),
     CUT),
    # postgresql://lbd:PASSWORD@host
    (re.compile(r"(?P<before>://[^\s/:@\"']{0,200}:)[^\s/\"'@]{0,1000}@"), rf"\g<before>{CUT}@"),
    # what `lbctl token create` prints
    (re.compile(r"lbd1-[A-Za-z0-9_-]*"), CUT),
    (re.compile(r"(?i)(?P<before>\b(?:bearer|basic)\s{1,9})[A-Za-z0-9+/=._-]{6,}"),
     rf"\g<before>{CUT}"),
)  # fmt: skip
# password = "…", "token": "…", --secret=…, DB_PASSWORD=…
NAMED = re.compile(
    rf"(?i)(?P<before>(?:{NAMES})[a-z0-9_-]{{0,64}}[\"']?\s{{0,9}}[=:]\s{{0,9}})"
    r"(?P<value>\"(?:[^\"\\\n]|\\.){0,2000}\"?|'[^'\n]{0,2000}'?|[^\s,;\]})&\"']+)"
)
RUN = re.compile(rf"[A-Za-z0-9+_=-]{{{RANDOM_CHARS_MIN},}}")
PLAIN_VALUES = frozenset(("true", "false", "null", "none", '""', "''", "[", "{"))


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """`known`: values that are secret wherever they occur."""
    for value in sorted({one for one in known if len(one) >= KNOWN_CHARS_MIN}, key=len)[::-1]:
        text = text.replace(value, CUT)
    for pattern, instead in PATTERNS:
        text = pattern.sub(instead, text)
    text = NAMED.sub(cut_value, text)
    return RUN.sub(lambda found: CUT if looks_random(found[0]) else found[0], text)


def cut_value(found: re.Match[str]) -> str:
    value = found["value"]
    if value.lower() in PLAIN_VALUES or value.replace(".", "").isdecimal():
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['before']}{quote}{CUT}{quote}"


def looks_random(run: str) -> bool:
    """Returns whether a run mixes digits, lower case and upper case as no name does, or is
    hexadecimal of a key's length."""
    kinds = (str.isdigit, str.islower, str.isupper)
    if all(sum(kind(one) for one in run) >= 2 for kind in kinds):
        changes = sum(kind_of(a) != kind_of(b) for a, b in pairwise(run))
        return changes * 3 >= len(run)
    return len(run) >= 32 and re.fullmatch(r"[0-9a-fA-F]+", run) is not None


def kind_of(one: str) -> str:
    return "9" if one.isdigit() else "a" if one.islower() else "A" if one.isupper() else "-"


def secret_values(environment: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the values of variables whose names suggest a secret."""
    is_secret = re.compile(rf"(?i){NAMES}|pass|_key$|^key$|auth")
    return [value for name, value in environment if is_secret.search(name)]
