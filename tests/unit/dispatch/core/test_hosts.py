"""Which hosts are given jobs: one that fails several in a row is set aside, longer each time."""

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.hosts import OFFERS_MAX, RECORDS_MAX, USERS_MAX, HostTable, Terms
from lbd.model import Closed, HostId, JobId

H1, H2 = HostId("h1"), HostId("h2")
TERMS = Terms(lease_s=20.0, host_failures=3, aside_s=10.0, aside_max_s=30.0)


@pytest.fixture
def hosts():
    table = HostTable(TERMS)
    assert all(table.heard(HostSlots(name, 2)) for name in (H1, H2))
    return table


def job_of(user, origin="h9"):
    return QueuedJob(JobId("1"), user=user, origin=origin)


ANN, BOB, CAT, DAN = map(job_of, ("ann", "bob", "cat", "dan"))
OWN = job_of("eve", H1)  # the host says so


def failures(table, count, now_s=0.0, job=ANN):
    return [table.failed(H1, job, now_s) for _ in range(count)]


def test_a_host_is_set_aside_after_several_failures_in_a_row(hosts):
    assert failures(hosts, 3) == [False, False, True]
    assert hosts.aside() == [H1]
    assert not hosts.heard(HostSlots(H1, 2))
    assert hosts.full(H1, 1) is None
    assert hosts.full(H2, 1).open_slots == 1


def test_failures_while_it_is_aside_do_not_keep_it_aside_longer(hosts):
    failures(hosts, 3)
    assert failures(hosts, 2, now_s=9.0) == [False, False]
    assert [host.name for host in hosts.returning(10.0)] == [H1]


def test_each_time_is_longer_up_to_the_maximum_until_it_has_succeeded(hosts):
    now_s, pauses = 0.0, []
    failures(hosts, 2)
    for worked in (False, False, False, True, False):
        if worked:
            hosts.worked(H1, ANN)
            failures(hosts, 2)
        assert failures(hosts, 1, now_s) == [True]
        began_s = now_s
        while not list(hosts.returning(now_s)):
            now_s += 1.0
        pauses.append(now_s - began_s)
    assert pauses == [10.0, 20.0, 30.0, 10.0, 20.0]


def test_a_host_that_was_removed_is_known_no_longer_unless_it_is_connected(hosts):
    hosts.gone(H2, Closed.DRAINED)
    hosts.removed([H1, H2])
    assert list(hosts.known) == [H1, H2]
    hosts.gone(H1, None)
    hosts.removed([HostId("h9")])
    assert hosts.out_of_contact() == [H1]
    hosts.removed([H1, H2])
    assert list(hosts.known) == [H2]
    hosts.heard(HostSlots(H1, 2))
    assert H1 in hosts.known


def removed(table, name=H1):
    table.gone(name, None)
    assert table.removed([name])


def test_who_joins_again_is_held_to_what_it_did_before_for_the_longest_pause(hosts):
    failures(hosts, 3)
    removed(hosts)
    assert not hosts.heard(HostSlots(H1, 2))
    assert list(hosts.returning(10.0))
    assert failures(hosts, 1, now_s=10.0) == [True], "for 20 s"
    removed(hosts)
    assert not list(hosts.returning(39.0))
    assert not hosts.heard(HostSlots(H1, 2))
    removed(hosts)
    assert not list(hosts.returning(40.0))
    assert hosts.heard(HostSlots(H1, 2))
    assert failures(hosts, 3, now_s=40.0) == [False, False, True]


def test_of_those_that_have_left_so_many_are_remembered_and_no_more(hosts):
    names = [HostId(f"h{number}") for number in range(RECORDS_MAX + 1)]
    for name in names:
        hosts.failed(name, ANN, 0.0)
        removed(hosts, name)
    assert list(hosts.departed) == names[1:]


# What a host has done, and what makes up for it


@pytest.mark.parametrize(
    ("worked", "is_aside"),
    [
        ([], True),
        ([OWN] * 9, True),  # a host can submit what it likes, as whom it likes
        ([CAT] * 9, True),  # so can one user who helps it
        ([CAT, OWN], True),
        ([CAT, DAN], False),
        ([ANN], False),
    ],
)
def test_a_host_makes_up_for_failures_by_what_neither_it_nor_one_user_can_arrange(
    hosts, worked, is_aside
):
    for _ in range(2):
        hosts.failed(H1, ANN, 0.0)
    for job in worked:
        hosts.worked(H1, job)
    assert hosts.failed(H1, ANN, 1.0) is is_aside


def test_what_two_users_have_lost_is_made_up_for_to_one_of_them_at_least(hosts):
    hosts.failed(H1, ANN, 0.0)
    hosts.failed(H1, BOB, 0.0)
    for job in (CAT, DAN, CAT):
        hosts.worked(H1, job)
    assert hosts.of(H1).record.failures.count == 2
    hosts.worked(H1, BOB)
    assert hosts.of(H1).record.failures.count == 0


