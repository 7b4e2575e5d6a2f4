"""The ledger's tables, as a list of migration steps: an older ledger gets those it lacks.

A step is never changed once a version with it was released; a new one is added.
"""

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE submissions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        "user" TEXT NOT NULL,
        origin TEXT NOT NULL,
        name TEXT NOT NULL,
        command BLOB NOT NULL,
        spec BLOB NOT NULL,
        slots INTEGER NOT NULL,
        may_restart INTEGER NOT NULL,
        only_host TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        first_job INTEGER NOT NULL,
        jobs INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX submissions_by_key ON submissions ("user", idempotency_key)
        WHERE idempotency_key <> '';
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
        submitted REAL NOT NULL,
        started REAL,
        finished REAL,
        cpu_s REAL,
        exit_status INTEGER,
        signal INTEGER NOT NULL,
        cause TEXT NOT NULL
    );
    CREATE INDEX jobs_live ON jobs (id) WHERE finished IS NULL;
    CREATE INDEX jobs_by_end ON jobs (finished) WHERE finished IS NOT NULL;
    CREATE INDEX jobs_by_submission ON jobs (submission);
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
        PRIMARY KEY (job, number)
    ) WITHOUT ROWID;
    CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO counters VALUES ('next_job', 1);
    """,
    """
    ALTER TABLE submissions ADD COLUMN slots_most INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE submissions ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE jobs ADD COLUMN slots_held INTEGER;
    ALTER TABLE attempts ADD COLUMN slots INTEGER NOT NULL DEFAULT 1;
    """,
    "ALTER TABLE jobs ADD COLUMN requeued REAL;",
    "ALTER TABLE attempts ADD COLUMN wish TEXT NOT NULL DEFAULT '';",
    # NULL for earlier submissions: their number is only in `spec`
    "ALTER TABLE submissions ADD COLUMN uid INTEGER;",
    # For an array: when it should end, UNIX seconds; at most one of them.
    """
    ALTER TABLE submissions ADD COLUMN target REAL;
    ALTER TABLE submissions ADD COLUMN deadline REAL;
    """,
    """
    ALTER TABLE submissions ADD COLUMN gang INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE submissions ADD COLUMN limit_s REAL NOT NULL DEFAULT 0;
    """,
    # For a malleable job, as its user gave them; and the wait predicted when a job arrived.
    """
    ALTER TABLE submissions ADD COLUMN parallelism REAL;
    ALTER TABLE submissions ADD COLUMN sigma REAL;
    ALTER TABLE submissions ADD COLUMN work_s REAL;
    ALTER TABLE jobs ADD COLUMN predicted_s REAL;
    """,
    # For its last attempt: how long it was suspended, and since when it is now (UNIX seconds).
    """
    ALTER TABLE jobs ADD COLUMN suspended_s REAL NOT NULL DEFAULT 0;
    ALTER TABLE jobs ADD COLUMN suspended REAL;
    """,
    # For an array: its indexes (text/index_list.py), and how many tasks run at once, 0: no limit.
    # All earlier arrays have consecutive indexes.
    """
    ALTER TABLE submissions ADD COLUMN indexes TEXT NOT NULL DEFAULT '';
    ALTER TABLE submissions ADD COLUMN at_once INTEGER NOT NULL DEFAULT 0;
    UPDATE submissions SET indexes = COALESCE(
        (SELECT (j.array_index - j.id + submissions.first_job) || '-'
                || (j.array_index - j.id + submissions.first_job + submissions.jobs - 1)
         FROM jobs j WHERE j.submission = submissions.id AND j.array_index IS NOT NULL
         ORDER BY j.id LIMIT 1), '');
    CREATE INDEX submissions_by_first_job ON submissions (first_job);
    """,
    # What jobs wait for before they join the queue (dependencies/conditions.py; UNIX seconds), and
    # for each job whether that is met.
    """
    ALTER TABLE submissions ADD COLUMN run_after TEXT NOT NULL DEFAULT '';
    ALTER TABLE submissions ADD COLUMN not_before REAL NOT NULL DEFAULT 0;
    ALTER TABLE jobs ADD COLUMN met INTEGER NOT NULL DEFAULT 0;
    """,
    # Needs of its host besides slots (text/needs_words.py).
    "ALTER TABLE submissions ADD COLUMN needs TEXT NOT NULL DEFAULT '';",
    # A user's ended jobs are found through the user's submissions, without searching all others'.
    # The index covers the whole query, as a row may be large.
    """
    CREATE INDEX submissions_by_uid ON submissions (uid, id, "user", first_job, jobs);
    CREATE INDEX submissions_by_user ON submissions ("user", id, first_job, jobs);
    """,
    # The size of each with its jobs, so that a user's share is known without reading the jobs.
    """
    ALTER TABLE submissions ADD COLUMN size_bytes BIGINT NOT NULL DEFAULT 0;
    UPDATE submissions SET size_bytes = LENGTH(command) + LENGTH(spec);
    DROP INDEX submissions_by_uid;
    DROP INDEX submissions_by_user;
    CREATE INDEX submissions_by_uid
        ON submissions (uid, id, "user", first_job, jobs, origin, size_bytes);
    CREATE INDEX submissions_by_user
        ON submissions ("user", id, first_job, jobs, origin, size_bytes);
    """,
    # Besides `predicted_s`: the wait as shown to the user when the job arrived, and its interval.
    """
    ALTER TABLE jobs ADD COLUMN foretold_s REAL;
    ALTER TABLE jobs ADD COLUMN foretold_low_s REAL;
    ALTER TABLE jobs ADD COLUMN foretold_high_s REAL;
    CREATE INDEX jobs_foretold ON jobs (id) WHERE predicted_s IS NOT NULL;
    """,
    # Whether its jobs print to their host's disk of outputs (0: to files of their own, or nothing).
    "ALTER TABLE submissions ADD COLUMN spooled INTEGER NOT NULL DEFAULT 1;",
)
VERSION = len(STEPS)
