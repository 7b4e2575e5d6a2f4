"""What `lbctl advise` concludes from the queue's jobs about other dispatch.malleable settings."""

import json

from lbd.cli.ctl.advise_rules import malleable_json, malleable_lines, queue_results
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.sim.malleable_advice import FEWEST, PastQueued
from tests.unit.sim.test_malleable_advice import day, singles

CONFIG = Config(dispatch=DispatchConfig(host="h1"))
STATUS = {"hosts": [{"name": "h1", "slots": {"total": 8}}, {"name": "h2", "slots": {"total": 0}}]}


PLAIN = {"submitted": 1.0, "started": 1.0, "finished": 2.0, "state": "done", "slots": 1}


class Daemons:
    def __init__(self, jobs, config=CONFIG):
        self.config, self._jobs = config, jobs

    def lbm(self, question, timeout_s=5.0):
        # By task: otherwise an array is one line that lasts from its first start to its last end.
        assert question == {"op": "jobs", "all": True, "cluster": True, "tasks": True}
        if isinstance(self._jobs, Exception):
            raise self._jobs
        if self._jobs is None:
            return {"jobs": [PLAIN], "missing": ["the dispatcher"]}
        return {"jobs": [PLAIN, *(as_row(job) for job in self._jobs)], "missing": ["h9"]}

    def lim(self, question, timeout_s=5.0):
        return STATUS

    def queue(self):
        return self.config.dispatch.hosts, "lbd.toml"

    def saved(self):
        return {}


def as_row(job: PastQueued, **more):
    return {
        "submitted": job.submitted, "started": job.started, "finished": job.finished,
        "state": "done", "slots": job.held, "slots_least": job.least, "slots_most": job.most,
        "user": job.user, "command": ["/usr/bin/" + job.command, "-x"],
    } | more  # fmt: skip


def busy_day():
    jobs = day(60, gap_s=200.0)
    return jobs + singles(jobs[-1].submitted, 3.0, 15.0)


def test_the_days_jobs_are_run_again_under_each_strategy():
    found = queue_results(Daemons(busy_day()), 0.0)
    assert [one.strategy for one in found][:1] == ["free"]
    shown = json.loads(json.dumps(malleable_json(found)))
    assert {one["strategy"] for one in shown} == {"free", "avg", "pred", "bias", "heur"}
    assert [one["better"] for one in shown].count(True) == 1
    lines = malleable_lines(found)
    assert lines[0].split()[0] == "DISPATCH.MALLEABLE"
    assert lines[1].startswith("free, the current setting")
    assert lines[-1].startswith('dispatch.malleable = "')
    assert "would have saved malleable jobs" in lines[-1]
    assert "; other jobs would have ended " in lines[-1]


def test_jobs_before_the_period_or_that_did_not_finish_are_left_out(capsys):
    jobs = day(FEWEST)
    assert queue_results(Daemons(jobs), 0.0) != []
    assert queue_results(Daemons([]), 0.0) == []
    assert capsys.readouterr().err == ""
    assert queue_results(Daemons(jobs), jobs[0].submitted + 1e-3) == []
    few = f"only {FEWEST - 1}, too few for advice ({FEWEST} needed)"
    assert capsys.readouterr().err == f"lbctl: malleable jobs: {few}\n"


def test_if_no_setting_is_better_that_is_said():
    found = queue_results(Daemons(day(FEWEST, gap_s=1000.0)), 0.0)
    assert malleable_lines(found)[-1].startswith("no other dispatch.malleable")


def test_without_a_queue_nothing_is_asked_and_an_unreachable_one_is_one_line(capsys):
    assert queue_results(Daemons(AssertionError(), Config()), 0.0) == []
    assert queue_results(Daemons(Unavailable("no dispatcher")), 0.0) == []
    assert capsys.readouterr().err == "lbctl: jobs of the queue are not included: no dispatcher\n"
    assert queue_results(Daemons(None), 0.0) == []
    said = "lbctl: jobs of the queue are not included: the dispatcher did not answer\n"
    assert capsys.readouterr().err == said
