"""With SASL, TLS and ACLs, a worker, a producer and a consumer need the documented permissions, and no others."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from app.ops.doctor.acl import consumer_acls, producer_acls, worker_acls
from app.settings.settings import Settings
from tests.harness.account import Account
from tests.harness.guarded import Guarded
from tests.harness.kafka import Requests, create_topic, now_ms
from tests.harness.waiting import LIMIT_S, crowd
from tests.harness.worker import Worker
from tests.integration.installation import PARTITIONS, Installation, new_app_id
from tests.integration.test_doctor import doctor, found

pytestmark = pytest.mark.core


def _installation(guarantee: str) -> tuple[str, str, dict[str, str], Settings]:
    """Return a new installation's name, its destination and its settings, as variables too."""
    app_id = new_app_id("guarded")
    to = f"{app_id[::-1]}-to"  # not by the prefix
    env = {"DELAY_APP_ID": app_id, "DELAY_DESTINATIONS": to, "DELAY_GUARANTEE": guarantee}
    return app_id, to, env, Settings.from_env(env)


def _consume(count: int, topic: str, options: dict[str, str]) -> list[bytes | None]:
    """Return the values of `count` records, read as a group."""
    consumer, found = Consumer({"auto.offset.reset": "earliest", "log_level": 0, **options}), list[bytes | None]()
    try:
        consumer.subscribe([topic])
        until = time.monotonic() + LIMIT_S * crowd()
        while len(found) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} records came"
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None, message.error()
                found.append(message.value())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize(("protocol", "guarantee"), [("SASL_SSL", "at_least_once"), ("SASL_PLAINTEXT", "exactly_once")])
def test_all_three_programs_work_with_exactly_their_permissions(
    guarded: Guarded, tmp_path: Path, protocol: str, guarantee: str
) -> None:
    app_id, to, env, settings = _installation(guarantee)
    inside, outside = guarded.broker.bootstrap, guarded.outside(protocol)
    create_topic(inside, to)
    guarded.grant("worker", worker_acls(settings))
    guarded.grant("producer", producer_acls(settings.topics))
    guarded.grant("consumer", consumer_acls(settings.destinations, f"{to}-readers"))
    with Worker(outside, app_id, tmp_path / app_id, partitions=PARTITIONS, env=env | guarded.env(protocol)) as worker:
        worker.start().wait_ready()
        here = Installation(inside, app_id, worker, Requests(outside, app_id, **guarded.client(protocol, "producer")))
        here.requests.schedule("unwanted", now_ms() + 3_600_000, to)
        here.requests.cancel("unwanted")
        for life in range(2):
            here.requests.schedule(f"{life}", now_ms() + 500, to, b"%d" % life)
            here.requests.flush()
            here.await_event("delivered", f"{life}")
            worker.kill()
            worker.start().wait_ready()
        here.await_event("cancelled", "unwanted")
        readers = {"bootstrap.servers": outside, "group.id": f"{to}-readers", **guarded.client(protocol, "consumer")}
        assert _consume(2, to, readers) == [b"0", b"1"]
        assert not here.events("refused")
        Account.settled(inside, app_id)
        assert "uthorization" not in worker.log


def test_a_right_that_is_missing_is_named_by_the_dead_letter_and_by_the_doctor(
    guarded: Guarded, tmp_path: Path
) -> None:
    with _with_no_more_than("Read", guarded, tmp_path) as (here, to, settings):
        [letter] = here.letters_for(1, to)
        assert f"this worker has no permission to write to topic {to}. Grant WRITE" in letter.header("delay-error")
        assert _told(guarded, here.worker) == [f"worker lacks Write on topic {to}"]
    guarded.grant("worker", worker_acls(settings))
    assert _told(guarded, here.worker) == []


def test_what_may_not_be_read_is_sent_again_after_a_crash_and_the_log_says_why(
    guarded: Guarded, tmp_path: Path
) -> None:
    with _with_no_more_than("Write", guarded, tmp_path, crash_at="fire.acked") as (here, to, _):
        worker = here.worker
        worker.wait_crashed()
        worker.crash_at = None
        worker.start()
        here.await_event("delivered", "0")
        assert len(here.wait_for(to, 2)) == 2
        assert f"previous owner to {to} could not be checked" in worker.log
        assert "Grant Read on it" in worker.log


@contextmanager
def _with_no_more_than(
    operation: str, guarded: Guarded, directory: Path, **options: Any
) -> Iterator[tuple[Installation, str, Settings]]:
    """Run a worker with a single permission on a destination, and schedule a message there with the id 0."""
    app_id, to, env, settings = _installation("at_least_once")
    inside, outside = guarded.broker.bootstrap, guarded.outside("SASL_PLAINTEXT")
    create_topic(inside, to)
    for acl in worker_acls(settings):
        guarded.grant("worker", [acl._replace(operations=(operation,)) if acl.name == to else acl])
    env |= guarded.env("SASL_PLAINTEXT")
    with Worker(outside, app_id, directory / app_id, partitions=PARTITIONS, env=env, **options) as worker:
        worker.start().wait_ready()
        here = Installation(inside, app_id, worker, Requests(inside, app_id))
        here.requests.schedule("0", now_ms() + 100, to)
        here.requests.flush()
        yield here, to, settings


def _told(guarded: Guarded, worker: Worker) -> list[str]:
    """Return the permissions that the doctor misses."""
    outside = guarded.outside("SASL_PLAINTEXT")
    errors = found(doctor(outside, worker.app_id, "--format", "json", **worker.env), "error")
    return [one["sentence"].partition(". ")[0] for one in errors if one["check"] == "rights"]


def test_exactly_once_a_worker_that_may_not_use_its_transactional_ids_says_so(guarded: Guarded, tmp_path: Path) -> None:
    app_id, _, env, settings = _installation("exactly_once")
    guarded.grant("worker", (acl for acl in worker_acls(settings) if acl.resource != "transactional id"))
    env |= guarded.env("SASL_PLAINTEXT")
    outside = guarded.outside("SASL_PLAINTEXT")
    with Worker(outside, app_id, tmp_path / app_id, partitions=PARTITIONS, env=env) as worker:
        assert worker.start().wait_dead() == 1
        assert f"do not let this worker use the transactional id {app_id}-" in worker.log
        assert "Traceback" not in worker.log
