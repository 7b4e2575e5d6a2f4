"""What a user is told of the end of a command elsewhere. Pure but for the message it reads."""

from lbd.lbm.request import ClientRequest
from lbd.one_line import one_line
from lbd.rpc.gen import lbm_pb2


def reason_of(ended: lbm_pb2.Ended, request: ClientRequest, host: str) -> str:
    """Why it ended otherwise than by itself, "" if it did not."""
    if ended.cause == "timeout":
        return f"ended after its time limit of {request.timeout_s:g} s"
    if ended.cause == "evicted":
        return f"ended because the owner of {host} is back"
    if reason := one_line(ended.reason):
        return f"{host}: {reason}"
    if ended.cause == "memory":
        return f"over its memory limit of {request.memory_bytes} bytes"
    return ""
