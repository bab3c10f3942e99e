"""A real Prometheus reads a real worker: the dashboard's queries have answers, and no alert fires without a reason."""

import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it ships no types

from deploy.monitoring.dashboard import ROWS
from deploy.monitoring.generate import files
from tests.harness.kafka import now_ms
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S, ask_until, eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation
from tests.integration.test_actions import post

PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
HOUR_MS = 3_600_000
#: The values of the dashboard's variables, and panels for which a healthy worker has no data.
_CHOSEN = {"$__rate_interval": "5s", "$job": ".*", "$namespace": ".*"}
_SILENT = ("is held", "handed out", "breakers open", "other settings")
#: Metrics of gateways, of installations with namespaces, and of workers with several processes.
_ELSEWHERE = ("delay_gateway_", "delay_namespace_", "delay_process_")

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on the PATH or in PROMETHEUS: no query was made"),
]


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    """One that has delivered, refused, paused and capped something, and waits for the rest."""
    with run("prometheus") as made:
        to, other, paused = (made.topic() for _ in range(3))
        # Before any message is due there: on a slow machine all would be delivered first.
        assert post(made, f"/destinations/{other}/rate", {"rate": "1/s"})[0] == 200
        for number in range(20):
            made.requests.schedule(f"soon-{number}", now_ms() + 200, to)
            made.requests.schedule(f"later-{number}", now_ms() + HOUR_MS, to)
        for number in range(200):  # delivered at one a second
            made.requests.schedule(f"paced-{number}", now_ms() + 2_000, other)
        made.requests.send({"delay-to": to, "delay-after": "soon"})
        assert post(made, f"/destinations/{paused}/pause", {"reason": "a test"})[0] == 200
        made.requests.schedule("held", now_ms() + 1_000, paused)
        made.requests.flush()
        yield made
        # A test compares the account, and later deliveries would be reported a second late.
        assert post(made, f"/destinations/{other}/pause", {"reason": "the end"})[0] == 200


@pytest.fixture(scope="module")
def prometheus(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that reads the worker each second, and has the alerts."""
    path, port = tmp_path_factory.mktemp("prometheus"), free_port()
    (path / "alerts.yaml").write_text(files()["alerts.yaml"], "utf-8")
    scraped = {"job_name": "delay", "static_configs": [{"targets": [installation.worker.url.removeprefix("http://")]}]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [scraped],
    }
    (path / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    options = {"config.file": "prometheus.yml", "storage.tsdb.path": "data", "web.listen-address": f"127.0.0.1:{port}"}
    with (path / "log").open("wb") as log:
        running = subprocess.Popen(
            [str(PROMETHEUS), *(f"--{name}={value}" for name, value in options.items())], cwd=path, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}/api/v1"
            eventually(lambda: scrapes(url) > 5, what="some readings")
            yield url
        finally:
            running.terminate()
            running.wait(LIMIT_S)


def ask(url: str, path: str, **query: str) -> Any:
    """Return the data of an answer; fails with what Prometheus says of a question that makes no sense."""
    try:
        with urllib.request.urlopen(f"{url}/{path}?{urllib.parse.urlencode(query)}", timeout=LIMIT_S) as answer:  # noqa: S310
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode()}") from error


def scrapes(url: str) -> int:
    """Return how often the worker was read so far."""
    try:
        found = ask(url, "query", query="count_over_time(up[1m])")["result"]
    except (OSError, AssertionError):  # it answers 503 until it has started
        return 0
    return sum(int(one["value"][1]) for one in found)


@pytest.mark.parametrize("panel", [panel for row in ROWS.values() for panel in row], ids=lambda panel: panel.title)
def test_each_query_of_a_panel_returns_the_labels_that_the_panel_shows(prometheus: str, panel: Any) -> None:
    for legend, template in panel.queries.items():
        asked = template
        for name, value in _CHOSEN.items():
            asked = asked.replace(name, value)
        labels = set(re.findall(r"\{\{(\w+)\}\}", legend))
        silent = asked.endswith("> 0") or any(words in legend for words in _SILENT)
        found = ask_until(
            lambda asked=asked: ask(prometheus, "query", query=asked)["result"],  # type: ignore[misc]
            lambda found: found or silent or any(metric in asked for metric in _ELSEWHERE),  # noqa: B023 - called at once
            f"an answer to {asked}",
        )
        assert all(labels <= one["metric"].keys() for one in found), (asked, found)


def test_alerts_are_understood_and_none_fires_while_all_is_well(prometheus: str) -> None:
    rules = ask_until(
        lambda: [rule for group in ask(prometheus, "rules")["groups"] for rule in group["rules"]],
        lambda rules: all(rule["health"] == "ok" for rule in rules),
        "an evaluation of each",
    )
    assert len(rules) >= 15
    assert [
        alert["labels"]["alertname"] for alert in ask(prometheus, "alerts")["alerts"] if alert["state"] == "firing"
    ] == []


def test_prometheus_has_the_figures_that_the_worker_reports(prometheus: str, installation: Installation) -> None:
    with urllib.request.urlopen(f"{installation.worker.url}/metrics", timeout=LIMIT_S) as answer:  # noqa: S310 - our own
        told = set(re.findall(r"^(delay_\w+?)(?:\{| )", answer.read().decode(), re.MULTILINE))
    ask_until(lambda: told - set(ask(prometheus, "label/__name__/values")), lambda missing: not missing, "all metrics")
