"""Messages are delivered as they were sent, byte for byte, with their origin."""

import os
from collections.abc import Iterator

import pytest

from tests.harness.kafka import Record, create_topic, now_ms
from tests.harness.pace import usual_ms
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, Installation, users

pytestmark = pytest.mark.core

Headers = list[tuple[str, bytes | None]]
Sent = tuple[bytes | None, bytes | None, Headers]

LIMIT = str(4 << 20)
CASES: dict[str, Sent] = {
    "text": (b"key", b"value", [("a", b"1")]),
    "every byte": (bytes(range(256)), bytes(range(255, -1, -1)), [("all", bytes(range(256)))]),
    "a null key": (None, b"value", []),
    "a null value": (b"key", None, []),
    "neither key nor value": (None, None, []),
    "an empty key": (b"", b"value", []),
    "an empty value": (b"key", b"", []),
    "headers twice, in their order": (b"k", b"v", [("b", b"2"), ("a", b"1"), ("b", b"3"), ("a", b"1")]),
    "null and empty headers": (b"k", b"v", [("null", None), ("empty", b""), ("", b"unnamed")]),
    "headers that are no UTF-8": (b"k", b"v", [("binary", b"\xff\xfe\x00\x80")]),
    "header names of any script": (
        b"k",
        b"v",
        [("größe", b"1"), ("Delay-To", b"ours begin in lower case"), ("delay", b"")],
    ),
    "a mebibyte": (b"k", os.urandom(1 << 20), [("a", b"1")]),
    "three mebibytes": (os.urandom(1 << 20), os.urandom(2 << 20), [("a", b"1")]),
    "a large header": (b"k", b"v", [("large", os.urandom(1 << 20))]),
}


@pytest.fixture(scope="module")
def installation(bootstrap: str, run: Run) -> Iterator[Installation]:
    def before(app_id: str) -> None:
        create_topic(bootstrap, f"{app_id}-requests", 4, max_message_bytes=LIMIT)

    with run("bytes", before=before) as made:
        yield made


@pytest.fixture(scope="module")
def delivered(installation: Installation) -> dict[str, Record]:
    to = installation.topic(3, max_message_bytes=LIMIT)
    for name, (key, value, headers) in CASES.items():
        asked: Headers = [("delay-to", to.encode()), ("delay-id", name.encode()), ("delay-after", b"500")]
        # The user's headers lie between ours, as a careless producer would put them.
        installation.requests.send([*asked[:1], *headers, *asked[1:]], key, value)
    installation.requests.flush()
    records = installation.wait_for(to, len(CASES))
    assert len(records) == len(CASES)
    return {record.header("delay-id"): record for record in records}


@pytest.mark.parametrize("name", CASES)
def test_key_value_and_headers_arrive_as_they_were_sent(name: str, delivered: dict[str, Record]) -> None:
    key, value, headers = CASES[name]
    record = delivered[name]

    assert record.key == key
    assert record.value == value
    assert users(record.headers) == headers


@pytest.mark.parametrize("name", CASES)
def test_a_delivery_has_its_id_its_due_time_and_its_source_and_no_other_header(
    name: str, delivered: dict[str, Record], installation: Installation
) -> None:
    record = delivered[name]
    accepted = installation.await_event("accepted", name)[name]

    ours = [header for header in record.headers if header[0].startswith("delay-")]
    assert ours == [
        ("delay-id", name.encode()),
        ("delay-due", str(accepted["due"]).encode()),
        ("delay-source", accepted["source"].encode()),
    ]


def test_no_header_of_the_request_travels_on(installation: Installation) -> None:
    to, id_, due = installation.topic(), installation.new_id(), now_ms() + 300
    asked = {"delay-to": to, "delay-id": id_, "delay-at": str(due), "delay-to-partition": "0", "delay-dedupe": "PT0S"}
    policy = {"delay-max-late": "PT1H", "delay-if-late": "drop"}
    # Headers of deliveries and dead letters are ignored, so that both can be sent again.
    ignored = {"delay-due": "1", "delay-source": "a-0-0", "delay-reason": "malformed", "delay-error": "a sentence"}
    installation.requests.send({**asked, **policy, **ignored}, b"k", b"v")
    installation.requests.flush()

    (record,) = installation.wait_for(to, 1)
    assert [name for name, _ in record.headers] == ["delay-id", "delay-due", "delay-source"]
    assert (record.header("delay-due"), record.header("delay-source")[: len(installation.app_id)]) == (
        str(due),
        installation.app_id,
    )


def test_the_timestamp_is_the_time_of_sending(installation: Installation) -> None:
    to, due = installation.topic(message_timestamp_type="CreateTime"), now_ms() + 300
    installation.requests.schedule(installation.new_id(), due, to)
    installation.requests.flush()

    (record,) = installation.wait_for(to, 1)
    assert 0 <= usual_ms(due, record.timestamp_ms) <= ON_TIME_MS


def test_without_an_id_the_source_is_the_id(installation: Installation) -> None:
    to = installation.topic()
    installation.requests.send({"delay-to": to, "delay-after": "PT0.2S"}, b"k", b"v", partition=2)
    installation.requests.flush()

    (record,) = installation.wait_for(to, 1)
    assert record.header("delay-id") == record.header("delay-source")
    assert record.header("delay-id").startswith(f"{installation.app_id}-requests-2-")
