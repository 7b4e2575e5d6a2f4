"""The ledger's tables, as a list of migration steps: an older ledger gets those it lacks.

A step is never changed once a version with it was released; a new one is added.
"""

from lbd.errors import ConfigError

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE submissions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        "user" TEXT NOT NULL,
        uid INTEGER NOT NULL,
        origin TEXT NOT NULL,
        name TEXT NOT NULL,
        command BLOB NOT NULL,
        spec BLOB NOT NULL,
        -- of both, so that a user's share is known without reading them
        size_bytes BIGINT NOT NULL DEFAULT 0,
        slots INTEGER NOT NULL,
        slots_most INTEGER NOT NULL DEFAULT 0,
        priority INTEGER NOT NULL DEFAULT 0,
        may_restart INTEGER NOT NULL,
        only_host TEXT NOT NULL,
        -- of its host besides slots (text/needs_words.py)
        needs TEXT NOT NULL DEFAULT '',
        idempotency_key TEXT NOT NULL,
        first_job INTEGER NOT NULL,
        jobs INTEGER NOT NULL,
        -- of an array (text/index_list.py)
        indexes TEXT NOT NULL DEFAULT '',
        -- how many of its tasks may run, 0: no limit
        at_once INTEGER NOT NULL DEFAULT 0,
        -- when an array should end, UNIX seconds; at most one of them
        target REAL,
        deadline REAL,
        gang INTEGER NOT NULL DEFAULT 0,
        limit_s REAL NOT NULL DEFAULT 0,
        -- of a malleable job, as its user gave them
        parallelism REAL,
        sigma REAL,
        work_s REAL,
        -- what its jobs wait for before they join the queue (dependencies/conditions.py)
        run_after TEXT NOT NULL DEFAULT '',
        not_before REAL NOT NULL DEFAULT 0,
        -- whether its jobs print to their host's disk of outputs (0: to files of their own, or not)
        spooled INTEGER NOT NULL DEFAULT 1
    );
    CREATE UNIQUE INDEX submissions_by_key ON submissions ("user", idempotency_key)
        WHERE idempotency_key <> '';
    CREATE INDEX submissions_by_first_job ON submissions (first_job);
    -- A user's ended jobs are found through the user's submissions, without searching all others'.
    -- These cover the whole query, as a row may be large.
    CREATE INDEX submissions_by_uid
        ON submissions (uid, id, "user", first_job, jobs, origin, size_bytes);
    CREATE INDEX submissions_by_user
        ON submissions ("user", id, first_job, jobs, origin, size_bytes);
    CREATE TABLE jobs (
        id INTEGER PRIMARY KEY,
        submission INTEGER NOT NULL,
        array_index INTEGER,
        state TEXT NOT NULL,
        tier INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        crashes INTEGER NOT NULL,
        barred TEXT NOT NULL,
        reason TEXT NOT NULL,
        host TEXT NOT NULL,
        slots_held INTEGER,
        submitted REAL NOT NULL,
        -- whether what it waits for is met
        met INTEGER NOT NULL DEFAULT 0,
        requeued REAL,
        started REAL,
        finished REAL,
        cpu_s REAL,
        exit_status INTEGER,
        signal INTEGER NOT NULL,
        cause TEXT NOT NULL,
        -- how long its last attempt was suspended, and since when it is now (UNIX seconds)
        suspended_s REAL NOT NULL DEFAULT 0,
        suspended REAL,
        -- the wait predicted when it arrived; as then shown to its user, and its interval
        predicted_s REAL,
        foretold_s REAL,
        foretold_low_s REAL,
        foretold_high_s REAL
    );
    CREATE INDEX jobs_live ON jobs (id) WHERE finished IS NULL;
    CREATE INDEX jobs_by_end ON jobs (finished) WHERE finished IS NOT NULL;
    CREATE INDEX jobs_by_submission ON jobs (submission);
    CREATE INDEX jobs_foretold ON jobs (id) WHERE predicted_s IS NOT NULL;
    CREATE TABLE attempts (
        job INTEGER NOT NULL,
        number INTEGER NOT NULL,
        host TEXT NOT NULL,
        tier INTEGER NOT NULL,
        cutoff_s REAL,
        fate TEXT NOT NULL,
        leased REAL NOT NULL,
        started REAL,
        finished REAL,
        cpu_s REAL,
        exit_status INTEGER,
        reason TEXT NOT NULL,
        slots INTEGER NOT NULL,
        stop_reason TEXT NOT NULL,
        PRIMARY KEY (job, number)
    ) WITHOUT ROWID;
    CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO counters VALUES ('next_job', 1);
    """,
    # of the largest process of its last attempt
    "ALTER TABLE jobs ADD COLUMN max_rss_bytes BIGINT NOT NULL DEFAULT 0;",
    # whether its jobs may stop at checkpoints; not known of earlier ones
    "ALTER TABLE submissions ADD COLUMN takes_checkpoints INTEGER NOT NULL DEFAULT 1;",
)
VERSION = len(STEPS)


def missing_steps(version: int, where: str) -> list[tuple[int, str]]:
    """Returns the steps that a ledger of this version lacks, each with the version after it; 0 is
    an empty ledger. Raises ConfigError."""
    if version > VERSION:
        raise ConfigError(
            f"{where}: of a newer lbd (schema {version}, ours is {VERSION}); install that version, "
            "or name another"
        )
    return list(enumerate(STEPS[version:], version + 1))
