"""The page of metrics: the table of lbd/metrics/core as text."""

from deploy.reference.markdown import prose, table
from lbd.metrics.core.table import DAEMONS, HOSTS_MAX, LISTENER, TABLE, WORDS_MAX, Label, Metric

INTRODUCTION = f"""\
What `lbd metrics` shows on `metrics.listen`, in [OpenMetrics](https://prometheus.io/docs/specs/om/)
text. [Monitor](../how-to/monitor.md) says how to set it up.

Each host shows what its own daemons know, so a sum over all hosts counts everything once: attached
commands where they were typed, queued jobs at the dispatcher. What a daemon does not answer is not
shown, and `lbd_up` says so. Counters begin again when their daemon is restarted.

No label has a user, a command, a job or a path. A metric has at most {WORDS_MAX} series, or
{HOSTS_MAX} if it names hosts; what is beyond that counts as `other`.
"""
PATHS = (
    ("`/metrics`", "all that follows; made at most once a second, however many ask"),
    ("`/healthz`", "200 as long as `lbd metrics` runs"),
    (
        "`/readyz`",
        "200 if every daemon of this host answers, else 503 and the names of those that do not; "
        "also 503, with the reason, while the dispatcher waits for its ledger or "
        "`lbd_ledger_trouble` is 1",
    ),
)


def metrics_page() -> str:
    rows = [
        (f"`{metric.sample_name}`", metric.kind, labels_text(metric), sources_text(metric),
         prose(metric.about))
        for metric in TABLE
    ]  # fmt: skip
    return "\n\n".join((
        "# Metrics",
        INTRODUCTION.rstrip(),
        table(("path", "answer"), [(path, prose(text)) for path, text in PATHS]).rstrip(),
        table(("metric", "kind", "labels", "from", "what it is"), rows).rstrip(),
    ))  # fmt: skip


def labels_text(metric: Metric) -> str:
    return "; ".join(map(label_text, metric.labels))


def label_text(label: Label) -> str:
    if not label.values:
        return f"`{label.name}`"
    return f"`{label.name}`: {', '.join(f'`{value}`' for value in label.values)}"


def sources_text(metric: Metric) -> str:
    if metric.sources == DAEMONS:
        return "each daemon"
    names = {"lim": "LIM", "lbm": "LBM", "dispatcher": "dispatcher", LISTENER: "`lbd metrics`"}
    return ", ".join(names[source] for source in metric.sources)
