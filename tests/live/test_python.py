"""Python programs that use the cluster, by `lbd.Executor` and by joblib's backend.

Each program runs from h1 of one lab of four hosts.
"""

import json
import signal
import subprocess
import sys
import textwrap
from functools import partial

import pytest
from cluster import FAST, Lab

from lbd.python import wire
from tests.book import DOCS, to_run

HOSTS = ("h1", "h2", "h3", "h4")


LAB = partial(Lab.up, len(HOSTS), "none", "--mode", "fcfs", settings=(*FAST, "lbm.slots=2"))


def words(program):
    return [sys.executable, "-P", "-c", textwrap.dedent(program)]


def run(lab, program, **options):
    """Runs the program from h1; returns what it prints as JSON."""
    result = lab.run("h1", *words(program), env=with_source(), timeout=60, **options)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout), result.stderr


def with_source():
    from lbd.process.self_start import environment

    return environment({})


def test_functions_run_on_all_hosts_and_raise_as_if_here(lab):
    found, errors = run(lab, """
        import json, os, time, traceback
        import lbd

        def where(wait_s):
            time.sleep(wait_s)
            return os.environ["LBD_HOST"]

        def fails(key):
            print("printed")
            return {}[key]

        with lbd.Executor(slots=4) as executor:
            while len(executor.workers()) < 4:
                list(executor.map(time.sleep, [0.2] * 4))
            first = set(executor.map(where, [0.3] * 8))
            chunks = list(executor.map(lambda x, y: x * y, range(10), range(10), chunksize=4))
            try:
                executor.submit(fails, "a key").result()
            except KeyError as problem:
                raised = "".join(traceback.format_exception(problem))
            try:
                executor.submit(lambda: os.fdopen)
                executor.submit(open("/dev/null").read)
            except lbd.errors.LbdError as problem:
                refused = str(problem)
            again = executor.submit(pow, 2, 10).result()
        print(json.dumps([sorted(first), chunks, raised, refused, again]))
    """)  # fmt: skip
    first, chunks, raised, refused, again = found
    assert first == sorted(HOSTS)
    assert chunks == [x * x for x in range(10)]
    assert "in fails" in raised
    assert "return {}[key]" in raised or "KeyError: 'a key'" in raised
    assert "cannot be pickled" in refused
    assert "\n" not in refused
    assert again == 1024
    assert errors.count("printed") == 1


