"""The request that resends a dead letter."""

import pytest

from app.engine.steps.dead_letters import LEFT_OUT
from app.kafka.metadata.reader import Stored
from app.serve.actions.resend import Correction, IncompleteDeadLetter, resend
from app.serve.dead_letters.dead_letter import DeadLetter, masked
from app.settings.settings import Settings
from punctual.contract.home import home_partition

NOW_MS = 1_900_000_000_000
PARTITIONS = 16
Headers = list[tuple[str, bytes | None]]


@pytest.fixture
def settings() -> Settings:
    return Settings.from_env({"DELAY_INPUTS": "delay-json=countdown", "DELAY_PARTITIONS": str(PARTITIONS)})


def dead_letter(headers: Headers, source: str = "delay-requests-3-9", error: str = "why") -> DeadLetter:
    why: Headers = [("delay-reason", b"malformed"), ("delay-error", error.encode()), ("delay-source", source.encode())]
    return DeadLetter.of(3, Stored(7, NOW_MS, b"key", b"value", [*headers, *why]))


NATIVE: Headers = [("a", b"1"), ("delay-to", b"orders"), ("delay-after", b"1"), ("a", b"2")]


def test_a_resend_has_everything_but_the_headers_of_a_dead_letter(settings: Settings) -> None:
    again = resend(settings.topics, dead_letter(NATIVE), NOW_MS)
    assert (again.topic, again.partition) == ("delay-requests", 3)
    assert (again.request.key, again.request.value, again.request.id) == (b"key", b"value", None)
    assert list(again.request.headers) == NATIVE


def test_a_resend_goes_to_the_home_partition_of_its_id(settings: Settings) -> None:
    again = resend(settings.topics, dead_letter([*NATIVE, ("delay-id", b"order-1")]), NOW_MS)
    assert again.request.id == b"order-1"
    assert again.partition == home_partition("order-1", settings.topics.inputs, PARTITIONS)


def test_requests_that_were_never_accepted_go_to_their_own_input(settings: Settings) -> None:
    assert resend(settings.topics, dead_letter([("x", b"y")], "delay-json-3-1"), NOW_MS).topic == "delay-json"


def test_messages_accepted_in_another_format_are_resent_in_the_native_format(settings: Settings) -> None:
    accepted: Headers = [("delay-id", b"delay-json-3-1"), ("delay-to", b"orders"), ("delay-at", b"1")]
    again = resend(settings.topics, dead_letter(accepted, "delay-json-3-1"), NOW_MS)
    assert (again.topic, again.partition) == ("delay-requests", 3)


def test_an_input_that_no_longer_exists_gets_no_request(settings: Settings) -> None:
    assert resend(settings.topics, dead_letter(NATIVE, "gone-3-1"), NOW_MS).topic == "delay-requests"


def test_a_corrected_header_keeps_its_place_and_occurs_once(settings: Settings) -> None:
    correction = Correction({"a": b"3", "delay-after": None, "delay-at": b"5", "new": b""})
    again = resend(settings.topics, dead_letter(NATIVE), NOW_MS, correction)
    assert list(again.request.headers) == [("a", b"3"), ("delay-to", b"orders"), ("delay-at", b"5"), ("new", b"")]


def test_omitted_parts_are_not_resent_as_empty(settings: Settings) -> None:
    one = dead_letter(NATIVE, error=f"why (The value of 9 bytes is {LEFT_OUT}.)")
    with pytest.raises(IncompleteDeadLetter, match="3-7 was too large"):
        resend(settings.topics, one, NOW_MS)
    assert resend(settings.topics, one, NOW_MS, Correction(replaces=True, value=b"new")).request.value == b"new"


def test_a_masked_dead_letter_has_its_reason_and_no_payload() -> None:
    one = masked(dead_letter(NATIVE))
    assert (one.key, one.value, one.value_bytes, one.masked) == (None, None, 5, True)
    said = dict(one.headers)
    assert (said["a"], said["delay-after"], said["delay-to"], said["delay-reason"]) == (
        None, None, b"orders", b"malformed",
    )  # fmt: skip


def test_requests_of_a_team_are_resent_to_its_own_input() -> None:
    inputs = "orders-delays=native,schedules=etf1"
    named = "orders-delays=orders,schedules=orders"
    settings = Settings.from_env({"DELAY_INPUTS": inputs, "DELAY_NAMESPACES": named, "DELAY_PARTITIONS": "16"})
    accepted: Headers = [("delay-id", b"orders/x"), ("delay-to", b"orders"), ("delay-at", b"1")]

    again = resend(settings.topics, dead_letter(accepted, "orders-delays-3-1"), NOW_MS)
    assert (again.topic, again.request.id) == ("orders-delays", b"orders/x")
    assert again.partition == home_partition("orders/x", settings.topics.inputs, PARTITIONS)
    assert resend(settings.topics, dead_letter(NATIVE, "orders-delays-3-1"), NOW_MS).topic == "orders-delays"
    assert resend(settings.topics, dead_letter(accepted, "schedules-3-1"), NOW_MS).topic == "delay-requests"
    assert resend(settings.topics, dead_letter(accepted, "delay-requests-3-1"), NOW_MS).topic == "delay-requests"
