"""Shows a simulation's progress: one line on stderr, overwritten, on a terminal only."""

import sys

WIDTH = 30


class Progress:
    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._shown = sys.stderr.isatty()
        self._draw()

    def one_more(self) -> None:
        self._done += 1
        self._draw()

    def _draw(self) -> None:
        if not self._shown:
            return
        full = WIDTH * self._done // max(1, self._total)
        bar = "#" * full + "." * (WIDTH - full)
        end = "\r\x1b[K" if self._done >= self._total else ""
        print(f"\r{self._what}: {bar} {self._done}/{self._total}{end}", end="", file=sys.stderr)
        sys.stderr.flush()
