"""How squeue shows the tasks of an array: those that wait are one line."""

import pytest

from lbd.slurm import queue, scancel, scontrol, squeue
from lbd.slurm.queue import Job, ids_in

TURN, NEXT = "3 jobs are ahead of it", "next, as soon as a slot is free"


def task(index, reason=TURN, array="12", state="pending"):
    return Job({
        "id": f"{array}_{index}", "array_id": array, "array_index": index, "name": "fit",
        "user": "ann", "host": "h2" if state == "running" else None, "state": state,
        "submitted": 100.0, "started": 160.0 if state == "running" else None, "slots": 1,
        "reason": reason,
    })  # fmt: skip


@pytest.fixture
def lines(monkeypatch, capsys):
    def run(found, *words):
        monkeypatch.setattr(squeue, "recent", lambda *_: (list(found), 0))
        monkeypatch.setattr(squeue, "tasks_at_once", lambda arrays: {"12": 4})
        assert squeue.run(["-h", *words]) == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_what_waits_of_an_array_is_one_line(lines):
    tasks = [task(4, "", state="running"), task(6, NEXT), task(5), *map(task, range(7, 11))]
    found = [*tasks, *(task(index, array="13") for index in (1, 2, 5))]
    for words, expected in (
        (["-o", "%i %F %K %A %t %r"], ["12_4 12 4 12_4 R None",
         "12_[5-10%4] 12 5-10%4 12 PD Resources", "13_[1-2,5] 13 1-2,5 13 PD Priority"]),
        (["-O", "JobArrayID:13,JobID:6,ArrayJobID:4,ArrayTaskID:6"],
         ["12_4         12_4  12  4     ", "12_[5-10%4]  12    12  5-10%4",
          "13_[1-2,5]   13    13  1-2,5 "]),
    ):  # fmt: skip
        assert lines(found, *words) == expected
    assert lines(found)[1].split() == [
        "12_[5-10%4]", "lbd", "fit", "ann", "PD", "0:00", "1", "(Resources)"]  # fmt: skip


def test_each_task_is_a_line_if_asked_for_or_if_it_is_alone_or_waits_for_something_else(
    lines, monkeypatch
):
    found = [task(1), task(2), task(3, "held by ann"), task(4, "held by ann"), task(5, "after 7")]
    each = ["12_1", "12_2", "12_3", "12_4", "12_5"]
    assert lines(found, "-o", "%i") == ["12_[1-2%4]", "12_[3-4%4]", "12_5"]
    assert lines(found, "-r", "-o", "%i") == each
    assert lines(found, "--array", "-O", "jobid:4") == each
    monkeypatch.setenv("SQUEUE_ARRAY", "1")
    assert lines(found, "-o", "%A") == each


def test_the_other_commands_take_such_an_id(monkeypatch):
    asked = []
    for module in (scancel, scontrol):
        monkeypatch.setattr(module, "act", lambda verb, ids, **_: asked.extend(ids) or [])
    assert scancel.run(["12_[1,5-10:2%4],13"]) == 0
    assert scontrol.run(["hold", "12_[3,4%1]"]) == 0
    assert asked == ["12_[1,5-10:2]", "13", "12_[3,4]"]
    assert ids_in("1,,2_[3],4_5") == ["1", "2_[3]", "4_5"]


def test_the_limit_of_an_array_is_asked_for(monkeypatch):
    rows = [{"id": "12", "at_once": 4}, {"id": "13", "at_once": None}]
    monkeypatch.setattr(queue, "ask", lambda question: {"jobs": rows, "asked": question})
    assert queue.tasks_at_once(["12", "13"]) == {"12": 4}
