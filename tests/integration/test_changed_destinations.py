"""A destination that is created again with other partitions: keys go where the topic now puts them."""

from collections.abc import Iterator
from typing import Any

import pytest

from punctual.contract.home import key_partition
from tests.harness.kafka import create_topic, delete_topic, now_ms
from tests.integration.conftest import Run
from tests.integration.installation import Installation

KEYS = [b"key-%d" % number for number in range(60)]


@pytest.fixture(scope="module", params=["at_least_once", "exactly_once"])
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    guarantee: Any = request.param
    with run("changed", env=lambda _: {"DELAY_GUARANTEE": guarantee}) as made:
        yield made


def test_a_destination_with_fewer_partitions_gets_every_message_where_its_key_belongs(
    installation: Installation,
) -> None:
    to, due = installation.topic(6), now_ms() + 3_600_000
    for number in range(6):  # each partition is known, and has been written to
        headers = {"delay-to": to, "delay-at": "0", "delay-to-partition": str(number)}
        installation.requests.send(headers, b"before", b"")
    installation.requests.flush()
    installation.wait_for(to, 6)
    asked, ids = {"delay-to": to, "delay-at": str(due)}, [installation.new_id() for _ in range(len(KEYS) + 4)]
    for id_, key in zip(ids, KEYS, strict=False):
        installation.requests.send({**asked, "delay-id": id_}, key, key)
    for id_ in ids[len(KEYS) :]:
        installation.requests.send({**asked, "delay-id": id_}, None, b"keyless")
    for number in (1, 4):
        headers = {**asked, "delay-id": f"to-{number}", "delay-to-partition": str(number)}
        installation.requests.send(headers, b"chosen", b"chosen %d" % number)
    installation.requests.flush()
    installation.await_event("accepted", *ids, "to-1", "to-4")
    delete_topic(installation.bootstrap, to)
    create_topic(installation.bootstrap, to, 2)
    for id_ in (*ids, "to-1", "to-4"):
        installation.requests.command("deliver-now", id_)
    installation.requests.flush()

    records = [record for record in installation.wait_for(to, 65) if record.key is not None]
    keyed = [record for record in records if record.key != b"chosen"]
    assert sorted((record.key or b"", record.partition) for record in keyed) == sorted(
        (key, key_partition(key, 2)) for key in KEYS
    )
    assert [(record.value, record.partition) for record in records if record.key == b"chosen"] == [(b"chosen 1", 1)]
    [dead_letter] = installation.letters_for(1, to)
    assert (dead_letter.value, dead_letter.header("delay-reason")) == (b"chosen 4", "unknown-topic")
    assert f"topic {to} has partitions 0 to 1, but delay-to-partition is 4." in dead_letter.header("delay-error")
