"""A cache whose entries are valid for a limited time. Pure."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
KNOWN_MAX = 1024


class TimedCache(Generic[Key, Value]):
    """Forgets everything when it is full: entries still in use come back soon."""

    def __init__(self, known_s: float, known_max: int = KNOWN_MAX) -> None:
        self._known: dict[Key, tuple[Value, float]] = {}
        self._known_s, self._known_max = known_s, known_max

    def get(self, key: Key, now_s: float) -> tuple[Value] | None:
        """Returns the value in a tuple, as it may be None itself; None: unknown or expired."""
        found = self._known.get(key)
        return (found[0],) if found is not None and now_s < found[1] else None

    def put(self, key: Key, value: Value, now_s: float, known_s: float | None = None) -> Value:
        """`known_s`: how long to keep this entry, if not the default."""
        if key not in self._known and len(self._known) >= self._known_max:
            self._known.clear()
        self._known[key] = value, now_s + (self._known_s if known_s is None else known_s)
        return value

    def drop(self, key: Key) -> None:
        self._known.pop(key, None)

    def age_s(self, key: Key, now_s: float) -> float:
        """Returns how long the value has been cached; 0 if it is not."""
        _, until_s = self._known.get(key, (None, now_s + self._known_s))
        return now_s - until_s + self._known_s
