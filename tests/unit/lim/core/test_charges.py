import math

from hypothesis import given
from hypothesis import strategies as st

from lbd.lim.core.charges import FADED, ChargeBook, HostCharges
from lbd.model import HostId, JobId

H1, H2 = HostId("h1"), HostId("h2")
J1, J2 = JobId("j1"), JobId("j2")
T = 4.0


def test_a_charge_counts_one_until_a_newer_sample():
    book = ChargeBook()
    book.add(H1, J1, 10.0)
    book.sampled(H1, 9.5, T)  # older than the pick
    assert book.of(H1).total == 1.0
    book.sampled(H1, 12.0, T)
    assert book.of(H1).total == math.exp(-2.0 / T)


def test_it_fades_with_the_samples_and_is_dropped():
    book = ChargeBook()
    book.add(H1, J1, 0.0)
    for at_s in range(1, 20):
        book.sampled(H1, float(at_s), T)
        expected = math.exp(-at_s / T)
        assert math.isclose(book.of(H1).total, expected if expected >= FADED else 0.0)
    assert book.jobs() == 0


def test_a_job_is_charged_once_and_moves():
    book = ChargeBook()
    assert book.add(H1, J1, 0.0) is None
    assert book.add(H1, J1, 1.0) == H1
    assert book.of(H1).total == 1.0
    assert book.add(H2, J1, 2.0) == H1
    assert (book.of(H1).total, book.of(H2).total) == (0.0, 1.0)
    assert book.drop(J1)[0] == H2
    assert book.drop(J1)[0] is None
    assert (book.jobs(), book.of(H2).total) == (0, 0.0)


def test_a_charge_that_no_sample_ever_follows_expires():
    book = ChargeBook()
    book.add(H1, J1, 0.0)
    book.add(H1, J2, 20.0)
    assert book.expire(29.0, 30.0) == []
    assert book.expire(31.0, 30.0) == [H1]
    assert (book.jobs(), book.host_of(J1), book.host_of(J2)) == (1, None, H1)


def test_forgetting_a_host_forgets_its_jobs():
    book = ChargeBook()
    book.add(H1, J1, 0.0)
    book.add(H2, J2, 0.0)
    book.forget_host(H1)
    assert (book.jobs(), book.host_of(J2)) == (1, H2)


def test_nothing_is_kept_of_expired_charges():
    book = ChargeBook()
    for end in (
        lambda: book.drop(J1),
        lambda: book.expire(100.0, 30.0),
        lambda: book.sampled(H1, 100.0, T),
    ):
        book.add(H1, J1, 0.0)
        end()
        assert (book.hosts(), book.by_host) == ([], {})
    assert book.picked_at_s(J1) == -math.inf


def test_a_repeated_job_is_one_charge_for_its_last_pick():
    charges = HostCharges()
    for now_s in (1.0, 2.0):
        charges.add(J1, now_s)
    assert (charges.total, charges.picked_since(2.0)) == (1.0, 1)
    charges.add(J2, 3.0)
    charges.drop(J1)
    assert (charges.total, charges.picked_since(0.0), len(charges)) == (1.0, 1, 1)
    charges.drop(J2)
    assert (charges.total, charges.picked_since(0.0)) == (0.0, 0)


steps = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "sample", "expire"]), st.integers(0, 9)), max_size=60
)


@given(steps)
def test_the_running_total_is_the_sum(actions):
    charges = HostCharges()
    now_s = 0.0
    for kind, number in actions:
        now_s += 0.7
        job = JobId(str(number))
        match kind:
            case "add":
                charges.add(job, now_s)
            case "drop":
                charges.drop(job)
            case "sample":
                charges.sampled(now_s - number / 5, T)
            case _:
                charges.expire(now_s - number)
        weights = charges._weights.values()
        assert math.isclose(charges.total, sum(weights), abs_tol=1e-9)
        assert charges._picked_at_s.keys() == charges._weights.keys()
