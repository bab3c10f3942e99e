"""The chart: values that its schema takes, no secrets; rendered where a helm is found."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it ships no types

from app.settings.settings import Settings
from deploy.monitoring.generate import files
from tests.harness.waiting import PROGRAM_S

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "punctual"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
#: Without them it is not rendered.
SIGN_IN = (
    "signIn.usersSecret=people",
    "secretEnv.DELAY_WEB_SECRET.name=web,secretEnv.DELAY_WEB_SECRET.key=secret",
)
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
_OPTIONS = ("serviceMonitor", "prometheusRule", "dashboard", "keda")
_GATEWAY = ("gateway.enabled=true", "gateway.tokensSecret=shops")


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
    assert settings.topics.replication_factor == 3


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
    assert not any(VALUES[name]["enabled"] for name in (*_OPTIONS, "gateway"))


@pytest.fixture(scope="module")
def helm() -> str:
    found = os.environ.get("HELM") or shutil.which("helm")
    if found is None:
        pytest.skip("no helm by HELM or on the PATH: the chart's templates were not rendered")
    return found


def _render(helm: str, *sets: str) -> "subprocess.CompletedProcess[str]":
    command = [helm, "template", "one", str(CHART), "--kube-version=1.30.0", *(f"--set={one}" for one in sets)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROGRAM_S)


def _rendered(helm: str, *sets: str) -> dict[str, dict[str, Any]]:
    """Return the resources with sign-in, by kind; the last service counts."""
    answer = _render(helm, *SIGN_IN, *sets)
    assert answer.returncode == 0, answer.stderr
    return {one["kind"]: one for one in yaml.safe_load_all(answer.stdout) if one}


@pytest.mark.slow
def test_it_renders_with_everything_on(helm: str) -> None:
    extras = [f"{name}.enabled=true" for name in _OPTIONS]
    extras.append("prometheusRule.runbooks=https://docs.example.com/operate")
    assert "set signIn.usersSecret" in _render(helm, *extras).stderr
    assert "set secretEnv.DELAY_WEB_SECRET" in _render(helm, *extras, SIGN_IN[0]).stderr
    kinds = _rendered(helm, *extras)
    worker = kinds["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    env = {one["name"]: one.get("value") for one in worker["env"]}
    assert env["DELAY_WEB_USERS_FILE"] == "/etc/punctual/users/users"
    assert {one["name"] for one in worker["volumeMounts"]} == {"data", "tmp", "users"}
    wanted = {"StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert kinds.keys() == wanted | {"ServiceMonitor", "PrometheusRule", "ConfigMap", "ScaledObject"}
    assert kinds["PrometheusRule"]["spec"] == yaml.safe_load(files("https://docs.example.com/operate")["alerts.yaml"])
    assert json.loads(kinds["ConfigMap"]["data"]["punctual.json"]) == json.loads(files()["dashboard.json"])


@pytest.mark.slow
def test_the_file_of_the_provider_is_there(helm: str) -> None:
    both = _render(helm, *SIGN_IN, "signIn.oidcSecret=provider")
    assert "there is one access file" in both.stderr
    answer = _render(helm, SIGN_IN[1], "signIn.oidcSecret=provider")
    assert answer.returncode == 0, answer.stderr
    kinds = {one["kind"]: one for one in yaml.safe_load_all(answer.stdout) if one}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    worker = pod["containers"][0]
    env = {one["name"]: one.get("value") for one in worker["env"]}
    mounts = {one["mountPath"]: one["name"] for one in worker["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert env["DELAY_WEB_USERS_FILE"] == "/etc/punctual/oidc/oidc.toml"
    assert volumes[mounts["/etc/punctual/oidc"]]["secret"] == {"secretName": "provider"}


@pytest.mark.slow
def test_a_certificate_has_servers_probes_and_prometheus_speak_tls(helm: str) -> None:
    plain = _render(helm, *SIGN_IN, *_GATEWAY, "serviceMonitor.enabled=true").stdout
    assert "https" not in plain.lower()
    assert "DELAY_TLS" not in plain

    every = _named(helm, *_GATEWAY, "serviceMonitor.enabled=true", "tls.secret=certificate")
    for name in ("one", "one-gateway"):
        pod = every["StatefulSet", name]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        settings = Settings.from_env({one["name"]: one["value"] for one in container["env"] if "value" in one})
        files = [Path(settings.process.tls_cert), Path(settings.process.tls_key)]
        assert [file.name for file in files] == ["tls.crt", "tls.key"]  # the names that Kubernetes requires
        mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        volumes = {one["name"]: one for one in pod["volumes"]}
        assert {volumes[mounts[str(file.parent)]]["secret"]["secretName"] for file in files} == {"certificate"}
        probes = [value["httpGet"] for key, value in container.items() if key.endswith("Probe")]
        assert {probe["scheme"] for probe in probes} == {"HTTPS"}
        assert {probe["path"] for probe in probes} == {"/health/ready", "/health/live"}
    worker = every["StatefulSet", "one"]["spec"]["template"]["spec"]["containers"][0]
    assert "https://$(POD_NAME).one-workers.default.svc:6066" in [one.get("value") for one in worker["env"]]
    [endpoint] = every["ServiceMonitor", "one"]["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {
        "serverName": "one.default.svc",
        "ca": {"secret": {"name": "certificate", "key": "tls.crt"}},
    }


@pytest.mark.slow
def test_files_of_kafka_s_security_and_of_other_clusters_are_there(helm: str) -> None:
    kinds = _rendered(helm, "kafka.secrets={ours,us}", 'kafka.clusters=[clusters.us]\nbootstrap_servers = "us:1"\n')
    pod = kinds["StatefulSet"]["spec"]["template"]
    worker = pod["spec"]["containers"][0]
    env = {one["name"]: one.get("value") for one in worker["env"]}
    mounts = {one["mountPath"]: one["name"] for one in worker["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    assert volumes[mounts["/etc/punctual/kafka/us"]]["secret"] == {"secretName": "us"}
    assert env["DELAY_CLUSTERS"] == "/etc/punctual/clusters/clusters.toml"
    assert volumes[mounts["/etc/punctual/clusters"]]["configMap"] == {"name": kinds["ConfigMap"]["metadata"]["name"]}
    assert tomllib.loads(kinds["ConfigMap"]["data"]["clusters.toml"])["clusters"]["us"] == {"bootstrap_servers": "us:1"}
    assert pod["metadata"]["annotations"]["punctual/clusters"]


def test_passwords_are_no_settings_but_their_files_are() -> None:
    [names] = [one["pattern"] for one in SCHEMA["properties"]["settings"]["propertyNames"]["not"]["anyOf"][:1]]
    refused = ("KAFKA_SASL_PASSWORD", "DELAY_WEB_SECRET", "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET")
    assert all(re.search(names, name) for name in refused)
    assert not any(re.search(names, f"{name}_FILE") for name in refused)


@pytest.mark.slow
def test_keda_scales_on_overdue_messages_and_never_to_zero(helm: str) -> None:
    kinds = _rendered(helm, "keda.enabled=true", "keda.minReplicas=1", "keda.overduePerWorker=500")
    scaled = kinds["ScaledObject"]["spec"]
    workers = kinds["StatefulSet"]
    assert scaled["scaleTargetRef"] == {"kind": "StatefulSet", "name": workers["metadata"]["name"]}
    assert "replicas" not in workers["spec"]  # an upgrade of the chart would set them back
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, VALUES["keda"]["maxReplicas"])
    assert "idleReplicaCount" not in scaled
    [trigger] = scaled["triggers"]
    assert "delay_overdue_messages" in trigger["metadata"]["query"]
    assert trigger["metadata"]["threshold"] == "500"
    refused = _render(helm, *SIGN_IN, "keda.enabled=true", "keda.minReplicas=0")
    assert refused.returncode != 0
    assert "minReplicas" in refused.stderr


@pytest.mark.slow
def test_only_workers_and_the_configured_clients_reach_the_port(helm: str) -> None:
    alone = _rendered(helm)
    labels = alone["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    workers = {"podSelector": {"matchLabels": labels}}
    policy = alone["NetworkPolicy"]["spec"]
    assert policy["podSelector"] == workers["podSelector"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": 6066}], "from": [workers]}]

    prometheus = "networkPolicy.from[0].namespaceSelector.matchLabels.team=monitoring"
    [rule] = _rendered(helm, prometheus)["NetworkPolicy"]["spec"]["ingress"]
    assert rule["from"] == [workers, {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    assert "NetworkPolicy" not in _rendered(helm, "networkPolicy.enabled=false")


def _named(helm: str, *sets: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the resources with sign-in, by kind and name."""
    answer = _render(helm, *SIGN_IN, *sets)
    assert answer.returncode == 0, answer.stderr
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(answer.stdout) if one}


