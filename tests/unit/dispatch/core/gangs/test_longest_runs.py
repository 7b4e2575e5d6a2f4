"""How long the jobs in a gang's way, and those that could go before it, may take."""

from tests.unit.dispatch.gangs import H1, H2, Table


def test_jobs_that_end_in_time_fill_the_reserved_slots():
    table = Table(hosts=(H1, H2), gang_drain_s=100.0)
    table.submit(limit_s=50.0)
    assert table.gang(4) == []
    assert table.submit() == []
    assert table.submit(limit_s=60.0) == []
    (short,) = table.submit(limit_s=40.0)
    assert short.job == "8"
    said = "on h1, h2 from 0 until 100; room is expected by 50"
    assert f"holds 2; other jobs wait for it {said}" in table.why(2)


def test_jobs_that_were_short_before_fill_the_reserved_slots():
    table = Table(hosts=(H1, H2), gang_drain_s=100.0)
    for _ in range(3):
        (begin,) = table.submit(name="quick", user="ann")
        table.now_s += 10.0
        table.ended(begin)
    table.submit()
    assert table.gang(4) == []
    assert table.submit(name="slow", user="ann") == []
    (short,) = table.submit(name="quick", user="ann")
    assert short.job in table.life.leased


def test_a_job_that_runs_longer_than_similar_ones_may_take_until_its_limit():
    """After that time nothing was expected, though its limit was known."""
    table = Table(hosts=(H1,), gang_drain_s=100.0)
    for _ in range(3):
        (begin,) = table.submit(name="quick", user="ann")
        table.now_s += 2.0
        table.ended(begin)
    table.submit(name="quick", user="ann", limit_s=14.0)
    assert table.gang(2) == []
    assert table.why(5).endswith("; room is expected by 9")  # half as long again as those
    table.now_s = 9.0
    assert table.life.tick(*table.when) == []
    assert table.why(5).endswith("; room is expected by 20")
