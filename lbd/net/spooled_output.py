"""Whether a stored job prints to the spool, the disk where its host keeps outputs."""

from lbd.net.gen import dispatch_pb2, lbm_pb2

IN, OUT, ERR = 1, 2, 4  # bits of `closed_fds`
NO_ROOM_CHARS = 300  # of a host's words on why there is no room


def is_spooled(spec: dispatch_pb2.StoredSpec, request: lbm_pb2.RunRequest) -> bool:
    """Returns False if it prints only to files of its own, or cannot print at all."""
    closed = request.closed_fds
    return not (spec.output or (closed & OUT and (spec.error or closed & ERR)))
