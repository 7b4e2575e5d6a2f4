"""The table of metrics, from which the text of a scrape and the reference page are made. Pure.

A daemon answers the question `metrics` with values by the names below (without `lbd_`): a number; a
histogram's counts; or, for a metric with labels, a list of rows, each of the labels' values and
then one of these. Anything not in the table is not shown.

No label holds a command, a job, a path or a user, and each has few values: those listed here, words
of lbd's own programs, or hosts. So a cluster of any size has a bounded number of series.
"""

from dataclasses import dataclass

PREFIX = "lbd_"
OTHER = "other"  # stands for any value not allowed for a label
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
    """`values`: all allowed values; empty: any word of lbd's programs, or with `is_host` a host."""

    name: str
    values: tuple[str, ...] = ()
    is_host: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    name: str  # without `lbd_` and a counter's `_total`
    kind: str
    about: str
    sources: tuple[str, ...]  # the daemons that report it
    labels: tuple[Label, ...] = ()
    bounds: tuple[float, ...] = ()  # for a histogram

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    @property
    def sample_name(self) -> str:
        """The name to use in a query."""
        endings = {COUNTER: "_total", HISTOGRAM: "_bucket"}
        return self.full_name + endings.get(self.kind, "")

    @property
    def series_max(self) -> int:
        return HOSTS_MAX if any(label.is_host for label in self.labels) else WORDS_MAX


OUTCOMES = ("done", "failed", "cancelled", "lost", "unknown")
DAEMON = Label("daemon", DAEMONS)
HOST = Label("host", is_host=True)
JOB_KIND = Label("kind", ("attached", "queued"))
DISK = Label("holds", ("state", "workdirs", "ledger"))
DIRECTION = Label("direction", ("in", "out"))

