"""Lists of hosts, features and resources in memory: a user has so many names, an array one list."""

from lbd.dispatch.core import named_lists
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.named_lists import counted
from lbd.dispatch.core.records import Begin, Cause, Ending, Live
from lbd.model import NO_NEEDS, HostId, JobId, Needs
from tests.unit.dispatch.core.test_lifecycle import H1, H2, OK, Table

MANY = frozenset(HostId(f"x{number}") for number in range(100))


def tasks(*numbers, barred=MANY, submission=1, user="eve"):
    """Of one array, each with a list of its own, as from the ledger."""
    shared = {"array": numbers[0], "user": user, "origin": "h2", "submission": submission}
    return [QueuedJob(JobId(str(n)), barred=frozenset(set(barred)), **shared) for n in numbers]


def names_of(table, user="eve"):
    return table.life.jobs.lists._of_user[user]


def test_short_lists_do_not_count():
    assert counted(8, NO_NEEDS) == 0
    assert counted(9, NO_NEEDS) == 9
    assert counted(7, Needs((("gpu", 1),), ("big",), ("slow",))) == 10


def test_names_count_once_for_an_array_until_its_last_job_has_left():
    table = Table()
    table.life.submitted(tasks(1, 2, 3), *table.when)  # two of them begin
    assert names_of(table) == 100
    table.life.kill(JobId("3"), 0, *table.when)
    for live in list(table.life.leased.values()):
        assert names_of(table) == 100
        lease = live.lease
        table.life.begun(lease.host, live.job.id, lease.attempt)
        table.life.ended(lease.host, live.job.id, lease.attempt, OK, *table.when)
    assert (names_of(table), table.life.jobs.lists._of) == (0, {})


def test_what_a_new_dispatcher_finds_counts_and_so_does_what_begins_again():
    table = Table()
    for job in tasks(1, 2, 3):
        table.life.restored(Live(job, attempt=1, held="held by eve"), None, *table.when)
    assert names_of(table) == 100
    for number in "123":
        table.life.kill(JobId(number), 0, *table.when)
    assert names_of(table) == 0
    (job,) = tasks(2)
    table.life.revived(Live(job, attempt=1), *table.when)
    assert names_of(table) == 100


def test_jobs_of_a_submission_have_one_list_also_where_hosts_refuse_them():
    """A set of a thousand names for each of a million tasks filled the dispatcher's memory."""
    table = Table()
    table.life.host_is(HostSlots(HostId("h3"), 1), *table.when)
    begins = table.life.submitted(tasks(*range(1, 7)), *table.when)
    refused = Ending(Cause.LOST, reason="no such directory")
    for _ in range(3):  # by h1, wherever it may begin then
        for begin in [one for one in begins if isinstance(one, Begin) and one.host == H1]:
            which = begin.host, begin.job, begin.attempt
            begins += table.life.refused(*which, "chdir", refused, *table.when)
    lists = {id(table.life.queues.registry[JobId(str(n))].kind.barred) for n in range(1, 7)}
    barred = [table.life.queues.registry[JobId(str(n))].kind.barred for n in range(1, 7)]
    assert {frozenset(one - MANY) for one in barred} == {frozenset(), frozenset({H1})}
    assert len(lists) == 2
    assert H2 not in barred[0]


def test_a_user_and_a_host_have_so_many_names(monkeypatch):
    monkeypatch.setattr(named_lists, "NAMES_OF_USER", 150)
    table = Table()
    table.life.submitted(tasks(1), *table.when)
    lists = table.life.jobs.lists
    assert lists.why_not("eve", "h2", 0) == lists.why_not("eve", "h2", 50) == ""
    assert lists.why_not("eve", "h3", 51) == (
        "jobs of eve in the queue name 100 hosts, features and resources (-x, --feature, --need; "
        "an array counts once), and the limit is 150"
    )
    table.life.submitted(tasks(2, submission=2, user="bob"), *table.when)
    assert lists.why_not("ann", "h2", 100) == ""
    assert lists.why_not("ann", "h2", 101).startswith("jobs of h2 in the queue name 200 hosts")


def test_names_on_their_way_count_for_their_user_and_their_host(monkeypatch):
    """Those of many users of one host were once counted for each of these alone."""
    monkeypatch.setattr(named_lists, "NAMES_OF_USER", 150)
    lists = named_lists.NamedLists()
    for user in ("ann", "bob"):
        lists.comes(user, "h2", 100)
    assert lists.why_not("ann", "h3", 50) == ""
    assert lists.why_not("ann", "h3", 51).startswith("jobs of ann in the queue name 0 hosts")
    assert lists.why_not("eve", "h2", 100) == lists.why_not("eve", "h3", 150) == ""
    assert lists.why_not("eve", "h2", 101).startswith("jobs of h2 in the queue name 0 hosts")
    for user in ("ann", "bob"):
        lists.comes(user, "h2", -100)
    assert lists.why_not("eve", "h2", 150) == ""
