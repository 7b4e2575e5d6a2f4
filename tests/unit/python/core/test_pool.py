"""Which worker runs which task: the promises of `core/pool.py`."""

from collections import Counter

from lbd.python.core.actions import AskBack, End, Fail, Send, Start, Tell
from lbd.python.core.pool import LOSSES_MAX, STARTING_MAX, TRIES
from lbd.python.core.worker_hosts import WorkerHost
from tests.unit.python.core.pool_scene import HOSTS, Scene


def test_workers_start_as_tasks_arrive_and_no_more_than_slots():
    scene = Scene(slots=3)
    for _ in range(5):
        scene.submit()
    assert len(scene.take(Start)) == 3


def test_without_a_number_of_slots_there_are_as_many_as_the_hosts_have():
    scene = Scene()
    for _ in range(9):
        scene.submit()
    assert sorted(start.host for start in scene.take(Start)) == ["h1", "h1", "h2", "h2"]


def test_a_host_that_promises_anything_gets_a_few_workers_and_more_as_these_are_ready():
    """It may have been taken over: all tasks waited for it, each with a process of its own here."""
    hosts = [WorkerHost("h1", slots=2), WorkerHost("bad", slots=100_000, cores=100_000)]
    scene = Scene(hosts=hosts)
    for _ in range(600):
        scene.submit()
    started = scene.take(Start)
    assert Counter(start.host for start in started) == {"bad": STARTING_MAX, "h1": 2}
    ready = [start.worker for start in started if start.host == "bad"]
    for number in ready:
        scene.do(scene.pool.ready(number, scene.now_s))
    assert Counter(start.host for start in scene.take(Start)) == {"bad": STARTING_MAX}


def test_a_first_task_goes_to_a_worker_and_the_next_waits_for_its_result():
    scene = Scene(slots=1)
    first, second = scene.submit(), scene.submit()
    (number,) = scene.start_all()
    assert scene.take(Send) == [Send(number, first)]
    scene.result(number, first)
    assert scene.take(Send) == [Send(number, second)]


def test_short_tasks_are_sent_in_advance():
    scene = Scene(slots=1)
    tasks = [scene.submit() for _ in range(10)]
    (number,) = scene.start_all()
    scene.take(Send)
    scene.result(number, tasks[0], run_s=0.005)
    assert [send.task for send in scene.take(Send)] == tasks[1:6]


def test_tasks_behind_a_long_one_come_back_for_an_idle_worker():
    scene = Scene(slots=2)
    tasks = [scene.submit() for _ in range(2)]
    one, other = scene.start_all()
    scene.take(Send)
    more = [scene.submit() for _ in range(4)]
    scene.result(one, tasks[0], run_s=0.001)
    scene.result(other, tasks[1], run_s=0.001)
    sent = {number: [s.task for s in scene.take(Send) if s.worker == number] for number in [one]}
    assert len(sent[one]) >= 2
    for task in [task for task in more if task not in sent[one]]:
        scene.result(other, task, run_s=0.001)
    scene.pass_s(0.2)
    assert scene.take(AskBack) == [AskBack(one)]
    assert scene.pool.returned(one, sent[one][1:])
    scene.pass_s(0.0)
    assert [send.worker for send in scene.take(Send)] == [other] * (len(sent[one]) - 1)


def test_the_user_is_told_once_of_a_lost_host_and_that_its_tasks_run_again():
    scene = Scene(slots=4)
    for _ in range(4):
        scene.submit()
    lost = [number for number, host in scene.start_all().items() if host == "h1"]
    for number in lost:
        scene.end(number, "h1: lost contact with h1: cut off; so it is not run again")
    expected = "a worker was lost on h1: lost contact with h1: cut off; its tasks run again"
    assert scene.take(Tell) == [Tell(expected)]


def test_the_user_is_not_told_that_tasks_run_again_if_they_do_not():
    scene = Scene(slots=1, restart=False)
    scene.submit()
    (number,) = scene.start_all()
    scene.end(number)
    assert scene.take(Tell) == []


