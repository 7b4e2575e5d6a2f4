"""A host that says that it has very many slots gets its jobs bit by bit."""

from random import Random

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.queues import STARTS_MAX, Queues
from lbd.model import HostId, JobId

JOBS, SLOTS = 3 * STARTS_MAX + 7, 65535


def waiting(count):
    queues, rng = Queues(make("fcfs", ())), Random(1)
    for number in range(count):
        queues.arrived(QueuedJob(JobId(str(number)), user=f"u{number % 3}"), 0.0, rng)
    return queues, rng


def test_the_jobs_of_a_host_of_very_many_slots_start_a_number_in_each_turn():
    """60,000 started in one step of a second and a half, while nobody else was heard."""
    queues, rng = waiting(JOBS)
    turns = [queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)]
    while queues.is_cut_short:
        turns.append(queues.tick(float(len(turns)), rng))
    assert [len(starts) for starts in turns] == [STARTS_MAX, STARTS_MAX, STARTS_MAX, 7]
    assert len({start.job.id for starts in turns for start in starts}) == JOBS
    assert queues.tick(100.0, rng) == []


def test_until_the_next_turn_each_event_starts_one():
    queues, rng = waiting(JOBS)
    starts = queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)
    for start in starts[:5]:
        assert len(queues.ended(start.job.id, 1.0, rng)) == 1
    assert len(queues.host_is(HostSlots(HostId("h2"), SLOTS), 1.0, rng)) == 1
    assert len(queues.tick(2.0, rng)) == STARTS_MAX


def test_what_fits_in_one_turn_starts_in_it():
    queues, rng = waiting(STARTS_MAX)
    assert len(queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)) == STARTS_MAX
    assert not queues.is_cut_short
    queues, rng = waiting(JOBS)
    assert len(queues.host_is(HostSlots(HostId("h1"), 5), 0.0, rng)) == 5
    assert not queues.is_cut_short
