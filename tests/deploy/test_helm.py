"""The chart: values that its schema takes, no secrets; rendered where a helm is found."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it ships no types

from app.settings import Settings
from deploy.monitoring.generate import files

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "punctual"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
_OPTIONS = ("serviceMonitor", "prometheusRule", "dashboard", "strimzi", "keda")


def _known(values: dict[str, Any], schema: dict[str, Any]) -> None:
    if "properties" in schema:
        assert values.keys() <= schema["properties"].keys()
        for name, value in values.items():
            if isinstance(value, dict):
                _known(value, schema["properties"][name])


def test_the_schema_knows_every_value() -> None:
    _known(VALUES, SCHEMA)


def test_the_settings_are_a_workers() -> None:
    settings = Settings.from_env(VALUES["settings"])
    assert (settings.replication_factor, settings.min_insync_replicas) == (3, 2)


def test_there_is_always_a_worker() -> None:
    assert SCHEMA["properties"]["keda"]["properties"]["minReplicas"]["minimum"] == 1
    assert VALUES["keda"]["minReplicas"] >= 1


def test_secrets_come_by_reference_alone() -> None:
    assert VALUES["secretEnv"] == {}
    assert not list(CHART.rglob("*secret*"))
    assert "PASSWORD" in json.dumps(SCHEMA["properties"]["settings"]["propertyNames"]["not"])


def test_the_files_that_templates_bring_are_in_the_chart() -> None:
    templates = "".join(path.read_text("utf-8") for path in (CHART / "templates").iterdir())
    brought = set(re.findall(r'\.Files\.Get "(.+?)"', templates))
    assert brought == {f"monitoring/{name}" for name in files()}
    assert all((CHART / name).is_file() for name in brought)


def test_what_not_everybody_has_is_off() -> None:
    assert not any(VALUES[name]["enabled"] for name in _OPTIONS)


def _worker(rendered: str) -> dict[str, Any]:
    sets = [one for one in yaml.safe_load_all(rendered) if one and one["kind"] == "StatefulSet"]
    found: dict[str, Any] = sets[0]["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.slow
def test_it_renders_with_everything_on() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("no helm on the PATH: the chart's templates were not rendered")
    extras = [f"--set={name}.enabled=true" for name in _OPTIONS]
    command = [helm, "template", "one", str(CHART), "--kube-version=1.30.0", *extras]
    command += ["--set=prometheusRule.runbooks=https://docs.example.com/operate"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "set signIn.usersSecret" in refused.stderr
    command += ["--set=signIn.usersSecret=people"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "set secretEnv.DELAY_WEB_SECRET" in refused.stderr
    command += ["--set=secretEnv.DELAY_WEB_SECRET.name=web", "--set=secretEnv.DELAY_WEB_SECRET.key=secret"]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    env = {one["name"]: one.get("value") for one in _worker(rendered)["env"]}
    assert env["DELAY_WEB_USERS_FILE"] == "/etc/punctual/users/users"
    assert {one["name"] for one in _worker(rendered)["volumeMounts"]} == {"data", "tmp", "users"}
    found = {one["kind"]: one for one in yaml.safe_load_all(rendered) if one}
    wanted = {"StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert found.keys() == wanted | {"ServiceMonitor", "PrometheusRule", "ConfigMap", "ScaledObject", "KafkaUser"}
    assert found["PrometheusRule"]["spec"] == yaml.safe_load(files("https://docs.example.com/operate")["alerts.yaml"])
    assert json.loads(found["ConfigMap"]["data"]["punctual.json"]) == json.loads(files()["dashboard.json"])
