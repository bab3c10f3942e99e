"""Alerts and dashboard match their sources, and use existing metrics and runbooks."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it ships no types
from prometheus_client import REGISTRY, generate_latest

from app.base.clock import ALARM_MS
from deploy.monitoring import alerts, dashboard
from deploy.monitoring.generate import RUNBOOKS, files
from tests.harness.waiting import PROGRAM_S

TREE = Path(__file__).parents[2]
DEPLOY = TREE / "deploy"
_TESTS = DEPLOY / "monitoring" / "alerts.test.yaml"
Promtool = Callable[..., None]
RULES: list[dict[str, Any]] = yaml.safe_load(files()["alerts.yaml"])["groups"][0]["rules"]


def test_each_alert_has_a_section_of_the_runbook_that_names_it() -> None:
    page = (TREE / RUNBOOKS).read_text("utf-8")
    sections = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    named = {
        (alert, re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-"))
        for heading, text in sections.items()
        for alert in re.findall(r"`(Punctual\w+)`", text)
    }
    assert {(rule["alert"], rule["annotations"]["runbook_url"].removeprefix(f"{RUNBOOKS}#")) for rule in RULES} == named


@pytest.mark.parametrize("asked", [alerts, dashboard], ids=["alerts", "dashboard"])
def test_only_metrics_of_a_worker_are_queried(asked: Any) -> None:
    page = (TREE / "docs/reference/metrics.md").read_text("utf-8")
    there = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    there |= set(re.findall(r"^(process_\w+) ", generate_latest(REGISTRY).decode(), re.MULTILINE))
    used = {
        name.removesuffix("_bucket")
        for one in asked.expressions()
        for name in re.findall(r"\b(?:delay|process)_\w+", one)
    }
    assert used
    assert used <= there


def test_every_metric_is_on_the_dashboard() -> None:
    page = (TREE / "docs/reference/metrics.md").read_text("utf-8")
    asked = " ".join(dashboard.expressions())
    left = {
        name
        for name in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
        if not re.search(rf"\b{name}(_bucket)?\b", asked)
    }
    assert left == {
        "delay_catch_up_cut_short_created",
        "delay_foreign_records_created",
        "delay_waited_for_inputs_seconds_created",
    }


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads(files()["dashboard.json"])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


def test_the_alert_on_clocks_has_the_workers_own_limit() -> None:
    [rule] = [rule for rule in RULES if rule["alert"] == "PunctualClockOff"]
    assert float(rule["expr"].rpartition(" ")[2]) * 1_000 == ALARM_MS


def test_runbooks_are_at_the_given_address() -> None:
    rules = yaml.safe_load(files("https://docs.example.com/operate")["alerts.yaml"])["groups"][0]["rules"]
    assert {rule["annotations"]["runbook_url"].partition("#")[0] for rule in rules} == {
        "https://docs.example.com/operate"
    }


def test_compose_hands_the_files_to_prometheus_and_grafana() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    mounts = dict(one.split(":")[:2] for name in ("prometheus", "grafana") for one in services[name]["volumes"])
    inside = {target: DEPLOY / source for source, target in mounts.items() if source.startswith("./")}
    assert all(source.is_file() for source in inside.values())
    read = yaml.safe_load(inside["/etc/prometheus/prometheus.yml"].read_text("utf-8"))
    assert [inside[f"/etc/prometheus/{name}"] for name in read["rule_files"]] == [DEPLOY / "monitoring/alerts.yaml"]
    [shown] = yaml.safe_load(inside["/etc/grafana/provisioning/dashboards/punctual.yaml"].read_text("utf-8"))[
        "providers"
    ]
    assert inside[f"{shown['options']['path']}/dashboard.json"] == DEPLOY / "monitoring/dashboard.json"
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{shown['options']['path']}/dashboard.json"


def test_every_alert_has_a_promtool_test_that_fires_it() -> None:
    tests = yaml.safe_load(_TESTS.read_text("utf-8"))["tests"]
    fired = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one.get("exp_alerts")}
    quiet = {one["alertname"] for one in tests[0]["alert_rule_test"]}
    assert fired == quiet == {rule["alert"] for rule in RULES}


@pytest.fixture
def promtool() -> Promtool:
    """Return a function that runs promtool and fails with its output."""
    found = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool on the PATH or in PROMTOOL: Prometheus' own checks were not made")

    def run(*arguments: str | Path) -> None:
        done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False, timeout=PROGRAM_S)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_the_rules_do_what_their_promtool_tests_say(promtool: Promtool) -> None:
    promtool("check", "config", DEPLOY / "prometheus.yaml")
    promtool("test", "rules", _TESTS)


def test_prometheus_parses_the_queries_of_the_dashboard(promtool: Promtool, tmp_path: Path) -> None:
    asked = [one.replace("$__rate_interval", "1m") for one in dashboard.expressions()]
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(asked)]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    promtool("check", "rules", path)
