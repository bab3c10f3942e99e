"""Each of our Kafka clients logs in by every mechanism, with secrets from files, and reports why a login failed."""

import asyncio
import gc
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from app.ops.doctor.acl import Acl
from punctual.client.client import DelayClient
from punctual.client.errors import KafkaUnreachableError
from punctual.client.sync import SyncDelayClient
from punctual.security import confluent_options, kafka_options
from tests.harness.certificates import Authority
from tests.harness.guarded import Guarded
from tests.harness.kafka import create_topic, read
from tests.harness.waiting import LIMIT_S
from tests.harness.worker import ROOT
from tests.integration.installation import new_app_id

WAYS = [
    ("SASL_SSL", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_SSL", "OAUTHBEARER"),
    ("MUTUAL", ""),
]


@pytest.fixture(scope="module")
def app_id(guarded: Guarded) -> str:
    """An installation's requests topic, the only topic that the producer may write."""
    name = new_app_id("logins")
    create_topic(guarded.broker.bootstrap, f"{name}-requests", 2)
    guarded.grant("producer", [Acl("topic", f"{name}-requests", "literal", ("Read", "Write"))])
    return name


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
async def test_clients_of_all_kinds_come_in(guarded: Guarded, app_id: str, listener: str, mechanism: str) -> None:
    env, servers, topic = guarded.env(listener, mechanism, "producer"), guarded.outside(listener), f"{app_id}-requests"
    options, before = kafka_options(env), len(list(read(guarded.broker.bootstrap, topic)))
    async with DelayClient(servers, app_id=app_id, **options) as client:
        await client.delay("somewhere", b"by the client", after=timedelta(hours=1))

    def by_the_sync_client() -> None:
        with SyncDelayClient(servers, app_id=app_id, **options) as client:
            client.delay("somewhere", b"by the sync client", after=timedelta(hours=1))

    await asyncio.to_thread(by_the_sync_client)
    producer = Producer({"bootstrap.servers": servers, **confluent_options(env)})
    producer.produce(topic, b"by librdkafka")
    assert producer.flush(LIMIT_S) == 0
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, **options)
    await consumer.start()
    ends = await consumer.end_offsets([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    await consumer.stop()
    assert sum(ends.values()) == before + 3


def test_the_command_line_comes_in_by_the_same_settings(guarded: Guarded, app_id: str) -> None:
    env = guarded.env("SASL_SSL", "OAUTHBEARER", "producer") | {"PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-c",
        "from punctual.command import main; main()",
        "send",
        "--to",
        "t",
        "--at",
        "now",
        "v",
    ]
    command += ["--bootstrap", guarded.outside("SASL_SSL"), "--app-id", app_id]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_clients_that_are_not_let_in_say_why(guarded: Guarded, app_id: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("canary-wrong", "utf-8")
    wrong = {"KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "wrong")}
    other = {"KAFKA_SSL_CAFILE": str(tmp_path / "ca.pem")}
    (tmp_path / "ca.pem").write_bytes(Authority("other").pem)
    for listener, mechanism, more, says in (
        ("SASL_SSL", "SCRAM-SHA-512", wrong, "invalid credentials"),
        ("SASL_SSL", "PLAIN", other, "CERTIFICATE_VERIFY_FAILED"),
    ):
        options = kafka_options(guarded.env(listener, mechanism, "producer") | more)
        with pytest.raises(KafkaUnreachableError, match=says) as raised:
            SyncDelayClient(guarded.outside(listener), app_id=app_id, **options).start()
        assert "canary" not in str(raised.value)
    del raised
    gc.collect()  # an unclosed connection would cause a ResourceWarning
