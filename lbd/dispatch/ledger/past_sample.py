"""A sample of the jobs that ended lately, in which each user has an even share.

If a user has more jobs than that, every n-th one is taken, and each of these stands for n. So the
sample is bounded, nobody's jobs push those of others out, and it still tells how many jobs and how
much work there were of whom. (The newest jobs of each would not: a user's last minute, just before
a look, would count as if it had always been like that.)
"""

from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.ledger_rows import Sample, Wanted
from lbd.dispatch.ledger.retention import column
from lbd.dispatch.ledger.work import Ask, Work, find, whole
from lbd.policy.even_share import even_share

EARLIER = 1000  # jobs that ended before

# The submissions after one of them, with how many of their jobs have ended. Their rows are wide:
# the comparison is written so that an index is used that has all of these columns, and the jobs are
# grouped so that only those that have not ended are read; SQLite makes an index of the sums, but
# only of a type it knows.
ENDED = (
    "SELECT {who} AS who, id, first_job, jobs - COALESCE(live, 0) AS ended FROM submissions"
    " LEFT JOIN (SELECT CAST(submission AS BIGINT) AS of_these, COUNT(*) AS live FROM jobs"
    " WHERE finished IS NULL GROUP BY CAST(submission AS BIGINT)) AS waiting ON of_these = id"
    " WHERE id + 0 > ?"
)
COUNTED = "SELECT CAST(SUM(ended) AS BIGINT) FROM ({ended}) AS past GROUP BY who"
CHOSEN = (
    "SELECT who, first_job, ended, upto / step - (upto - ended) / step, step FROM"
    " (SELECT who, first_job, ended, step,"
    " CAST(SUM(ended) OVER (PARTITION BY who ORDER BY id) AS BIGINT) + {start} % step AS upto FROM"
    " (SELECT who, id, first_job, ended, (CAST(SUM(ended) OVER (PARTITION BY who) AS BIGINT)"
    " + {share} - 1) / {share} AS step FROM ({ended}) AS past WHERE ended > 0) AS stepped)"
    " AS summed WHERE upto / step > (upto - ended) / step"
)


def sample(since_unix_s: float, limit: int, rng: Random, *, by_uid: bool) -> Work[Sample]:
    """Returns at most `limit` jobs; about all that were submitted since then are represented, and
    perhaps some earlier ones.

    The tasks of an array end about in order, so the first ones count as those that have ended.
    """
    # What was submitted before a job that ended before then was itself submitted before then.
    ((before,),) = yield Ask(
        "SELECT COALESCE(MAX(submission), 0) FROM (SELECT submission FROM jobs WHERE finished < ?"
        " ORDER BY finished DESC LIMIT ?) AS earlier",
        (since_unix_s, EARLIER),
    )
    ended = ENDED.format(who=column(by_uid=by_uid))
    counts = yield Ask(COUNTED.format(ended=ended), (before,))
    share = even_share((whole(count) for (count,) in counts), limit)
    share = limit if share is None else max(1, share)
    start = rng.randrange(1 << 30)
    chosen = yield Ask(CHOSEN.format(ended=ended, share=share, start=start), (before,))
    steps: dict[object, int] = {}
    ranges: list[tuple[int, int]] = []
    for who, first, count, taken, step in chosen:
        steps[who] = whole(step)
        ranges += runs_of(whole(first), whole(count), whole(taken), rng)
    wanted = Wanted(tuple(ranges), ended_only=True, limit=limit, commands=False)
    rows = (yield from find(wanted)) if ranges else []
    return [(row, steps.get(row.uid if by_uid else row.user, 1)) for row in rows]


def runs_of(first: int, count: int, taken: int, rng: Random) -> Sequence[tuple[int, int]]:
    """Returns the ids of so many of the jobs, drawn so that nobody can choose which ones count."""
    if taken >= count:
        return [(first, first + count - 1)]
    return [(first + at, first + at) for at in rng.sample(range(count), taken)]
