"""A gateway without Kafka: its real parts, all that is taken goes to the spool."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.gateway.gateway import REGISTER
from app.gateway.parts import GatewayParts
from app.gateway.spool import intake
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.gateway.spool.spool import Spool
from app.serve.messages.acceptance import Submission
from app.settings.settings import Settings

ENV = {
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "DELAY_DESTINATIONS": "orders*,reminders",
    "DELAY_HTTP_DESTINATIONS": "https://example.com/*",
    "DELAY_INPUTS": "countdowns=countdown,scheduler=etf1,team-a=native",
    "DELAY_NAMESPACES": "team-a=a,b",
    "DELAY_PARTITIONS": "4",
    "GATEWAY_CONFLUENT": "on",
}


@dataclass
class Stage:
    """A gateway, and somebody who asks it."""

    client: TestClient[web.Request, web.Application]
    spool: Spool
    settings: Settings
    web_app: web.Application

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Ask with a body in JSON; return the status, and the answer read from JSON."""
        async with self.client.request(method, path, json=body, **options) as answer:
            return answer.status, await answer.json(content_type=None)

    async def spooled(self) -> list[Submission]:
        """Return the records in the spool, by place."""
        return [held.submission for place in sorted(self.spool.places()) for held in await self.spool.read(place)]


def crash(error: BaseException) -> None:
    raise error


def parts_of(settings: Settings, spool: Spool) -> GatewayParts:
    connection = KafkaConnection(settings.kafka, settings.topics, settings.gateway_path)
    return GatewayParts(settings, connection, Intake(settings.topics, connection, spool, crash))


@pytest.fixture
def env() -> dict[str, str]:
    return {}


@pytest.fixture
async def stage(tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(intake, "PATIENCE_S", 0.0)
    settings = Settings.from_env(ENV | {"DATADIR": str(tmp_path)} | env)
    spool = Spool(settings.topics, settings.gateway, settings.gateway_path, crash)
    parts = parts_of(settings, spool)
    web_app = web.Application()
    for register in REGISTER:
        register(web_app, parts)
    async with TestClient(TestServer(web_app)) as client:
        yield Stage(client, spool, settings, web_app)
    await parts.intake.close()
    await parts.connection.close()
