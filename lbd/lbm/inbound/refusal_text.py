"""Why a command did not begin here, for the user: one line, and the phase in which it failed."""

import errno
import os
from collections.abc import Sequence

from lbd.config.schema import Config
from lbd.keeper.gate import ACCOUNT, REFUSED
from lbd.keeper.limits.time_limits import KEEPER
from lbd.keeper.local_account import CLOSED
from lbd.lbm.core.admission import not_allowed, some_of
from lbd.lbm.keeper_link import SpawnFailed
from lbd.net.gen import lbm_pb2
from lbd.text.missing_program import why_not_run
from lbd.text.one_line import one_line


def is_rule(phase: str) -> bool:
    """Whether a rule of the owner's refused it."""
    return phase.startswith(("admission.", ACCOUNT))


def is_link_to(name: str, paths: Sequence[str]) -> str:
    """`paths`: where the program was found and what that is, if known."""
    found, program = paths if len(paths) == 2 else ("", "")
    if found in ("", program):
        return "" if program in ("", name) else f"{name} is {program}"
    if not os.path.isabs(found):  # found from its directory: ./a.out
        return f"{found} is {program}"
    return f"{found} is a link to {program}"


def phase_of(phase: str) -> str:
    """The phase as the other end knows it. An ending keeper is no fault: another follows."""
    if is_rule(phase):
        return "admission"
    return "late" if phase == KEEPER else phase


def explain_here(request: lbm_pb2.RunRequest, trouble: SpawnFailed, config: Config) -> str:
    if trouble.phase == "directory" and request.origin == config.host.name:
        return one_line(f"{request.directory.decode(errors='replace')}: {trouble}")
    return explain(request, trouble, config.admission.programs)


def explain(request: lbm_pb2.RunRequest, trouble: SpawnFailed, allowed: Sequence[str] = ()) -> str:
    """One line for the user: what could not be met here. `allowed`: by admission.programs."""
    return one_line(_explained(request, trouble, allowed))


def _explained(request: lbm_pb2.RunRequest, trouble: SpawnFailed, allowed: Sequence[str]) -> str:
    what = os.strerror(trouble.number) if trouble.number else "failed"
    if trouble.phase in ("chdir", "directory"):
        staged = request.HasField("workdir")
        directory = "its workdir" if staged else request.directory.decode(errors="replace")
        if trouble.phase == "directory":
            return f"the directory {directory} is not shared with {request.origin}"
        return f"{directory}: {what}"
    if trouble.phase.startswith(ACCOUNT):
        why = CLOSED.get(trouble.phase.removeprefix(ACCOUNT), "may not log in here")
        return f"the account for {request.user} {why} (users.allow)"
    if is_rule(trouble.phase):
        name = request.argv[0].decode(errors="replace")
        because = [is_link_to(name, trouble.paths)]
        if trouble.phase == "admission.programs" and set(trouble.paths[:1]) & set(allowed):
            because[0] += ", which the rule would have to name instead"
        elif trouble.phase == "admission.programs" and allowed:
            because.append(f"only {some_of(allowed)} may run")
        return not_allowed(name, trouble.phase, ", and ".join(filter(None, because)))
    if (trouble.phase, trouble.number) == (REFUSED, errno.EPERM):
        return (
            f"its keeper does not become {request.user}: it may run with other [users] settings "
            "than lbd.toml has; systemctl restart lbd-keeper there"
        )
    if trouble.phase == "exec":
        words = [word.decode(errors="replace") for word in request.argv[:2]]
        return f"{words[0]}: {why_not_run(words, OSError(trouble.number, what))}"
    if trouble.phase == KEEPER:
        return "its keeper was stopped"
    return str(trouble) if trouble.number else f"{trouble.phase}: {what}"
