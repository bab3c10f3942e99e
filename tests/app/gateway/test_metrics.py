"""The gateway's metrics are those of the reference, and its page on health says how it stands."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.gateway.health import Health
from app.gateway.spool.spool import Spool
from app.settings.settings import Settings
from tests.app.gateway.conftest import ENV, crash, parts_of

if TYPE_CHECKING:
    from aiohttp import web

    from tests.app.gateway.conftest import Stage

_REFERENCE = (Path(__file__).parents[3] / "docs/reference/metrics.md").read_text("utf-8")
_DOCUMENTED = {
    name: (kind, set(re.findall("`(.+?)`", labels)))
    for name, kind, labels in re.findall(r"^\| `(delay_gateway_\w+)` \| (\w+) \| (.*?) ?\|", _REFERENCE, re.MULTILINE)
}
_MESSAGE = {"to": "orders", "after": "PT1H", "value": "pay", "key": "k"}


async def _metrics(stage: "Stage") -> str:
    async with stage.client.get("/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return await answer.text()


async def test_metrics_are_documented_with_their_types_and_labels(stage: "Stage") -> None:
    shown = {}
    for family in text_string_to_metric_families(await _metrics(stage)):
        if family.name.startswith("delay_gateway_") and not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels}
            labels -= {"le"} if family.type == "histogram" else set()
            assert labels in (_DOCUMENTED.get(name, ("", set()))[1], set()), name
            shown[name] = family.type
    assert shown == {name: kind for name, (kind, _) in _DOCUMENTED.items()}


async def test_spooled_records_are_counted_and_reported(stage: "Stage") -> None:
    for _ in range(3):
        assert (await stage.ask("POST", "/api/v1/messages", _MESSAGE))[0] == 202
    lines = (await _metrics(stage)).splitlines()
    assert 'delay_gateway_records_total{outcome="spooled"} 3.0' in lines
    assert "delay_gateway_spool_records 3.0" in lines
    assert 'delay_gateway_state{state="spooling"} 1.0' in lines
    status, said = await stage.ask("GET", "/ready")
    assert status == 200
    assert said["state"] == "spooling"
    assert said["spool_records"] == 3
    assert said["spool_bytes"] > 0
    assert not said["connected"]


async def test_a_gateway_that_cannot_accept_messages_is_alive_and_not_ready(stage: "Stage") -> None:
    assert (await stage.ask("POST", "/api/v1/messages", _MESSAGE))[0] == 202
    stage.spool._most_bytes = 0
    async with stage.client.post("/api/v1/messages", json=_MESSAGE) as answer:
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert "DELAY_GATEWAY_SPOOL_BYTES" in json.loads(await answer.text())["detail"]
    status, said = await stage.ask("GET", "/ready")
    assert (status, said["ready"]) == (503, False)
    assert "Kafka is down" in said["missing"]
    async with stage.client.get("/live") as answer:
        assert answer.status == 200


async def test_a_gateway_with_too_little_disk_space_refuses_keys_and_is_not_ready(
    stage: "Stage", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.base.process.disk_room.FREE_BYTES", 1 << 60)
    status, said = await stage.ask("GET", "/ready")
    assert status == 503
    assert "less than 256 MiB of disk are free, so requests with an Idempotency-Key are refused" in said["missing"]
    status, said = await stage.ask("POST", "/api/v1/messages", _MESSAGE, headers={"Idempotency-Key": '"key"'})
    assert status == 503


async def test_all_reasons_why_a_gateway_is_not_ready_are_named(tmp_path: Path) -> None:
    """The first reason would hide the one for which requests are refused."""
    settings = Settings.from_env(ENV | {"DATADIR": str(tmp_path)})
    spool = Spool(settings.topics, settings.gateway, settings.gateway_path, crash)
    parts = parts_of(settings, spool)
    health = Health(parts)

    async def said() -> Any:
        answer = await health.show_ready(cast("web.Request", None))
        assert isinstance(answer.body, bytes)
        return answer.status, json.loads(answer.body)["missing"]

    assert await said() == (200, None)
    parts.unready.extend((lambda: "keys are being read", lambda: None, lambda: "the disk takes no key"))
    assert await said() == (503, "keys are being read; the disk takes no key")
    await parts.intake.close()
    await parts.connection.close()


async def _refused(stage: "Stage") -> Counter[str]:
    """Return how many requests were refused, by the type of their problem."""
    families = text_string_to_metric_families(await _metrics(stage))
    samples = (one for family in families for one in family.samples if one.name == "delay_gateway_refused_total")
    return Counter({one.labels["type"]: int(one.value) for one in samples})


@pytest.mark.parametrize("env", [{"GATEWAY_CONFLUENT": "on"}])
async def test_every_refused_request_is_counted_once(stage: "Stage", monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    before = await _refused(stage)
    monkeypatch.setattr("app.gateway.spool.intake.Intake.not_ready", fail)
    for path, host in (("/live", "elsewhere.example"), ("/ready", "localhost"), ("/kafka/v3/none", "localhost")):
        async with stage.client.get(path, headers={"Host": host}) as answer:
            assert answer.status >= 400

    assert await _refused(stage) - before == Counter({"misdirected": 1, "internal": 1, "not-found": 1})
