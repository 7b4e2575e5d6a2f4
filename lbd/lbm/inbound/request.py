"""The RunRequest of another host: checked here, and trusted everywhere else.

Also what follows from one: the order for our keeper, and why it failed. Text shown to people is
made harmless rather than refused. Everything else must be as lbm.proto says, or the request is
refused in one line.
"""

import functools
import math
import os
import re
from dataclasses import replace

from google.protobuf.message import DecodeError

from lbd.config.schema import Config, LbmConfig
from lbd.errors import LbdError, PeerError
from lbd.keeper.limits.ceilings import nice_of
from lbd.keeper.local_account import LocalUser, Refuse
from lbd.keeper.program_rules import is_code
from lbd.keeper.spawn_order import BEHIND, IN_FRONT, Order
from lbd.launch.directory_stamp import Stamp, on_its_host
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.environment import names_shown
from lbd.lbm.core.jobs import Job
from lbd.lbm.inbound.refusal_text import explain, is_rule
from lbd.lbm.keeper_link import KeeperLink, SpawnFailed
from lbd.lbm.session.request import (
    MEMORY_BYTES_MAX,
    PATH_BYTES_MAX,
    TIMEOUT_S_MAX,
    WORDS_MAX,
    are_paths,
)
from lbd.lbm.staging.step import step_words
from lbd.model import NO_NEEDS, HostId, JobId, Needs
from lbd.net.gen import lbm_pb2
from lbd.net.parsing import parsed
from lbd.text.job_limits import EXCLUDED_MAX
from lbd.text.job_phrases import CHILD_WAS
from lbd.text.needs_words import are_needs, read_needs_text
from lbd.text.one_line import one_line
from lbd.text.units import show_size

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # it names a cgroup directory
QUEUED_ID = re.compile(r"[1-9][0-9]{0,18}")  # of a job of the queue
LIMITS_MAX = 64
TEXT_CHARS_MAX = 255
NICE_MAX = 19
NO_DESCRIPTORS = 7  # all three are closed
PROGRAM_LOOK_S = 2.0
WORD = re.compile(r"[^\s\0]{0,63}")  # part of a stamp, which is passed on as words


def read_run_request(
    message: bytes | memoryview, limit_bytes: int, caller: str, *, names_job: bool = True
) -> lbm_pb2.RunRequest:
    """`caller`: the host that sent it, "" = any. `names_job`: something will run under its id, so
    it must be one of the origin's. Raises PeerError."""
    if len(message) > limit_bytes:
        raise PeerError(
            f"the request has {len(message)} bytes; lbm.max_request_bytes is {limit_bytes}"
        )
    try:
        request = parsed(lbm_pb2.RunRequest, bytes(message))
    except DecodeError:
        raise PeerError("the request is not a RunRequest") from None
    if fault := fault_of(request):
        raise PeerError(f"the request is not valid: {fault}")
    if caller not in ("", request.origin):
        raise PeerError(f"{caller} asks in the name of {request.origin}")
    if names_job and not is_job_of(request.origin, request.job_id):
        raise PeerError(f"job id {request.job_id} does not belong to {request.origin}")
    request.name = one_line(request.name, TEXT_CHARS_MAX)
    return request


def fault_of(request: lbm_pb2.RunRequest) -> str:
    """Returns the fields that are not valid; "" if all are."""
    directory, stamp = request.directory, request.directory_stamp
    argv, environment = request.argv, request.environment
    rules = {
        "job_id": JOB_ID.fullmatch(request.job_id) is not None,
        "origin": is_text(request.origin),
        "user": is_text(request.user),
        "argv": bool(argv) and b"\0" not in b"".join(argv),
        "environment": b"\0" not in b"".join(environment),
        "argv, environment and stage": count_words(request) <= WORDS_MAX,
        "paths": not request.HasField("workdir")
        or are_paths(request.workdir.send, request.workdir.fetch),
        "directory": b"\0" not in directory
        and len(directory) <= PATH_BYTES_MAX
        and (directory.startswith(b"/") or not directory or request.HasField("workdir")),
        "umask": request.umask <= 0o777,
        "closed_fds": request.closed_fds <= 7,
        "timeout_s": math.isfinite(request.timeout_s) and 0 <= request.timeout_s <= TIMEOUT_S_MAX,
        "memory_bytes": request.memory_bytes <= MEMORY_BYTES_MAX,
        "limits": len(request.limits) <= LIMITS_MAX,
        "excluded": len(request.excluded) <= EXCLUDED_MAX,
        "nice": -NICE_MAX - 1 <= request.nice <= NICE_MAX,
        "needs": are_needs(request.needs),
        "directory_stamp": bool(WORD.fullmatch(stamp.kernel) and WORD.fullmatch(stamp.file_system)),
    }
    return ", ".join(name for name, holds in rules.items() if not holds)


