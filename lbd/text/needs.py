"""Resources and features as people write them: `gpu`, `gpu=2`, `scratch=50G`, `big`.

`lbrun` imports this file before it does anything else, so nothing heavy is imported here.
"""

from lbd.text.units import LARGEST_BYTES, size_bytes

NAME_CHARS_MAX = 32
NAMES_MAX = 16  # resources of a host, or resources that a command needs
FEATURES_GIVEN_MAX, FEATURES_MAX = 32, 64  # a host's features: configured; with those detected
AMOUNT_MAX = LARGEST_BYTES
NAME_RULE = (
    "a name consists of letters, digits, '-', '_' and '.', starts with a letter and has "
    f"at most {NAME_CHARS_MAX} characters"
)


def is_name(text: str) -> bool:
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    return text.isascii() and plain.isalnum() and text[0].isalpha() and len(text) <= NAME_CHARS_MAX


def read_name(text: str) -> str:
    """Raises ValueError."""
    if not is_name(text):
        raise ValueError(f"{text!r}: {NAME_RULE}")
    return text


def read_need_name(text: str) -> str:
    """Returns the name of a resource. Raises ValueError."""
    if text in ("memory", "mem"):
        raise ValueError("memory is requested with --mem and set by host.memory")
    return read_name(text)


def read_amount(text: str) -> int:
    """Reads a whole number or a size, 0 included. Raises ValueError."""
    if text.isascii() and text.isdigit() and len(text) < len(str(AMOUNT_MAX)):
        return int(text)
    if text.isascii() and text.replace(".", "", 1).isdigit() and "." in text:
        raise ValueError(f"{text!r} is not a whole number; only a size may be a fraction: 1.5G")
    try:
        return size_bytes(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an amount; allowed: 2, 50G") from None


def read_need(text: str) -> tuple[str, int]:
    """Reads NAME or NAME=AMOUNT. Raises ValueError."""
    name, equals, amount = text.partition("=")
    before, colon, after = name.partition(":")
    if colon and not equals and is_name(before) and after[:1].isdigit():  # Slurm's syntax
        raise ValueError(f"{text!r}: must be {before}={after}")
    try:
        found = read_amount(amount) if equals else 1
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    if found < 1:
        raise ValueError(f"{text!r}: an amount must be above 0")
    return read_need_name(name), found


def read_features(texts: list[str]) -> list[str]:
    """Returns the features in alphabetical order, each once. Raises ValueError."""
    found = sorted(set(map(read_name, texts)))
    if len(found) > NAMES_MAX:
        raise ValueError(f"more than {NAMES_MAX} features")
    return found


def read_needs(texts: list[str]) -> list[tuple[str, int]]:
    """Returns the needs in order of their names. Raises ValueError."""
    found = dict(map(read_need, texts))
    if len(found) != len(texts):
        raise ValueError("the same resource twice: add the amounts")
    if len(found) > NAMES_MAX:
        raise ValueError(f"more than {NAMES_MAX} resources")
    return sorted(found.items())
