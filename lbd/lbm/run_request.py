"""A RunRequest of another host, checked: nothing behind this file doubts one.

What is shown to people is made harmless rather than refused; everything else must be as lbm.proto
says, or the request is refused in one line.
"""

import math
import re

from google.protobuf.message import DecodeError

from lbd.errors import PeerError
from lbd.lbm.request import MEMORY_BYTES_MAX, TIMEOUT_S_MAX, WORDS_MAX
from lbd.one_line import one_line
from lbd.rpc.gen import lbm_pb2

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
    request = lbm_pb2.RunRequest()
    try:
        request.ParseFromString(bytes(message))
    except DecodeError:
        raise PeerError("the request is not a RunRequest") from None
    if fault := fault_of(request):
        raise PeerError(f"the request makes no sense here: {fault}")
    if caller not in ("", request.origin):
        raise PeerError(f"{caller} asks in the name of {request.origin}")
    if names_job and not is_job_of(request.origin, request.job_id):
        raise PeerError(f"job id {request.job_id} is none of {request.origin}'s")
    request.name = one_line(request.name, TEXT_CHARS_MAX)
    return request


def fault_of(request: lbm_pb2.RunRequest) -> str:
    """Which field cannot be; "" if all can."""
    directory, stamp = request.directory, request.directory_stamp
    rules = {
        "job_id": JOB_ID.fullmatch(request.job_id) is not None,
        "origin": is_text(request.origin),
        "user": is_text(request.user),
        "argv": bool(request.argv) and b"\0" not in b"".join(request.argv),
        "environment": b"\0" not in b"".join(request.environment),
        "argv and environment": len(request.argv) + len(request.environment) <= WORDS_MAX,
        "directory": b"\0" not in directory
        and (directory.startswith(b"/") or not directory or request.HasField("stage")),
        "umask": request.umask <= 0o777,
        "closed_fds": request.closed_fds <= 7,
        "timeout_s": math.isfinite(request.timeout_s) and 0 <= request.timeout_s <= TIMEOUT_S_MAX,
        "memory_bytes": request.memory_bytes <= MEMORY_BYTES_MAX,
        "limits": len(request.limits) <= LIMITS_MAX,
        "nice": -NICE_MAX - 1 <= request.nice <= NICE_MAX,
        "directory_stamp": bool(WORD.fullmatch(stamp.kernel) and WORD.fullmatch(stamp.file_system)),
    }
    return ", ".join(name for name, holds in rules.items() if not holds)


def is_job_of(origin: str, job_id: str) -> bool:
    """Is it ORIGIN-NUMBER, with whatever the origin writes after that? Then it is the name of no
    other host's job here, nor of an attempt of the queue's (JOB.ATTEMPT)."""
    prefix, _, own = job_id.rpartition("-")
    return bool(prefix and own) and prefix == origin


def is_text(text: str) -> bool:
    return 0 < len(text) <= TEXT_CHARS_MAX and text.isprintable()
