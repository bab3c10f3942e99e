"""docs/how-to/kubernetes.md: the chart takes its values, a worker its settings, and the ingress fits the Service."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it ships no types

from app.serve.access import access
from app.settings.settings import Settings
from tests.harness.certificates import Authority
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT

PAGE = (ROOT / "docs/how-to/kubernetes.md").read_text("utf-8")
CHART = ROOT / "deploy/helm/punctual"
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))["properties"]
TEXTS: list[str] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS: list[dict[str, Any]] = [yaml.safe_load(text) for text in TEXTS]
VALUES, INGRESS = BLOCKS[0], next(block for block in BLOCKS if "apiVersion" in block)
ADDITIONS = [text for text, block in zip(TEXTS, BLOCKS, strict=True) if block not in (VALUES, INGRESS)]


def test_the_schema_knows_each_value() -> None:
    for block in BLOCKS:
        if block is not INGRESS:
            assert block.keys() <= SCHEMA.keys()
            known = {name: SCHEMA[name].get("properties") for name in block}
            assert not [
                name for name, keys in known.items() if keys is not None and not block[name].keys() <= keys.keys()
            ]
    assert all(isinstance(value, str) for value in VALUES["settings"].values())


def test_a_worker_takes_the_settings(tmp_path: Path) -> None:
    mounted = Path("/etc/punctual/kafka") / VALUES["kafka"]["secrets"][0]
    (tmp_path / "ca.pem").write_bytes(Authority("ours").pem)
    (tmp_path / "password").write_text("secret", "utf-8")
    given = {name: value.replace(str(mounted), str(tmp_path)) for name, value in VALUES["settings"].items()}
    assert given != VALUES["settings"]

    settings = Settings.from_env(
        {**given, "HOST": "10.0.0.1", "DELAY_WEB_USERS_FILE": "users", "DELAY_WEB_SECRET": "0123456789abcdef"}
    )

    access.check(settings.process, settings.web)
    assert settings.people_url == f"https://{INGRESS['spec']['rules'][0]['host']}"
    assert INGRESS["spec"]["rules"][0]["host"] in settings.web.hosts


def test_it_creates_each_secret_that_the_values_name() -> None:
    created = set(re.findall(r"create secret generic (\S+)", PAGE))
    named = {
        VALUES["signIn"]["usersSecret"],
        *VALUES["kafka"]["secrets"],
        *(one["name"] for one in VALUES["secretEnv"].values()),
    }
    assert named <= created


@pytest.mark.slow
def test_the_chart_is_rendered_with_them_and_has_the_service_of_the_ingress(tmp_path: Path) -> None:
    helm = os.environ.get("HELM") or shutil.which("helm")
    if helm is None:
        pytest.skip("no helm by HELM or on the PATH: the chart was not rendered with the page's values")
    for number, addition in enumerate(["", *ADDITIONS]):
        files = []
        for name, text in (("values", TEXTS[0]), (f"more-{number}", addition)):
            (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
            files += ["--values", str(tmp_path / f"{name}.yaml")]
        command = [helm, "template", "punctual", str(CHART), "--kube-version=1.30.0", *files]
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROGRAM_S)
        assert made.returncode == 0, made.stderr
        services = {one["metadata"]["name"]: one for one in yaml.safe_load_all(made.stdout) if one["kind"] == "Service"}
        backend = INGRESS["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
        assert backend["port"]["name"] in {port["name"] for port in services[backend["name"]]["spec"]["ports"]}
