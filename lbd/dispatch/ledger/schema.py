"""The ledger's tables, as a list of steps: a ledger of an older version takes those it lacks.

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
    # NULL of what came before: its number is in `spec` alone
    "ALTER TABLE submissions ADD COLUMN uid INTEGER;",
)
VERSION = len(STEPS)
