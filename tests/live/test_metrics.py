"""Metrics of a real cluster: jobs have run, and Prometheus's own parser reads the scrape."""

import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lbd.metrics.core.table import TABLE
from tests.live.cluster import FAST, Lab, wait_until

SPIN = "import os\nwhile sum(os.times()[:2]) < 0.1: pass"
PORT = 9470


@pytest.fixture(scope="module")
def shown():
    lab = Lab.up(2, "none", "--mode", "fcfs", settings=(*FAST, f"metrics.listen=:{PORT}"))
    yield lab
    lab.down()


def asked(lab, host, path):
    address = lab.record.plan.address(host)
    try:
        with urllib.request.urlopen(f"http://{address}:{PORT}{path}", timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def scraped(lab, host):
    """(name, labels) -> value of all samples."""
    status, text = asked(lab, host, "/metrics")
    assert status == 200
    return {
        (sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def blocked(found):
    return found if found["lbd_jobs", "kind=queued", "state=blocked"] == 1 else None


def test_the_numbers_match_the_jobs_that_ran(shown):
    for _ in range(3):
        shown.run("h1", "lbrun", "-H", "h2", sys.executable, "-c", SPIN, check=True)
    shown.run("h1", "lbrun", "--local", "true", check=True)
    shown.run("h1", "lbrun", "-H", "h2", "sh", "-c", "exit 3")
    shown.run("h1", "lbrun", "-q", "true", check=True)
    shown.run("h1", "lbrun", "-q", "sh", "-c", "exit 4")

    def ended():
        found = scraped(shown, "h1")
        outcomes = {k: v for k, v in found.items() if k[0] == "lbd_jobs_ended_total"}
        return found if sum(outcomes.values()) == 7 else None

    found = wait_until(ended, "all ends are counted", 15)
    of = "lbd_jobs_ended_total"
    assert found[of, "kind=attached", "outcome=done"] == 4
    assert found[of, "kind=attached", "outcome=failed"] == 1
    assert found[of, "kind=queued", "outcome=done"] == 1
    assert found[of, "kind=queued", "outcome=failed"] == 1
    assert found["lbd_picks_total", "where=elsewhere"] == 4
    assert found["lbd_picks_total", "where=here"] == 1
    assert found["lbd_wrong_picks_total",] == 0, "the user has chosen"
    assert found["lbd_job_response_seconds_count", "kind=attached"] == 5
    assert found["lbd_job_cpu_seconds_total", "kind=attached"] >= 0.3
    assert found["lbd_attempts_ended_total", "fate=done"] == 1
    assert found["lbd_dispatcher_leads",] == 1
    assert found["lbd_dispatcher_hosts",] == 2
    assert found["lbd_hosts", "state=up"] == 2
    assert found["lbd_ledger_commits_total",] >= 4
    for daemon in ("lim", "lbm", "dispatcher", "metrics"):
        assert found["lbd_up", f"daemon={daemon}"] == 1
        assert found["lbd_process_resident_memory_bytes", f"daemon={daemon}"] > 1 << 20
    assert found["lbd_jobs", "kind=queued", "state=blocked"] == 0
    later = shown.run("h1", "lbrun", "-d", "--begin", "+1h", "true", check=True).stdout.split()[-1]
    found = wait_until(lambda: blocked(scraped(shown, "h1")), "the job counts", 15)
    assert found["lbd_jobs", "kind=queued", "state=pending"] == 0, "it is not to begin yet"
    shown.run("h1", "lbctl", "kill", later, check=True)
    centres = [scraped(shown, host)["lbd_is_centre",] for host in shown.hosts]
    assert sum(centres) == 1
    user = os.environ.get("USER", "root")
    text = asked(shown, "h1", "/metrics")[1]
    assert not [word for word in (f'"{user}"', "python", "/tmp", "exit 4") if word in text]


def test_a_dead_lbm_is_shown_and_does_not_end_the_metrics(shown):
    assert asked(shown, "h2", "/readyz") == (200, "ready\n")
    shown.kill("h2", "lbm", "KILL")
    wait_until(lambda: asked(shown, "h2", "/readyz") == (503, "no answer: lbm\n"), "it is missed")
    found = scraped(shown, "h2")
    assert (found["lbd_up", "daemon=lbm"], found["lbd_up", "daemon=lim"]) == (0, 1)
    assert ("lbd_slots",) not in found, "what nobody knows is not shown"
    assert asked(shown, "h2", "/healthz") == (200, "ok\n")
    shown.start("h2", "lbm")
    wait_until(lambda: asked(shown, "h2", "/readyz")[0] == 200, "it is back", 15)


def test_other_users_learn_nothing_from_the_daemons_sockets(shown):
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    ask = (
        "import sys; from pathlib import Path; from lbd.local.json_socket import ask, Refusal\n"
        "import os; os.setuid(65534)\n"
        "try: print(ask(Path(sys.argv[1]), {'op': 'metrics'}))\n"
        "except Refusal as no: print(no)"
    )
    for daemon in ("lim", "lbm", "dispatcher"):
        path = str(shown.paths("h1").socket(daemon))
        found = subprocess.run([sys.executable, "-c", ask, path], capture_output=True, text=True)
        assert "process_cpu_seconds" not in found.stdout + found.stderr


def test_every_metric_of_the_table_except_those_of_faults_is_shown(shown):
    """A metric in the table that no daemon ever reports would never be shown."""
    seen = {name for host in shown.hosts for name, *_ in scraped(shown, host)}
    of_faults = {
        "lim_messages_undelivered", "scrape_connections_refused", "prediction_error_seconds",
        "certificate_expiry_timestamp_seconds", "lease_margin_min_seconds",
    }  # fmt: skip
    missing = {metric.name for metric in TABLE
               if not {metric.full_name, metric.sample_name} & seen}  # fmt: skip
    assert missing <= of_faults
