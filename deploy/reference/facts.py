"""Pages about what the code names: states, exit statuses, ports and files, algorithms.

Each text is looked up by the name the code has for the thing, so that a new one without a text
stops the script, and a text for one that is gone does, too.
"""

from collections.abc import Iterable, Mapping

from deploy.describe.manual import FILES
from deploy.reference.markdown import prose, table
from lbd.cli.complaints import EXIT_BROKEN_PIPE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from lbd.config.dispatch import MODES, DispatchConfig
from lbd.config.schema import ALGORITHMS, LbmConfig, LimConfig
from lbd.dispatch.core.records import Fate
from lbd.errors import EXIT_NO_ADDRESS
from lbd.lbm.core.execution_events import CHECKPOINTED, LBRUN_FAILED, TIMED_OUT
from lbd.model import ENDED_STATES, HostState, JobState

HOST_STATES = {
    "up": "it reports, and accepts commands if it has a free slot",
    "late": "its last report is older than `lim.stale_after_s`; nothing is sent there",
    "down": "it has been silent for longer than `lim.down_after_s`, or its daemons were stopped",
    "drained": "up, but accepts no new commands (`lbctl drain`)",
}
JOB_STATES = {
    "pending": "waiting for its turn, its start time or a slot; a held job is `pending` with a "
    "reason that begins with `held`",
    "running": "has started on a host",
    "suspended": "has started and is stopped: its host's owner is back, or it was stopped by a "
    "signal",
    "done": "ended with exit status 0, and was not killed",
    "failed": "ended with another exit status or by a signal, or could not be started",
    "cancelled": "was ended before it started, or by `lbctl kill`, whatever its exit status "
    "([with `-s`](../how-to/find-and-end-jobs.md) it may count)",
    "lost": "its host was lost while it ran, and it is not run a second time: `--no-restart` "
    "forbids that, or it was a plain `lbrun`",
    "unknown": "a plain `lbrun` ran on its own host, and its outcome is not known",
}
ATTEMPT_STATES = {
    "leased": "sent to a host that has not yet reported its start",
    "cut": "killed at the CPU time of its tier (`tags`); the next one starts from the beginning",
    "checkpoint": "stopped itself with exit status 85; the next one continues",
    "refused": "nothing ran: the host refused it",
    "evicted": "ended because its host's owner is back; the next one starts from the beginning, on "
    "another host",
}
ALGORITHM_TEXTS = {
    "GLOBAL": ("each host reports changes to one coordinator, which broadcasts them",
               "each host: the lowest load"),
    "DISTED": ("each host sends changes to every other host", "each host: the lowest load"),
    "CENTRAL": ("each host reports changes to the coordinator, which keeps them to itself",
                "the coordinator, which sees every choice and so never sends the commands of two "
                "hosts to one idle host"),
    "RANDOM": ("no reports of changes", "each busy host: any other that accepts commands"),
    "THRHLD": ("no reports; up to `lim.probe_limit` random hosts are asked for each command",
               "each host: the first of them whose load is light"),
    "LOWEST": ("the same questions as THRHLD",
               "each host: the lowest of those asked, or the first idle one"),
    "RESERVE": ("no reports; a lightly loaded host asks up to `lim.reservations` loaded hosts for "
                "their next command",
                "each host: its newest reservation, if that host is still lightly loaded"),
    "NOLB": ("no reports", "no host: every command stays"),
    "P2C": ("as GLOBAL, and a few promising hosts are asked where loads are not fresh",
            "each host: of a few drawn at random, the one where one more task slows everything "
            "there the least; old loads count for less"),
    "PREDICT": ("as P2C", "as P2C, and the shorter the command (by its learnt CPU time), the "
                          "larger the gain must be"),
}  # fmt: skip
DISCIPLINE_TEXTS = {
    "fcfs": "one queue for all hosts, strictly first come, first served",
    "tags": "every job starts in tier 1; one that exceeds its tier's CPU time is killed and "
    "started from scratch in the next tier. Needs no estimates",
    "random": "each job goes to the queue of a random host when it arrives",
    "round-robin": "each job goes to the queue of the next host in turn",
    "shortest-queue": "each job goes to the queue with the fewest jobs",
    "least-work": "each job goes to the queue with the least work, by what the same command took "
    "before",
    "sita-e": "hosts serve jobs of different sizes, by what the same command took before, with "
    "equal load on each",
}
EXITS = (
    ("lbrun", "0–255", "the command's own exit status"),
    ("lbrun", "128 + N", "signal N ended the command (`lbrun` dies of the same signal)"),
    ("lbrun", str(TIMED_OUT), "the time limit of `--timeout` has passed"),
    ("lbrun", str(LBRUN_FAILED), "`lbrun` failed; the reason is on stderr"),
    (
        "lbrun -q",
        str(LBRUN_FAILED),
        "the job was cancelled before it began, or exited with 0 after it was killed",
    ),
    ("lbrun", "126", "the command was found but cannot be executed"),
    ("lbrun", "127", "the command was not found"),
    ("a queued job", str(CHECKPOINTED), "with `--checkpoint`: stopped here, to be continued"),
    ("lbctl wait", "0", "all jobs succeeded"),
    ("lbctl wait", "1", "at least one did not"),
    ("lbctl wait", "2", "time-out, no such job, permission denied, no answer, no outputs yet"),
    (
        "lbctl stats, history, jobs",
        "1",
        "some hosts did not answer, or the queue's list is too long: the rest is printed",
    ),
    (
        "lbctl logs",
        "1",
        "the job never ran, or its output is not here any more or out of reach; 0 if there is none "
        "yet, or it went elsewhere",
    ),
    ("lbctl queue", "1", "the dispatcher did not answer"),
    ("lbctl doctor", "1", "it found at least one fault"),
    ("lbctl tags solve", "1", "no cutoffs are feasible"),
    ("lbctl, lbd", "0", "it answered, even if the answer is none, not yet or unknown"),
    (
        "lbctl, lbd",
        str(EXIT_FAILED),
        "failed; the reason is on stderr: no such job, permission denied, no answer",
    ),
    ("lbctl, lbd", str(EXIT_USAGE), "the command line or the configuration is wrong"),
    (
        "lbd lim, lbm, dispatcher",
        str(EXIT_NO_ADDRESS),
        "the address is not one of this host (yet), or its port is taken",
    ),
    ("lbctl, lbd", str(EXIT_INTERRUPTED), "interrupted"),
    ("lbctl, lbd", str(EXIT_BROKEN_PIPE), "the program reading its output has exited"),
)
STATE_FILES = (
    ("tls/", "this host's key, its certificate, the authority's certificate, revocations"),
    ("ledger.sqlite", "on the dispatcher's host: every queued job"),
    (
        "ledger.sqlite.lock",
        "beside it: its dispatcher holds a lock on this, so that of two hosts "
        "that see the file one leads",
    ),
    ("ledger.last", "on the dispatcher's host: which SQLite file it used last"),
    ("usage.sqlite", "ended jobs, for `lbctl stats` and `lbctl advise`"),
    ("usage.gap", "how many ended jobs are still to be written to it, if its disk is full"),
    ("learnt.json", "what was learnt of each user's commands"),
    ("settings.json", "drains and past drains, with user and reason; settings saved with `--save`"),
    (
        "hosts.json",
        "the hosts that have joined, so that this one finds them after a restart",
    ),
    ("incarnation", "by which number other hosts know this one, if that is above its clock"),
    ("spool/", "output of queued jobs that ran here"),
    ("files/", "packed inputs (`--send`) of queued jobs that were submitted here"),
    ("past-loads", "the last month's loads of all hosts known to the LIM"),
    ("next_job", "the number of the next job started here, so that none is used twice"),
    ("speed", "this host's speed as measured, where `host.speed` is not set"),
    ("*.pid", "locked while that daemon runs, so that no second one uses this directory"),
    ("history.jsonl", "what the LIM heard and decided, if `lim.history_bytes` is set"),
)