def count_words(request: lbm_pb2.RunRequest) -> int:
    """Counts the words of the order for the keeper, where each takes more bytes than here."""
    stage = request.workdir
    return len(request.argv) + len(request.environment) + len(stage.send) + len(stage.fetch)


def is_job_of(origin: str, job_id: str) -> bool:
    """Whether it is ORIGIN-NUMBER, with whatever the origin adds. Then it cannot be the name of
    another host's job here, nor of an attempt of the queue's (JOB.ATTEMPT)."""
    prefix, _, own = job_id.rpartition("-")
    return bool(prefix and own) and prefix == origin


def is_text(text: str) -> bool:
    return 0 < len(text) <= TEXT_CHARS_MAX and text.isprintable()


def spec_of(request: lbm_pb2.RunRequest, lbm: LbmConfig) -> e.Spec:
    nested, forced = request.hops > 0, request.forced
    has_files = request.HasField("workdir") and request.workdir.step != "unpack"
    limit_s = lbm.named_wait_s if nested else max(lbm.named_wait_s, lbm.named_limit_s)
    return e.Spec(
        JobId(request.job_id),
        e.Kind.ATTACHED,
        request.user,
        lbm.kill_grace_s,
        (request.slots or 1, request.slots_most or 1),
        # The parent of a nested command may hold the very slot it would wait for. A command that
        # has its files here was admitted with them, when they were unpacked in their turn like any
        # command.
        may_exceed=nested if forced else has_files,
        needs_no_slot=request.workdir.step == "pack",
        slot_patience_s=limit_s if forced else None,
        slot_retry_s=lbm.named_wait_s if forced else None,
        timeout_s=request.timeout_s,
        is_evictable=request.may_restart,
        needs=needs_of(request),
    )


def needs_of(request: lbm_pb2.RunRequest) -> Needs:
    """Its memory limit counts as given, but is no reason to refuse it."""
    if request.workdir.step == "unpack":
        return NO_NEEDS
    needs, most = read_needs_text(request.needs), request.memory_bytes
    return replace(needs, counted_bytes=most) if most else needs


def job_of(request: lbm_pb2.RunRequest, own: HostId, unix_s: float) -> Job:
    return Job(
        JobId(request.job_id),
        tuple(request.argv),
        request.user,
        HostId(request.origin),
        own,
        submitted=unix_s,
        name=request.name,
        foreign=True,
        uid=request.uid,
    )


def make_order(
    request: lbm_pb2.RunRequest,
    run_as: LocalUser | None,
    config: Config,
    workdir: bytes = b"",
    limited_cpu: bool = True,
) -> Order:
    """The requested command, in an environment that says where it is; in `workdir`, if any."""
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
    # An lbrun in there must ask this host's LBM, not the one in the caller's configuration.
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
    nice = max(0, request.nice)  # another host cannot ask for a higher priority
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
        stamp=stamp_of(request, config.host.name),
        terminal=place_of(request),
        allowed=() if worker else tuple(config.admission.programs),
        denied=() if worker else tuple(config.admission.deny_programs),
    )


def withheld_here(request: lbm_pb2.RunRequest, config: Config) -> str:
    """The variables withheld by the owner's rules for programs; for its user, with -v."""
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
    """Cached: an LBM has one configuration, and never changes its directory."""
    return os.fsencode(os.path.abspath(path))


def memory_limit(request: lbm_pb2.RunRequest, config: Config) -> int:
    """The lower one of the requested and the allowed limit; 0 = none."""
    wanted, allowed = request.memory_bytes, config.limits.job_memory_bytes
    return min(wanted, allowed) if wanted and allowed else wanted or allowed


