"""A record that failed is forwarded as it was received, and comes back after a backoff, its attempts counted."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.contract import native
from punctual.contract.request import Headers, Refusal, Request
from punctual.contract.request import decode as decode_request
from punctual.contract.request import encode as encode_request
from punctual.contract.retry import Backoff, parse_backoff, retry_id
from punctual.contract.times import parse_duration
from tests.punctual.contract.records import NOW, FakeRecord

ASKS: Headers = [("delay-to", b"orders"), ("delay-retry", b"exponential 1s 2 1h"), ("delay-max-attempts", b"8")]
#: The headers of a delivery: the third attempt at the record that request 9 of partition 1 was for.
DELIVERED: Headers = [
    ("delay-id", b"delay-requests-1-4~3~orders"),
    ("delay-due", b"1767225600000"),
    ("delay-source", b"delay-requests-1-9"),
    ("delay-attempt", b"3"),
]


def decode(*headers: tuple[str, bytes | None], offset: int = 42, timestamp: int = NOW) -> Request:
    return native.decode(FakeRecord(list(headers), offset=offset, timestamp=timestamp))


def refusal(*headers: tuple[str, bytes | None]) -> Refusal:
    with pytest.raises(Refusal) as raised:
        decode(*headers)
    return raised.value


def test_a_record_without_a_count_comes_back_as_the_second_attempt_after_the_base() -> None:
    asked = decode(("trace", b"1"), *ASKS)

    assert (asked.to, asked.key, asked.value, asked.due_ms) == ("orders", b"k", b"v", NOW + 1_000)
    assert asked.headers == [("trace", b"1"), ("delay-attempt", b"2")]
    assert asked.id == "delay-requests-3-42~2~orders"


def test_a_delivery_that_failed_is_counted_on_and_waits_longer() -> None:
    asked = decode(("trace", b"1"), *DELIVERED, *ASKS)

    assert asked.headers == [("trace", b"1"), ("delay-attempt", b"4")]
    assert asked.due_ms == NOW + 4_000
    assert asked.source == "delay-requests-3-42"


def test_the_id_is_that_of_the_record_and_the_attempt_whoever_forwards_it_and_when() -> None:
    first, again = decode(*DELIVERED, *ASKS), decode(*DELIVERED, *ASKS, offset=99, timestamp=NOW + 5)

    assert first.id == again.id
    assert re.fullmatch(r"delay-requests-1-9@1767225600000#[0-9a-f]{16}~4~orders", first.id)


def test_occurrences_and_forwarded_deliveries_do_not_replace_each_others_retries() -> None:
    first = forwarded(DELIVERED)
    others = [
        forwarded([("delay-due", b"1893456000001"), *(one for one in DELIVERED if one[0] != "delay-due")]),
        forwarded(DELIVERED, value=b"other"),
        forwarded(DELIVERED, key=b"other"),
        forwarded(DELIVERED, key=None),
        forwarded([*DELIVERED[:2], ("delay-source", b"lines-0-4"), DELIVERED[3]]),
    ]
    assert len({first.id, *(one.id for one in others)}) == 6


def forwarded(headers: Headers, key: bytes | None = b"k", value: bytes | None = b"v") -> Request:
    """Return the request of a consumer that forwards a received record."""
    return native.decode(FakeRecord([*headers, *ASKS], key, value))


@pytest.mark.parametrize(
    ("id_", "source", "attempt"),
    [
        (b"x-0-1~3~orders", b"delay-requests-1-9", b"4"),
        (b"x-0-1~3~other", b"delay-requests-1-9", b"4"),  # by way of several topics for retries
        (b"x-0-1~3~orders", b"orders-0-7", b"4"),
        (b"team/" + b"0" * 32 + b"~3", b"orders-0-7", b"4"),
        (b"x-0-1~3~other", b"orders-0-7", b"2"),
        (b"x-0-1~2~orders", b"orders-0-7", b"2"),
        (b"x@1#" + b"0" * 16 + b"~2~orders", b"orders-0-7", b"2"),
        (b"team/" + b"0" * 32 + b"~2", b"orders-0-7", b"2"),
        (b"reminder-42", b"delay-requests-1-9", b"4"),  # a program has counted itself
        (b"order~5", b"delay-requests-1-9", b"4"),
        (b"order~5", b"orders-0-7", b"4"),
        (b"billing/order~5", b"orders-0-7", b"4"),
        (b"order~5~eu", b"orders-0-7", b"4"),
        (b"https://example.org/~5", b"orders-0-7", b"4"),
        (b"https://example.org/~5~orders", b"orders-0-7", b"4"),
    ],
)
def test_a_count_is_used_unless_the_id_names_another_attempt(id_: bytes, source: bytes, attempt: bytes) -> None:
    headers = [("delay-id", id_), ("delay-due", b"1"), ("delay-source", source), ("delay-attempt", b"3")]
    assert decode(*headers, *ASKS).headers == [("delay-attempt", attempt)]


def test_the_id_of_the_delivery_is_left_to_the_message_that_has_it() -> None:
    assert decode(*DELIVERED, *ASKS).id != "delay-requests-1-4~3~orders"


def test_with_the_source_of_a_plain_record_a_repeated_retry_is_recognised() -> None:
    source = ("delay-source", b"orders-0-17")

    assert decode(source, *ASKS).id == decode(*ASKS, source, offset=99).id == "orders-0-17~2~orders"


@pytest.mark.parametrize("id_", ["mine", "order~5", "order~5~eu", "https://example.org/~5"])
def test_a_requested_id_is_kept(id_: str) -> None:
    assert decode(("delay-id", id_.encode()), *ASKS).id == id_


def test_groups_that_retry_the_same_record_elsewhere_do_not_replace_each_others() -> None:
    one, two = (decode(*DELIVERED, ("delay-to", to), ASKS[1]) for to in (b"retry-billing", b"retry-search"))
    far = decode(*DELIVERED, *ASKS, ("delay-to-cluster", b"emea"))

    assert len({one.id, two.id, far.id}) == 3


def test_the_last_attempt_is_the_last() -> None:
    last = decode(("delay-attempt", b"7"), *ASKS)
    assert last.headers == [("delay-attempt", b"8")]

    refused = refusal(("delay-attempt", b"8"), ("delay-error", "HTTPError: 503 näh".encode()), *ASKS)
    assert refused.reason == "attempts-exhausted"
    assert refused.sentence == (
        "8 attempts have failed and delay-max-attempts is 8, the last with: HTTPError: 503 näh. Fix the cause, "
        "then send it again without delay-attempt."
    )


def test_without_a_last_attempt_there_is_always_another() -> None:
    assert decode(("delay-attempt", b"999999"), *ASKS[:2]).due_ms == NOW + 3_600_000


def test_a_request_that_is_no_retry_goes_on_with_the_count() -> None:
    asked = decode(("delay-to", b"orders"), ("delay-after", b"1"), *DELIVERED[1:])

    assert asked.headers == [("delay-attempt", b"3")]
    assert asked.id == asked.source


def test_a_retry_is_the_same_after_the_forwards_topic() -> None:
    asked = decode(("trace", None), *DELIVERED, *ASKS)

    assert decode_request(encode_request(asked)) == asked


@pytest.mark.parametrize(
    ("headers", "reason", "says"),
    [
        ([*ASKS, ("delay-at", b"1")], "ambiguous-due", "delay-retry and delay-at are both given. Send one of them."),
        ([*ASKS, ("delay-after", b"1")], "ambiguous-due", "delay-retry and delay-after are both given."),
        (ASKS[1:], "missing-destination", "delay-to is missing"),
        ([ASKS[0], ASKS[2], ("delay-after", b"1")], "malformed", "delay-max-attempts needs delay-retry"),
        ([*ASKS, ("delay-attempt", b"-1")], "malformed", "delay-attempt: '-1' is not a count of attempts."),
        ([*ASKS[:2], ("delay-max-attempts", b"many")], "malformed", "delay-max-attempts: 'many' is not a count"),
        ([ASKS[0], ("delay-after", b"1"), ("delay-attempt", b"x")], "malformed", "delay-attempt: 'x' is not a count"),
        ([*ASKS, ASKS[1]], "malformed", "the header delay-retry is given twice."),
        ([ASKS[0], ("Delay-Retry", b"")], "missing-due", "'Delay-Retry' is not 'delay-retry'"),
        *(
            ([ASKS[0], ("delay-retry", text)], "malformed", "delay-retry: ")
            for text in (
                b"",
                b"exponential",
                b"exponential 1s 2",
                b"exponential 1s 2 1h often",
                b"exponential 1s 2 1h jitter jitter",
                b"exponential  1s 2 1h",
                b"linear 1s 2 1h",
                b"exponential 0s 2 1h",
                b"exponential 2h 2 1h",
                b"exponential 1s 0.5 1h",
                b"exponential 1s -2 1h",
                b"exponential 1s 1e9 1h",
                b"exponential 1s two 1h",
                b"exponential soon 2 1h",
                b"exponential 1s 2 99999999999d",
                b"exponential 1y 2 P1Y",
                "exponential \u0661s 2 1h".encode(),
            )
        ),
    ],
)
def test_an_invalid_retry_has_a_code_and_a_reason(headers: Headers, reason: str, says: str) -> None:
    refused = refusal(*headers)

    assert (refused.reason, says in refused.sentence) == (reason, True), refused.sentence


def test_a_backoff_can_be_written_in_every_duration_of_the_contract() -> None:
    spans = {"500ms": 500, "2s": 2_000, "15m": 900_000, "1h": 3_600_000, "1d": 86_400_000, "PT1M": 60_000, "7": 7}

    assert {text: parse_duration(text) for text in spans} == spans
    assert parse_backoff("exponential 1000 1.5 PT1H jitter") == Backoff(1_000, 1.5, 3_600_000, jitter=True)


@given(
    base=st.integers(1, 10**9),
    factor=st.integers(10_000, 99_990_000).map(lambda n: n / 10_000),
    more=st.integers(0, 10**12),
    jitter=st.booleans(),
    failed=st.integers(1, 10**9),
    id_=st.text(),
)
def test_a_wait_is_within_its_bounds_and_the_same_each_time(
    base: int, factor: float, more: int, failed: int, id_: str, *, jitter: bool
) -> None:
    backoff = Backoff(base, factor, base + more, jitter)
    assert parse_backoff(str(backoff)).jitter == jitter
    without = Backoff(base, factor, base + more)

    wait, whole = backoff.delay_ms(failed, id_), without.delay_ms(failed, id_)

    assert base <= whole <= base + more
    assert whole // 2 <= wait <= whole if jitter else wait == whole
    assert wait == backoff.delay_ms(failed, id_)
    assert without.delay_ms(failed + 1, id_) >= whole


def test_jitter_spreads_over_its_whole_range() -> None:
    backoff = Backoff(1_000, 2, 1_000, jitter=True)
    waits = [backoff.delay_ms(1, retry_id(f"orders-0-{offset}", 2, "orders")) for offset in range(10_000)]
    tenths = [sum(500 + 50 * n <= wait < 550 + 50 * n for wait in waits) for n in range(10)]

    assert 499 < min(waits) <= 502
    assert 998 <= max(waits) <= 1_000
    assert all(800 < tenth < 1_200 for tenth in tenths)


@given(st.text(alphabet="abc-.~", min_size=1, max_size=249), st.integers(2, 10**9), st.integers(0, 10**15))
def test_every_id_is_one_and_no_two_are_the_same(topic: str, attempt: int, offset: int) -> None:
    source = f"{topic}-0-{offset}"
    ids = {retry_id(source, attempt, topic), retry_id(source, attempt + 1, topic), retry_id(source, attempt, "t")}

    assert all(0 < len(id_.encode()) <= 256 for id_ in ids)
    assert len(ids) == 2 + (topic != "t")