def test_tasks_of_a_lost_worker_go_first_to_another():
    scene = Scene(slots=2)
    first, second, third = (scene.submit() for _ in range(3))
    one, other = scene.start_all()
    scene.take(Send)
    scene.end(one)
    scene.result(other, second)
    assert scene.take(Send) == [Send(other, first)]
    assert scene.pool.waiting[0] == third


def test_a_task_that_is_lost_repeatedly_fails_with_the_last_reason():
    scene = Scene(slots=1)
    task = scene.submit()
    for _ in range(LOSSES_MAX):
        scene.pass_s(100)
        (number,) = scene.start_all()
        scene.end(number, "h2: signal 9")
    (failed,) = scene.take(Fail)
    assert (failed.task, failed.is_lost) == (task, True)
    assert failed.reason == f"its worker was lost {LOSSES_MAX} times, the last one on h2: signal 9"


def test_without_restart_a_lost_task_fails_at_once_and_nothing_is_sent_in_advance():
    scene = Scene(slots=1, restart=False)
    tasks = [scene.submit() for _ in range(3)]
    (number,) = scene.start_all()
    scene.result(number, tasks[0], run_s=1e-6)
    assert [send.task for send in scene.take(Send)] == tasks[:2]
    scene.end(number, "h1: gone")
    assert [failed.task for failed in scene.take(Fail)] == [tasks[1]]
    assert list(scene.pool.waiting) == tasks[2:]


def test_if_a_worker_fails_to_start_other_hosts_are_tried_and_then_all_tasks_fail():
    scene = Scene(slots=1)
    scene.submit()
    scene.submit()
    hosts = []
    while not (failed := scene.take(Fail)):
        assert len(hosts) < 2 * TRIES * len(HOSTS), f"never gives up: {hosts}"
        started = scene.take(Start)
        for start in started:
            hosts.append(start.host)
            scene.end(start.worker, f"{start.host}: no such directory")
        if not started:
            scene.pass_s(scene.pool.next_tick_s(scene.now_s) - scene.now_s)
    assert {hosts.count(host) for host in ("h1", "h2")} == {TRIES}
    assert [one.task for one in failed] == [0, 1]
    assert "no such directory" in failed[0].reason
    assert not failed[0].is_lost


def test_a_refused_worker_ends_and_its_host_is_not_asked_again():
    scene = Scene(slots=4)
    for _ in range(4):
        scene.submit()
    started = scene.take(Start)
    for start in started:
        if start.host == "h1":
            scene.do(scene.pool.refuse(start.worker, "another Python", 0.0))
            scene.end(start.worker)
    scene.pass_s(1e6)
    assert len(scene.take(End)) == 2
    assert {start.host for start in scene.take(Start)} <= {"h2"}


def test_idle_workers_end_and_return():
    scene = Scene(slots=1, idle_s=10.0)
    task = scene.submit()
    (number,) = scene.start_all()
    scene.result(number, task)
    assert scene.pool.next_tick_s(0.0) == 10.0
    scene.pass_s(9.9)
    assert not scene.take(End)
    scene.pass_s(0.1)
    assert scene.take(End) == [End(number)]
    scene.submit()
    assert len(scene.take(Start)) == 1


def test_closing_lets_tasks_end_first():
    scene = Scene(slots=1)
    task = scene.submit()
    (number,) = scene.start_all()
    scene.do(scene.pool.close(0.0))
    assert not scene.take(End)
    scene.result(number, task)
    assert scene.take(End) == [End(number)]


def test_a_killed_task_ends_its_worker_and_the_other_tasks_continue():
    scene = Scene(slots=1)
    tasks = [scene.submit() for _ in range(4)]
    (number,) = scene.start_all()
    scene.result(number, tasks[0], run_s=0.001)
    scene.do(scene.pool.kill(tasks[1], 0.0))
    assert scene.take(End) == [End(number, by_force=True)]
    scene.end(number)
    assert not scene.take(Fail)
    assert list(scene.pool.waiting) == tasks[2:]


def test_a_lost_task_that_waits_can_be_killed():
    scene = Scene(slots=1)
    task = scene.submit()
    (number,) = scene.start_all()
    scene.end(number)
    assert not scene.pool.kill(task, 0.0)
    assert not scene.pool.tasks
