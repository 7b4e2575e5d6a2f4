"""The settings of lbd.toml about a host's resources: `gpu = 2`, `scratch = "200G"`, features."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lbd.config.fields import Section, shown
from lbd.text.needs import (
    FEATURES_GIVEN_MAX,
    NAMES_MAX,
    read_amount,
    read_name,
    read_need_name,
)
from lbd.text.one_line import one_line
from lbd.text.spelling import hint
from lbd.text.units import show_size, size_bytes

Amounts = tuple[tuple[str, int], ...]  # of each resource, in order of their names
MEMORY_LIMIT_BYTES = 1 << 52  # more than a host may announce


@dataclass(frozen=True, slots=True)
class ResourcesConfig(Section):
    # how many there are of a resource that commands ask for by `--need NAME`: a number of things
    # that are handed out by index, from 0 on, or a size. `gpu` is found where it is not set; 0 =
    # there is none
    amounts: Amounts = field(
        default=(),
        metadata={"key": "NAME", "default": "0", "allowed": "a number, or a size in quotes"},
    )


def with_amount(known: Amounts, name: str, value: object) -> Amounts:
    """Returns the amounts with one more. Raises ValueError."""
    read_need_name(name)
    if type(value) not in (int, str):
        raise ValueError(f'{one_line(shown(value), 60)} is not an amount; allowed: 2, "200G"')
    found = {**dict(known), name: read_amount(str(value))}
    if len(found) > NAMES_MAX:
        raise ValueError(f"more than {NAMES_MAX} resources")
    return tuple(sorted(found.items()))


def check_names(names: Sequence[str]) -> None:
    """Raises ValueError."""
    if len(names) > NAMES_MAX:
        raise ValueError(f"more than {NAMES_MAX}")
    for name in names:
        read_need_name(name)


def fault_of_name(name: str, names: Sequence[str]) -> str:
    """Returns why no host of this cluster can have, and no command request, such a resource, or "".
    `names`: the cluster's resources; empty if any name is allowed."""
    if not names or name in names:
        return ""
    return f'this cluster has no resource "{name}" (cluster.resources); {hint(name, names)}'


def check_features(names: Sequence[str]) -> None:
    """Raises ValueError."""
    if len(names) > FEATURES_GIVEN_MAX:
        raise ValueError(f"more than {FEATURES_GIVEN_MAX}")
    for name in names:
        read_name(name)


def check_memory(text: str) -> None:
    """Raises ValueError."""
    if text and not 0 < size_bytes(text) < MEMORY_LIMIT_BYTES:
        raise ValueError(f"must be above 0 and below {show_size(MEMORY_LIMIT_BYTES)}")
