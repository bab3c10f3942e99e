"""Dead letters contain the record and the reason, and can be sent again unchanged."""

from app.engine.steps import dead_letters
from punctual.contract import native
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.request import Reason
from tables import Entry
from tests.punctual.contract.records import NOW, FakeRecord
from tests.tables.rows import key

LIMIT = 1 << 20


def test_a_refused_record_keeps_key_value_and_headers_and_gets_the_reason() -> None:
    record = FakeRecord([("b", b"1"), ("delay-to", b"x"), ("b", None)], b"k", None)
    dead_letter = dead_letters.refused(NATIVE, "dead", LIMIT, record, Reason.MISSING_DUE, "When is it due?")

    assert (dead_letter.topic, dead_letter.partition, dead_letter.key, dead_letter.value) == ("dead", 3, b"k", None)
    assert dead_letter.headers == [
        ("b", b"1"),
        ("delay-to", b"x"),
        ("b", None),
        ("delay-reason", b"missing-due"),
        ("delay-error", b"When is it due?"),
        ("delay-source", b"delay-requests-3-42"),
    ]


def test_a_letter_that_fails_again_does_not_gather_reasons() -> None:
    first = dead_letters.refused(NATIVE, "dead", LIMIT, FakeRecord([("a", b"1")]), Reason.MISSING_DUE, "When?")
    again = dead_letters.refused(NATIVE, "dead", LIMIT, FakeRecord(first.headers, offset=99), Reason.MALFORMED, "What?")

    assert again.headers == [
        ("a", b"1"),
        ("delay-reason", b"malformed"),
        ("delay-error", b"What?"),
        ("delay-source", b"delay-requests-3-99"),
    ]


FULL = Entry(
    "ördér-17",
    "orders",
    None,
    b"v",
    [("a", b"1"), ("a", None)],
    "delay-requests-3-42",
    2,
    "emea",
    5_000,
    "drop",
    60_000,
    "https://example.com/back",
)


def test_a_rejected_message_can_be_sent_again_as_it_is() -> None:
    dead_letter = dead_letters.rejected("dead", LIMIT, 3, key(NOW + 7), FULL, Reason.UNDELIVERABLE, "Nobody took it.")
    asked = native.decode(FakeRecord(dead_letter.headers, dead_letter.key, dead_letter.value, offset=1_000))

    assert (asked.op, asked.id, asked.to, asked.due_ms) == ("schedule", FULL.id, FULL.to, NOW + 7)
    assert (asked.key, asked.value, asked.headers) == (None, b"v", FULL.headers)
    assert (asked.partition, asked.cluster, asked.max_late_ms) == (2, "emea", 5_000)
    assert (asked.if_late, asked.dedupe_ms, asked.on_failure) == ("drop", 60_000, "https://example.com/back")
    assert dict(dead_letter.headers)["delay-source"] == b"delay-requests-3-42"


def test_a_message_that_asked_for_little_can_be_sent_again_too() -> None:
    entry = Entry("a", "orders", b"k", None, [], "delay-requests-3-42")
    dead_letter = dead_letters.rejected("dead", LIMIT, 3, key(5), entry, Reason.TOO_LATE, "Too late.")

    assert [name for name, _ in dead_letter.headers] == [
        "delay-id",
        "delay-to",
        "delay-at",
        "delay-reason",
        "delay-error",
        "delay-source",
    ]
    assert native.decode(FakeRecord(dead_letter.headers)).due_ms == 5


def size(headers: list[tuple[str, bytes | None]], *parts: bytes | None) -> int:
    return sum(len(part or b"") for part in parts) + sum(len(n.encode()) + len(v or b"") for n, v in headers)


def test_a_letter_that_would_be_too_large_drops_its_value_and_says_so() -> None:
    record = FakeRecord([("a", b"1")], b"k", b"v" * 10_000)
    dead_letter = dead_letters.refused(NATIVE, "dead", 10_000, record, Reason.MALFORMED, "What?")

    assert (dead_letter.key, dead_letter.value) == (b"k", None)
    assert dead_letter.headers[0] == ("a", b"1")
    assert dict(dead_letter.headers)["delay-error"] == (
        b"What? (The value of 10,000 bytes is left out, because the dead letter would be too large.)"
    )


def test_a_letter_whose_headers_are_too_large_keeps_only_the_reason() -> None:
    record = FakeRecord([("ü" * 9_000, None)], b"k", b"v")
    dead_letter = dead_letters.refused(NATIVE, "dead", 10_000, record, Reason.MALFORMED, "What?")

    assert (dead_letter.key, dead_letter.value) == (None, None)
    assert [name for name, _ in dead_letter.headers] == ["delay-reason", "delay-error", "delay-source"]


def test_whatever_the_record_its_letter_fits() -> None:
    limit = 5_000
    for length in range(3_000, 6_000, 7):
        for record in (FakeRecord([], None, b"v" * length), FakeRecord([("h", b"x" * length)], b"k", b"v" * 100)):
            dead_letter = dead_letters.refused(NATIVE, "dead", limit, record, Reason.MALFORMED, "What?")

            assert size(dead_letter.headers, dead_letter.key, dead_letter.value) + 100 < limit
