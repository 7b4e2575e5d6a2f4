"""What is to be told the dispatcher of this host's attempts, in order. Pure.

While nobody listens an attempt may be stopped and continued any number of times: of what a later
word makes untrue only the last is kept, so an attempt has three things to be told at most.
"""

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

HALTS = ("stopped", "continued")


class News(Protocol):
    """Of an attempt, as in dispatch.proto."""

    job: str
    attempt: int
    event: str


Told = TypeVar("Told", bound=News)


@dataclass(slots=True)
class Untold(Generic[Told]):
    _news: dict[tuple[str, int, str], Told] = field(default_factory=dict)

    def add(self, news: Told) -> None:
        key = news.job, news.attempt, HALTS[0] if news.event in HALTS else news.event
        self._news.pop(key, None)
        self._news[key] = news

    def take(self) -> list[Told]:
        """All of it, which is told by that."""
        news, self._news = list(self._news.values()), {}
        return news