TABLE = (
    Metric("up", GAUGE, "1 if the daemon answers", (LISTENER,), (DAEMON,)),
    Metric("release_info", GAUGE, "always 1; the label has the release", (LISTENER,),
           (Label("version"),)),
    # Load and placement
    Metric("load_index", GAUGE, "load of this host: tasks per usable core of reference speed",
           (LIM,)),
    Metric("load_queue_tasks", GAUGE, "smoothed length of a queue of this host", (LIM,),
           (Label("queue", ("cpu", "io", "memory")),)),
    Metric("cpu_utilisation_ratio", GAUGE, "utilisation of the usable cores, 0 to 1", (LIM,)),
    Metric("usable_cores", GAUGE, "usable cores, by affinity and quota", (LIM,)),
    Metric("memory_available_bytes", GAUGE, "memory available to new programs", (LIM,)),
    Metric("memory_bytes", GAUGE, "memory of the host or its container", (LIM,)),
    Metric("drained", GAUGE, "1 if this host is drained", (LIM,)),
    Metric("hosts", GAUGE, "hosts known here, by state", (LIM,),
           (Label("state", ("up", "late", "down", "drained")),)),
    Metric("load_age_max_seconds", GAUGE, "age of the oldest load report of a host that is "
                                          "up", (LIM,)),
    Metric("load_age_mean_seconds", GAUGE, "mean age of the load reports of hosts that are "
                                           "up", (LIM,)),
    Metric("is_centre", GAUGE, "1 on the load information centre", (LIM,)),
    Metric("decisions", COUNTER, "placements decided here, by algorithm and reason", (LIM,),
           (Label("algorithm"), Label("reason"))),
    Metric("charged_jobs", GAUGE, "jobs charged to hosts and not yet seen in their load", (LIM,)),
    Metric("lim_messages", COUNTER, "messages between LIMs", (LIM,),
           (Label("kind"), DIRECTION)),
    Metric("lim_message_bytes", COUNTER, "bytes of these messages", (LIM,),
           (Label("kind"), DIRECTION)),
    Metric("lim_messages_refused", COUNTER, "messages over the rate limit of a host", (LIM,)),
    Metric("lim_messages_undelivered", COUNTER, "messages not delivered", (LIM,),
           (Label("kind"),)),
    # Commands
    Metric("slots", GAUGE, "slots for commands of other hosts and queued jobs", (LBM,)),
    Metric("slots_used", GAUGE, "slots in use", (LBM,)),
    Metric("commands_waiting", GAUGE, "commands waiting here for a slot or for room", (LBM,)),
    Metric("jobs", GAUGE, "jobs that have not ended: `attached`, of this host's users; `foreign`, "
                          "of other hosts, here; `queued`, in the queue. `blocked`: held, or "
                          "waiting for a time or another job", (LBM, DISPATCHER),
           (Label("kind", ("attached", "foreign", "queued")),
            Label("state", ("pending", "blocked", "running", "suspended")))),
    Metric("jobs_ended", COUNTER, "jobs that have ended: `attached`, of this host's users; "
                                  "`queued`, in the queue", (LBM, DISPATCHER),
           (Label("outcome", OUTCOMES), JOB_KIND)),
    Metric("picks", COUNTER, "commands of this host's users that have run, by place", (LBM,),
           (Label("where", ("here", "elsewhere")),)),
    Metric("wrong_picks", COUNTER, "commands sent to a host that was no less busy", (LBM,)),
    Metric("job_waiting_seconds", HISTOGRAM,
           "time from submission to start; a queued job is counted where it ran", (LBM,),
           (JOB_KIND,), TIMES_S),
    Metric("job_response_seconds", HISTOGRAM,
           "time from submission to end; a queued job is counted where it ran", (LBM,),
           (JOB_KIND,), TIMES_S),
    Metric("job_slowdown", HISTOGRAM, "as in `lbctl stats`: (response time − CPU time) ÷ CPU time; "
                                      "a queued job is counted where it "
                                      "ran", (LBM,), (JOB_KIND,), SLOWDOWNS),
    Metric("job_cpu_seconds", COUNTER, "CPU time of ended jobs; a queued job is counted where it "
                                       "ran",
           (LBM,), (JOB_KIND,)),
    Metric("jobs_not_recorded", COUNTER, "ended jobs the accounting could not record", (LBM,)),
    Metric("attempts_held", GAUGE, "attempts of queued jobs that this host holds", (LBM,)),
    Metric("lease_margin_seconds", HISTOGRAM, "time left of an attempt's lease when it was "
                                              "renewed", (LBM,), bounds=MARGINS_S),
    Metric("lease_margin_min_seconds", GAUGE, "time left of the lease that expires first", (LBM,)),
    Metric("keeper_up", GAUGE, "1 if the LBM has its keeper", (LBM,)),
    Metric("disk_free_bytes", GAUGE, "free, without root's reserve, on the file system of "
                                     "`host.state_dir` (`state`); of `stage.root` (`workdirs`) and "
                                     "of a ledger elsewhere (`ledger`), where these are others",
           (LBM, DISPATCHER), (DISK,)),
    Metric("disk_used_bytes", GAUGE, "used on that file system, by whatever is on it",
           (LBM, DISPATCHER), (DISK,)),
    # The queue
    Metric("dispatcher_leads", GAUGE, "1 on the dispatcher that leads, 0 on a standby",
           (DISPATCHER,)),
    Metric("dispatcher_hosts", GAUGE, "hosts connected to the dispatcher", (DISPATCHER,)),
    Metric("attempts_begun", COUNTER, "attempts sent to hosts", (DISPATCHER,)),
    Metric("attempts_ended", COUNTER, "attempts that have ended; `lost`: with their host or lease",
           (DISPATCHER,),
           (Label("fate", ("done", "failed", "cancelled", "lost", "cut", "checkpoint", "refused",
                           "evicted")),)),
    Metric("prediction_error_seconds", GAUGE, "error of predicted waits, over the last 1,000 "
                                              "comparable jobs", (DISPATCHER,),
           (Label("quantile", ("0.5", "0.9")),)),
    Metric("ledger_commits", COUNTER, "committed transactions of the ledger",
           (DISPATCHER,)),
    Metric("ledger_commit_failures", COUNTER, "failed transactions of the ledger",
           (DISPATCHER,)),
    Metric("ledger_commit_seconds", HISTOGRAM, "duration of a transaction", (DISPATCHER,),
           bounds=COMMITS_S),
    Metric("ledger_trouble", GAUGE, "1 while no jobs are accepted, because the ledger cannot be "
           "written or has no room", (DISPATCHER,)),
    # Trust
    Metric("certificate_expiry_timestamp_seconds", GAUGE, "when this host's certificate expires "
                                                          "(UNIX time)", (LISTENER,)),
    # The processes
    Metric("process_cpu_seconds", COUNTER, "CPU time of a daemon", DAEMONS, (DAEMON,)),
    Metric("process_resident_memory_bytes", GAUGE, "memory of a daemon", DAEMONS, (DAEMON,)),
    Metric("process_open_fds", GAUGE, "open descriptors of a daemon", DAEMONS, (DAEMON,)),
    Metric("process_max_fds", GAUGE, "limit of its open descriptors", DAEMONS, (DAEMON,)),
    Metric("process_start_time_seconds", GAUGE, "when a daemon was started (UNIX time)", DAEMONS,
           (DAEMON,)),
    Metric("event_loop_lag_seconds", HISTOGRAM, "lateness of timers in a daemon's event loop, "
                                                "measured during the "
                                                "scrape", DAEMONS, (DAEMON,), LAGS_S),
    Metric("scrapes", COUNTER, "requests to this listener, by status", (LISTENER,),
           (Label("status", ("200", "400", "404", "405", "408", "431", "503")),)),
    Metric("scrape_connections_refused", COUNTER, "dropped connections", (LISTENER,),
           (Label("reason", ("too-many", "slow-reader", "tls", "revoked")),)),
    # Per host; last, since `exposition` writes these itself
    Metric("host_load_index", GAUGE,
           "load of each host; only on the load information centre", (LIM,), (HOST,)),
    Metric("host_load_age_seconds", GAUGE,
           "age of that load; only on the load information centre", (LIM,), (HOST,)),
)  # fmt: skip