def test_those_who_lost_attempts_themselves_do_not_speak_for_the_host(hosts):
    hosts.failed(H1, ANN, 0.0)
    hosts.worked(H1, CAT)
    hosts.failed(H1, CAT, 0.0)
    hosts.worked(H1, DAN)
    assert hosts.failed(H1, ANN, 0.0)


def test_one_of_those_who_were_served_well_may_lose_some_later(hosts):
    for job in (ANN, BOB):
        hosts.failed(H1, job, 0.0)
    for job in (CAT, DAN, job_of("fay")):
        hosts.worked(H1, job)
    hosts.failed(H1, CAT, 0.0)
    for job in (ANN, BOB):
        hosts.worked(H1, job)
    assert hosts.of(H1).record.failures.of == {}


def test_one_user_from_two_hosts_is_not_two(hosts):
    """Whose jobs fail on a host could otherwise keep it from others, whom it serves well."""
    for job in (ANN, job_of("ann", H1), ANN):
        hosts.failed(H1, job, 0.0)
    assert hosts.aside() == [H1]
    for job in (CAT, DAN):
        hosts.worked(H1, job)
    assert hosts.of(H1).record.failures.of == {}


def test_a_host_of_its_own_jobs_alone_is_set_aside_and_makes_up_for_it_as_any(hosts):
    assert failures(hosts, 2, job=OWN) == [False, False]
    hosts.worked(H1, job_of("ann", H1))
    assert failures(hosts, 3, job=OWN) == [False, False, True]


def test_what_lies_back_by_the_longest_pause_is_forgotten(hosts):
    failures(hosts, 3)
    assert list(hosts.returning(10.0))
    assert not list(hosts.returning(39.0))
    assert failures(hosts, 1, now_s=39.0, job=BOB) == [True], "for 20 s"
    assert list(hosts.returning(59.0))
    assert not list(hosts.returning(89.0))
    assert failures(hosts, 3, now_s=89.0) == [False, False, True]
    assert hosts.of(H1).record.aside_s == 10.0


def offer(table, count, job=ANN, now_s=0.0):
    """So often it offers slots and then refuses that job."""
    answers = []
    for number in range(count):
        table.of(H1).heard_s = now_s + number / 100
        answers += [table.refused(H1, job), table.refused(H1, job)]
    return answers


@pytest.mark.parametrize(
    ("begun", "counts"), [([], 1), ([OWN] * 9, 1), ([CAT] * 9, 1), ([CAT, DAN], 0), ([ANN], 0)]
)
def test_it_has_offered_in_vain_whatever_it_begins_of_its_own_or_of_one_user(hosts, begun, counts):
    assert not any(offer(hosts, OFFERS_MAX))
    for job in begun:
        hosts.begun(H1, job)
    assert offer(hosts, 1, now_s=1.0) == [bool(counts)] * 2


def test_offers_count_for_each_user_and_once_for_each_heartbeat(hosts):
    for number, job in enumerate((ANN, BOB, OWN)):
        assert not any(offer(hosts, OFFERS_MAX, job, now_s=number))
    hosts.of(H1).heard_s = 3.0
    assert [hosts.refused(H1, job) for job in (BOB, CAT, ANN)] == [True, False, True]


def test_offers_that_lie_back_are_forgotten(hosts):
    offer(hosts, OFFERS_MAX)
    assert not list(hosts.returning(31.0))
    assert not any(offer(hosts, OFFERS_MAX, now_s=31.0))


@pytest.mark.parametrize(
    ("begun", "is_fault"), [([], True), ([OWN], True), ([CAT], True), ([ANN], False)]
)
def test_whose_jobs_it_does_not_begin_remains_known(hosts, begun, is_fault):
    assert not hosts.held_in_vain(H1, ANN)
    for job in begun:
        hosts.begun(H1, job)
    assert hosts.held_in_vain(H1, BOB) is is_fault


def test_jobs_of_its_own_that_it_does_not_begin_are_nobodys(hosts):
    """One user may have submitted some there, and others elsewhere."""
    assert not hosts.held_in_vain(H1, ANN)
    assert not hosts.held_in_vain(H1, job_of("ann", H1))


def test_so_many_users_are_remembered_and_no_more(hosts):
    for number in range(USERS_MAX + 9):
        hosts.failed(H1, job_of(f"u{number}"), 0.0)
        hosts.worked(H1, job_of("cat"))
    record = hosts.of(H1).record
    assert len(record.failures.of) == USERS_MAX
    assert len(record.failures.served_since) == 1
    hosts.failed(H1, job_of("u0"), 0.0)
    assert record.failures.of["u0"] == 2
