"""The metrics: one table, from which the text of a scrape and the reference page are made. Pure.

A daemon answers the question `metrics` with values by the names below (without `lbd_`): a number;
a histogram's counts; or, where a metric has labels, a list of rows, each the labels' values and
then one of these. Whatever the table does not have is not shown.

No label holds a command, a job, a path or a user, and each has few values: those listed here, words
of our own programs, or hosts. So a cluster of any size has a bounded number of series.
"""

from dataclasses import dataclass

PREFIX = "lbd_"
OTHER = "other"  # whatever is not one of a label's values
WORDS_MAX = 48  # series of a metric whose labels are words
HOSTS_MAX = 1000  # series of a metric with a host in its labels

LIM, LBM, DISPATCHER, LISTENER = "lim", "lbm", "dispatcher", "metrics"
DAEMONS = (LIM, LBM, DISPATCHER, LISTENER)

TIMES_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0, 172800.0)
SLOWDOWNS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 1000.0, 10000.0)
COMMITS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LAGS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
MARGINS_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0)

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """`values`: all that it can have; none: a word of our programs, or with `is_host` a host."""

    name: str
    values: tuple[str, ...] = ()
    is_host: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    name: str  # without `lbd_` and a counter's `_total`
    kind: str
    about: str
    sources: tuple[str, ...]  # the daemons that know it
    labels: tuple[Label, ...] = ()
    bounds: tuple[float, ...] = ()  # of a histogram

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    @property
    def sample_name(self) -> str:
        """As people write it in a query."""
        endings = {COUNTER: "_total", HISTOGRAM: "_bucket"}
        return self.full_name + endings.get(self.kind, "")

    @property
    def series_max(self) -> int:
        return HOSTS_MAX if any(label.is_host for label in self.labels) else WORDS_MAX


OUTCOMES = ("done", "failed", "cancelled", "lost", "unknown")
DAEMON = Label("daemon", DAEMONS)
HOST = Label("host", is_host=True)
JOB_KIND = Label("kind", ("attached", "queued"))
DIRECTION = Label("direction", ("in", "out"))

