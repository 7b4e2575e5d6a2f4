"""What an LBM hands over to the next one on its host: plain records that share nothing.

It copies values, containers, enums and dataclasses, field by field. Anything else in a state (a
clock, a callback, an open file) is refused, because no restart could hand it over.
"""

import copy
from collections import Counter, OrderedDict, deque
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TypeVar, cast

State = TypeVar("State")
VALUES = (type(None), bool, int, float, str, bytes, Enum)


def handed_over(state: State) -> State:
    """Returns the state as the next LBM gets it. Raises TypeError."""
    return cast("State", _copied(state))


def _copied(value: object) -> object:
    if isinstance(value, VALUES):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)  # no __init__ may change anything
        for field in fields(value):
            object.__setattr__(made, field.name, _copied(getattr(value, field.name)))
        return made
    if isinstance(value, dict) and type(value) in (dict, Counter, OrderedDict):
        return type(value)({_copied(k): _copied(v) for k, v in value.items()})
    if isinstance(value, list | tuple | set | frozenset | deque):
        return type(value)(_copied(one) for one in value)
    raise TypeError(f"a restart cannot hand over {type(value).__name__}: {value!r}")
