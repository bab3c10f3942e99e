"""Foreign records that look like ours, with values that no record of ours has, break no page and no answer."""

import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.waiting import LIMIT_S, ask_until, eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation
from tests.integration.test_actions import get, post

HUGE = 10**40
ODD: tuple[Any, ...] = (None, "", "x", "\u202e{{7*7}}", -1, HUGE, 1.5, [], {}, [[]], {"a": HUGE}, True)
EVENT = {"event": "accepted", "id": "gone", "source": "t-0-1", "at": 1, "due": 2, "to": "x", "reason": "r"}
JOB: dict[str, Any] = {
    "job_id": "j",
    "at_ms": 1,
    "by": "b",
    "role": "admin",
    "act": "cancel",
    "filter": {},
    "counted": 1,
    "ends": [{}, {}, {}, {}],
}
RESEND = JOB | {"act": "resend", "job_id": "r", "dead_letters": {}}
PART = {"job_id": "r", "partition": 0, "after": "x", "sent": 1, "outcomes": {}, "epoch": 1}
ACT = {"act_id": "a", "at_ms": 1, "by": "b", "act": "cancel", "target": "t", "asked": {}, "namespaces": []}
QUEUE = {"topic": "t", "group": "g", "consumer": "c", "unacked": 1, "open": True, "lag_ms": 1}
CONTROL = {"paused": True, "reason": "r", "by": "b", "until": 1, "rate": "5/s"}
PAGES = ("/", "/destinations", "/find?all=1", "/messages/gone", "/dead-letters", "/recurring", "/workers", "/jobs")
MORE = ("/jobs/j", "/jobs/r", "/audit", "/new", "/destinations/orders", "/dead-letters/0-0")
ANSWERS = ("/overview", "/messages/gone?life=1", "/dead-letters", "/jobs", "/jobs/j", "/audit", "/history", "/findings")


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("foreign-pages", balanced=False) as made:
        yield made


def forged(genuine: dict[str, Any]) -> Iterator[bytes | None]:
    """Yield a record, and it with each of its fields in all the ways that it cannot be."""
    yield from (None, b"", b"null", b"[]", b"{}", b"\xff", b'{"a":' * 5_000, json.dumps(genuine).encode())
    for name, value in itertools.product(genuine, ODD):
        yield json.dumps({**genuine, name: value}).encode()
    for name in genuine:
        yield json.dumps({other: value for other, value in genuine.items() if other != name}).encode()


def forge(installation: Installation, topic: str, key: bytes, genuine: dict[str, Any]) -> None:
    for value in forged(genuine):
        installation.requests.send({}, key, value, topic=topic)


def status(installation: Installation, path: str) -> int:
    try:
        with urllib.request.urlopen(f"{installation.worker.url}{path}", timeout=LIMIT_S) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_every_page_and_answer_is_there_whatever_strangers_have_written(installation: Installation) -> None:
    to, app_id = installation.topic(), installation.app_id
    assert post(installation, "/messages", {"to": to, "after": "PT0S", "id": "gone", "value": "v"})[0] == 201
    assert post(installation, "/messages", {"to": to, "after": "PT1H", "id": "stay", "value": "v"})[0] == 201
    assert post(installation, "/jobs", {"act": "cancel", "filter": {"id_prefix": "stay"}, "confirm": 1})[0] < 300
    eventually(lambda: get(installation, "/messages/gone")[0] == 404, what="the message's end")
    installation.requests.send({"delay-to": "no such topic", "delay-after": "PT1S"}, b"", b"")
    for name, key, genuine in (
        ("events", b"gone", EVENT),
        ("jobs", b"j", JOB),
        ("jobs", b"r", RESEND),
        ("jobs", b"r/0/1", PART),
        ("jobs", b"resent/0-0", {"at_ms": 1, "by": "b", "job_id": "j"}),
        ("audit", b"a", ACT),
        ("controls", b"orders", CONTROL),
        ("dead-letters", b"k", {}),
    ):
        forge(installation, f"{app_id}-{name}", key, genuine)
    installation.requests.flush()

    failed = {}
    for path in (*PAGES, *MORE, *(f"/api/v1{path}" for path in ANSWERS), "/metrics"):
        code = ask_until(
            lambda of=path: status(installation, of),  # type: ignore[misc]
            lambda code: code != 503,
            f"an answer to {path}",
        )
        if code not in (200, 404):
            failed[path] = code
    assert not failed, installation.worker.log[-5_000:]

    life = get(installation, "/messages/gone?life=1")[1]["life"]
    assert {"accepted", "delivered"} <= {event["event"] for event in life}
    assert "[ERROR]" not in installation.worker.log.partition("listening")[2].replace("Group Coordinator", "")