def page(parts: Iterable[str]) -> str:
    return "\n\n".join(part.rstrip() for part in parts)


def matched(texts: Mapping[str, object], names: Iterable[str], what: str) -> None:
    """Stops unless every name has a text and every text a name."""
    if odd := set(texts) ^ set(names):
        raise SystemExit(f"deploy/reference: {what}: {', '.join(sorted(odd))}")


def states_page() -> str:
    matched(HOST_STATES, [state.value for state in HostState], "states of hosts")
    jobs = {state.value for state in JobState}
    matched(JOB_STATES, jobs, "states of jobs")
    attempts = {state.value for state in Fate}
    matched(ATTEMPT_STATES, attempts - jobs, "states of attempts")
    ended = ", ".join(f"`{state.value}`" for state in ENDED_STATES)
    hosts = [(f"`{name}`", prose(text)) for name, text in HOST_STATES.items()]
    revoked = (
        "Its certificates no longer count (`lbctl revoke`, or it was replaced), and it was not "
        "heard with a new one. Where the authority is, it is `down` once it has one."
    )
    hosts.append(("`revoked`", revoked))
    return page((
        "# States",
        "## Hosts",
        "As `lbctl status` shows them.",
        table(("state", "meaning"), hosts),
        "## Jobs",
        f"As `lbctl jobs` shows them. A job has ended if it is {ended}.",
        table(("state", "meaning"), [(f"`{k}`", prose(v)) for k, v in JOB_STATES.items()]),
        "A job whose attempt vanished with its host goes back to `pending` and is started again, "
        "unless it was submitted with `--no-restart`.",
        "## Attempts",
        "As `lbctl job` shows them. An attempt also has the states of jobs from `running` on.",
        table(("state", "meaning"), [(f"`{k}`", prose(v)) for k, v in ATTEMPT_STATES.items()]),
    ))  # fmt: skip


