"""lbd for programs, as the command-line contract has it: Client, its asyncio twin, Executor."""

import asyncio
import concurrent.futures
import os
import threading
import time

import pytest
from cluster import FAST, Lab

import lbd
import lbd.client
import lbd.client.aio
from lbd.errors import LbdError

STATES = {"pending", "running", "suspended", "done", "failed", "cancelled", "lost"}


@pytest.fixture(scope="module")
def lab():
    resources = ("--host-set", "h2:resources.gpu=1")
    lab = Lab.up(2, "none", "--mode", "fcfs", *resources, settings=(*FAST, "lbm.slots=4"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in lab.environment("h1", HERE="ours").items():
            patch.setenv(name, value)
        yield lab
    lab.down()


@pytest.fixture
def client(lab):
    return lbd.client.Client()


def sh(script):
    return ["sh", "-c", script]


# Commands

BOTH_WAYS = sh("printf 'out\\0\\377'; printf 'err\\0\\376' >&2; exit 3")


def is_that(done, host, cause="exited"):
    assert (done.exit_status, done.signal, done.host) == (3, None, host)
    assert (done.output, done.error, done.cause) == (b"out\0\xff", b"err\0\xfe", cause)


@pytest.mark.parametrize("host", ["h1", "h2"])
def test_run_returns_the_result_of_the_command(client, host):
    is_that(client.run(BOTH_WAYS, host=host), host)
    killed = client.run(sh("kill -KILL $$"), host=host)
    assert (killed.signal, killed.host, killed.output) == (9, host, b"")
    assert killed.exit_status in (None, 137)
    with pytest.raises(lbd.client.JobFailed):
        client.run(BOTH_WAYS, host=host, check=True)
    with pytest.raises(lbd.client.JobFailed):
        client.run(sh("kill -KILL $$"), host=host, check=True)
    assert client.run(sh("true"), host=host, check=True).exit_status == 0
    assert client.run(["cat"], host=host, input=b"\0in\xff").output == b"\0in\xff"


def test_options_are_those_of_lbrun(client, tmp_path):
    where = sh("echo $LBD_HOST")
    assert client.run(where, exclude=["h1"]).output == b"h2\n"
    assert client.run(where, remote=True).output == b"h2\n"
    assert client.run(where, local=True).output == b"h1\n"
    assert client.run(sh("echo $LBD_HOST $LBD_RESOURCE_GPU"), need="gpu").output == b"h2 0\n"
    added = client.run(sh("echo $HERE-$MORE"), remote=True, env={"MORE": "added"})
    assert added.output == b"ours-added\n"  # it adds variables and removes none
    assert client.run(["pwd"], remote=True, chdir=tmp_path).output == f"{tmp_path}\n".encode()
    assert client.run(["sleep", "60"], timeout=0.2).exit_status == 124
    assert client.run(["sleep", "60"], remote=True, timeout="0.2").exit_status == 124
    named = client.run(sh("echo $LBD_JOB_ID"), remote=True, name="by a program", no_restart=True)
    assert named.exit_status == 0
    assert client.run(["/no/such/program"]).exit_status == 127
    assert client.run(["/etc/passwd"]).exit_status == 126


@pytest.mark.parametrize(
    "options", [{"host": "nowhere"}, {"mem": 512}, {"need": "gpu=2"}, {"timeout": "soon"},
                {"feature": "nowhere"}, {"after": "1"}], ids=str,
)  # fmt: skip
def test_a_refusal_of_lbrun_is_raised(client, options):
    with pytest.raises(LbdError) as refused:
        client.run(["echo", "ran"], **options)
    assert "\n" not in str(refused.value).strip()
    assert not isinstance(refused.value, lbd.client.JobFailed)


def test_an_option_that_lbrun_does_not_have(client):
    with pytest.raises((TypeError, LbdError)):
        client.run(["true"], colour="red")
    with pytest.raises((TypeError, LbdError)):
        client.submit(["true"], colour="red")


def test_submit_gives_a_job(lab, client, tmp_path):
    gate = tmp_path / "gate"
    waits = sh(f"until [ -e {gate} ]; do sleep 0.05; done; " + BOTH_WAYS[-1])
    job = client.submit(waits, name="by a program", exclude=["h1"])
    assert job.state in ("pending", "running")
    [row] = lab.lbctl_json("h1", "jobs", str(job.id))
    assert (row["name"], row["origin"]) == ("by a program", "h1")
    after = client.submit(["echo", "after"], after_failed=job.id)
    never = client.submit(["echo", "never"], after=[job.id])
    assert after.state == never.state == "pending"
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.1)
    gate.touch()
    job.wait()
    assert job.state == "failed"
    is_that(job.result(), "h2")
    with pytest.raises(lbd.client.JobFailed):
        job.result(check=True)
    assert "out" in str(job.logs())
    after.wait()
    assert (after.state, after.result().output) == ("done", b"after\n")
    assert after.result(check=True).exit_status == 0
    never.wait()
    assert never.state == "cancelled"
    with pytest.raises(lbd.client.JobFailed):
        never.result(check=True)


def test_a_time_limit_is_named(client):
    said = r"sleep 600: ended at its time limit of 1 s on h\d$"
    with pytest.raises(lbd.client.JobFailed, match=said):
        client.run(["sleep", "600"], timeout=1, check=True)
    with pytest.raises(lbd.client.JobFailed, match=said):
        client.submit(["sleep", "600"], timeout=1).result(check=True)


def test_a_job_is_killed(client):
    job = client.submit(["sleep", "600"])
    later = client.submit(["echo", "ran"], begin="+1h")
    assert {job.state, later.state} <= STATES
    later.kill()
    later.wait()
    assert later.state == "cancelled"
    job.kill()
    job.wait()
    assert job.state == "cancelled"


def test_the_same_key_is_the_same_job(client):
    ids = {client.submit(["true"], idempotency_key="once").id for _ in range(2)}
    assert len(ids) == 1


def test_jobs_of_an_array(client):
    array = client.submit(sh("echo $LBD_ARRAY_INDEX"), array="1-3%2")
    array.wait()
    assert array.state == "done"


# asyncio


async def test_the_asyncio_twins(lab, tmp_path):
    client = lbd.client.aio.Client()
    is_that(await client.run(BOTH_WAYS, host="h2"), "h2")
    many = await asyncio.gather(*(client.run(["echo", str(n)]) for n in range(4)))
    assert [done.output for done in many] == [b"0\n", b"1\n", b"2\n", b"3\n"]
    with pytest.raises(lbd.client.JobFailed):
        await client.run(["false"], check=True)
    with pytest.raises(LbdError):
        await client.run(["true"], host="nowhere")
    job = await client.submit(BOTH_WAYS, exclude=["h1"])
    await job.wait()
    is_that(await job.result(), "h2")
    assert await job.logs()
    other = await client.submit(["sleep", "600"])
    await other.kill()
    await other.wait()
    assert (await client.submit(["true"])).id != other.id


async def test_cancelling_a_run_ends_its_command(lab, tmp_path):
    mark = tmp_path / "pid"
    script = f"echo $$ >{mark}.new; mv {mark}.new {mark}; exec sleep 600"
    running = asyncio.create_task(lbd.client.aio.Client().run(sh(script), host="h2"))
    lab_wait = asyncio.get_running_loop().run_in_executor
    await lab_wait(None, lambda: lab.wait_until(mark.exists, "it runs"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid = int(mark.read_text())
    await lab_wait(
        None, lambda: lab.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "ended")
    )


# Functions


@pytest.fixture(scope="module")
def executor(lab):
    with lbd.Executor(slots=2) as executor:
        yield executor


def test_an_executor_is_one_of_concurrent_futures(executor):
    assert isinstance(executor, concurrent.futures.Executor)
    factor = 3

    def scaled(value, plus=0):
        return value * factor + plus

    future = executor.submit(scaled, 2, plus=1)
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(timeout=90) == 7
    called = threading.Event()
    future.add_done_callback(lambda _: called.set())
    assert called.wait(30)
    assert list(executor.map(scaled, range(20))) == [n * 3 for n in range(20)]
    assert list(executor.map(lambda a, b: a + b, [1, 2, 3], [10, 20], chunksize=2)) == [11, 22]
    many = {executor.submit(scaled, n): n for n in range(5)}
    for done in concurrent.futures.as_completed(many, timeout=90):
        assert done.result() == many[done] * 3

    def keyword_names(fn=None, self=None, func=None, args=None, kwargs=None, timeout=None):
        return fn, self, func, args, kwargs, timeout

    odd = executor.submit(keyword_names, fn=1, self=2, func=3, args=4, kwargs=5, timeout=6)
    assert odd.result(20) == (1, 2, 3, 4, 5, 6)


def test_an_exception_of_a_function_is_raised(executor):
    class Mine(Exception):
        pass

    def fails(kind, text):
        raise kind(text)

    for kind in (ValueError, KeyError, StopIteration):
        error = executor.submit(fails, kind, "so").exception(timeout=90)
        assert type(error) is kind
        assert error.args == ("so",)
    error = executor.submit(fails, Mine, "so").exception(timeout=90)
    assert (type(error).__name__, error.args) == ("Mine", ("so",))
    with pytest.raises(ZeroDivisionError):
        list(executor.map(lambda n: 1 // n, [1, 0]))

    def exits():
        raise SystemExit(3)

    error = executor.submit(exits).exception(timeout=90)
    assert error is not None
    assert executor.submit(lambda: 5).result(timeout=90) == 5  # and it goes on


def test_arguments_and_results_of_every_kind(executor):
    large = os.urandom(3 << 20)
    assert executor.submit(lambda data: data[::-1], large).result(timeout=90) == large[::-1]
    assert executor.submit(lambda: None).result(timeout=90) is None
    not_picklable = executor.submit(lambda: threading.Lock())
    assert not_picklable.exception(timeout=90) is not None
    printed = executor.submit(print, "to standard error")
    assert printed.result(timeout=90) is None


def test_a_slot_is_one_function_at_a_time(executor, tmp_path):
    def runs_beside(path, n):
        import pathlib
        import time

        mine = pathlib.Path(path, str(n))
        mine.touch()
        time.sleep(0.1)
        count = len(list(pathlib.Path(path).iterdir()))
        mine.unlink()
        return count

    counts = list(executor.map(runs_beside, [str(tmp_path)] * 6, range(6)))
    assert max(counts) <= 2


def test_map_times_out_and_cancels_what_waits(lab):
    with lbd.Executor(slots=1) as executor:
        assert executor.submit(abs, -1).result(timeout=90) == 1
        with pytest.raises(TimeoutError):
            list(executor.map(time.sleep, [1.0], timeout=0.1))
        first = executor.submit(time.sleep, 0.5)
        rest = [executor.submit(abs, n) for n in range(50)]
        assert rest[-1].cancel()
        assert rest[-1].cancelled()
        executor.shutdown(wait=True, cancel_futures=True)
        assert first.done()
        assert all(future.done() for future in rest)
        with pytest.raises(RuntimeError):
            executor.submit(abs, 1)
    with lbd.Executor(slots=1) as executor:
        kept = executor.submit(abs, -2)
    assert kept.result(timeout=0) == 2  # leaving waits for what was submitted
