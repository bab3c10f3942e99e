"""A record that failed becomes the request that the worker expects, whatever client has read it."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from punctual import InvalidDestinationError, InvalidOptionError, exponential
from punctual.client.requests import Request
from punctual.client.retries import retry
from punctual.contract import native
from punctual.contract.request import Request as Asked
from tests.punctual.contract.records import NOW, FakeRecord

BACKOFF = exponential("1s", 2, "1h", jitter=False)


@dataclass
class Received:
    headers: Any = field(default_factory=list)
    topic: str = "orders"
    partition: int = 4
    offset: int = 17
    key: bytes | None = b"k"
    value: bytes | None = b"v"


def read_by_the_worker(request: Request) -> Asked:
    return native.decode(FakeRecord(request.headers, request.key, request.value))


def retried(record: Received, **options: Any) -> Asked:
    request = retry(record, **{"backoff": BACKOFF, "max_attempts": 8, **options})
    asked = read_by_the_worker(request)
    assert (request.id or b"").decode() == asked.id, "it would be sent to another partition than its home"
    return asked


def test_a_record_goes_back_to_its_topic_as_it_was() -> None:
    asked = retried(Received([("b", b"1"), ("a", None), ("b", b"\xff")]))

    assert (asked.to, asked.key, asked.value, asked.due_ms) == ("orders", b"k", b"v", NOW + 1_000)
    assert asked.headers == [("b", b"1"), ("a", None), ("b", b"\xff"), ("delay-attempt", b"2")]
    assert asked.id == "orders-4-17~2~orders"


def test_a_delivery_is_counted_on() -> None:
    first = retried(Received())
    delivered = [*first.headers, ("delay-id", first.id.encode()), ("delay-due", b"1"), ("delay-source", b"in-0-5")]
    asked = retried(Received(delivered, offset=99))

    assert (asked.headers, asked.due_ms) == ([("delay-attempt", b"3")], NOW + 2_000)
    assert asked.id == "in-0-5~3~orders"


def test_a_retry_topic_may_be_another() -> None:
    assert retried(Received(), to="orders-retry").to == "orders-retry"


def test_headers_may_be_a_mapping_or_none_at_all() -> None:
    assert retried(Received({"a": b"1"})).headers[0] == ("a", b"1")
    assert retried(Received(None)).headers == [("delay-attempt", b"2")]


def test_what_an_earlier_attempt_said_is_said_anew() -> None:
    said = [("delay-error", b"old"), ("delay-reason", b"malformed"), ("delay-retry", b"x"), ("delay-to", b"x")]
    asked = retried(Received(said))

    assert (asked.to, asked.headers) == ("orders", [("delay-attempt", b"2")])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such customer"), b"ValueError: no such customer"),
        (TimeoutError(), b"TimeoutError"),
        ("503 näh \ud800", b"503 n\xc3\xa4h ?"),
        ("x" * 5_000, b"x" * 1_000),
    ],
)
def test_the_error_travels_in_words(error: BaseException | str, text: bytes) -> None:
    assert dict(retry(Received(), backoff=BACKOFF, max_attempts=None, error=error).headers)["delay-error"] == text


def test_without_a_bound_nothing_is_said_of_one() -> None:
    assert "delay-max-attempts" not in dict(retry(Received(), backoff=BACKOFF, max_attempts=None).headers)


def test_a_backoff_is_said_in_spans_or_in_words() -> None:
    assert str(exponential()) == "exponential 1000ms 2 3600000ms jitter"
    assert exponential(timedelta(seconds=1), 2, timedelta(hours=1)) == exponential("1s", 2, "PT1H")
    assert str(exponential("500ms", 1.5, "1m", jitter=False)) == "exponential 500ms 1.5 60000ms"


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": "soon"},
        {"base": timedelta(seconds=-1)},
        {"base": "0s"},
        {"factor": 0.5},
        {"factor": float("nan")},
        {"base": "2h", "max": "1h"},
        {"max": 5},
    ],
)
def test_a_backoff_that_is_none_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        exponential(**wrong)


@pytest.mark.parametrize("attempts", [0, -1, "8", 2.5])
def test_a_number_of_attempts_that_is_none_is_refused_at_once(attempts: Any) -> None:
    with pytest.raises(InvalidOptionError, match="give 1 or more, or None"):
        retry(Received(), backoff=BACKOFF, max_attempts=attempts)


def test_a_destination_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(InvalidDestinationError):
        retry(Received(), backoff=BACKOFF, max_attempts=None, to="no topic")
