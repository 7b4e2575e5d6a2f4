"""Slots, the limit on fallbacks, the table of jobs. It is one file because `jobs.py` is."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.errors import PeerError
from lbd.lbm.core import jobs as state
from lbd.lbm.core.jobs import Claims, Job, Jobs, LocalCap
from lbd.lbm.core.slots import ResourcePool, Slots
from lbd.model import NO_NEEDS, HostId, JobId, JobState, Needs


def job(name, **more):
    return Job(JobId(name), (b"true",), "ann", HostId("h1"), HostId("h2"), submitted=1.0, **more)


GPU, BOTH, DISK = (Needs(((name, n),)) for name, n in (("gpu", 1), ("gpu", 2), ("disk", 1)))


def gpus(total):
    return ResourcePool(("linux",), {"gpu": total, "disk": 9})


class TestSlots:
    def test_first_come_first_served(self):
        slots = Slots(total=1, max_waiting=10)
        assert slots.take(JobId("a"))
        assert not slots.take(JobId("b"))
        assert slots.enqueue(JobId("b"))
        assert slots.enqueue(JobId("c"))
        assert slots.release(JobId("a")) == ["b"]
        assert slots.release(JobId("b")) == ["c"]
        assert slots.release(JobId("c")) == []

    def test_nobody_overtakes_waiting_jobs(self):
        slots = Slots(total=1, max_waiting=10)
        slots.take(JobId("a"))
        slots.enqueue(JobId("b"))
        slots.holders.clear()  # a slot is free, but b has been waiting for it
        assert not slots.take(JobId("c"))

    def test_several_are_taken_at_once_or_none(self):
        slots = Slots(total=4, max_waiting=10)
        assert slots.take(JobId("a"), slots=(2, 3))
        assert (slots.used, slots.widths) == (3, {"a": 3})  # what is free, up to the maximum
        assert slots.has_room("", 1)
        assert slots.has_room("")
        assert not slots.has_room("", 2)
        assert not slots.take(JobId("b"), slots=(2, 2))
        assert slots.enqueue(JobId("b"), width=2)
        assert not slots.take(JobId("c"))  # b has been waiting
        assert slots.enqueue(JobId("c"))
        assert slots.release(JobId("a")) == ["b", "c"]
        assert (slots.used, slots.widths, slots._wishes) == (3, {"b": 2}, {})

    def test_a_job_of_several_slots_is_not_overtaken_and_may_exceed(self):
        slots = Slots(total=2, max_waiting=10)
        slots.take(JobId("a"))
        slots.take(JobId("b"))
        slots.enqueue(JobId("wide"), width=2)
        slots.enqueue(JobId("c"))
        assert slots.release(JobId("a")) == []
        slots.exceed(JobId("wide"))
        assert slots.used == 3
        assert slots.release(JobId("wide")) == ["c"]

    def test_the_queue_is_bounded(self):
        slots = Slots(total=1, max_waiting=1)
        slots.take(JobId("a"))
        assert slots.enqueue(JobId("b"))
        assert not slots.enqueue(JobId("c"))

    def test_a_nested_command_that_its_user_sent_there_does_not_wait_for_its_parent(self):
        slots = Slots(total=1, max_waiting=10)
        slots.take(JobId("parent"))
        assert slots.take(JobId("child"), beyond=True)

    def test_a_job_that_has_waited_long_enough_runs_beyond_the_slots_which_stay_bounded(self):
        slots = Slots(total=1, max_waiting=2)
        slots.take(JobId("a"))
        slots.enqueue(JobId("b"))
        slots.exceed(JobId("b"))
        assert slots.holders == {"a", "b"}
        assert slots.enqueue(JobId("c"))
        assert not slots.enqueue(JobId("d"))
        assert slots.release(JobId("a")) == []  # b is still one job for the one slot
        assert slots.release(JobId("b")) == ["c"]

    def test_giving_up_a_wait_frees_nothing(self):
        slots = Slots(total=1, max_waiting=10)
        slots.take(JobId("a"))
        slots.enqueue(JobId("b"))
        assert slots.release(JobId("b")) == []
        assert slots.holders == {"a"}

    def test_one_user_may_have_all_slots_until_another_wants_some(self):
        slots = Slots(total=4, max_waiting=10)
        assert all(slots.take(JobId(f"a{n}"), "ann") for n in range(4))
        assert not slots.take(JobId("a4"), "ann")
        assert slots.hog() == "ann"
        assert slots.take(JobId("b0"), "bob")  # beyond the slots, as many as a share leaves
        assert not slots.take(JobId("b1"), "bob")
        assert slots.hog() == ""
        slots.release(JobId("a0"))
        assert not slots.take(JobId("a5"), "ann")

    def test_a_user_with_some_of_the_extra_room_may_have_more_of_it(self):
        slots = Slots(total=8, max_waiting=10)
        assert all(slots.take(JobId(f"a{n}"), "ann") for n in range(8))
        assert [slots.take(JobId(f"b{n}"), "bob") for n in range(3)] == [True, True, False]

    def test_a_user_beyond_the_slots_has_fewer_places_to_wait(self):
        slots = Slots(total=1, max_waiting=6)
        for number in range(4):
            slots.take(JobId(f"a{number}"), "ann", beyond=True)
        assert slots.enqueue(JobId("a4"), "ann")
        assert not slots.enqueue(JobId("a5"), "ann")
        assert slots.enqueue(JobId("b"), "bob")

    def test_the_same_holds_for_a_single_slot(self):
        slots = Slots(total=1, max_waiting=10)
        assert slots.take(JobId("a"), "ann")
        assert slots.take(JobId("b"), "bob")
        assert not slots.take(JobId("c"), "cleo")

    def test_the_user_with_the_least_gets_the_next_slot(self):
        slots = Slots(total=2, max_waiting=10)
        for name in ("a0", "a1"):
            slots.take(JobId(name), "ann")
        for name, user in (("a2", "ann"), ("a3", "ann"), ("b0", "bob")):
            assert slots.enqueue(JobId(name), user)
        assert slots.release(JobId("a0")) == ["b0"]
        assert slots.release(JobId("a1")) == ["a2"]

    def test_no_user_has_all_places_to_wait(self):
        slots = Slots(total=1, max_waiting=4)
        slots.take(JobId("a"), "ann")
        queued = [slots.enqueue(JobId(f"a{n}"), "ann") for n in range(4)]
        assert queued == [True, True, True, False]
        assert slots.enqueue(JobId("b"), "bob")

    def test_a_job_of_several_slots_gets_all_or_none(self):
        slots = Slots(total=3, max_waiting=4)
        assert slots.take_many(JobId("two"), "ann", 2)
        assert not slots.take_many(JobId("other"), "bob", 2)
        assert (slots.used, slots.is_full) == (2, False)
        assert slots.take(JobId("one"), "bob")
        assert slots.is_full
        assert slots.enqueue(JobId("next"), "bob")
        assert slots.release(JobId("two")) == [JobId("next")]
        assert slots.used == 2

    def test_no_path_leads_further_beyond_the_slots_than_allowed(self):
        slots = Slots(total=2, beyond=1, max_waiting=10)
        assert slots.take(JobId("a"), "ann")
        assert slots.take(JobId("b"), "ann")
        assert slots.enqueue(JobId("named"), "ann")
        assert slots.enqueue(JobId("more"), "ann")
        assert slots.exceed(JobId("named"))
        assert not slots.exceed(JobId("more"))
        assert list(slots.waiting) == ["more"]
        assert not slots.take(JobId("nested"), "ann", beyond=True)
        assert not slots.take(JobId("anothers"), "bob")
        assert not slots.has_room("bob")
        assert slots.used == 3

    def test_nobody_exceeds_what_the_owner_has_set(self):
        slots = Slots(total=1, beyond=0, max_waiting=10)
        assert slots.take(JobId("a"), "ann")
        assert not slots.take(JobId("nested"), "ann", beyond=True)
        assert not slots.take(JobId("anothers"), "bob")
        assert slots.enqueue(JobId("b"), "bob")
        assert not slots.exceed(JobId("b"))
        assert slots.release(JobId("a")) == ["b"]

    def test_a_job_of_several_slots_exceeds_only_with_all_of_them(self):
        slots = Slots(total=2, beyond=1, max_waiting=10)
        slots.take(JobId("a"), slots=(2, 2))
        slots.enqueue(JobId("wide"), width=2)
        assert not slots.exceed(JobId("wide"))
        assert not slots.take(JobId("nested"), beyond=True, slots=(2, 2))
        assert slots.take(JobId("nested"), beyond=True, slots=(1, 2))
        assert slots.used == 3

    def test_room_is_made_for_known_users_who_have_less(self):
        slots = Slots(total=4, max_waiting=10)
        for name in "abcd":
            assert slots.take(JobId(name), "ann")
        found = {user: slots.has_room(user) for user in ("ann", "bob", "")}
        assert found == {"ann": False, "bob": True, "": False}
        assert not slots.take(JobId("e"), "ann")
        assert not slots.take(JobId("e"), "")
        assert slots.take(JobId("e"), "bob")

    def test_a_job_that_gave_up_waiting_leaves_nothing_behind(self):
        slots = Slots(total=1, max_waiting=10, pool=gpus(1))
        slots.take(JobId("a"))
        slots.enqueue(JobId("wide"), "ann", width=2, needs=GPU)
        assert slots.release(JobId("wide")) == []
        assert (slots.waiting, slots._wishes, slots.users) == ({}, {}, {"a": ""})

    def test_several_slots_are_taken_only_together_with_all_other_needs(self):
        slots = Slots(total=4, max_waiting=10, pool=gpus(1))
        assert slots.take_many(JobId("a"), "ann", 2, GPU)
        assert not slots.take_many(JobId("b"), "ann", 2, GPU)
        assert not slots.take_many(JobId("b"), "ann", 3)
        assert slots.take_many(JobId("b"), "ann", 2)
        assert slots.used == 4

    @pytest.mark.parametrize(
        ("waiting", "wants", "takes"),
        [
            ([], NO_NEEDS, True),
            ([BOTH], NO_NEEDS, True),  # the waiting job would have no use for a slot
            ([BOTH], GPU, False),  # but for the resource
            ([BOTH], DISK, True),
            ([BOTH, GPU], NO_NEEDS, True),  # the second goes behind the first
            ([BOTH, GPU], DISK, True),
            ([NO_NEEDS], NO_NEEDS, False),
            ([BOTH, NO_NEEDS], NO_NEEDS, False),
            ([BOTH, NO_NEEDS], DISK, False),
            ([BOTH, DISK], NO_NEEDS, False),
        ],
    )
    def test_a_waiting_job_is_passed_only_by_jobs_that_need_nothing_it_waits_for(
        self, waiting, wants, takes
    ):
        """One GPU of two is taken, and so is one slot of three. Slots are free."""
        slots = Slots(total=3, max_waiting=10, pool=gpus(2))
        assert slots.take(JobId("first"), needs=GPU)
        for number, needs in enumerate(waiting):
            slots.enqueue(JobId(f"w{number}"), needs=needs)
        assert slots.take(JobId("new"), needs=wants) is takes

    def test_the_owner_changes_the_number_of_slots(self):
        slots = Slots(total=1, beyond=0, max_waiting=10)
        slots.take(JobId("a"))
        slots.enqueue(JobId("b"))
        assert not slots.exceed(JobId("b"))
        assert slots.resize(1, 1) == []
        assert slots.exceed(JobId("b"))
        slots.enqueue(JobId("c"))
        assert slots.resize(3, 0) == ["c"]

    @given(st.lists(st.tuples(st.sampled_from("te r"), st.integers(0, 9)), max_size=60))
    def test_there_are_never_more_holders_than_slots_and_none_is_forgotten(self, history):
        slots, asked = Slots(total=2, max_waiting=4), set()
        for action, number in history:
            name = JobId(f"j{number}")
            if action == "r":
                slots.release(name)
                asked.discard(name)
            elif name not in asked and (slots.take(name) or slots.enqueue(name)):
                asked.add(name)
            assert len(slots.holders) <= 2
            assert slots.holders | set(slots.waiting) == asked
            assert not (slots.waiting and len(slots.holders) < 2)

    @given(
        st.lists(
            st.tuples(st.sampled_from(["take", "hold", "wait", "release"]), st.integers(0, 9)),
            max_size=60,
        )
    )
    def test_what_each_user_holds_is_counted_right(self, history):
        slots, width = Slots(total=6, max_waiting=9), {n: 1 + n % 3 for n in range(10)}
        users = {JobId(f"j{n}"): "ann" if n < 6 else "bob" for n in range(10)}
        for action, n in history:
            name = JobId(f"j{n}")
            if action == "release":
                slots.release(name)
            elif action == "hold":
                slots.hold(name, users[name], width[n])
            elif name not in slots.holders and name not in slots.waiting:
                if action == "take":
                    slots.take(name, users[name], slots=(1, width[n]))
                else:
                    slots.enqueue(name, users[name], width[n])
            held = Counter()
            for job in slots.holders:
                held[users[job]] += slots.widths.get(job, 1)
            assert held.total() == slots.used
            assert all(
                slots.is_beyond_share(user, slots.user_places - held[user]) is False
                and slots.is_beyond_share(user, slots.user_places - held[user] + 1)
                for user in ("ann", "bob")
            )


class TestClaims:
    def test_nothing_starts_twice_on_one_stream(self):
        claims = Claims(Jobs(history=10))
        claims.take(JobId("h2-1"))
        with pytest.raises(PeerError, match="h2-1 has already been sent here"):
            claims.take(JobId("h2-1"))
        claims.give_back(JobId("h2-1"))  # nothing has run
        claims.take(JobId("h2-1"))

    def test_nor_does_a_command_that_runs_here_start_on_another_stream(self):
        jobs = Jobs(history=10)
        jobs.add(job("h2-1"))
        claims = Claims(jobs)
        with pytest.raises(PeerError, match="h2-1 has already been sent here"):
            claims.take(JobId("h2-1"))
        assert claims.ids == []
        jobs.end(JobId("h2-1"), JobState.DONE, 2.0)
        claims.take(JobId("h2-1"))

    def test_a_limited_number_is_remembered(self, monkeypatch):
        monkeypatch.setattr(state, "CLAIMS_KEPT", 2)
        claims = Claims(Jobs(history=10))
        for number in range(5):
            claims.take(JobId(f"h2-{number}"))
        assert claims.ids == ["h2-3", "h2-4"]


class TestLocalCap:
    def test_each_depth_has_its_own_slots_so_a_parent_never_blocks_its_child(self):
        cap = LocalCap(total=1)
        assert cap.take(JobId("make"), depth=0)
        assert not cap.take(JobId("other"), depth=0)
        assert cap.take(JobId("cc"), depth=1)
        cap.release(JobId("make"))
        assert cap.take(JobId("other"), depth=0)
        cap.hold(JobId("ld"), depth=2)
        assert not cap.take(JobId("as"), depth=2)


class TestJobs:
    def test_ids_are_of_this_host_and_never_repeat(self):
        jobs = Jobs(10, own=HostId("h1"), numbers=iter((7, 8)))
        assert [jobs.new_id(), jobs.new_id()] == ["h1-7", "h1-8"]

    def test_a_job_placed_here_is_known_until_it_ends(self):
        jobs = Jobs(10)
        jobs.placed |= {17: JobId("h2-1"), 18: JobId("h2-2")}
        jobs.forget_placed(JobId("h2-1"))
        assert jobs.placed == {18: "h2-2"}

    def test_history_is_bounded_and_keeps_the_newest(self):
        jobs = Jobs(history=2)
        for name in "abc":
            jobs.add(job(name))
            jobs.end(JobId(name), JobState.DONE, 2.0, exit_status=0)
        assert [ended.id for ended in jobs.ended] == ["b", "c"]
        assert not jobs.running

    @pytest.mark.parametrize(
        ("ran_s", "started"),
        [(0.0, 7.0), (0.5, 7.0), (3.0, 5.0), (99.0, 1.0), (-1.0, 7.0), (float("nan"), 1.0)],
    )
    def test_its_begin_may_have_been_heard_of_late(self, ran_s, started):
        """But it did not begin before it was submitted, whatever another host says."""
        jobs = Jobs(history=5)
        jobs.add(job("a", started=7.0))
        jobs.end(JobId("a"), JobState.DONE, 8.0, 0, 0.5, ran_s=ran_s)
        assert jobs.ended[0].started == started

    def test_a_job_ends_once(self):
        reported = []
        jobs = Jobs(history=5, ended=lambda one: reported.append(one.state))
        jobs.add(job("a"))
        jobs.end(JobId("a"), JobState.LOST, 2.0, reason="lost contact")
        jobs.end(JobId("a"), JobState.DONE, 3.0, exit_status=0)
        assert [(ended.state, ended.reason) for ended in jobs.ended] == [
            (JobState.LOST, "lost contact")
        ]
        assert reported == [JobState.LOST]

    def test_a_reason_known_before_the_end_is_kept_unless_the_end_has_one(self):
        jobs = Jobs(history=5)
        for name, reason in (("a", ""), ("b", "lost contact")):
            jobs.add(job(name))
            jobs.running[JobId(name)].reason = "stopped by its owner"
            jobs.end(JobId(name), JobState.LOST, 2.0, reason=reason)
        assert [ended.reason for ended in jobs.ended] == ["stopped by its owner", "lost contact"]

    def test_the_beginning_of_a_long_command_is_kept(self):
        jobs = Jobs(history=5)
        long, short = job("long"), job("short")
        long.command, long.directory = (b"x" * 4000, *[b"y" * 94] * 9), b"/" * 5000
        jobs.add(long)
        jobs.add(short)
        assert long.command == (b"x" * 4000, b"y" * 94, "…".encode())
        assert len(long.directory) == 4096
        assert short.command == (b"true",)

    def test_the_latest_restarted_jobs_are_known(self):
        jobs = Jobs(history=5)
        one = job("0")
        jobs.add(one)
        for number in range(1, state.RENAMED_KEPT + 2):
            jobs.rename(one, JobId(str(number)))
            jobs.add(one)
        assert jobs.find(JobId("0")) is None
        assert jobs.find(JobId("1")) is one

    def test_only_started_jobs_are_counted(self):
        jobs = Jobs(history=5)
        jobs.add(job("waits"))
        jobs.add(job("runs", foreign=True))
        jobs.running[JobId("runs")].start(HostId("h2"), "lowest", 1.5)
        assert (jobs.count(foreign=False), jobs.count(foreign=True)) == (0, 1)


class TestEndsOfJobs:
    def test_a_waiting_client_learns_of_the_end_under_the_next_id_too(self):
        jobs, heard = Jobs(9), []
        one = job("h1-1")
        jobs.add(one)
        jobs.once_ended(JobId("h1-1"), lambda: heard.append("first"))
        jobs.rename(one, JobId("h1-2"))
        jobs.add(one)
        jobs.once_ended(JobId("h1-2"), lambda: heard.append("second"))
        assert jobs.find(JobId("h1-1")) is one
        assert heard == []
        jobs.end(JobId("h1-2"), JobState.DONE, 2.0)
        assert heard == ["first", "second"]
        assert jobs.find(JobId("h1-1")) is one
        assert jobs.find(JobId("h1-3")) is None

    def test_a_client_that_no_longer_waits_is_told_nothing(self):
        jobs, heard = Jobs(9), []
        jobs.add(job("h1-1"))
        call = heard.append
        wait = lambda: call("x")  # noqa: E731
        jobs.once_ended(JobId("h1-1"), wait)
        jobs.no_longer(wait)
        jobs.end(JobId("h1-1"), JobState.DONE, 2.0)
        assert heard == []

    @pytest.mark.parametrize(
        ("state", "shown"),
        [
            (JobState.FAILED, JobState.CANCELLED),
            (JobState.UNKNOWN, JobState.CANCELLED),
            (JobState.DONE, JobState.DONE),  # it had succeeded by then
        ],
    )
    def test_a_killed_job_is_cancelled_unless_it_succeeded(self, state, shown):
        jobs = Jobs(9)
        jobs.add(job("h1-1", killed_by="ann"))
        jobs.end(JobId("h1-1"), state, 2.0, 143)
        assert jobs.ended[0].state is shown
        assert (jobs.ended[0].reason == "cancelled by ann") is (shown is JobState.CANCELLED)

    @pytest.mark.parametrize(
        ("more", "end", "reason"),
        [
            ({"killed_by": "ann"}, "", "cancelled by ann; placed: lowest; h2 0.10"),
            ({}, "lost contact with h2", "lost contact with h2; placed: lowest; h2 0.10"),
            ({}, "", "lowest; h2 0.10"),
            ({"foreign": True}, "lost contact with h1", "lost contact with h1"),
        ],
    )
    def test_why_it_ran_where_it_ran_is_kept_beside_how_it_ended(self, more, end, reason):
        """After a kill `lbctl job` did not know any more why the command had run on that host."""
        jobs = Jobs(9)
        jobs.add(job("h1-1", **more))
        jobs.running[JobId("h1-1")].start(HostId("h2"), "lowest; h2 0.10", 1.5)
        jobs.end(JobId("h1-1"), JobState.FAILED, 2.0, 143, reason=end)
        assert jobs.ended[0].reason == reason


def test_a_job_that_waits_again_counts_as_not_started():
    one = job("7", pid=0)
    one.start(HostId("h3"), "lowest", 5.0)
    one.pid = 42
    one.take_back("h3 was lost")
    assert (one.state, one.host, one.pid, one.started) == (JobState.PENDING, "", 0, None)
    assert one.reason == "h3 was lost"
