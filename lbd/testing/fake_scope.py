"""A scope for tests of the sampler; it reports the counts that the test sets."""

from lbd.load.scopes import Counts


class FakeScope:
    name = "fake"
    reason = "for a test"

    def __init__(self, scans: bool = False) -> None:
        self.scans = scans
        self.running = 0
        self.blocked = 0
        self.used_s: float | None = 0.0  # CPU time; None: use the machine's

    def read(self) -> Counts:
        return Counts(self.running, self.blocked)

    def cpu_used_s(self) -> float | None:
        return self.used_s
