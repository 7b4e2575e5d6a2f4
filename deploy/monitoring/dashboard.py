"""`python deploy/monitoring/dashboard.py` writes lbd.dashboard.json; `--check` compares.


Written by a program, since of a panel's thirty lines of JSON two say something.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLACE = Path(__file__).with_name("lbd.dashboard.json")
COLUMNS, HEIGHT = 24, 8
SOURCE = {"type": "prometheus", "uid": "${source}"}
HOSTS = 'instance=~"$host"'
Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    queries: tuple[tuple[str, str], ...]  # PromQL and legend
    unit: str = "short"  # as Grafana names them
    width: int = 12
    kind: str = "timeseries"
    about: str = ""


ROWS: dict[str, tuple[Panel, ...]] = {
    "Cluster": (
        Panel("Hosts", (('lbd_hosts and on (instance) lbd_is_centre == 1', "{{state}}"),), width=6,
              kind="stat", about="As the load information centre sees them."),
        Panel("Jobs", (("sum by (kind, state) (lbd_jobs)", "{{kind}} {{state}}"),), width=9),
        Panel("Daemons that do not answer",
              (("count by (daemon) (lbd_up == 0) or vector(0)", "{{daemon}}"),), width=9),
        Panel("Load of each host", (("lbd_host_load_index", "{{host}}"),),
              about="Tasks per core. Commands stay where it is below lim.local_threshold."),
        Panel("Age of each load", (("lbd_host_load_age_seconds", "{{host}}"),), "s"),
    ),
    "Placements": (
        Panel("Decisions by reason",
              ((f"sum by (algorithm, reason) (rate(lbd_decisions_total{{{HOSTS}}}[5m]))",
                "{{algorithm}}: {{reason}}"),), "ops"),
        Panel("Commands that moved, and wrongly", (
            ('sum(rate(lbd_picks_total{where="elsewhere"}[5m])) / sum(rate(lbd_picks_total[5m]))',
             "moved"),
            ('sum(rate(lbd_wrong_picks_total[5m])) '
             '/ sum(rate(lbd_picks_total{where="elsewhere"}[5m]))', "of these, wrongly"),
        ), "percentunit"),
        Panel("Messages between LIMs",
              ((f"sum by (kind) (rate(lbd_lim_messages_total{{{HOSTS}}}[5m]))", "{{kind}}"),),
              "ops"),
        Panel("Bytes between LIMs",
              ((f"sum by (kind) (rate(lbd_lim_message_bytes_total{{{HOSTS}}}[5m]))", "{{kind}}"),),
              "Bps"),
    ),
    "Jobs": (
        Panel("Ends", (("sum by (kind, outcome) (rate(lbd_jobs_ended_total[5m]))",
                        "{{kind}} {{outcome}}"),), "ops"),
        Panel("Waiting", tuple(
            (f"histogram_quantile({share}, sum by (kind, le) "
             "(rate(lbd_job_waiting_seconds_bucket[15m])))", f"{{{{kind}}}} {share}")
            for share in (0.5, 0.95)), "s"),
        Panel("Slowdown", tuple(
            (f"histogram_quantile({share}, sum by (kind, le) "
             "(rate(lbd_job_slowdown_bucket[15m])))", f"{{{{kind}}}} {share}")
            for share in (0.5, 0.95)),
            about="Response time less CPU time, over CPU time, as in lbctl stats."),
        Panel("Slots used", ((f"lbd_slots_used{{{HOSTS}}} / lbd_slots{{{HOSTS}}}",
                              "{{instance}}"),), "percentunit"),
    ),
    "Queue": (
        Panel("Queue", (('sum by (state) (lbd_jobs{kind="queued"})', "{{state}}"),)),
        Panel("Attempts by what became of them",
              (("sum by (fate) (rate(lbd_attempts_ended_total[5m]))", "{{fate}}"),), "ops"),
        Panel("Predicted waits were off by",
              (("lbd_prediction_error_seconds", "{{quantile}}"),), "s"),
        Panel("What is left of leases at renewal",
              (("histogram_quantile(0.01, sum by (instance, le) "
                "(rate(lbd_lease_margin_seconds_bucket[15m])))", "{{instance}} least of 100"),
               ("lbd_lease_margin_min_seconds", "{{instance}} now")), "s"),
        Panel("Commits of the ledger", (("rate(lbd_ledger_commits_total[5m])", "{{instance}}"),),
              "ops"),
        Panel("How long they take", tuple(
            (f"histogram_quantile({share}, sum by (le) "
             "(rate(lbd_ledger_commit_seconds_bucket[5m])))", str(share))
            for share in (0.5, 0.99)), "s"),
    ),
    "Daemons": (
        Panel("CPU", ((f"rate(lbd_process_cpu_seconds_total{{{HOSTS}}}[5m])",
                       "{{instance}} {{daemon}}"),), "percentunit"),
        Panel("Memory", ((f"lbd_process_resident_memory_bytes{{{HOSTS}}}",
                          "{{instance}} {{daemon}}"),), "bytes"),
        Panel("Lag of event loops",
              (("histogram_quantile(0.99, sum by (instance, daemon, le) "
                f"(rate(lbd_event_loop_lag_seconds_bucket{{{HOSTS}}}[5m])))",
                "{{instance}} {{daemon}}"),), "s"),
        Panel("Certificates end in",
              ((f"lbd_certificate_expiry_timestamp_seconds{{{HOSTS}}} - time()",
                "{{instance}}"),), "s"),
        Panel("Space left for what the daemons write",
              ((f"lbd_disk_free_bytes{{{HOSTS}}}", "{{instance}} {{holds}}"),), "bytes"),
    ),
}  # fmt: skip


def panels() -> Iterator[Json]:
    y = 0
    for title, row in ROWS.items():
        yield {"type": "row", "title": title, "collapsed": False,
               "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}, "panels": []}  # fmt: skip
        x, y = 0, y + 1
        for panel in row:
            if x + panel.width > COLUMNS:
                x, y = 0, y + HEIGHT
            place = {"x": x, "y": y, "w": panel.width, "h": HEIGHT}
            yield {
                "type": panel.kind,
                "title": panel.title,
                "description": panel.about,
                "datasource": SOURCE,
                "gridPos": place,
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "options": {"legend": {"displayMode": "list", "placement": "bottom"}}
                if panel.kind == "timeseries"
                else {},
                "targets": [
                    {"refId": chr(ord("A") + n), "expr": query, "legendFormat": legend,
                     "datasource": SOURCE}
                    for n, (query, legend) in enumerate(panel.queries)
                ],
            }  # fmt: skip
            x += panel.width
        y += HEIGHT


def dashboard() -> Json:
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {"name": "host", "label": "Host", "type": "query", "datasource": SOURCE,
         "query": "label_values(lbd_up, instance)", "multi": True, "includeAll": True,
         "refresh": 2, "current": {"text": "All", "value": "$__all"}},
    ]  # fmt: skip
    return {
        "title": "lbd",
        "uid": "lbd",
        "tags": ["lbd"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": variables},
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels(), 1)],
    }


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


def main(argv: list[str]) -> int:
    if argv == ["--check"]:
        return 0 if PLACE.read_text() == text() else 1
    PLACE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
