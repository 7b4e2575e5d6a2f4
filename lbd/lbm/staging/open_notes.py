"""The notes of packs with unfinished jobs, by name. That of a job is found without a look at the
others, of which one user can have hundreds of thousands. Pure."""

from bisect import bisect_left, bisect_right, insort
from collections import UserDict
from collections.abc import Iterable, Iterator, Sequence

from lbd.lbm.staging.pack_store import Note


class OpenNotes(UserDict[str, Note]):
    def __init__(self, notes: Iterable[Note] = ()) -> None:
        self._firsts: list[int] = []  # the first job of each note, in order
        self._by_first: dict[int, Note] = {}
        super().__init__({note.name: note for note in notes})

    def __setitem__(self, name: str, note: Note) -> None:
        self.pop(name, None)
        super().__setitem__(name, note)
        if note.first not in self._by_first:
            insort(self._firsts, note.first)
        self._by_first[note.first] = note

    def __delitem__(self, name: str) -> None:
        note = self[name]
        super().__delitem__(name)
        if self._by_first.get(note.first) is note:
            del self._by_first[note.first]
            del self._firsts[bisect_left(self._firsts, note.first)]

    def of_job(self, job: int) -> Note | None:
        """Returns the note of the submission that the job belongs to."""
        at = bisect_right(self._firsts, job)
        note = self._by_first[self._firsts[at - 1]] if at else None
        return note if note is not None and job < note.first + note.count else None

    def with_jobs(self, jobs: Sequence[int]) -> Iterator[tuple[Note, Sequence[int]]]:
        """Yields the notes of these jobs, each with its own ones. `jobs`: in order."""
        at = 0
        while at < len(jobs):
            if (note := self.of_job(jobs[at])) is None:
                at += 1
                continue
            end = bisect_left(jobs, note.first + note.count, at)
            yield note, jobs[at:end]
            at = end