def test_what_a_function_prints_is_not_held_back(lab, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    _, errors = run(
        lab,
        """
        import lbd

        with lbd.Executor(slots=1) as executor:
            executor.submit(print, "a line").result()
            executor.submit(print, "half a line", end="").result()
        print("{}")
    """,
    )
    assert errors == "a line\nhalf a line"


def test_a_large_argument_is_sent_to_a_host_once_and_may_be_changed(lab):
    found, _ = run(lab, """
        import json, os, time
        import numpy
        import lbd

        def change(array):
            time.sleep(0.2)
            array[0] += 1
            place = [p for p in os.listdir("/dev/shm") if p.startswith(f"lbd-python-{os.getuid()}-")
                     and p.endswith(os.environ["LBD_HOST"])]
            return os.environ["LBD_HOST"], float(array[0]), len(os.listdir(f"/dev/shm/{place[-1]}"))

        array = numpy.zeros(1 << 18)
        with lbd.Executor(slots=8) as executor:
            while len(executor.workers()) < 4:
                list(executor.map(time.sleep, [0.2] * 8))
            print(json.dumps([list(executor.map(change, [array] * 16)), array[0]]))
    """)  # fmt: skip
    results, here = found
    assert {host for host, _, _ in results} == set(HOSTS)
    assert {value for _, value, _ in results} == {1.0}
    assert {count for _, _, count in results} == {1}
    assert here == 0.0


def test_a_worker_alone_on_its_host_shares_a_large_argument_with_the_next_one(lab):
    found, _ = run(lab, """
        import json, os, time
        import lbd

        def look(data, wait_s):
            time.sleep(wait_s)
            places = [place for place in os.listdir("/dev/shm")
                      if place.startswith(f"lbd-python-{os.getuid()}-") and place.endswith("h2")]
            files = [len(os.listdir(f"/dev/shm/{place}")) for place in places]
            return os.getpid(), len(data), sum(files)

        data = bytes(3 << 20)
        with lbd.Executor(slots=2, host="h2") as executor:
            alone = executor.submit(look, data, 0).result()
            while executor.workers() != {"h2": 2}:
                list(executor.map(time.sleep, [0.2] * 2))
            both = list(executor.map(look, [data] * 2, [0.5] * 2))
            print(json.dumps([alone, both]))
    """)  # fmt: skip
    (first, size, files), both = found
    assert (size, files) == (3 << 20, 0)
    assert len({first, *(pid for pid, _, _ in both)}) == 2
    assert {tuple(rest) for _, *rest in both} == {(3 << 20, 1)}


def test_a_lost_worker_costs_only_time_by_default(lab, tmp_path):
    found, _ = run(lab, f"""
        import json, os, signal, time
        from pathlib import Path
        import lbd
        from lbd.python.failures import TaskKilled, TaskLost

        def once(number):
            mark = Path({str(tmp_path)!r}, str(number))
            if number % 4 == 0 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return number

        with lbd.Executor(slots=4) as executor:
            survived = list(executor.map(once, range(12)))
            bad = executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL))
            poison = bad.exception()
            sleeper = executor.submit(time.sleep, 1000)
            while not (sleeper.running() or sleeper.done()):
                time.sleep(0.01)
            killed = executor.kill(sleeper), type(sleeper.exception()) is TaskKilled
        with lbd.Executor(slots=1, restart=False) as executor:
            mark = Path({str(tmp_path)!r}, "0")
            mark.unlink()
            lost = executor.submit(once, 0).exception()
            after = executor.submit(once, 1).result()
        print(json.dumps([survived, str(poison), killed, type(lost) is TaskLost, after]))
    """)  # fmt: skip
    survived, poison, killed, lost, after = found
    assert survived == list(range(12))
    assert "lost 3 times" in poison
    assert killed == [True, True]
    assert (lost, after) == (True, 1)


def test_workers_and_their_children_die_with_the_client(lab, tmp_path):
    begun = tmp_path / "begun"
    program = f"""
        import subprocess, time
        import lbd

        def start(number):
            with open({str(begun)!r}, "a") as file:
                file.write("x")
            subprocess.run(["sleep", "1000"])

        executor = lbd.Executor(slots=4)
        list(executor.map(start, range(4)))
    """
    client = lab.popen("h1", *words(program), env=with_source(), stderr=subprocess.DEVNULL)
    lab.wait_until(lambda: begun.exists() and len(begun.read_text()) == 4, "4 tasks run")
    assert len(lab.jobs_alive()) >= 4
    client.send_signal(signal.SIGKILL)
    client.wait()
    lab.wait_until(lambda: not lab.jobs_alive(), "all workers have gone", see=lab.jobs_alive)


def test_another_python_is_refused_with_a_reason(lab, tmp_path):
    other = tmp_path / "python"
    other.write_text(
        f"#!{sys.executable} -P\n"
        "import os, struct\n"
        f'body = b\'{{"version": {wire.VERSION}, "python": "3.1", "host": "hx"}}\'\n'
        "os.write(1, struct.pack('<Ic', len(body), b'H') + body)\n"
        "os.read(0, 1)\n"
    )
    other.chmod(0o755)
    found, errors = run(lab, f"""
        import json
        import lbd

        with lbd.Executor(slots=1, python={str(other)!r}) as executor:
            print(json.dumps(str(executor.submit(pow, 2, 2).exception())))
    """)  # fmt: skip
    assert "has Python 3.1 and this is Python" in found
    assert "has Python 3.1" in errors


def test_a_worker_that_breaks_the_protocol_is_lost_but_its_answers_are_not(lab, tmp_path):
    other = tmp_path / "python"
    other.write_text(
        f"#!{sys.executable} -P\n"
        "import os, pickle\n"
        "from lbd.local.frames import pack\n"
        "from lbd.python import wire\n"
        "from lbd.python.worker import hello, json\n"
        "os.write(1, pack(wire.HELLO, json.dumps(hello()).encode()))\n"
        "data = b''\n"
        "while b'pow' not in data:\n"
        "    data += os.read(0, 1 << 16)\n"
        "head = wire.RESULT_HEAD.pack(0, wire.VALUE, 0.1)\n"
        "os.write(1, pack(wire.RESULT, head + pickle.dumps('answered')) + b'\\xff' * 9)\n"
        "os.read(0, 1 << 16)\n"
        "os.read(0, 1 << 16)\n"
    )
    other.chmod(0o755)
    found, _ = run(lab, f"""
        import json
        import lbd

        with lbd.Executor(slots=1, python={str(other)!r}, restart=False, host="h2") as executor:
            one, two = executor.submit(pow, 2, 2), executor.submit(pow, 2, 3)
            print(json.dumps([one.result(), str(two.exception())]))
        with lbd.Executor(host="h9") as executor:
            assert "no host h9 is up" in str(executor.submit(pow, 2, 2).exception())
    """)  # fmt: skip
    answered, lost = found
    assert answered == "answered"
    assert "what no worker says" in lost


def test_a_grid_search_of_scikit_learn(lab):
    found, _ = run(lab, """
        import json, os, time
        import joblib
        from sklearn.datasets import load_iris
        from sklearn.model_selection import GridSearchCV
        from sklearn.svm import SVC
        import lbd

        def where(wait_s):
            time.sleep(wait_s)
            return os.environ["LBD_HOST"]

        lbd.joblib.register()
        X, y = load_iris(return_X_y=True)
        grid = {"C": [0.1, 1, 10], "kernel": ["linear", "rbf"]}
        here = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
        with joblib.parallel_config(backend="lbd", n_jobs=4):
            there = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
            hosts = joblib.Parallel()(joblib.delayed(where)(0.1) for _ in range(16))
        print(json.dumps([here.best_params_ == there.best_params_,
                          bool(here.best_score_ == there.best_score_), sorted(set(hosts))]))
    """)  # fmt: skip
    same_parameters, same_score, hosts = found
    assert same_parameters
    assert same_score
    assert len(hosts) >= 2


CLIENT = """
    import json, signal
    from lbd.client import Client, JobFailed
    from lbd.errors import LbdError

    client = Client()
    script = "cat; echo $A >&2; exit 3"
    ran = client.run(["sh", "-c", script], host="h2", input=b"in", env={"A": "1"})
    killed = client.run(["sh", "-c", "kill -9 $$"], host="h2")
    try:
        client.run(["false"], check=True)
    except JobFailed as problem:
        failed = problem.completed.exit_status
    try:
        client.run(["true"], host="h9")
    except LbdError as problem:
        refused = str(problem)
    job = client.submit(["sh", "-c", "cat; echo e >&2; exit 4"], input=b"in", name="n")
    result = job.result(timeout=120)
    sleeper = client.submit(["sleep", "1000"])
    try:
        sleeper.wait(timeout=0.1)
    except TimeoutError as problem:
        late = str(problem)
    sleeper.kill()
    print(json.dumps([
        ran.exit_status, ran.output.decode(), ran.error.decode(), ran.host, ran.cause,
        killed.signal, failed, refused, job.id, job.state,
        result.exit_status, result.output.decode(), result.error.decode(), late, sleeper.wait(30),
    ]))
"""
AIO = """
    import asyncio, json
    from lbd.client.aio import Client

    async def main():
        client = Client()
        runs = await asyncio.gather(*(client.run(["echo", str(n)], host="h2") for n in range(3)))
        job = await client.submit(["sh", "-c", "echo out; exit 5"])
        result = await job.result(timeout=120)
        endless = asyncio.create_task(client.run(["sleep", "1000"], host="h2"))
        jobs = await client.submit(["sleep", "1000"])
        endless.cancel()
        try:
            await endless
        except asyncio.CancelledError:
            cancelled = True
        await jobs.kill()
        return [[run.output.decode() for run in runs], result.exit_status, result.output.decode(),
                cancelled, await jobs.wait(30), await job.state()]

    print(json.dumps(asyncio.run(main())))
"""


def test_commands_from_a_program(lab):
    found, _ = run(lab, CLIENT)
    assert found[:5] == [3, "in", "1\n", "h2", "exited"]
    assert found[5:7] == [9, 1]
    assert "h9" in found[7]
    assert found[8].isdecimal()
    assert found[9:13] == ["failed", 4, "in", "e\n"]
    assert "has not ended within 0.1 s" in found[13]
    assert found[14] == "cancelled"


def test_commands_from_an_asyncio_program(lab):
    found, _ = run(lab, AIO)
    assert found == [["0\n", "1\n", "2\n"], 5, "out\n", True, "cancelled", "failed"]
    lab.wait_until(lambda: not lab.jobs_alive(), "what was cancelled has ended")


BLOCKS = [block for block in to_run(DOCS / "how-to/python.md") if block.language == "python"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block.line))
def test_an_example_of_the_documentation(block, lab):
    result = lab.run("h1", *words(block.text), env=with_source(), timeout=60)
    assert result.returncode == 0, f"{block.place}\n{result.stderr[-3000:]}"
    assert result.stdout
