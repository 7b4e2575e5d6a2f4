"""`dask_peer.py PORT`: Dask's scheduler with its page, with twenty workers and ten thousand tasks.

All run in this process, since only the page is measured.
"""

import asyncio
import sys


async def serve(port: int) -> None:
    from distributed import Client, Scheduler, Worker

    async with Scheduler(
        port=0, dashboard=True, dashboard_address=f"127.0.0.1:{port}"
    ) as scheduler:
        workers = [Worker(scheduler.address, nthreads=1, dashboard=False) for _ in range(WORKERS)]
        await asyncio.gather(*workers)
        async with Client(scheduler.address, asynchronous=True) as client:
            kept = client.map(lambda number: number, range(TASKS))
            print("ready", flush=True)
            await asyncio.Event().wait()
            del kept


WORKERS, TASKS = 20, 10_000  # more workers in one process take minutes to start

if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
