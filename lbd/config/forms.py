"""The formats of texts in lbd.toml that a field's type and bounds do not express."""

from collections.abc import Callable, Sequence
from typing import Never

from lbd.config.fields import shown
from lbd.config.resources import check_features, check_memory, check_names
from lbd.text.needs_words import read_feature_rule
from lbd.text.windows import read_window


def each(check: Callable[[str], object]) -> Callable[[Sequence[str]], object]:
    return lambda texts: [check(text) for text in texts]


def check_map(text: str) -> None:
    """Raises ValueError."""
    kind, _, name = text.partition(":")
    if text not in ("name", "uid") and not (kind == "single" and name):
        raise ValueError(f'{shown(text)} is not known; "name", "uid" or "single:NAME"')


def check_join(text: str) -> None:
    """Raises ValueError."""
    address, _, port = text.rpartition(":")
    if text and not (address and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"{shown(text)} must be address:port, like 10.0.0.1:7901")


# Section, key, and a check that raises ValueError for an invalid value.
FORMS: tuple[tuple[str, str, Callable[[Never], object]], ...] = (
    ("admission", "everybody_when", each(read_window)),
    ("admission", "when", each(read_window)),
    ("cluster", "join", check_join),
    ("cluster", "resources", check_names),
    ("eligibility", "features", each(read_feature_rule)),
    ("host", "features", check_features),
    ("host", "memory", check_memory),
    ("users", "map", check_map),
)
