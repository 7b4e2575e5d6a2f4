"""A job as the keeper knows it."""

import resource
from dataclasses import dataclass, field

from lbd.lbm.stopping import Stopping
from lbd.lbm.treatment import Treated


@dataclass(slots=True)
class Running:
    """A job this keeper has started. `ended` is (wait status, rusage) once its leader is reaped."""

    pid: int
    group: str
    uid: int  # whose it is
    plain: bool = False  # then it has no cgroup but `group`
    begun: bool = False
    ended: tuple[int, resource.struct_rusage] | None = None
    kill_at_s: float | None = None
    treated: Treated = field(default_factory=Treated)
    stopping: Stopping = field(default_factory=Stopping)

    def due_s(self) -> list[float]:
        """When it is to be looked at again, on the monotonic clock."""
        return [at_s for at_s in (self.kill_at_s, self.stopping.look_at_s) if at_s is not None]
