"""Which jobs scancel, squeue and sacct select: a filter that is ignored would end too many."""

import pytest

from lbd.slurm import queue, sacct, scancel, scontrol, squeue
from lbd.slurm.options import LET_BE, SlurmError
from lbd.slurm.queue import Job


def job(number, **more):
    return Job({
        "id": str(number), "name": "fit", "user": "ann", "host": "h2", "state": "running",
        "submitted": 100.0 + number, "started": 160.0, "slots": number, **more,
    })  # fmt: skip


FOUND = [job(1), job(2, user="bob", host="h1"), job(3, state="pending", host=None, started=None)]


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """Returns the ids that scancel ends."""
    ended = []
    for module in (scancel, squeue, sacct):
        monkeypatch.setattr(module, "recent", lambda *_, **__: (list(FOUND), 0))
    monkeypatch.setattr(scancel, "act", lambda verb, ids, **_: ended.extend(ids) or [])
    return ended


@pytest.mark.parametrize("program", [scancel, squeue, sacct])
@pytest.mark.parametrize("option", ["--user=", "--name=", "--nodelist=", "--partition="])
def test_an_empty_filter_is_no_filter_for_everything(program, option, found):
    """As of a variable that is not set: `scancel -n "$name"`."""
    with pytest.raises(SlurmError, match=f"option '{option[:-1]}' has an empty value"):
        program.run([option])
    assert found == []


def test_scancel_ends_nothing_of_another_partition_even_where_partitions_are_ignored(
    found, monkeypatch
):
    for ignored in ("", "partition,account"):
        monkeypatch.setenv(LET_BE, ignored)
        for words, said in (
            (["-p", "gpu", "-u", "ann"], "--partition gpu: lbd has only the partition lbd"),
            (["-A", "phys", "-u", "ann"], "--account phys is not supported by lbd"),
        ):
            with pytest.raises(SlurmError, match=said):
                scancel.run(words)
    assert found == []
    assert scancel.run(["-p", "lbd", "-u", "ann"]) == 0
    assert found == ["1", "3"]


def test_scancel_says_of_each_job_why_it_was_not_ended(monkeypatch):
    monkeypatch.setattr(scancel, "act", lambda verb, ids, **_: [f"no job {one}" for one in ids])
    with pytest.raises(SlurmError) as caught:
        scancel.run(["7", "8"])
    assert caught.value.lines == ("Kill job error: no job 7", "Kill job error: no job 8")


def test_scancel_sends_a_signal_to_the_script_only(found):
    assert scancel.run(["-b", "-s", "USR1", "7"]) == 0
    assert scancel.run(["-f", "8"]) == 0
    with pytest.raises(SlurmError, match="--full is not supported by lbd with --signal"):
        scancel.run(["-f", "-s", "USR1", "9"])
    assert found == ["7", "8"]


def test_sacct_selects_by_host_and_partition(capsys):
    for words, expected in (
        (["-N", "h1"], "2\n"),
        (["-r", "gpu"], ""),
        (["-r", "lbd"], "1\n2\n3\n"),
    ):
        assert sacct.run(["-n", "-P", "-a", "-S", "now-2000weeks", "-o", "JobID", *words]) == 0
        assert capsys.readouterr().out == expected


def test_squeue_sorts(capsys):
    for order, expected in (("-i", "321"), ("t,-V", "321"), ("u,-C", "312"), ("N", "321")):
        assert squeue.run(["-h", "-o", "%A", "-S", order]) == 0
        assert capsys.readouterr().out.split() == list(expected)
    with pytest.raises(SlurmError, match=r"^--sort -z: -z is not supported by lbd$"):
        squeue.run(["-S", "-z"])


def test_columns_may_be_set_by_a_variable(monkeypatch, capsys):
    for name, text, program in (
        ("SQUEUE_FORMAT", "%A-%C", squeue), ("SQUEUE_FORMAT2", "JobID:1,Name:.5", squeue),
        ("SACCT_FORMAT", "jobid%3", sacct),
    ):  # fmt: skip
        monkeypatch.setenv(name, text)
        assert (
            program.run(["-M", "lbd", *(["-h"] if program is squeue else ["-naS", "1/1/70"])]) == 0
        )
        assert capsys.readouterr().out.splitlines()[0] in ("1-1", "1  fit", "  1")
        monkeypatch.delenv(name)


