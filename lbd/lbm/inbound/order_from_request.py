"""From a request of another host's user to the order for our keeper, and why it failed."""

import errno
import functools
import os
from collections.abc import Sequence

from lbd.config.schema import Config
from lbd.keeper.gate import ACCOUNT, REFUSED
from lbd.keeper.limits.ceilings import nice_of
from lbd.keeper.limits.time_limits import KEEPER
from lbd.keeper.program_rules import is_code
from lbd.keeper.run_as import CLOSED, LocalUser
from lbd.keeper.spawn_order import BEHIND, IN_FRONT, Order
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.core.admission import not_allowed, some_of
from lbd.lbm.core.environment import names_shown
from lbd.lbm.keeper_link import SpawnFailed
from lbd.lbm.staging.step import step_words
from lbd.net.gen import lbm_pb2
from lbd.text.one_line import one_line
from lbd.text.units import show_size


def make_order(
    request: lbm_pb2.RunRequest,
    run_as: LocalUser | None,
    config: Config,
    workdir: bytes = b"",
    limited_cpu: bool = True,
) -> Order:
    """The command as asked, in an environment that tells it where it is; in `workdir`, if any."""
    environment: dict[bytes, bytes] = {}
    for item in request.environment:
        name, _, text = item.partition(b"=")
        environment[name] = text
    environment.update(
        {
            b"LBD_JOB_ID": request.job_id.encode(),
            b"LBD_HOST": config.host.name.encode(),
            b"LBD_ORIGIN": request.origin.encode(),
            b"LBD_DEPTH": b"%d" % (request.hops + 1),
        }
    )
    # An lbrun in there must ask this host's LBM, not the one the caller's configuration names.
    environment.pop(b"LBD_CONFIG", None)
    if config.path:
        environment[b"LBD_CONFIG"] = absolute(config.path)
    if workdir:
        environment[b"PWD"] = workdir
    if run_as is not None and run_as.name != request.user:
        environment.update(account_variables(run_as))
    argv, step = list(request.argv), request.workdir
    if worker := step.step in ("unpack", "pack", "collect"):
        argv = step_words(step.step.encode(), config.stage, step.send, step.fetch)
    nice = max(0, request.nice)  # a higher priority is nobody's to ask for from afar
    return Order(
        job=request.job_id,
        argv=argv,
        worker=worker,
        environment=environment,
        directory=workdir or request.directory or b"/",
        umask=request.umask,
        limits=tuple([(item.resource, item.soft, item.hard) for item in request.limits]),
        user=(run_as.uid, run_as.gid, *sorted(run_as.groups)) if run_as else (),
        nice=nice if limited_cpu else nice_of(config.limits.cpu_weight, nice),
        ignored_signals=request.ignored_signals,
        no_new_privileges=request.no_new_privileges or config.users.no_new_privileges,
        memory_bytes=memory_limit(request, config),
        processes=0 if worker else config.limits.job_processes,
        closed_fds=request.closed_fds & 7,
        stamp=stamp_of(request),
        terminal=place_of(request),
        allowed=() if worker else tuple(config.admission.programs),
        denied=() if worker else tuple(config.admission.deny_programs),
    )


def withheld_here(request: lbm_pb2.RunRequest, config: Config) -> str:
    """Of its environment, by the owner's rules for programs; for its user, with -v."""
    if not (config.admission.programs or config.admission.deny_programs):
        return ""
    names = [item.partition(b"=")[0] for item in request.environment]
    dropped = [name.decode(errors="replace") for name in names if is_code(name)]
    rule = "programs" if config.admission.programs else "deny_programs"
    if not dropped:
        return ""
    return f"variables withheld there (admission.{rule}): {names_shown(dropped)}"


@functools.lru_cache(maxsize=1)
def absolute(path: str) -> bytes:
    """An LBM has one configuration, and stays where it is."""
    return os.fsencode(os.path.abspath(path))


def memory_limit(request: lbm_pb2.RunRequest, config: Config) -> int:
    """The lower of what was asked for and what there is; 0 = none."""
    wanted, allowed = request.memory_bytes, config.limits.job_memory_bytes
    return min(wanted, allowed) if wanted and allowed else wanted or allowed


def over_memory(request: lbm_pb2.RunRequest, config: Config) -> str:
    """Why it was killed, for its user."""
    limit_bytes = memory_limit(request, config)
    if not limit_bytes:
        return "killed: the commands of other hosts used more than allowed (limits.memory_bytes)"
    owners = limit_bytes != request.memory_bytes
    size = f"killed: over its memory limit of {show_size(limit_bytes)}"
    return f"{size} (limits.job_memory_bytes)" if owners else size


def is_rule(phase: str) -> bool:
    """Is it the owner's word that it failed by?"""
    return phase.startswith(("admission.", ACCOUNT))


def is_link_to(name: str, paths: Sequence[str]) -> str:
    """`paths`: where the program was found and what that is; none from an earlier keeper."""
    found, program = paths if len(paths) == 2 else ("", "")
    if found in ("", program):
        return "" if program in ("", name) else f"{name} is {program}"
    if not os.path.isabs(found):  # found from its directory: ./a.out
        return f"{found} is {program}"
    return f"{found} is a link to {program}"


def phase_of(phase: str) -> str:
    """As the other end knows it. That the keeper is ending is nobody's fault: another follows."""
    if is_rule(phase):
        return "admission"
    return "late" if phase == KEEPER else phase


def account_variables(account: LocalUser) -> dict[bytes, bytes]:
    """What a login would set: it is not who asked, whose home would be closed to it."""
    name, home, shell = map(os.fsencode, (account.name, account.home, account.shell))
    return {b"USER": name, b"LOGNAME": name, b"HOME": home, b"SHELL": shell}


def place_of(request: lbm_pb2.RunRequest) -> int:
    """Where the command is to stand to its terminal; 0 without one."""
    if not request.HasField("terminal"):
        return 0
    return BEHIND if request.terminal.background else IN_FRONT


def stamp_of(request: lbm_pb2.RunRequest) -> Stamp | None:
    """What the directory must be; None: any of that name will do."""
    if not request.HasField("directory_stamp"):
        return None
    sent = request.directory_stamp
    return Stamp(
        sent.kernel, sent.device, sent.inode, sent.born_ns, sent.changed_ns, sent.file_system
    )


def explain(request: lbm_pb2.RunRequest, trouble: SpawnFailed, allowed: Sequence[str] = ()) -> str:
    """One line for the user: what of the request could not be met here. `allowed`: what
    admission.programs lets run here."""
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
        if trouble.phase == "admission.programs" and allowed:
            because.append(f"only {some_of(allowed)} may run")
        return not_allowed(name, trouble.phase, ", and ".join(filter(None, because)))
    if (trouble.phase, trouble.number) == (REFUSED, errno.EPERM):
        return (
            f"its keeper does not become {request.user}: it may run with other [users] settings "
            "than lbd.toml has; systemctl restart lbd-keeper there"
        )
    if trouble.phase == "exec":
        return f"{request.argv[0].decode(errors='replace')}: {what}"
    if trouble.phase == KEEPER:
        return "its keeper was stopped"
    return f"{trouble.phase}: {what}"
