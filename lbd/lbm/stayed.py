"""What is known of a command that its client runs itself. Pure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbd.lbm.eligible import Run


class Stayed:
    def __init__(self, run: "Run | None" = None) -> None:
        """`run`: there is something to be learnt from it."""
        self._run = run
        self._used: tuple[int | None, float | None] = None, None

    @property
    def measured(self) -> bool:
        """Does the client stay beside the command, to say what it used?"""
        return self._run is not None and self._run.measured

    @property
    def told(self) -> bool:
        """Has the client said what the measured command used, so that has ended?"""
        return self._used != (None, None)

    def used(self, cpu_s: float, status: int) -> None:
        """What the client says of a measured command that has ended."""
        if self._run is not None and self.measured:
            self._run.used(cpu_s, status)
            self._used = status, cpu_s

    def ended(self) -> tuple[int | None, float | None]:
        """Its exit status and CPU time, as far as the client has said."""
        if self._run is not None:
            self._run.ended()
        return self._used
