"""Foreign records on internal topics, whatever they are: no worker exits, and every start succeeds."""

import json
import urllib.request
from collections.abc import Iterator

import msgspec
import pytest

from app.engine.reports.queues import _OF_TOPIC
from punctual.contract.queue_report import QueueReport
from tests.harness.fuzz import Pair, mangled, seeds
from tests.harness.kafka import create_topic, now_ms, read
from tests.harness.waiting import LIMIT_S, eventually
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation
from tests.integration.test_actions import get, post

#: Internal topics, without the changelog and the forwards, which have tests of their own.
TOPICS = ("progress", "events", "dead-letters", "cold", "controls")


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    """An installation with all internal topics that there can be."""
    env = {"DELAY_HORIZON": "PT1H", "DELAY_DEDUPE_WINDOW": "PT10M", "DELAY_DESTINATIONS": "*-to-*"}
    with run("foreign", env=lambda _: env, balanced=False) as made:
        yield made


def deliver(installation: Installation, to: str) -> None:
    """Check that each partition delivers."""
    keys = {installation.new_id().encode() for _ in range(PARTITIONS)}
    for number, key in enumerate(keys):
        headers = {"delay-to": to, "delay-at": str(now_ms() + 300)}
        installation.requests.send(headers, key, b"", partition=number)
    installation.requests.flush()
    eventually(lambda: keys <= {record.key for record in read(installation.bootstrap, to)}, what="each delivery")


def forge(installation: Installation, name: str) -> None:
    """Write records to an internal topic, some like its own records and some unlike them."""
    topic = f"{installation.app_id}-{name}"
    genuine: list[Pair] = [(record.key, record.value) for record in read(installation.bootstrap, topic)]
    control: Pair = (b"orders", b'{"paused": true, "reason": "r", "until": "2030-01-01T00:00:00Z", "rate": "5/s"}')
    report: Pair = (b"0", json.dumps({"partition": 0, "positions": {"x": 1}, "state": "stopped"}).encode())
    for seed in seeds(100):
        key, value = mangled(seed, [*genuine[-50:], report, control, (None, b"{}"), (b"k", None)])
        installation.requests.send({}, key if key is not None else b"", value, topic=topic)
    installation.requests.flush()


def foreign(installation: Installation, name: str) -> float:
    """Return how many foreign records on an internal topic the worker has counted."""
    return installation.worker.metric("delay_foreign_records_total", topic=f"{installation.app_id}-{name}")


def test_workers_go_on_and_start_whatever_is_written_to_internal_topics(installation: Installation) -> None:
    to = installation.topic()
    deliver(installation, to)
    for name in TOPICS:
        forge(installation, name)
    deliver(installation, to)
    for name in ("progress", "controls"):
        eventually(lambda: foreign(installation, name) > 0, what="counted records")  # noqa: B023 - it is called at once
        said = f"{installation.app_id}-{name}-0-"
        eventually(lambda: said in installation.worker.log, what="a word about one")  # noqa: B023 - it is called at once
        assert installation.worker.log.count(said) == 1
    assert installation.worker.log.count("was not written by Punctual and is skipped") == 2

    installation.worker.kill()
    installation.worker.start().wait_ready()
    deliver(installation, to)
    assert installation.worker.alive


def test_workers_go_on_whatever_is_forwarded(installation: Installation) -> None:
    to = installation.topic()
    for number in range(8):  # some live elsewhere
        headers = {"delay-to": to, "delay-after": "PT30M", "delay-id": f"id-{number}"}
        installation.requests.send(headers, b"", b"", partition=0)
    deliver(installation, to)
    forge(installation, "forwards")
    deliver(installation, to)
    installation.worker.kill()
    installation.worker.start().wait_ready()
    deliver(installation, to)


def test_actions_have_outcomes_even_with_invalid_records_in_events_and_the_audit(run: Run) -> None:
    with run("foreign-acts", balanced=False) as installation:
        to = installation.topic()
        assert post(installation, "/messages", {"to": to, "after": "PT0S", "id": "gone", "value": "v"})[0] == 201
        eventually(lambda: get(installation, "/messages/gone")[0] == 404, what="the message's end")
        for name in ("events", "audit"):
            forge(installation, name)
        for id_, said in (("gone", (409, "unknown", "delivered")), ("never", (404, "unknown", None))):
            status, answer = post(installation, f"/messages/{id_}/cancel")
            assert (status, answer["outcome"], answer.get("ended")) == said, answer
        status, answer = get(installation, "/audit")
        assert (status, answer["acts"][0]["act"], answer["acts"][0]["outcome"]) == (200, "cancel", "unknown"), answer
        assert post(installation, "/messages", {"to": to, "after": "PT1H", "id": "new", "value": "v"})[0] == 201
        assert post(installation, "/messages/new/cancel")[1]["outcome"] == "cancelled"


def test_made_up_consumers_of_queues_are_bounded_in_memory_and_metrics(installation: Installation) -> None:
    topic = create_topic(installation.bootstrap, f"{installation.app_id}-queues")

    def report() -> None:
        """Have all consumers report, as live ones do every few seconds: silent ones are not shown."""
        for number in range(5_000):
            said = QueueReport(topic=f"t-{number}", group=f"g-{number}\u2028delay_build_info 7", consumer="c")
            installation.requests.send({}, said.key, msgspec.json.encode(said), topic=topic)
        installation.requests.flush()

    def shown() -> list[str]:
        report()
        address = f"{installation.worker.url}/metrics"
        with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:  # noqa: S310 - our own worker's
            lines: list[str] = answer.read().decode().split("\n")
        return [line for line in lines if line.startswith("delay_queue_unacked_messages{")]

    eventually(lambda: len(shown()) >= _OF_TOPIC, what="made-up consumers")
    assert len(shown()) == _OF_TOPIC
    assert "more consumers report than can be shown" in installation.worker.log