TABLE = (
    Metric("up", GAUGE, "whether the daemon answers", (LISTENER,), (DAEMON,)),
    Metric("release_info", GAUGE, "1; the release is in the label", (LISTENER,),
           (Label("version"),)),
    # Load, and where commands go
    Metric("load_index", GAUGE, "load of this host: tasks per usable core of reference speed",
           (LIM,)),
    Metric("load_queue_tasks", GAUGE, "smoothed length of a queue of this host", (LIM,),
           (Label("queue", ("cpu", "io", "memory")),)),
    Metric("cpu_utilisation_ratio", GAUGE, "of the usable cores, 0 to 1", (LIM,)),
    Metric("usable_cores", GAUGE, "cores that affinity and quota leave", (LIM,)),
    Metric("memory_available_bytes", GAUGE, "memory that new programs can have", (LIM,)),
    Metric("memory_bytes", GAUGE, "memory of the host or its container", (LIM,)),
    Metric("drained", GAUGE, "1 if the owner wants no new jobs here", (LIM,)),
    Metric("hosts", GAUGE, "hosts that this one knows, by their state", (LIM,),
           (Label("state", ("up", "late", "down", "drained")),)),
    Metric("load_age_max_seconds", GAUGE, "age of the oldest load of a host that is up", (LIM,)),
    Metric("load_age_mean_seconds", GAUGE, "mean age of the loads of hosts that are up", (LIM,)),
    Metric("is_centre", GAUGE, "1 on the load information centre", (LIM,)),
    Metric("decisions", COUNTER, "placements decided here, by algorithm and reason", (LIM,),
           (Label("algorithm"), Label("reason"))),
    Metric("charged_jobs", GAUGE, "jobs charged to hosts and not yet seen in their load", (LIM,)),
    Metric("lim_messages", COUNTER, "messages between LIMs", (LIM,),
           (Label("kind"), DIRECTION)),
    Metric("lim_message_bytes", COUNTER, "bytes of these messages", (LIM,),
           (Label("kind"), DIRECTION)),
    Metric("lim_messages_refused", COUNTER, "messages of hosts that sent too many", (LIM,)),
    Metric("lim_messages_undelivered", COUNTER, "messages that did not reach their host", (LIM,),
           (Label("kind"),)),
    # Commands
    Metric("slots", GAUGE, "commands of other hosts and queued jobs that may run here", (LBM,)),
    Metric("slots_used", GAUGE, "slots that are taken", (LBM,)),
    Metric("commands_waiting", GAUGE, "commands that wait here for a slot or for room", (LBM,)),
    Metric("jobs", GAUGE, "jobs that have not ended: `attached`, of users of this host; `foreign`, "
           "of other hosts, here; `queued`, in the queue. `blocked`: held, or before its time or "
           "another job's end", (LBM, DISPATCHER),
           (Label("kind", ("attached", "foreign", "queued")),
            Label("state", ("pending", "blocked", "running", "suspended")))),
    Metric("jobs_ended", COUNTER, "jobs that have ended: `attached`, of users of this host; "
           "`queued`, in the queue", (LBM, DISPATCHER), (Label("outcome", OUTCOMES), JOB_KIND)),
    Metric("picks", COUNTER, "commands of this host's users that have run, by where", (LBM,),
           (Label("where", ("here", "elsewhere")),)),
    Metric("wrong_picks", COUNTER, "commands sent to a host that was no less busy", (LBM,)),
    Metric("job_waiting_seconds", HISTOGRAM, "from submission to start; a queued job is counted "
           "where it ran", (LBM,), (JOB_KIND,), TIMES_S),
    Metric("job_response_seconds", HISTOGRAM, "from submission to end; a queued job is counted "
           "where it ran", (LBM,), (JOB_KIND,), TIMES_S),
    Metric("job_slowdown", HISTOGRAM, "as in `lbctl stats`: response time less CPU time, over CPU "
           "time; a queued job is counted where it ran", (LBM,), (JOB_KIND,), SLOWDOWNS),
    Metric("job_cpu_seconds", COUNTER, "CPU time of ended jobs; of a queued job where it ran",
           (LBM,), (JOB_KIND,)),
    Metric("jobs_not_recorded", COUNTER, "ended jobs that the accounting could not keep", (LBM,)),
    Metric("attempts_held", GAUGE, "attempts of queued jobs that this host holds", (LBM,)),
    Metric("lease_margin_seconds", HISTOGRAM, "what was left of an attempt's lease when it was "
           "renewed", (LBM,), bounds=MARGINS_S),
    Metric("lease_margin_min_seconds", GAUGE, "what is left of the lease that ends first", (LBM,)),
    Metric("keeper_up", GAUGE, "1 if the LBM has its keeper", (LBM,)),
    # The queue
    Metric("dispatcher_leads", GAUGE, "1 on the dispatcher that leads, 0 on a standby",
           (DISPATCHER,)),
    Metric("dispatcher_hosts", GAUGE, "hosts that are connected to the dispatcher", (DISPATCHER,)),
    Metric("attempts_begun", COUNTER, "attempts that were given to hosts", (DISPATCHER,)),
    Metric("attempts_ended", COUNTER, "attempts that are over; `lost`: with their host or lease",
           (DISPATCHER,),
           (Label("fate", ("done", "failed", "cancelled", "lost", "cut", "checkpoint", "refused",
                           "evicted")),)),
    Metric("prediction_error_seconds", GAUGE, "how far predicted waits were off, of the last 1,000 "
           "jobs that can be compared", (DISPATCHER,), (Label("quantile", ("0.5", "0.9")),)),
    Metric("ledger_commits", COUNTER, "transactions of the ledger that were committed",
           (DISPATCHER,)),
    Metric("ledger_commit_failures", COUNTER, "transactions of the ledger that failed",
           (DISPATCHER,)),
    Metric("ledger_commit_seconds", HISTOGRAM, "how long a transaction took", (DISPATCHER,),
           bounds=COMMITS_S),
    Metric("ledger_trouble", GAUGE, "1 while the ledger cannot be written", (DISPATCHER,)),
    # Trust
    Metric("certificate_expiry_timestamp_seconds", GAUGE, "when this host's certificate ends "
           "(UNIX time)", (LISTENER,)),
    # The processes
    Metric("process_cpu_seconds", COUNTER, "CPU time of a daemon", DAEMONS, (DAEMON,)),
    Metric("process_resident_memory_bytes", GAUGE, "memory of a daemon", DAEMONS, (DAEMON,)),
    Metric("process_open_fds", GAUGE, "descriptors that a daemon has open", DAEMONS, (DAEMON,)),
    Metric("process_max_fds", GAUGE, "descriptors that it may have open", DAEMONS, (DAEMON,)),
    Metric("process_start_time_seconds", GAUGE, "when a daemon was started (UNIX time)", DAEMONS,
           (DAEMON,)),
    Metric("event_loop_lag_seconds", HISTOGRAM, "how late timers of a daemon's event loop were, "
           "measured while it is asked", DAEMONS, (DAEMON,), LAGS_S),
    Metric("scrapes", COUNTER, "requests to this listener, by their status", (LISTENER,),
           (Label("status", ("200", "400", "404", "405", "408", "431", "503")),)),
    Metric("scrape_connections_refused", COUNTER, "connections that were dropped", (LISTENER,),
           (Label("reason", ("too-many", "slow-reader", "tls", "revoked")),)),
    # Of each host: the last, as `exposition` writes them apart
    Metric("host_load_index", GAUGE,
           "load of each host, on the load information centre alone", (LIM,), (HOST,)),
    Metric("host_load_age_seconds", GAUGE,
           "age of that load, on the load information centre alone", (LIM,), (HOST,)),
)  # fmt: skip
