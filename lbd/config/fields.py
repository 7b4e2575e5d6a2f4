"""A field of lbd.toml: its type, its bounds, and the check of a value.

The sections in schema.py and the other files of this package are made of these.
"""

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import TypeVar

from lbd.errors import ConfigError
from lbd.text.needs import is_name
from lbd.text.spelling import hint

T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values a field may have, besides its type."""

    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    prefix: str = ""  # also allowed: this followed by a name

    def __str__(self) -> str:
        if self.choices:
            named = (f"{self.prefix}NAME",) if self.prefix else ()
            return " | ".join((*self.choices, *named))
        if self.low is None or self.high is None:
            return ""
        return " to ".join(f"{x:.0f}" if x == int(x) else f"{x:g}" for x in (self.low, self.high))


def within(default: T, low: float, high: float) -> T:
    """Declares a number from `low` to `high`, both included."""
    return field(default=default, metadata={"bounds": Bounds(low, high)})


def one_of(choices: tuple[str, ...], prefix: str = "") -> str:
    """Declares one of these words, the first by default; or `prefix` and a name."""
    return field(default=choices[0], metadata={"bounds": Bounds(None, None, choices, prefix)})


def listed(*example: str) -> tuple[str, ...]:
    """Declares a list of words, empty by default. The example is for error messages."""
    return field(default=(), metadata={"like": example})


def bounds_of(metadata: Mapping[str, object]) -> Bounds:
    """Returns the bounds a field was declared with."""
    bounds = metadata.get("bounds")
    return bounds if isinstance(bounds, Bounds) else Bounds()


def as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def fault_of(item: "Field[object]", value: object) -> str:
    """Returns why `value` cannot be this field's value, or ""."""
    kind = item.type
    bounds = bounds_of(item.metadata)
    if kind == NAMES:
        like = item.metadata.get("like", [value] if isinstance(value, str) else ("cc", "gcc -c"))
        return "" if are_names(value) else f"{shown(value)} is not a list like {shown(like)}"
    if kind == NUMBERS:
        return "" if are_numbers(value) else f"{shown(value)} is not a list like [2.0, 60.0]"
    if kind is float and type(value) is int:
        value = as_float(value)
    if kind in (bool, int, float, str) and type(value) is not kind:
        return f"{shown(value)} is not {kind_name(item)}{f' ({bounds})' if str(bounds) else ''}"
    if bounds.choices and value not in bounds.choices:
        text = str(value)
        if bounds.prefix and text.startswith(bounds.prefix):
            rest = text.removeprefix(bounds.prefix)
            return "" if is_name(rest) else f"{shown(rest)} is not a name like users or gpu-0"
        more = (f"{bounds.prefix}NAME",) if bounds.prefix else ()
        return f"{shown(value)} is not known; {hint(str(value), (*bounds.choices, *more))}"
    if bounds.low is None or bounds.high is None or not isinstance(value, int | float):
        return ""
    inside = bounds.low <= value <= bounds.high  # false for NaN too
    return "" if inside else f"{value!r} is out of range; allowed: {bounds}"


NAMES = tuple[str, ...]
NUMBERS = tuple[float, ...]


def are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, str) and v for v in value)


def are_numbers(value: object) -> bool:
    return isinstance(value, list | tuple) and all(type(v) in (int, float) for v in value)


KIND_NAMES: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
}


def kind_name(item: "Field[object]") -> str:
    is_time = item.name.endswith("_s") and item.type in (int, float)
    return KIND_NAMES[item.type] + (" of seconds" if is_time else "")


def shown(value: object) -> str:
    """Formats a value roughly as it would be written in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{repr(value)[1:-1]}"' if isinstance(value, str) else repr(value)
    if isinstance(value, list | tuple):
        text = f"[{', '.join(map(shown, value))}]"
    elif is_dataclass(value):
        pairs = (f"{one.name} = {shown(getattr(value, one.name))}" for one in fields(value))
        text = f"{{{', '.join(pairs)}}}"
    return text if len(text) <= 60 else text[:57] + "..."


class Section:
    """A section validates itself, whether it comes from a file or a test."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            if fault := fault_of(item, getattr(self, item.name)):
                raise ConfigError(f"{item.name}: {fault}")
