"""With SASL, TLS and ACLs, a gateway needs the documented permissions, and no others."""

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from app.ops.doctor.acl import gateway_acls, worker_acls
from app.settings.settings import Settings
from tests.harness.gateway import GatewayProcess
from tests.harness.guarded import Guarded
from tests.harness.kafka import Requests, create_topic
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker
from tests.integration.installation import PARTITIONS, Installation, new_app_id

LATER = 3_600_000


def ask(gateway: GatewayProcess, method: str, path: str, body: object = None, key: str = "") -> tuple[int, Any]:
    """Ask a gateway; return the answer's status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=LIMIT_S)
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": f'"{key}"'} if key else {})}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("listener", "mechanism"), [("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "OAUTHBEARER"), ("MUTUAL", "")]
)
def test_a_gateway_works_with_exactly_its_permissions(
    guarded: Guarded, tmp_path: Path, listener: str, mechanism: str
) -> None:
    app_id = new_app_id("guarded")
    to = f"{app_id[::-1]}-to"
    env = {"DELAY_APP_ID": app_id, "DELAY_DESTINATIONS": to}
    settings, inside, outside = Settings.from_env(env), guarded.broker.bootstrap, guarded.outside(listener)
    create_topic(inside, to)
    guarded.grant("worker", worker_acls(settings))
    guarded.grant("producer", gateway_acls(settings))
    own = env | guarded.env(listener, mechanism, "producer")
    worker = Worker(
        outside, app_id, tmp_path / app_id, partitions=PARTITIONS, env=env | guarded.env(listener, mechanism)
    )
    with worker, GatewayProcess(outside, app_id, tmp_path / "gateway", partitions=PARTITIONS, env=own) as gateway:
        worker.start().wait_ready()
        eventually(lambda: gateway.ready().get("connected"), what="the gateway's connection")
        here = Installation(inside, app_id, worker, Requests(inside, app_id))

        assert ask(gateway, "POST", "/api/v1/messages", {"to": to, "after": 200, "value": "a", "id": "a"})[0] == 201
        body = {"to": to, "after": LATER, "value": "b", "id": "b"}
        first = ask(gateway, "POST", "/api/v1/messages", body, "k")
        assert first[0] == 201
        assert ask(gateway, "POST", "/api/v1/messages", body, "k") == first
        # The gateway learns from reports, once a second, which worker has the message.
        eventually(lambda: ask(gateway, "GET", "/api/v1/messages/b")[0] == 200, what="the pending message's answer")
        assert ask(gateway, "DELETE", "/api/v1/messages/b")[0] == 200
        assert ask(gateway, "POST", "/api/v1/messages", {"to": "elsewhere", "after": 1, "value": "c"})[0] == 403

        here.await_event("delivered", "a")
        here.await_event("cancelled", "b")
        assert "uthorization" not in gateway.log


def test_a_gateway_that_kafka_refuses_reports_it_and_keeps_its_messages(guarded: Guarded, tmp_path: Path) -> None:
    app_id = new_app_id("guarded")
    wrong = tmp_path / "password"
    wrong.write_text("canary-of-a-gateway\n", "utf-8")
    env = guarded.env("SASL_PLAINTEXT", "PLAIN", "producer") | {"KAFKA_SASL_PASSWORD_FILE": str(wrong)}
    outside = guarded.outside("SASL_PLAINTEXT")
    with GatewayProcess(outside, app_id, tmp_path / "gateway", env=env) as gateway:
        status, said = ask(gateway, "POST", "/api/v1/messages", {"to": "orders", "after": LATER, "value": "a"})

        assert (status, said["status"]) == (202, 202)
        eventually(lambda: "authentication" in gateway.log.lower(), what="a word of why")
        assert "canary-of-a-gateway" not in gateway.log
        assert not gateway.ready()["connected"]
