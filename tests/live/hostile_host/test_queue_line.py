"""A host that floods its connection to the dispatcher: the others' jobs go on."""

import threading
from functools import partial
from pathlib import Path

import grpc
from cluster import FAST, Lab
from trust import Stranger, authority_on, files_of

from lbd.net.gen import dispatch_pb2 as pb

QUEUE_PORT = 7903
WORK = "/lbd.v1.Dispatch/Work"
HELD = 1_000_000  # attempts in a heartbeat, each of which needs an answer
MEMORY_KIB = 1 << 20
LIES = 10_000  # in each message


LAB = partial(Lab.up, 2, "none", "--tls", "--mode", "fcfs", settings=FAST)


def memory_kib(lab):
    """The dispatcher's peak memory."""
    pid = (lab.root / "h1/run/dispatcher.pid").read_text().split()[0]
    (line,) = (
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in line
    )
    return int(line.split()[1])


def test_endless_heartbeats_hold_up_nobody(lab):
    """One such heartbeat once took the dispatcher two seconds, in which it heard no other host: in
    the end the leases of the others' attempts would have expired."""
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


def test_very_many_reports_at_once_hold_up_nobody_and_say_nothing_of_others_jobs(lab):
    """One message of 300 KB once took the dispatcher 1.5 s: it logged each report, whichever host's
    attempt the report was about."""
    job = lab.run("h1", "lbrun", "-d", "-H", "h1", "sleep", "300", check=True).stdout.strip()
    lab.wait_until(lambda: lab.lbctl_json("h1", "job", job)["state"] == "running", "it runs")
    lab.kill("h2", "lbm")
    h2 = Stranger(authority_on(lab).certificate, files_of(lab, "h2").read_credentials())
    refused = pb.AttemptReport(job=job, attempt=1, event="refused", reason="a lie of h2's")
    ended = pb.AttemptReport(job=job, attempt=1, event="ended", cause="exited", exit_status=0)
    heartbeat = pb.WorkUp(heartbeat=pb.Heartbeat(number=1, slots=1))
    messages = heartbeat, pb.WorkUp(reports=[refused] * LIES), pb.WorkUp(reports=[ended] * LIES)
    with h2.channel(lab, "h1", QUEUE_PORT) as channel:
        call = channel.stream_stream(WORK)(
            (message.SerializeToString() for message in (*messages, heartbeat)),
            timeout=90, metadata=(("lbd-host", "h2"),),
        )  # fmt: skip
        settled = sum(len(pb.WorkDown.FromString(data).settled) for data in call)
    assert settled > 0
    assert "a lie" not in lab.logs(1000)
    assert lab.lbctl_json("h1", "job", job)["state"] == "running"
    served = lab.run("h1", "lbrun", "-q", "-H", "h1", "echo", "served")
    assert served.stdout == "served\n", served
    lab.run("h1", "lbctl", "kill", job, check=True)
