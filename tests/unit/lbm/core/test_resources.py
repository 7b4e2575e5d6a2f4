"""Resources are handed out by index, together with the slot, and come back with it, once."""

from dataclasses import replace
from random import Random

import pytest

from lbd.lbm.core.execution_events import Kind, SlotAwaited, SlotGranted, SlotRefused, Spec
from lbd.lbm.core.slots import Grant, Granted, ResourcePool, SlotLine, Slots, variables
from lbd.lim.core.messages import Sample
from lbd.model import Facts, HostId, JobId, Needs
from lbd.net import convert
from lbd.net.gen import dispatch_pb2 as pb
from lbd.policy.needs import COUNTED_MAX
from lbd.testing.builders import vector
from lbd.text.needs import AMOUNT_MAX
from lbd.text.needs_words import facts_fields, read_facts_fields

TOTALS = {"gpu": 2, "scratch": 100 << 30}


def needs(**amounts):
    return Needs(tuple(sorted(amounts.items())))


def slots(total=4, waiting=8):
    made = Slots(total, beyond=0, max_waiting=waiting)
    made.pool = ResourcePool(("linux",), TOTALS, 8 << 30)
    return made


def take(found, job, **more):
    return found.take(JobId(job), needs=needs(**more))


def indices(found, job):
    return [one.indices for one in found.pool.grant_of(JobId(job)).resources]


def test_the_lowest_free_indices_are_given_and_no_index_twice():
    found = slots()
    assert take(found, "a", gpu=1)
    assert take(found, "b", gpu=1)
    assert (indices(found, "a"), indices(found, "b")) == ([(0,)], [(1,)])
    assert not take(found, "c", gpu=1)
    assert found.used == 2  # not one of both
    found.release(JobId("a"))
    assert take(found, "d", gpu=1)
    assert indices(found, "d") == [(0,)]


def test_for_a_resource_that_is_a_size_only_the_amount_counts():
    found = slots()
    assert take(found, "a", scratch=60 << 30)
    assert not take(found, "b", scratch=60 << 30)
    assert take(found, "c", scratch=40 << 30)
    assert variables(found.pool.grant_of(JobId("a"))) == {
        b"LBD_RESOURCE_SCRATCH": b"%d" % (60 << 30)
    }


@pytest.mark.parametrize("total", [COUNTED_MAX, COUNTED_MAX + 1])
def test_a_resource_has_indices_unless_there_are_too_many(total):
    pool = ResourcePool(("linux",), {"port": total}, 0)
    assert pool.take(JobId("a"), needs(port=2))
    (granted,) = pool.grant_of(JobId("a")).resources
    assert granted.indices == ((0, 1) if total == COUNTED_MAX else ())


def test_a_command_is_told_its_resources():
    grant = Grant((Granted("gpu", 2, (0, 1)), Granted("my-tape.1", 1, (3,))))
    assert variables(grant) == {
        b"LBD_RESOURCE_GPU": b"0,1",
        b"CUDA_VISIBLE_DEVICES": b"0,1",
        b"LBD_RESOURCE_MY_TAPE_1": b"3",
    }


def test_what_was_held_before_a_restart_is_held_after_it():
    before = slots()
    take(before, "a", gpu=1)
    take(before, "b", gpu=1)
    before.release(JobId("a"))
    after = slots()
    after.hold(JobId("b"), "", 1, before.pool.grant_of(JobId("b")))
    assert take(after, "c", gpu=1)
    assert (indices(after, "b"), indices(after, "c")) == ([(1,)], [(0,)])
    assert not take(after, "d", gpu=1)


def test_a_holder_of_more_than_now_exists_keeps_it():
    found = slots()
    found.hold(JobId("a"), "", 1, Grant((Granted("gpu", 2, (4, 5)), Granted("tape", 1, (0,)))))
    assert not take(found, "b", gpu=1)
    found.release(JobId("a"))
    assert take(found, "b", gpu=2)


def test_a_job_that_waits_for_a_resource_delays_only_jobs_that_need_the_same():
    found = slots()
    take(found, "a", gpu=2)
    assert found.enqueue(JobId("waits"), needs=needs(gpu=2))
    assert found.take(JobId("plain"))
    assert found.release(JobId("plain")) == []
    found.pool.totals = {**TOTALS, "gpu": 3}
    found.pool.free(JobId("nobody"))
    assert not take(found, "later", gpu=1)  # behind the one that waits
    assert found.release(JobId("a")) == [JobId("waits")]
    assert found.used == 1


def test_nobody_exceeds_the_resources():
    found = slots(total=1)
    found.beyond = 4
    take(found, "a", gpu=2)
    assert found.take(JobId("nested"), beyond=True)
    assert not found.take(JobId("b"), beyond=True, needs=needs(gpu=1))
    assert found.enqueue(JobId("c"), needs=needs(gpu=1))
    assert not found.exceed(JobId("c"))
    found.release(JobId("a"))
    assert JobId("c") in found.holders or found.exceed(JobId("c"))
    assert indices(found, "c") == [(0,)]


def spec(job, kind=Kind.ATTACHED, patience_s=None, **amounts):
    return Spec(JobId(job), kind, "ann", 1.0, slot_patience_s=patience_s, needs=needs(**amounts))


def test_a_need_beyond_the_total_is_refused_so_that_other_hosts_are_asked():
    line = SlotLine(slots())
    assert line.ask(spec("a", gpu=3)) == SlotRefused("has 2 gpus, not 3", full=False)
    assert line.ask(spec("b", patience_s=9.0, tape=1)) == SlotRefused("no tape", full=False)
    assert line.ask(spec("7.1", Kind.QUEUED, tape=1)) == SlotRefused("no tape", full=False)