def test_limits_are_asked_for_once_for_each_job(monkeypatch, capsys):
    asked = []

    def with_details(one):
        asked.append(one.array)
        if one.array == "3":
            raise SlurmError("no job 3")
        return Job(one.row | {"timeout_s": 600.0, "memory_bytes": 100 << 20, "directory": "/d"})

    monkeypatch.setattr("lbd.slurm.queue.with_details", with_details)
    assert squeue.run(["-h", "-o", "%i %l %m %Z"]) == 0
    assert capsys.readouterr().out == "1 10:00 100M /d\n2 10:00 100M /d\n3 N/A N/A N/A\n"
    assert asked == ["1", "2", "3"]
    assert squeue.run(["-o", "%i %M"]) == 0
    assert asked == ["1", "2", "3"]
    assert "TIME_LIMI" in (squeue.run(["-l"]), capsys.readouterr().out)[1]
    words = ["-n", "-a", "-P", "-S", "now-2000weeks", "-o", "Timelimit,ReqMem,WorkDir,Account"]
    assert sacct.run(words) == 0
    assert capsys.readouterr().out == "00:10:00|100M|/d|\n00:10:00|100M|/d|\n|||\n"
    monkeypatch.setattr("lbd.slurm.queue.DETAILED_MAX", 1)
    assert squeue.run(["-h", "-o", "%i %l"]) == 0
    assert capsys.readouterr().out == "1 10:00\n2 N/A\n3 N/A\n"


def test_a_silent_dispatcher_is_no_empty_queue(monkeypatch):
    """A script that polls squeue would take its jobs to have ended."""
    reply = {"jobs": [], "missing": ["h3", "the dispatcher"]}
    monkeypatch.setattr(queue, "ask", lambda question: reply)
    with pytest.raises(SlurmError, match=r"^the dispatcher did not answer$"):
        queue.recent()
    reply["missing"] = ["h3"]  # it has no part in the queue's jobs
    assert queue.recent() == ([], 0)


def test_sacct_shows_times_of_day_and_the_seconds_between_them(monkeypatch, capsys):
    """The columns cut the time of day off; two seconds from 51.9 to 53.8 were shown as one."""
    ended = job(4, state="done", started=171.9, finished=173.8)
    monkeypatch.setattr(sacct, "recent", lambda *_, **__: ([ended], 0))
    sacct.run(["-n", "-S", "1970-01-01", "-a", "-o", "start,end,elapsed"])
    start, end, elapsed = capsys.readouterr().out.split()
    assert (len(start), len(end), elapsed) == (19, 19, "00:00:02")


@pytest.fixture
def asked(monkeypatch):
    """Returns the questions that are asked, of which each lacks three jobs."""
    questions = []

    def ask(question):
        questions.append(question)
        return {"jobs": [job.row for job in FOUND], "unlisted": 3, "errors": []}

    for module in (scancel, squeue, sacct, scontrol):
        monkeypatch.setattr(module, "recent", queue.recent)
    monkeypatch.setattr(scancel, "act", queue.act)
    monkeypatch.setattr(queue, "ask", ask)
    monkeypatch.setattr("time.time", lambda: 1000.0)
    return questions


LIVE = {"op": "jobs", "all": False, "cluster": True, "hosts": False, "tasks": True}


@pytest.mark.parametrize(
    ("program", "words", "expected"),
    [
        (squeue, [], LIVE),
        (squeue, ["-u", "ann", "-t", "pd,r"], {**LIVE, "of_user": "ann"}),
        (squeue, ["-u", "ann,bob", "-t", "all"], {**LIVE, "ended_since": 700.0}),
        (scancel, ["-u", "ann"], {**LIVE, "of_user": "ann", "tasks": False}),
        (scancel, ["-n", "fit", "-t", "R"], LIVE),
        (sacct, ["-a", "-S", "now-10"], {**LIVE, "ended_since": 990.0}),
        (sacct, ["-u", "ann", "-S", "now-1hour", "-o", "totalcpu"],
         {**LIVE, "of_user": "ann", "ended_since": 1.0, "hosts": True}),
        (scontrol, ["show", "job"], {**LIVE, "ended_since": 700.0}),
    ],
)  # fmt: skip
def test_only_what_can_be_chosen_is_asked_for_and_what_has_no_room_is_said(
    asked, monkeypatch, capfd, program, words, expected
):
    """With 100,000 tasks on record, each of these took the whole record, missed live jobs older
    than that, blamed lbrun and ended with 0."""
    monkeypatch.setattr(scontrol, "with_details", lambda job: job)
    assert program.run(words) == 1
    assert asked[0] == expected
    name = program.__name__.rpartition(".")[2]
    said = f"{name}: error: 3 older jobs left out: the list is too long; "
    assert said in capfd.readouterr().err


def test_an_order_by_name_is_not_given_to_a_part_of_the_jobs_of_that_name(asked):
    with pytest.raises(SlurmError, match=r"^3 of your jobs are not looked at"):
        scontrol.run(["hold", "name=fit"])
