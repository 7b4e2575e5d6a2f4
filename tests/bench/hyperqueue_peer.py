"""HyperQueue, run by a Python that has it: `server DIR`, or `client DIR COUNT PROGRAM FIFO`.

Its wheel has no `hq` program, but the whole server and worker as an extension. Its client looks
once a second whether jobs have ended, so each task reports its own end instead: PROGRAM stands for
`true` and writes a byte to FIFO. Prints the tasks a second.
"""

import os
import signal
import sys
import time


def server(directory: str) -> None:
    from hyperqueue.cluster import LocalCluster, WorkerConfig

    cluster = LocalCluster(server_dir=directory)
    cluster.start_worker(WorkerConfig(cores=2))
    print("READY", cluster.cluster.server_dir, flush=True)
    signal.pause()


def client(directory: str, count: int, program: str, fifo: str) -> None:
    from hyperqueue import Client, Job

    asked, told = Client(directory), os.open(fifo, os.O_RDWR)
    job = Job()
    for _ in range(count):
        job.program([program, fifo], stdout=None, stderr=None)
    began_s, left = time.monotonic(), count
    asked.submit(job)
    while left > 0:
        left -= len(os.read(told, min(left, 65536)))
    print(count / (time.monotonic() - began_s))


if __name__ == "__main__":
    role, directory, *more = sys.argv[1:]
    if role == "server":
        server(directory)
    else:
        client(directory, int(more[0]), *more[1:])
