"""A RunRequest of another host, checked: nothing behind this file doubts one.

What is shown to people is made harmless rather than refused; everything else must be as lbm.proto
says, or the request is refused in one line.
"""

import math
import re
from dataclasses import replace

from google.protobuf.message import DecodeError

from lbd.config.schema import LbmConfig
from lbd.errors import PeerError
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.jobs import Job
from lbd.lbm.session.request import (
    MEMORY_BYTES_MAX,
    PATH_BYTES_MAX,
    TIMEOUT_S_MAX,
    WORDS_MAX,
    are_paths,
)
from lbd.model import NO_NEEDS, HostId, JobId, Needs
from lbd.net.gen import lbm_pb2
from lbd.net.parsing import parsed
from lbd.text.needs_words import are_needs, read_needs_text
from lbd.text.one_line import one_line

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # it names a cgroup directory
QUEUED_ID = re.compile(r"[1-9][0-9]{0,18}")  # of a job of the queue
LIMITS_MAX = 64
TEXT_CHARS_MAX = 255
NICE_MAX = 19
WORD = re.compile(r"[^\s\0]{0,63}")  # part of a stamp, which travels on as words


def read_run_request(
    message: bytes | memoryview, limit_bytes: int, caller: str, *, names_job: bool = True
) -> lbm_pb2.RunRequest:
    """`caller`: the host that sent it, "" = it may be any. `names_job`: by its id something is to
    run, so that must be one of the origin's. Raises PeerError."""
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
    """Which field cannot be; "" if all can."""
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
        "nice": -NICE_MAX - 1 <= request.nice <= NICE_MAX,
        "needs": are_needs(request.needs),
        "directory_stamp": bool(WORD.fullmatch(stamp.kernel) and WORD.fullmatch(stamp.file_system)),
    }
    return ", ".join(name for name, holds in rules.items() if not holds)


def count_words(request: lbm_pb2.RunRequest) -> int:
    """Of the order for the keeper, where each takes more bytes than here."""
    stage = request.workdir
    return len(request.argv) + len(request.environment) + len(stage.send) + len(stage.fetch)


def is_job_of(origin: str, job_id: str) -> bool:
    """Is it ORIGIN-NUMBER, with whatever the origin writes after that? Then it is the name of no
    other host's job here, nor of an attempt of the queue's (JOB.ATTEMPT)."""
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
        # A nested one's parent may hold the very slot it would wait for. What has its files here
        # was let in with them, which are unpacked in their turn like any command.
        may_exceed=nested if forced else has_files,
        needs_no_slot=request.workdir.step == "pack",
        slot_patience_s=limit_s if forced else None,
        slot_retry_s=lbm.named_wait_s if forced else None,
        timeout_s=request.timeout_s,
        is_evictable=request.may_restart,
        needs=needs_of(request),
    )


def needs_of(request: lbm_pb2.RunRequest) -> Needs:
    """Its limit of memory counts as given, but is no reason to refuse it."""
    if request.workdir.step == "unpack":
        return NO_NEEDS
    return replace(read_needs_text(request.needs), counted_bytes=request.memory_bytes)


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
