"""What running jobs have used so far: from the hosts where they run, as far as it is plausible."""

import asyncio
import math
from types import SimpleNamespace

from lbd.errors import Unavailable
from lbd.keeper.local_account import Asker
from lbd.lbm.session import cpu_of_jobs
from lbd.lbm.session.cpu_of_jobs import CpuOfJobs, used_in
from lbd.net.gen import lbm_pb2

ANN = Asker("ann", 1000)


def job(name, host, state="running", **more):
    return {"id": name, "host": host, "state": state, "cpu_s": None, **more}


def saying(**used):
    reply = lbm_pb2.JobsReply()
    for name, cpu_s in used.items():
        reply.used.add(job=name, cpu_s=cpu_s)
    return reply


class Cluster:
    def __init__(self, **replies):
        self.replies, self.asked = replies, []

    async def peer(self, name):
        return SimpleNamespace(name=name, is_down=name == "down")

    async def ask(self, _uid, peer, method, request, kind, timeout_s):
        self.asked.append((peer.name, request.user))
        if peer.name not in self.replies:
            raise Unavailable("no answer")
        return self.replies[peer.name]


class Here:
    async def by_job(self):
        return {"7": 3.5}


async def added(jobs, **replies):
    cluster = Cluster(**replies)
    await CpuOfJobs("h1", Here(), lambda: cluster).add(jobs, ANN)
    return [one["cpu_s"] for one in jobs], cluster.asked


async def test_each_host_is_asked_once_about_what_runs_there():
    jobs = [job("7", "h1"), job("12_1", "h2"), job("12_2", "h2", "suspended"), job("8", "h1")]
    used = saying(**{"12_1": 1.0, "12_2": 2.0, "13": 9.0})
    assert await added(jobs, h2=used) == ([3.5, 1.0, 2.0, None], [("h2", "ann")])


async def test_ended_and_waiting_jobs_cost_no_question():
    jobs = [job("1", "h2", "done"), job("2", None, "pending")]
    assert await added(jobs, h2=saying(**{"1": 1.0})) == ([None, None], [])


async def test_a_host_that_does_not_answer_spoils_nothing():
    jobs = [job("1", "h2"), job("2", "down"), job("3", "h3")]
    assert await added(jobs, h3=saying(**{"3": 1.0})) == (
        [None, None, 1.0], [("h2", "ann"), ("h3", "ann")],
    )  # fmt: skip


async def test_a_host_is_believed_only_about_what_runs_there():
    jobs = [job("1", "h2"), job("2", "h3")]
    assert (await added(jobs, h2=saying(**{"2": 5.0}), h3=saying()))[0] == [None, None]


def test_impossible_figures_are_ignored():
    told = saying(a=-1.0, b=math.nan, c=math.inf, d=2.0)
    assert used_in(told) == {"d": 2.0}


async def test_its_attempt_has_used_the_same():
    attempts = [
        {"number": 1, "host": "h3", "cpu_s": 1.0},
        {"number": 2, "host": "h1", "cpu_s": None},
    ]
    jobs = [job("7", "h1", attempts=attempts)]
    await added(jobs)
    assert [one["cpu_s"] for one in attempts] == [1.0, 3.5]


async def test_simultaneous_and_repeated_questions_cost_no_second_one():
    cluster = Cluster(h2=saying(**{"1": 1.0}))
    cpu = CpuOfJobs("h1", Here(), lambda: cluster)
    many = [[job("1", "h2")] for _ in range(20)]
    await asyncio.gather(*(cpu.add(jobs, ANN) for jobs in many))
    await cpu.add(again := [job("1", "h2")], Asker("bob", 1001))
    assert [jobs[0]["cpu_s"] for jobs in [*many, again]] == [1.0] * 21
    assert len(cluster.asked) == 1


async def test_answers_are_kept_neither_for_long_nor_for_any_number_of_hosts(monkeypatch):
    monkeypatch.setattr(cpu_of_jobs, "KEPT_S", 0.0)
    monkeypatch.setattr(cpu_of_jobs, "HOSTS_KEPT", 3)
    cluster = Cluster()
    cpu = CpuOfJobs("h1", Here(), lambda: cluster)
    for number in range(10):
        await cpu.add([job("1", f"x{number}"), job("2", "h2")], ANN)
        assert len(cpu._asked) <= 3
    assert len(cluster.asked) == 20
