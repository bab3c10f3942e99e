"""Clients of other systems get from Punctual what their own system would deliver.

What each has sent is recorded, and sent again from these bytes. `make test NAME=clients`
fetches and runs the clients themselves; `RECORD=1 make test NAME=clients` records them again.
"""

import contextlib
import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.harness.kafka import Record, create_topic, delete_topic, read
from tests.harness.systems import SYSTEMS, Delivery
from tests.harness.waiting import LIMIT_S
from tests.integration.clients.programs import CLIENTS, KCAT, Client, Order
from tests.integration.clients.recording import RECORDED, Recording, load, save, shapes
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation, users

RECORDINGS = sorted(path.stem for path in RECORDED.glob("*.jsonl"))
DUE_S = 4
#: A due time that etf1 was recorded to send, 2100, is too far away for a worker: in two years is soon enough.
RECORDED_FAR, FAR = b"4102444800", b"%d" % (time.time() + 2 * 365 * 86_400)
_FETCHES = pytest.mark.skipif("CLIENTS" not in os.environ, reason="it is fetched first: make test NAME=clients")
LIVE = [*(pytest.param(name, marks=_FETCHES) for name in CLIENTS), *KCAT]


def destination(name: str) -> str:
    """Return where a recorded client sends."""
    return f"recorded-{name}"


def input_of(app_id: str, name: str) -> str:
    """Return the topic that a recorded client's records are sent to."""
    return f"{app_id}-{name}"


def live_input(app_id: str, name: str) -> str:
    """Return the topic that a client itself sends to; Spring calls it so."""
    return f"{destination(name)}-retry" if name.startswith("spring") else f"{app_id}-live-{name}"


def setting(client: Client | Recording, name: str) -> str:
    """Return the dialect that a client's input is set to."""
    return SYSTEMS[client.dialect].setting.replace("*", f"{destination(name)}-fixed")


@pytest.fixture(scope="module")
def installation(bootstrap: str, admin: AdminClient, run: Run) -> Iterator[Installation]:
    names = [*CLIENTS, *KCAT]
    topics = [topic for name in names for topic in (destination(name), f"{destination(name)}-fixed")]
    left_over = [topic for topic in admin.list_topics(timeout=LIMIT_S).topics if topic.startswith("recorded-")]
    for topic in left_over:
        delete_topic(bootstrap, topic)

    def before(app_id: str) -> None:
        for topic in topics:
            create_topic(bootstrap, topic, 2)
        for name in names:
            create_topic(bootstrap, live_input(app_id, name), PARTITIONS)

    def env(app_id: str) -> dict[str, str]:
        clients = CLIENTS | KCAT
        live = {live_input(app_id, name): setting(client, name) for name, client in clients.items()}
        again = {input_of(app_id, name): setting(load(name), name) for name in RECORDINGS}
        inputs = ",".join(f"{topic}={said}" for topic, said in (live | again).items())
        usual = {"DELAY_DESTINATIONS": "recorded-*", "DELAY_CALLBACKS": "http://127.0.0.1*"}
        return {"DELAY_INPUTS": inputs, **usual}

    with run("clients", before=before, env=env) as made:
        yield made
    for topic in (*topics, "recorded-spring-retry", "recorded-spring-handler-retry"):
        with contextlib.suppress(KafkaException, KeyError):
            delete_topic(bootstrap, topic)


def assert_delivered(installation: Installation, client: Client | Recording, name: str, topic: str) -> list[Record]:
    """Check that an input's records are delivered as by the client's own system; return the records."""
    asked = list(read(installation.bootstrap, topic))
    cancelled = {record.key for record in asked if record.value is None}
    due = {record.source: record for record in asked if record.key not in cancelled}
    system = SYSTEMS[client.dialect]
    to = f"{destination(name)}-fixed" if "*" in system.setting else destination(name)
    earlier = len([one for one in read(installation.bootstrap, to) if one.header("delay-source") not in due])
    deliveries = installation.wait_for(to, earlier + len(due), 60)
    found = {one.header("delay-source"): one for one in deliveries if one.header("delay-source") in due}
    assert found.keys() == due.keys()
    for source, record in found.items():
        made = Delivery(int(record.header("delay-due")), record.key, record.value, users(record.headers))
        assert made == system.delivery(due[source])
        assert record.timestamp_ms >= made.due_ms
    for id_ in cancelled:
        installation.await_event("cancelled", (id_ or b"").decode())
    return asked


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_request_of_a_client_is_delivered_as_its_system_would(name: str, installation: Installation) -> None:
    recording, topic = load(name), input_of(installation.app_id, name)
    for record in recording.records:
        headers = [(name, FAR if value == RECORDED_FAR else value) for name, value in record.headers]
        installation.requests.send(headers, record.key, record.value, topic=topic, partition=0)
    installation.requests.flush()

    assert len(assert_delivered(installation, recording, name, topic)) == len(recording.records) > 0


@pytest.mark.parametrize("name", LIVE)
def test_a_request_of_a_client_is_delivered_as_its_system_would(name: str, installation: Installation) -> None:
    client, topic = (CLIENTS | KCAT)[name], live_input(installation.app_id, name)
    now_s = int(time.time())
    client.run(Order(installation.bootstrap, topic, destination(name), now_s, now_s + DUE_S))
    of_documentation = name == "airtel"  # the recorded ones are of that service's own code, which adds headers
    if "RECORD" in os.environ and not of_documentation:
        asked = sorted(read(installation.bootstrap, topic), key=lambda record: record.timestamp_ms)
        save(name, Recording(client.version, client.dialect, destination(name), asked))

    asked = assert_delivered(installation, client, name, topic)
    assert of_documentation or sorted(shapes(asked)) == sorted(shapes(load(name).records))
