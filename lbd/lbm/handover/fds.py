"""The descriptors that go from one LBM through the keeper to the next, by their place."""

from lbd.local.unwanted_descriptors import close_apart


class NotNow(Exception):
    """Something is half done, so its state is not defined: a thread is in a system call."""


class Bundle:
    """Descriptors to give away. They stay ours, too, until we end."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def add(self, descriptor: int) -> int:
        """Adds a descriptor. Returns its place; 0 for none (a negative number)."""
        if descriptor < 0:
            return 0
        self.descriptors.append(descriptor)
        return len(self.descriptors)


class Given:
    """The received descriptors; the record is at place 0. A taker closes what it takes; `close`
    closes the rest."""

    def __init__(self, descriptors: list[int]) -> None:
        self._left = dict(enumerate(descriptors))

    def take(self, place: int) -> int:
        """Raises KeyError if it is taken already, or there is no such place."""
        return self._left.pop(place)

    def give_back(self, place: int, descriptor: int) -> None:
        """Puts back a descriptor that is not needed after all."""
        self._left[place] = descriptor

    def close(self) -> None:
        close_apart(list(self._left.values()))
        self._left.clear()
