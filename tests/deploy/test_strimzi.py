"""Strimzi's resources are the topics that a worker creates, and the rights that it needs."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it ships no types

from app.engine.topics.internal_topics import plan, when_needed
from app.settings.settings import Settings
from tests.harness.waiting import PROGRAM_S

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART_SETTINGS: dict[str, str] = yaml.safe_load((DEPLOY / "helm" / "punctual" / "values.yaml").read_text("utf-8"))[
    "settings"
]


def printed(*options: str, **env: str) -> str:
    """Return the output of the program."""
    command = [sys.executable, str(DEPLOY / "strimzi.py"), *options]
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("DELAY_", "KAFKA_"))}
    return subprocess.run(command, env=mine | env, capture_output=True, text=True, check=True, timeout=PROGRAM_S).stdout


def topics(text: str) -> dict[str, Any]:
    """Return the KafkaTopics by the topics' names."""
    return {one["spec"]["topicName"]: one for one in yaml.safe_load_all(text) if one["kind"] == "KafkaTopic"}


@pytest.mark.core
def test_the_file_equals_the_output_of_the_program_for_the_settings_of_the_chart() -> None:
    text = printed(**CHART_SETTINGS)
    assert text == (DEPLOY / "strimzi" / "default.yaml").read_text("utf-8")
    settings = Settings.from_env(CHART_SETTINGS)
    wanted = plan(settings.topics) | when_needed(settings.topics)
    found = {name: (one["spec"]["partitions"], one["spec"]["config"]) for name, one in topics(text).items()}
    assert found == wanted
    assert {one["spec"]["replicas"] for one in topics(text).values()} == {settings.topics.replication_factor}


@pytest.mark.core
def test_they_follow_the_settings_of_the_environment() -> None:
    env = {
        "DELAY_APP_ID": "Shop_1",
        "DELAY_INPUTS": "theirs=native",
        "DELAY_HORIZON": "P30D",
        "DELAY_DEDUPE_WINDOW": "PT1H",
    }
    text = printed("--cluster", "west", "--user", "shop", **env, DELAY_DESTINATIONS="orders.*", DELAY_PARTITIONS="8")
    found = topics(text)
    assert found["Shop_1-cold"]["spec"]["partitions"] == 8
    assert "theirs" not in found
    for one in found.values():  # as Kubernetes takes them
        assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", one["metadata"]["name"])
    *_, user = yaml.safe_load_all(text)
    assert (user["kind"], user["metadata"]["name"]) == ("KafkaUser", "shop")
    orders = {"type": "topic", "name": "orders.", "patternType": "prefix"}
    assert {"resource": orders, "operations": ["Read", "Write"]} in user["spec"]["authorization"]["acls"]
    clusters = {one["metadata"]["labels"]["strimzi.io/cluster"] for one in yaml.safe_load_all(text)}
    assert clusters == {"west"}