def exit_page() -> str:
    return page((
        "# Exit statuses",
        table(("program", "status", "meaning"), [(f"`{a}`" if a != "a queued job" else a, b,
              prose(c)) for a, b, c in EXITS]),
        "When `lbrun` itself fails, 125 could also be the command's own status. "
        "`--status-file FILE` removes the doubt: it writes JSON with host, exit status, signal, "
        "attempt and cause.",
    ))  # fmt: skip


def files_page() -> str:
    ports = [
        (str(LimConfig().port), "`lim.port`", "every host", "LIM: load, settings, joining"),
        (str(LbmConfig().port), "`lbm.port`", "every host", "LBM: commands and their bytes"),
        (str(DispatchConfig().port), "`dispatch.port`",
         "hosts of `dispatch.host` and `dispatch.standby`", "dispatcher: the queue"),
        ("as set", "`metrics.listen`", "hosts where it is set, for Prometheus",
         "metrics: HTTP, by TLS unless on loopback"),
    ]  # fmt: skip
    return page((
        "# Files and ports",
        "## Ports",
        "All are TCP. Those with a number are open from every host of the cluster to every other, "
        "and speak mutual TLS and nothing else (a lab on loopback excepted).",
        table(("port", "setting", "open on", "for"), ports),
        "## Files",
        table(("path", "what it is"), [(f"`{path}`", prose(text)) for path, text in FILES]),
        "## In the state directory",
        "`host.state_dir`: `/var/lib/lbd`, or `~/.local/state/lbd` where the daemons are not "
        "root's.",
        table(("file", "what is in it"), [(f"`{a}`", prose(b)) for a, b in STATE_FILES]),
        "## In the runtime directory",
        "`host.runtime_dir`: `lim.sock` and `lbm.sock`, by which the clients of this host talk to "
        "its daemons, `keeper.sock`, `dispatcher.sock` and `metrics.sock` where those run, "
        "`log.level`, a `.pid` file for each daemon, `up.notify`, by which they tell `lbd up` that "
        "they are ready, `dispatcher.wanted`, by which `lbctl queue enable` has the dispatcher "
        "started, and `lbm.restarting` while one LBM makes way for the next: clients wait up to 30 "
        "seconds for that one. `NAME.ended` says in a line why a daemon could not go on, until it "
        "is ready again; `lbctl doctor` reads it.",
    ))  # fmt: skip


def algorithms_page() -> str:
    matched(ALGORITHM_TEXTS, ALGORITHMS, "algorithms")
    matched(DISCIPLINE_TEXTS, MODES, "disciplines")
    lim = LimConfig()
    names = ("exchange_period_s", "local_threshold", "report_ceiling", "min_gain", "probe_limit",
             "reservations", "job_threshold_s")  # fmt: skip
    symbols = ("P", "T_l", "T_u", "Δ", "L_p", "R", "T_CPU")
    parameters = [
        (f"`lim.{name}`", symbol, f"`{getattr(lim, name)}`")
        for name, symbol in zip(names, symbols, strict=True)
    ]
    return page((
        "# Algorithms and disciplines",
        "## Load-exchange algorithms",
        "`lim.algorithm`, or `lbctl algorithm NAME` at run time. The first eight are Zhou's "
        "(1987); P2C and PREDICT are ours. "
        "See [how to choose one](../how-to/choose-an-algorithm.md).",
        table(("name", "how load travels", "who chooses the host"),
              [(f"`{name}`", *text) for name, text in ALGORITHM_TEXTS.items()]),
        f"The default is `{lim.algorithm}`.",
        "## Their parameters, by the symbols of the papers",
        table(("setting", "symbol", "default"), parameters),
        "## Queueing disciplines",
        "`dispatch.mode`. See [how to choose one](../how-to/choose-a-discipline.md).",
        table(("name", "what it does"),
              [(f"`{name}`", prose(text)) for name, text in DISCIPLINE_TEXTS.items()]),
    ))  # fmt: skip