def test_a_job_that_may_wait_waits_for_resources_in_use():
    line = SlotLine(slots())
    assert line.ask(spec("a", gpu=2)) == SlotGranted()
    assert line.ask(spec("b", gpu=1)) == SlotRefused("both gpus in use")
    assert line.ask(spec("c", patience_s=9.0, gpu=1)) == SlotAwaited()
    assert line.ask(spec("d", Kind.QUEUED, 0.1, gpu=1)) == SlotRefused("both gpus in use")
    assert line.free(JobId("a")) == [JobId("c")]


def test_resources_of_queued_attempts_are_left_out_on_request():
    found = slots()
    take(found, "7.1", gpu=1)
    take(found, "h1-3", gpu=1)
    assert found.pool.facts().resources[0] == ("gpu", 2, 2)
    assert found.pool.facts(besides={JobId("7.1")}).resources[0] == ("gpu", 2, 1)


def test_the_memory_limit_of_an_attached_command_counts_as_given_and_refuses_it_nothing():
    line = SlotLine(Slots(2, 0, 8, pool=ResourcePool(memory_total=8)))
    limited = Needs(counted_bytes=6)
    assert line.ask(replace(spec("a"), needs=limited)) == SlotGranted()
    assert line.ask(replace(spec("b"), needs=limited)) == SlotGranted()
    assert line.slots.pool.facts().memory_given == 8  # there is no more
    assert line.ask(replace(spec("c", patience_s=9.0), needs=limited)) == SlotAwaited()
    assert line.slots.pool.unmet(Needs(memory_bytes=1)).later
    assert line.free(JobId("a")) == [JobId("c")]
    line.free(JobId("b"))
    assert line.slots.pool.facts().memory_given == 6
    line.free(JobId("c"))
    assert line.slots.pool.facts().memory_given == 0


@pytest.mark.parametrize("total", [0, 8 << 30])
def test_a_limit_beyond_all_memory_breaks_no_message_of_the_host(total):
    """A user may give any limit: several of them exceed what a number on the wire holds."""
    pool = ResourcePool(("linux",), {}, total)
    for job in ("a", "b", "c"):
        assert pool.take(JobId(job), Needs(counted_bytes=AMOUNT_MAX))
    facts = pool.facts()
    assert facts.memory_given == total
    assert read_facts_fields(facts_fields(facts)) == facts
    pb.Heartbeat(memory_for_jobs=facts.memory_total, memory_given=facts.memory_given)
    seen = Sample(HostId("h1"), 1, 1, 0.0, replace(vector(1.0), facts=facts), drained=False)
    assert convert.sample(convert.sample_out(seen)).vector.facts.memory_given == total
    for job in ("a", "b", "c"):
        pool.free(JobId(job))
    assert pool.facts().memory_given == 0


def test_additional_resources_go_to_waiting_jobs_at_once():
    found = slots()
    assert take(found, "a", gpu=2)
    assert found.enqueue(JobId("b"), "ann", needs=needs(gpu=1))
    found.pool.become(ResourcePool(("linux",), {"gpu": 3}, 8 << 30))
    assert found.resize(4, 0) == ["b"]
    assert indices(found, "b") == [(2,)]


def test_a_reduction_takes_nothing_from_holders():
    found = slots()
    assert take(found, "a", gpu=1)
    assert take(found, "b", gpu=1)
    found.pool.become(ResourcePool(("linux", "big"), {"gpu": 1}, 8 << 30))
    assert indices(found, "b") == [(1,)]
    assert found.pool.facts().features == ("linux", "big")
    assert found.pool.facts().resources == (("gpu", 1, 2),)
    found.release(JobId("a"))
    assert not take(found, "c", gpu=1)
    found.release(JobId("b"))
    assert take(found, "c", gpu=1)
    assert indices(found, "c") == [(0,)]


@pytest.mark.parametrize("seed", range(20))
def test_no_index_is_given_twice_or_when_it_is_gone_however_totals_change(seed):
    rng, found = Random(seed), slots(total=64)
    for step in range(300):
        match rng.randrange(4):
            case 0:
                found.pool.become(ResourcePool((), {"gpu": rng.randrange(6)}))
            case 1 if found.pool.held:
                found.release(rng.choice(list(found.pool.held)))
            case _ if take(found, f"j{step}", gpu=rng.randint(1, 3)):
                (given,) = indices(found, f"j{step}")
                assert all(index < found.pool.totals["gpu"] for index in given)
        held = [i for job in found.pool.held for (one,) in [indices(found, job)] for i in one]
        assert len(set(held)) == len(held)


def test_resources_that_nobody_holds_are_reported_as_unused():
    assert slots().pool.facts().resources == (("gpu", 2, 0), ("scratch", 100 << 30, 0))


def test_totals_change_and_resources_of_others_are_left_out_on_request():
    pool, gpu = ResourcePool(("linux",), {"gpu": 2}, 100), Needs((("gpu", 1),), memory_bytes=60)
    for name in ("a", "b"):
        assert pool.take(JobId(name), Needs((("gpu", 1),), memory_bytes=30))
    assert pool.facts() == Facts(("linux",), (("gpu", 2, 2),), 100, 60)
    assert pool.facts([JobId("a")]) == Facts(("linux",), (("gpu", 2, 1),), 100, 30)
    assert pool.facts() == Facts(("linux",), (("gpu", 2, 2),), 100, 60)
    pool.become(ResourcePool(("linux", "big"), {"gpu": 3}, 200))
    assert pool.facts() == Facts(("linux", "big"), (("gpu", 3, 2),), 200, 60)
    assert pool.unmet(gpu) is None
