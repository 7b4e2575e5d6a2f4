"""The notes of packs with unfinished jobs, by name. That of a job, and those of a user, are found
without a look at the others, of which one user can have hundreds of thousands. Each ledger numbers
its own jobs. Pure."""

from bisect import bisect_left, bisect_right, insort
from collections import UserDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from lbd.lbm.staging.pack_store import Note


class OpenNotes(UserDict[str, Note]):
    def __init__(self, notes: Iterable[Note] = ()) -> None:
        self.ledger = ""  # that of the queue as it is now
        # by ledger: the first job of each note, in order
        self._firsts: defaultdict[str, list[int]] = defaultdict(list)
        self._by_first: dict[tuple[str, int], Note] = {}
        self._of_user: dict[int, dict[str, Note]] = {}
        super().__init__({note.name: note for note in notes})

    def __setitem__(self, name: str, note: Note) -> None:
        self.pop(name, None)
        super().__setitem__(name, note)
        self._of_user.setdefault(note.uid, {})[name] = note
        if (key := (note.ledger, note.first)) not in self._by_first:
            insort(self._firsts[note.ledger], note.first)
        self._by_first[key] = note

    def __delitem__(self, name: str) -> None:
        note = self[name]
        super().__delitem__(name)
        del self._of_user[note.uid][name]
        if not self._of_user[note.uid]:
            del self._of_user[note.uid]
        if self._by_first.get(key := (note.ledger, note.first)) is note:
            del self._by_first[key]
            firsts = self._firsts[note.ledger]
            del firsts[bisect_left(firsts, note.first)]
            if not firsts:
                del self._firsts[note.ledger]

    @property
    def users(self) -> Collection[int]:
        return self._of_user.keys()

    def of_user(self, uid: int) -> Collection[Note]:
        """In the order in which they were added."""
        return self._of_user.get(uid, {}).values()

    def of_job(self, job: int, ledger: str | None = None) -> Note | None:
        """Returns the note of the submission that the job belongs to, of that ledger, or of the
        queue as it is now."""
        ledger = self.ledger if ledger is None else ledger
        firsts = self._firsts.get(ledger, ())
        at = bisect_right(firsts, job)
        note = self._by_first[ledger, firsts[at - 1]] if at else None
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
