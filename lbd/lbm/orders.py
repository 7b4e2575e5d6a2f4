"""From a request of another host's user to the order for our keeper, and why it failed."""

import os

from lbd.config import Config
from lbd.lbm.accounts import ACCOUNT
from lbd.lbm.ceilings import nice_of
from lbd.lbm.limits import KEEPER
from lbd.lbm.link import NotStarted
from lbd.lbm.spawn_order import BEHIND, IN_FRONT, Order
from lbd.lbm.stamp import Stamp
from lbd.lbm.users import CLOSED, LocalUser
from lbd.one_line import one_line
from lbd.rpc.gen import lbm_pb2
from lbd.units import show_size


def make_order(
    request: lbm_pb2.RunRequest,
    run_as: LocalUser | None,
    config: Config,
    stage: bytes = b"",
    limited_cpu: bool = True,
) -> Order:
    """The command as asked, in an environment that tells it where it is now; in `stage`, if any."""
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
        environment[b"LBD_CONFIG"] = os.fsencode(os.path.abspath(config.path))
    if stage:
        environment[b"PWD"] = stage
    if run_as is not None and run_as.name != request.user:
        environment.update(account_variables(run_as))
    worker = request.stage.step in ("unpack", "pack", "collect")
    nice = max(0, request.nice)  # a higher priority is nobody's to ask for from afar
    return Order(
        job=request.job_id,
        argv=worker_words(request.stage, config) if worker else list(request.argv),
        worker=worker,
        environment=environment,
        directory=stage or request.directory or b"/",
        umask=request.umask,
        limits=[(item.resource, item.soft, item.hard) for item in request.limits],
        user=(run_as.uid, run_as.gid, *sorted(run_as.groups)) if run_as else (),
        nice=nice if limited_cpu else nice_of(config.limits.cpu_weight, nice),
        ignored_signals=request.ignored_signals,
        no_new_privileges=request.no_new_privileges or config.users.no_new_privileges,
        memory_bytes=memory_limit(request, config),
        processes=0 if worker else config.limits.job_processes,
        closed_fds=request.closed_fds & 7,
        stamp=stamp_of(request),
        terminal=place_of(request),
        allowed=[] if worker else list(config.admission.programs),
        denied=[] if worker else list(config.admission.deny_programs),
    )


def memory_limit(request: lbm_pb2.RunRequest, config: Config) -> int:
    """The lower of what was asked for and what there is; 0 = none."""
    wanted, allowed = request.memory_bytes, config.limits.job_memory_bytes
    return min(wanted, allowed) if wanted and allowed else wanted or allowed


def over_memory(request: lbm_pb2.RunRequest, config: Config) -> str:
    """Why it was killed, for its user."""
    limit_bytes = memory_limit(request, config)
    if not limit_bytes:
        return (
            "killed: the commands of other hosts were over what they may use (limits.memory_bytes)"
        )
    owners = limit_bytes != request.memory_bytes
    size = f"killed: over its memory limit of {show_size(limit_bytes)}"
    return f"{size} (limits.job_memory_bytes)" if owners else size


def is_rule(stage: str) -> bool:
    """Is it the owner's word that it failed by?"""
    return stage.startswith(("admission.", ACCOUNT))


def stage_of(trouble: NotStarted) -> str:
    """As the other end knows it. That the keeper is ending is nobody's fault: another follows."""
    if is_rule(trouble.stage):
        return "admission"
    return "late" if trouble.stage == KEEPER else trouble.stage


def account_variables(account: LocalUser) -> dict[bytes, bytes]:
    """What a login would set: it is not who asked, whose home would be closed to it."""
    name, home, shell = map(os.fsencode, (account.name, account.home, account.shell))
    return {b"USER": name, b"LOGNAME": name, b"HOME": home, b"SHELL": shell}


def worker_words(step: lbm_pb2.StageStep, config: Config) -> list[bytes]:
    """For stage_worker.py."""
    numbers = (config.stage.max_bytes, config.stage.max_files, len(step.send))
    return [
        step.step.encode(),
        *(b"%d" % number for number in numbers),
        *step.send,
        *step.fetch,
    ]


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


def explain(request: lbm_pb2.RunRequest, trouble: NotStarted) -> str:
    """One line for the user: what of the request could not be met here."""
    return one_line(_explained(request, trouble))


def _explained(request: lbm_pb2.RunRequest, trouble: NotStarted) -> str:
    what = os.strerror(trouble.number) if trouble.number else "failed"
    if trouble.stage in ("chdir", "directory"):
        staged = request.HasField("stage")
        directory = "its stage" if staged else request.directory.decode(errors="replace")
        differs = "not the directory it is at the origin (not shared?)"
        return f"{directory}: {differs if trouble.stage == 'directory' else what}"
    if trouble.stage.startswith(ACCOUNT):
        why = CLOSED.get(trouble.stage.removeprefix(ACCOUNT), "may not log in here")
        return f"the account that {request.user} has {why} (users.allow)"
    if is_rule(trouble.stage):
        name = request.argv[0].decode(errors="replace")
        return f"{name} is not allowed here ({trouble.stage})"
    if trouble.stage == "exec":
        return f"{request.argv[0].decode(errors='replace')}: {what}"
    if trouble.stage == KEEPER:
        return "its keeper was told to end"
    return f"{trouble.stage}: {what}"
