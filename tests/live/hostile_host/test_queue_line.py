"""A host that floods its line to the dispatcher: the others' jobs go on."""

import threading
from pathlib import Path

import grpc
import pytest
from cluster import FAST
from trust import Stranger, authority_on, files_of

from lbd.net.gen import dispatch_pb2 as pb

QUEUE_PORT = 7903
WORK = "/lbd.v1.Dispatch/Work"
HELD = 1_000_000  # attempts in a heartbeat, each of them to be answered
MEMORY_KIB = 1 << 20


@pytest.fixture(scope="module")
def lab(make_module_lab):
    return make_module_lab(2, "none", "--tls", "--mode", "fcfs", settings=FAST)


def memory_kib(lab):
    """The most that the dispatcher ever had."""
    pid = (lab.root / "h1/run/dispatcher.pid").read_text().split()[0]
    (line,) = (
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in line
    )
    return int(line.split()[1])


def test_endless_heartbeats_hold_up_nobody(lab):
    """One of them took the dispatcher two seconds, in which it heard no other host: in the end the
    leases of their attempts would have run out."""
    h2 = Stranger(authority_on(lab).certificate, files_of(lab, "h2").read_credentials())
    held = [pb.Held(job=str(number), attempt=1) for number in range(HELD)]
    heartbeat = pb.WorkUp(heartbeat=pb.Heartbeat(number=1, slots=1, held=held)).SerializeToString()
    stop, codes = threading.Event(), []

    def flood():
        while not stop.is_set():
            with h2.channel(lab, "h1", QUEUE_PORT) as channel:
                call = channel.stream_stream(WORK)(
                    iter([heartbeat] * 4), timeout=90, metadata=(("lbd-host", "h2"),)
                )
                try:
                    for _ in call:
                        pass
                except grpc.RpcError as problem:
                    codes.append(problem.code())
                stop.wait(0.01)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        lab.wait_until(lambda: codes, "the first is refused")
        for _ in range(5):
            served = lab.run("h1", "lbrun", "-q", "-H", "h1", "echo", "served", timeout=120)
            assert served.stdout == "served\n", served
    finally:
        stop.set()
        thread.join()
    assert codes[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert memory_kib(lab) < MEMORY_KIB