@pytest.mark.slow
def test_a_gateway_has_tokens_and_a_volume_and_is_no_worker(helm: str) -> None:
    insecure = ("settings.DELAY_WEB_INSECURE=on", "gateway.enabled=true")
    assert "set signIn.usersSecret" in _render(helm, *insecure).stderr
    same = _named(helm, *SIGN_IN, "gateway.enabled=true")["StatefulSet", "one-gateway"]["spec"]["template"]["spec"]
    [volume] = [one for one in same["volumes"] if one["name"] == "tokens"]
    assert volume["secret"] == {"secretName": SIGN_IN[0].partition("=")[2]}
    every = _named(helm, *_GATEWAY, "kafka.secrets={ours}")
    pod = every["StatefulSet", "one-gateway"]["spec"]["template"]
    [gateway] = pod["spec"]["containers"]
    assert gateway["args"][0] == "gateway"
    settings = Settings.from_env({one["name"]: one["value"] for one in gateway["env"] if "value" in one})
    [port] = gateway["ports"]
    assert (settings.gateway.port, settings.process.public) == (port["containerPort"], True)
    mounts = {one["mountPath"]: one["name"] for one in gateway["volumeMounts"]}
    [claim] = every["StatefulSet", "one-gateway"]["spec"]["volumeClaimTemplates"]
    assert mounts[settings.process.datadir] == claim["metadata"]["name"]
    tokens = mounts[str(Path(settings.web.users_file).parent)]
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    assert volumes[tokens]["secret"] == {"secretName": "shops"}
    assert volumes[mounts["/etc/punctual/kafka/ours"]]["secret"] == {"secretName": "ours"}
    assert set(mounts.values()) == {claim["metadata"]["name"], *volumes}

    labels = pod["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
        assert _selected(every[kind, "one-gateway"]) == labels
        assert _selected(every[kind, "one"]) != labels


def _selected(one: dict[str, Any]) -> Any:
    """Return the labels by which it selects pods."""
    selector = one["spec"].get("selector") or one["spec"]["podSelector"]
    return selector.get("matchLabels", selector)


@pytest.mark.slow
def test_a_gateway_reaches_the_workers_and_whom_the_values_name_reach_it(helm: str) -> None:
    every = _named(helm, *_GATEWAY)
    gateway = {"podSelector": {"matchLabels": _selected(every["NetworkPolicy", "one-gateway"])}}
    [rule] = every["NetworkPolicy", "one"]["spec"]["ingress"]
    assert gateway in rule["from"]
    assert not every["NetworkPolicy", "one-gateway"]["spec"]["ingress"]

    shop = "gateway.from[0].podSelector.matchLabels.app=shop"
    [rule] = _named(helm, *_GATEWAY, shop)["NetworkPolicy", "one-gateway"]["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app": "shop"}}}]
