"""The contents of deploy/monitoring: alerts that fire when they should, on metrics that exist."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.monitoring import dashboard
from lbd.metrics.core.table import HISTOGRAM, TABLE

ROOT = Path(__file__).parents[3]
PLACE = ROOT / "deploy/monitoring"
RULES = yaml.safe_load((PLACE / "lbd.rules.yml").read_text())["groups"][0]["rules"]
PAGE = (ROOT / "docs/how-to/monitor.md").read_text()
QUERIES = [query for row in dashboard.ROWS.values() for panel in row for query, _ in panel.queries]
LABELS = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')


def sample_names():
    """Maps each name in a query to its metric."""
    found = {}
    for metric in TABLE:
        found[metric.sample_name] = metric
        if metric.kind == HISTOGRAM:
            found |= {f"{metric.full_name}_{end}": metric for end in ("count", "sum")}
    return found


def names_in(query):
    """Returns the metrics in a query, each with its label matchers."""
    return re.findall(r"\b(lbd_\w+)(?:\{([^}]*)\})?", query)


def promtool():
    found = shutil.which("promtool") or shutil.which(ROOT / "build/promtool/promtool")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no promtool (tests/promtool)")
    return found


def test_there_are_queries():
    assert len(RULES) >= 10
    assert len(QUERIES) >= 20
    assert all(names_in(query) for query in QUERIES)


@pytest.mark.parametrize("query", [*QUERIES, *(rule["expr"] for rule in RULES)])
def test_a_query_asks_for_existing_metrics(query):
    known = sample_names()
    for name, labels in names_in(query):
        assert name in known
        metric = known[name]
        values = {label.name: label.values for label in metric.labels}
        for label, how, value in LABELS.findall(labels):
            if label == "le":
                assert float(value) in metric.bounds
            elif label != "instance":
                assert label in values, f"{name} has no label {label}"
                assert how != "=" or value in values[label]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do(rule):
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert (ROOT / path).read_text() == PAGE
    assert anchor == rule["alert"].lower()
    assert f"\n### {rule['alert']}\n" in PAGE
    assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_the_table_of_alerts_is_that_of_the_rules():
    rows = [
        f"| [{rule['alert']}](#{rule['alert'].lower()}) | {metrics_in(rule['expr'])} "
        f"| {rule.get('for', 'at once')} | {rule['labels']['severity']} |"
        for rule in RULES
    ]
    assert re.findall(r"^\| \[Lbd.*", PAGE, re.MULTILINE) == rows


def metrics_in(query):
    names = dict.fromkeys(re.findall(r"\b(?:lbd_\w+|up)\b", query))
    return ", ".join(f"`{name}`" for name in names)


def test_no_page_remains_of_a_removed_alert():
    assert re.findall(r"\n### (\w+)\n", PAGE) == [rule["alert"] for rule in RULES]


def test_alerts_fire_exactly_when_they_should():
    result = subprocess.run(
        [promtool(), "test", "rules", "lbd.rules.test.yml"],
        cwd=PLACE, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_alert_is_tested_firing_and_quiet():
    tests = yaml.safe_load((PLACE / "lbd.rules.test.yml").read_text())["tests"]
    fires, quiet = set(), set()
    for case in tests:
        for expected in case["alert_rule_test"]:
            (fires if expected.get("exp_alerts") else quiet).add(expected["alertname"])
    assert fires == quiet == {rule["alert"] for rule in RULES}


def test_the_queries_of_the_dashboard_are_promql(tmp_path):
    rules = [
        {"record": f"panel:{n}", "expr": query.replace("$host", ".*")}
        for n, query in enumerate(QUERIES)
    ]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    result = subprocess.run([promtool(), "check", "rules", path], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_dashboard_is_the_one_the_program_writes():
    assert dashboard.PLACE.read_text() == dashboard.text(), "run deploy/monitoring/dashboard.py"
    panels = json.loads(dashboard.text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
        assert at["x"] + at["w"] <= dashboard.COLUMNS
        assert not cells & taken, f"{panel['title']} lies on another"
        taken |= cells
