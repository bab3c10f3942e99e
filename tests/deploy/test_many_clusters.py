"""The example of many clusters: each installation reads one and delivers to the other, on loopback, without secrets."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it ships no types

from app.settings.settings import Settings

PLACE = Path(__file__).parents[2] / "deploy" / "many-clusters"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((PLACE / "compose.yaml").read_text("utf-8"))["services"]


@pytest.mark.parametrize(("own", "other"), [("eu", "us"), ("us", "eu")])
def test_an_installation_reads_one_cluster_and_delivers_to_the_other(own: str, other: str) -> None:
    worker = SERVICES[f"worker-{own}"]
    mounted = dict(volume.split(":")[1::-1] for volume in worker["volumes"])
    env = worker["environment"]
    assert mounted[env["DELAY_CLUSTERS"]] == f"./{own}.toml"
    settings = Settings.from_env(env | {"DELAY_CLUSTERS": str(PLACE / f"{own}.toml")})
    assert (settings.topics.app_id, settings.kafka.bootstrap) == (f"delay-{own}", f"kafka-{own}:9092")
    assert settings.kafka.clusters == {other: f"kafka-{other}:9092"}
    assert settings.kafka.clusters.rates.keys() == {other}
    assert f"kafka-{other}" in SERVICES
    assert settings.read_only


def test_it_is_published_on_loopback_alone_and_has_no_secret() -> None:
    ports = [port for one in SERVICES.values() for port in one["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)
    names = {name for one in SERVICES.values() for name in one["environment"]}
    assert not [name for name in names if re.search("PASSWORD|SECRET|TOKEN", name)]
