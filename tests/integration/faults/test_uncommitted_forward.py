"""A forward that its writer has committed may be readable only later: a partition that starts waits for it."""

import time

import pytest
from confluent_kafka import Producer

from punctual.contract import request
from punctual.contract.request import Request
from tests.harness.case import Case
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, crowd

pytestmark = pytest.mark.slow


def test_a_start_waits_for_a_cancel_among_the_forwards_that_cannot_be_read_yet(case: Case) -> None:
    with case.worker(env={"DELAY_GUARANTEE": "exactly_once"}) as worker:
        worker.start().wait_ready()
        due = now_ms() + int(3_000 * crowd())
        case.schedule("cancelled", due)
        case.schedule("kept", due)
        case.requests.flush()
        case.wait_accepted({"cancelled", "kept"})
        worker.kill()

        home, away = case.home("cancelled"), case.foreign("cancelled")
        source = f"{case.requests.topic}-{away}-77"
        cancel = Request("cancel", "cancelled", source, now_ms(), case.requests.topic)
        producer = Producer({"bootstrap.servers": case.bootstrap, "transactional.id": case.app_id, "log_level": 0})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(f"{case.app_id}-forwards", request.encode(cancel), b"cancelled", partition=home)
        assert not producer.flush(LIMIT_S)
        worker.start()
        time.sleep(max(0, due - now_ms()) / 1000 + 2)
        assert not case.deliveries().ids & {"cancelled"}
        producer.commit_transaction()

        worker.wait_ready()
        case.wait_delivered({"kept"})
        case.expected.cancelled.add("cancelled")
        case.settled()
        case.deliveries().check(case.expected)