def said_of_memory(outcome: e.Outcome, request: lbm_pb2.RunRequest, config: Config) -> str:
    """Why it was killed, or that a process of one was that has succeeded all the same."""
    if outcome.cause is e.Cause.MEMORY:
        return over_memory(request, config)
    how = outcome.exit
    if how is not None and how.out_of_memory and outcome.cause is e.Cause.EXITED:
        return f"{CHILD_WAS}{over_memory(request, config)}"
    return ""


def over_memory(request: lbm_pb2.RunRequest, config: Config) -> str:
    """Why it was killed, for its user."""
    limit_bytes = memory_limit(request, config)
    if not (limit_bytes or config.limits.memory_bytes):
        return "killed: its host ran out of memory"
    if not limit_bytes:
        whose = "all commands of other hosts, or yours alone,"
        return f"killed: {whose} used more than allowed (limits.memory_bytes)"
    owners = limit_bytes != request.memory_bytes
    size = f"killed: over its memory limit of {show_size(limit_bytes)}"
    return f"{size} (limits.job_memory_bytes)" if owners else size


def account_variables(account: LocalUser) -> dict[bytes, bytes]:
    """What a login would set: the account is not the asker's, whose home would be closed to it."""
    name, home, shell = map(os.fsencode, (account.name, account.home, account.shell))
    return {b"USER": name, b"LOGNAME": name, b"HOME": home, b"SHELL": shell}


def place_of(request: lbm_pb2.RunRequest) -> int:
    """Whether the command starts in front of or behind its terminal; 0 without one."""
    if not request.HasField("terminal"):
        return 0
    return BEHIND if request.terminal.background else IN_FRONT


def stamp_of(request: lbm_pb2.RunRequest, here: str) -> Stamp | None:
    """What the directory must be; None: any directory of that name."""
    if not request.HasField("directory_stamp"):
        return None
    sent = request.directory_stamp
    when = sent.born_ns, sent.changed_ns, sent.file_system, sent.seen_ns
    stamp = Stamp(sent.kernel, sent.device, sent.inode, *when)
    return on_its_host(stamp) if request.origin == here else stamp


async def at_all_hours(
    link: KeeperLink, request: lbm_pb2.RunRequest, refused: Refuse, config: Config, job: str
) -> Refuse:
    """Returns the refusal by the rules on programs, which hold at all hours, in place of one that
    passes; the same one if there is none, or that is unknown."""
    if refused.then is None or not refused.wait_s:
        return refused
    forbids = await why_forbidden(link, request, refused.then.run_as, config, job)
    return replace(refused, reason=forbids, wait_s=0.0) if forbids else refused


async def why_forbidden(
    link: KeeperLink,
    request: lbm_pb2.RunRequest,
    run_as: LocalUser | None,
    config: Config,
    job: str,
) -> str:
    """Returns why the rules on programs forbid a command that has to wait; "" if they do not, or
    that is unknown.

    The directory does not count, as it may be there by then; so a program in it is not found.
    """
    if not (config.admission.programs or config.admission.deny_programs):
        return ""
    order = make_order(request, run_as, config)
    order.job, order.directory, order.stamp = job, b"/", None
    found = await dry_start(link, request, order, PROGRAM_LOOK_S)
    return found.reason if found is not None and is_rule(found.phase) else ""


async def dry_start(
    link: KeeperLink, request: lbm_pb2.RunRequest, order: Order, patience_s: float
) -> e.NotStarted | None:
    """Returns why the command would not begin, None if it would. `order`: made for `request`, and
    only for this.

    The keeper goes all the way to the point of exec: a child becomes the user, enters the
    directory, compares it, looks for the program, and asks the owner's rules for programs. No more
    can be checked without starting anything. No slot is taken.
    """
    order.check, order.worker, order.closed_fds = True, False, NO_DESCRIPTORS
    order.job = f"check.{order.job}"
    try:
        await link.ask(order, patience_s)
    except SpawnFailed as found:
        return e.NotStarted(explain(request, found, order.allowed), found.phase, found.number)
    except TimeoutError:
        return e.NotStarted("its keeper did not answer in time", "late")
    except LbdError as problem:
        return e.NotStarted(str(problem), "keeper")
    return None
