"""A record that failed becomes the request that the worker expects, whatever client has read it."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from punctual import InvalidDestinationError, InvalidOptionError, exponential
from punctual.client.requests import Request
from punctual.client.retries import counted, retry
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


def retried(record: Any, **options: Any) -> Asked:
    request = retry(record, **{"backoff": BACKOFF, "max_attempts": 8, **options})
    asked = read_by_the_worker(request)
    assert (request.id or b"").decode() == asked.id, "it would be sent to another partition than its home"
    return asked


def test_a_record_goes_back_to_its_topic_as_it_was() -> None:
    asked = retried(Received([("b", b"1"), ("a", None), ("b", b"\xff")]))

    assert (asked.to, asked.key, asked.value, asked.due_ms) == ("orders", b"k", b"v", NOW + 1_000)
    assert asked.headers == [("b", b"1"), ("a", None), ("b", b"\xff"), ("delay-attempt", b"2")]
    assert asked.id == "orders-4-17~2~orders"


def delivered(*, id_: str, attempt: int | None = None, source: str = "in-0-5", due: int = 1) -> list[Any]:
    """Return the headers of a delivery."""
    counted = [] if attempt is None else [("delay-attempt", b"%d" % attempt)]
    ours = [("delay-id", id_.encode()), ("delay-due", b"%d" % due), ("delay-source", source.encode())]
    return [*counted, *ours]


def test_a_delivery_is_counted_on() -> None:
    first = retried(Received())
    asked = retried(Received(delivered(id_=first.id, attempt=2), offset=99))

    assert (asked.headers, asked.due_ms) == ([("delay-attempt", b"3")], NOW + 2_000)
    assert asked.id == "orders-4-99~3~orders"


def test_each_record_that_fails_has_a_retry_of_its_own_whatever_headers_it_shares() -> None:
    occurrences = [delivered(id_=f"every@{due}", source="requests-0-7", due=due) for due in range(30)]
    ids = {retried(Received(headers, offset=offset)).id for offset, headers in enumerate(occurrences)}
    derived = delivered(id_="order-1", source="requests-0-8")
    ids |= {retried(Received(derived, topic="lines", offset=offset)).id for offset in range(30)}

    assert len(ids) == 60
    assert retried(Received(derived)).id == retried(Received(derived)).id


@pytest.mark.parametrize(
    ("id_", "attempt"),
    [
        ("orders-4-1~7~orders", 8),
        ("team/orders-4-1~7~orders@emea", 8),
        (f"{'0' * 32}~7", 8),
        ("orders-4-1~6~orders", 2),
        ("orders-4-1~7~lines", 2),
        ("billing:orders-4-1", 2),
        ("reminder", 2),
        ("order~7", 2),
        (f"{'0' * 31}~7", 2),
    ],
)
def test_a_count_that_was_copied_from_another_message_does_not_hold(id_: str, attempt: int) -> None:
    asked = retried(Received(delivered(id_=id_, attempt=7)))
    assert asked.headers == [("delay-attempt", b"%d" % attempt)]


def test_a_count_that_the_program_keeps_itself_is_used() -> None:
    asked = retried(counted(Received(delivered(id_="reminder", attempt=2)), 5))
    assert asked.headers == [("delay-attempt", b"6")]
    assert retried(Received([("delay-attempt", b"3")])).headers == [("delay-attempt", b"4")]


def test_a_retry_topic_may_be_another() -> None:
    assert retried(Received(), to="orders-retry").to == "orders-retry"


def test_headers_may_be_a_mapping_or_none_at_all() -> None:
    assert retried(Received({"a": b"1"})).headers[0] == ("a", b"1")
    assert retried(Received(None)).headers == [("delay-attempt", b"2")]


def test_options_of_an_earlier_attempt_are_set_again() -> None:
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


def test_without_a_maximum_no_header_for_one_is_set() -> None:
    assert "delay-max-attempts" not in dict(retry(Received(), backoff=BACKOFF, max_attempts=None).headers)


def test_a_backoff_is_a_timedelta_or_a_text() -> None:
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
