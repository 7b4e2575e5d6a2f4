"""A user's jobs are found without a look at those of all other users."""

import contextlib
from random import Random

import pytest

from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.ledger import array_work, recent_ends, work
from lbd.dispatch.ledger.sqlite import carry_out, connect, migrate

OTHERS = 20_000
USERS = (("ann", 1001), ("bob", 1002), ("other", 1002))


def submit(db, user, uid, first, jobs, ended):
    (number,) = db.execute(
        'INSERT INTO submissions ("user", uid, origin, name, command, spec, slots, may_restart,'
        " only_host, idempotency_key, first_job, jobs)"
        " VALUES (?, ?, 'h1', '', X'', X'', 1, 1, '', '', ?, ?) RETURNING id",
        (user, uid, first, jobs),
    ).fetchone()
    db.executemany(
        "INSERT INTO jobs (id, submission, array_index, state, tier, attempt, crashes, barred,"
        " reason, host, submitted, finished, signal, cause)"
        " VALUES (?, ?, ?, ?, 1, 0, 0, '', '', '', 1.0, ?, 0, '')",
        [
            (first + n, number, n if jobs > 1 else None, "done" if ended else "pending",
             2.0 if ended else None)
            for n in range(jobs)
        ],
    )  # fmt: skip


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with contextlib.closing(connect(path)) as db:
        migrate(db, path)
        db.execute("PRAGMA synchronous = OFF")
        yield db


@pytest.fixture
def steps(db):
    """Returns how many thousand steps SQLite's virtual machine has taken since the last call."""
    taken = [0]

    def step():
        taken[0] += 1

    def since():
        count, taken[0] = taken[0], 0
        return count

    db.set_progress_handler(step, 1000)
    return since


@pytest.mark.parametrize("ask", [work.find, array_work.lines])
@pytest.mark.parametrize("wanted", [Wanted(user="ann"), Wanted(user="ann", uid=1001)])
def test_nobody_waits_while_jobs_of_others_are_searched(db, steps, ask, wanted):
    submit(db, "ann", 1001, 1, 1, ended=True)
    for n in range(OTHERS // 100):
        submit(db, "bob", 1002, 2 + 100 * n, 100, ended=True)
    steps()
    for limit in (1, 10):
        asked = Wanted(user=wanted.user, uid=wanted.uid, ended_too=True, limit=limit)
        assert [row.id for row in carry_out(db, ask(asked))] == [1]
        assert steps() < 20
    last = Wanted(user="bob", uid=wanted.uid and 1002, ended_too=True, limit=1)
    assert len(carry_out(db, ask(last))) == 1
    assert steps() < 20
    asked = Wanted(user="nobody", uid=wanted.uid and 77, ended_too=True)
    assert carry_out(db, ask(asked)) == []
    assert steps() < 20


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("user", "uid"), [("ann", 1001), ("bob", None), ("other", 1002), ("x", 9)])
def test_the_newest_jobs_of_that_user_are_returned_in_order(db, seed, user, uid):
    rng, first, jobs = Random(seed), 1, []
    for _ in range(1500):
        owner, number = rng.choice(USERS)
        count, ended = rng.choice((1, 1, 1, 3)), rng.random() < 0.7
        submit(db, owner, number, first, count, ended)
        is_theirs = owner == user if uid is None else number == uid
        jobs += [(first + n, ended) for n in range(count)] if is_theirs else []
        first += count
    for limit in (1, 700, 10_000):
        asked = Wanted(user=user, uid=uid, ended_too=True, limit=limit)
        expected = [number for number, _ in jobs][-limit:]
        assert [row.id for row in carry_out(db, work.find(asked))] == expected
        only = Wanted(user=user, uid=uid, ended_only=True, limit=limit)
        expected = [number for number, ended in jobs if ended][-limit:]
        assert [row.id for row in carry_out(db, work.find(only))] == expected


def test_live_jobs_and_those_that_ended_lately_are_found_without_a_look_at_the_others(db, steps):
    """What squeue and sacct ask: a hundred times as much may be on record, all of it newer."""
    submit(db, "ann", 1001, 1, 3, ended=False)
    submit(db, "bob", 1002, 4, 1, ended=False)
    for n in range(OTHERS // 100):
        submit(db, "bob", 1002, 5 + 100 * n, 100, ended=True)
    for job in (2, 40, 50, 60):
        db.execute("UPDATE jobs SET state = 'done', finished = 900.0 WHERE id = ?", (job,))
    steps()
    for user, limit, expected in (
        ("", 100, [2, 40, 50, 60, 1, 3, 4]), ("", 5, [50, 60, 1, 3, 4]), ("", 2, [3, 4]),
        ("ann", 100, [2, 1, 3]), ("bob", 3, [50, 60, 4]),
    ):  # fmt: skip
        asked = Wanted(user=user, ended_since=900.0, limit=limit)
        assert [row.id for row in carry_out(db, recent_ends.find(asked))] == expected
        assert steps() < 20
    count = carry_out(db, work.count(Wanted(ended_since=900.0), by_array=False))
    assert count == 7
