"""Whatever comes, the gateway answers as its OpenAPI says, and never with 500.

schemathesis makes requests of the document, right ones and wrong ones; hypothesis makes what no document describes.
FUZZ_EXAMPLES makes it try more.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from app.serve.access.caller import ANYBODY, Caller
from app.serve.messages import record_form, short_form
from app.serve.messages.acceptance import Acceptance, Draft
from app.serve.messages.receipts import Origin
from app.serve.web.problem import Problem
from app.settings.settings import Settings
from punctual.contract.record import PlainRecord
from tests.app.gateway.conftest import ENV
from tests.app.gateway.test_openapi import operations
from tests.harness.described import needs_schemathesis, operations_checked
from tests.harness.fuzz import share
from tests.harness.gateway import GatewayProcess

pytestmark = pytest.mark.core

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", str(share(15))))
NOW_MS = 1_795_600_000_000
TEAM = Caller("a", "operator", namespaces=("a",), destinations=("orders",))
SETTINGS = Settings.from_env(ENV)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
SPANS = st.sampled_from(["PT1M", "P1D", "PT0.0001S", "P99999999D", "1", "", "x", "P"]) | st.integers() | JSON
TEXTS = st.sampled_from(["orders", "reminders", "https://example.com/x", "delay-events", "@daily", "* * * * *", "UTC"])
FIELDS = {
    name: (
        SPANS if name in ("at", "after", "every", "jitter", "max-late", "until", "no-later", "dedupe") else TEXTS | JSON
    )
    for name in (*short_form.FIELDS, "key", "value", "headers")
}
SHORT = st.fixed_dictionaries({}, optional={**FIELDS, "unknown": JSON})
NAMES = st.sampled_from(
    [*short_form.FIELDS.values(), "delay-op", "delay-if-due", "delay-parked", "h", "scheduler-epoch"]
)
VALUES = st.sampled_from([b"orders", b"1795600001000", b"PT1M", b"cancel", b"reschedule", b"", b"\xff"]) | st.binary(
    max_size=8
)
HEADERS = st.lists(st.tuples(NAMES, VALUES | st.none()), max_size=6)


ORIGIN = Origin(NOW_MS, lambda number, _: f"new-{number}")


def is_readable_later(draft: Draft, caller: Caller) -> None:
    """See that a draft is refused with a problem, or that a worker reads the same in it, whenever Kafka gets it."""
    try:
        one = Acceptance(SETTINGS).read(draft, caller, ORIGIN, 0)
    except Problem:
        return
    sent = one.submission
    for wait_ms in (0, 3_600_000):
        late = PlainRecord(sent.topic, sent.partition or 0, 1, NOW_MS + wait_ms, sent.key, sent.value, sent.headers)
        read = SETTINGS.topics.dialect(sent.topic).decode(late)
        assert SETTINGS.topics.namespaces.full(SETTINGS.topics.namespaces.of_topic(sent.topic), read.id) == sent.id
        if read.op == "schedule" and not any(name == "delay-retry" for name, _ in sent.headers):
            assert read.due_ms == one.asked.due_ms
        assert read.op != "schedule" or read.to not in SETTINGS.topics.internal_topics


@examples(max_examples=EXAMPLES * 8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SHORT, st.sampled_from([ANYBODY, TEAM]))
def test_a_short_form_is_a_problem_or_a_request_that_a_worker_reads(said: dict[str, Any], caller: Caller) -> None:
    try:
        draft = short_form.draft(json.dumps(said).encode(), "delay-requests")
    except Problem:
        return
    is_readable_later(draft, caller)


@examples(max_examples=EXAMPLES * 8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(list(SETTINGS.topics.inputs)),
    HEADERS,
    st.none() | st.binary(max_size=6),
    st.none() | JSON | st.fixed_dictionaries({"topic": TEXTS, "message": JSON, "countdown": SPANS}),
    st.sampled_from([ANYBODY, TEAM]),
)
def test_a_record_is_a_problem_or_a_request_that_a_worker_reads(
    topic: str, headers: list[tuple[str, bytes | None]], key: bytes | None, value: Any, caller: Caller
) -> None:
    raw = None if value is None else json.dumps(value).encode()
    is_readable_later(Draft(topic, key, raw, headers), caller)


RECORD = st.fixed_dictionaries({}, optional=dict.fromkeys(record_form.NAMES, JSON))


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """Give JSON of a message with a part that is missing or repeated."""
    text = json.dumps(draw(SHORT | RECORD)).encode()
    place = st.integers(0, len(text))
    return text[: draw(place)] + text[draw(place) :]


@examples(max_examples=EXAMPLES * 16, deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda one: json.dumps(one).encode()) | broken())
def test_every_json_body_is_a_problem_or_a_draft(raw: bytes) -> None:
    for read in (short_form.draft, record_form.draft):
        try:
            read(raw, "delay-requests")
        except Problem:
            continue


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway whose Kafka never comes."""
    env = {"DELAY_HTTP_DESTINATIONS": "*"}
    with GatewayProcess("127.0.0.1:1", "delay", tmp_path / "gateway", env=env) as process:
        yield process


@pytest.mark.slow
@needs_schemathesis
def test_every_answer_is_in_the_openapi_document(gateway: GatewayProcess, tmp_path: Path) -> None:
    tested = operations_checked(gateway.url, tmp_path, EXAMPLES, "--exclude-tag", "worker")

    assert tested == len(operations()) - 1, "all but the document itself"
    assert "Traceback" not in gateway.log, gateway.log[-5_000:]
