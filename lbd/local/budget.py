"""What many hold of something together, such as bytes that wait to be dealt with. Pure.

Each key may hold `each`, and all of them `total`; who would hold more is told so, and has what it
had. A key that holds nothing is forgotten.
"""

from collections.abc import Hashable


class Budget:
    def __init__(self, each: int, total: int) -> None:
        self.each = each
        self.total = total
        self.held = 0
        self._of: dict[Hashable, int] = {}

    def take(self, key: Hashable, amount: int) -> bool:
        """Takes so many bytes; returns False if there is no room for them."""
        may = self._of.get(key, 0) + amount <= self.each and self.held + amount <= self.total
        if may:
            self.add(key, amount)
        return may

    def add(self, key: Hashable, amount: int) -> None:
        """Adds what is held already, even beyond the limit."""
        self._of[key] = self._of.get(key, 0) + amount
        self.held += amount

    def give_back(self, key: Hashable, amount: int) -> None:
        self.held -= amount
        if (left := self._of.get(key, 0) - amount) > 0:
            self._of[key] = left
        else:
            self._of.pop(key, None)

    def of(self, key: Hashable) -> int:
        return self._of.get(key, 0)
