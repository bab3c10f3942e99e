"""Every way in which a native request can be wrong: its reason code, and a sentence that says what to do."""

import pytest

from punctual.contract import native
from punctual.contract.request import Refusal
from tests.punctual.contract.records import FakeRecord, Log

TO, AT = ("delay-to", b"orders"), ("delay-at", b"1")


def refusal(*headers: tuple[str, bytes | None]) -> Refusal:
    with pytest.raises(Refusal) as raised:
        native.decode(FakeRecord(list(headers)))
    return raised.value


@pytest.mark.parametrize(
    ("headers", "reason", "sentence"),
    [
        ([AT], "missing-destination", "delay-to is missing: name the topic to deliver to."),
        ([AT, ("delay-to", b"")], "missing-destination", "delay-to is missing: name the topic to deliver to."),
        ([AT, ("delay-to", None)], "missing-destination", "delay-to is missing: name the topic to deliver to."),
        ([TO], "missing-due", "delay-at or delay-after is missing. Set one of them."),
        (
            [AT, ("Delay-To", b"orders")],
            "missing-destination",
            "name the topic to deliver to. Names of headers are lower case: 'Delay-To' is not 'delay-to'.",
        ),
        ([TO, ("Delay-After", b"PT5S")], "missing-due", "lower case: 'Delay-After' is not 'delay-after'."),
        (
            [("delay-op", b"reschedule"), ("delay-id", b"a"), ("DELAY-AT", b"1")],
            "missing-due",
            "lower case: 'DELAY-AT' is not 'delay-at'.",
        ),
        ([TO, AT, ("delay-ID", b"a")], "malformed", "lower case: 'delay-ID' is not 'delay-id'."),
        (
            [TO, AT, ("delay-after", b"1")],
            "ambiguous-due",
            "delay-at and delay-after are both given. Send one of them.",
        ),
        ([TO, AT, AT], "ambiguous-due", "the header delay-at is given twice. Send it once."),
        (
            [TO, ("delay-after", b"1"), ("delay-after", b"1")],
            "ambiguous-due",
            "the header delay-after is given twice. Send it once.",
        ),
        ([TO, TO, AT], "malformed", "the header delay-to is given twice. Send it once."),
        (
            [TO, AT, ("delay-id", b"a"), ("delay-id", b"a")],
            "malformed",
            "the header delay-id is given twice. Send it once.",
        ),
        (
            [TO, ("delay-at", b"soon")],
            "malformed",
            "delay-at: 'soon' is not a time. Use epoch milliseconds, or RFC 3339 with a zone: 2030-01-31T08:00:00Z.",
        ),
        (
            [TO, ("delay-after", b"P1M")],
            "malformed",
            "delay-after: 'P1M' is not a duration. Use 90s, 15m, 1h30m or 5d, milliseconds, or ISO",
        ),
        ([TO, ("delay-at", b"1767225600000000")], "malformed", "more than 15 digits"),
        ([TO, ("delay-at", None)], "malformed", "delay-at: '' is not a time."),
        ([TO, ("delay-at", b"\xff")], "malformed", "the header delay-at is not UTF-8."),
        ([("delay-to", b"\xff"), AT], "malformed", "the header delay-to is not UTF-8."),
        ([TO, AT, ("delay-id", b"\xff")], "bad-id", "the header delay-id is not UTF-8."),
        ([TO, AT, ("delay-id", b"")], "bad-id", "delay-id has 0 bytes. It must have 1 to 256."),
        ([TO, AT, ("delay-id", None)], "bad-id", "delay-id has 0 bytes. It must have 1 to 256."),
        ([TO, AT, ("delay-id", b"x" * 257)], "bad-id", "delay-id has 257 bytes. It must have 1 to 256."),
        ([TO, AT, ("delay-id", "ü".encode() * 129)], "bad-id", "delay-id has 258 bytes. It must have 1 to 256."),
        ([("delay-op", b"cancel")], "bad-id", "cancel needs delay-id: the id of the message to change."),
        ([("delay-op", b"reschedule"), AT], "bad-id", "reschedule needs delay-id: the id of the message to change."),
        ([("delay-op", b"deliver-now")], "bad-id", "deliver-now needs delay-id: the id of the message to change."),
        (
            [("delay-op", b"reschedule"), ("delay-id", b"a")],
            "missing-due",
            "delay-at or delay-after is missing. Set one of them.",
        ),
        (
            [TO, AT, ("delay-op", b"replace")],
            "malformed",
            "delay-op is 'replace'. It must be one of schedule, cancel, reschedule, deliver-now, pause, resume.",
        ),
        ([TO, AT, ("delay-op", b"")], "malformed", "delay-op is ''. It must be one of"),
        ([TO, AT, ("delay-to-partition", b"-1")], "malformed", "must be a whole number in ASCII digits."),
        ([TO, AT, ("delay-to-partition", b"")], "malformed", "delay-to-partition is ''. It must be a whole number"),
        ([TO, AT, ("delay-to-partition", b"1" * 16)], "malformed", "must be a whole number in ASCII digits."),
        ([TO, AT, ("delay-to-partition", "٣".encode())], "malformed", "must be a whole number in ASCII digits."),
        (
            [("delay-op", b"cancel"), ("delay-id", b"a"), ("delay-if-due", b"2030-01-31T08:00:00Z")],
            "malformed",
            "delay-if-due is '2030-01-31T08:00:00Z'. It must be a whole number in ASCII digits.",
        ),
        ([TO, AT, ("delay-max-late", b"a while")], "malformed", "delay-max-late: 'a while' is not a duration."),
        ([TO, AT, ("delay-max-late", b"P" + b"9" * 30 + b"D")], "malformed", "is too long"),
        ([TO, AT, ("delay-dedupe", b"P1Y")], "malformed", "delay-dedupe: 'P1Y' is not a duration."),
        (
            [TO, AT, ("delay-max-late", b"1"), ("delay-if-late", b"shrug")],
            "malformed",
            "delay-if-late must be one of deliver, drop, dead-letter.",
        ),
        (
            [TO, AT, ("delay-if-late", b"drop")],
            "malformed",
            "delay-if-late needs delay-max-late: the maximum lateness.",
        ),
    ],
)
def test_an_invalid_request_has_a_code_and_a_reason(
    headers: list[tuple[str, bytes | None]], reason: str, sentence: str
) -> None:
    refused = refusal(*headers)

    assert refused.reason == reason
    assert sentence in refused.sentence
    assert str(refused) == refused.sentence


@pytest.mark.parametrize("name", ["delay-too", "delay-", "delay-TO", "delay-at "])
def test_an_unknown_delay_header_is_a_slip_of_the_pen_not_the_users(name: str) -> None:
    refused = refusal(TO, AT, (name, b"1"))

    assert refused.reason == "malformed"
    assert refused.sentence.startswith(
        f"the header {name!r} is unknown. Names that begin with 'delay-' are reserved: rename yours, or see "
        "docs/reference/records.md for the names."
    )


@pytest.mark.parametrize(
    "name", ["delay-op", "delay-to-partition", "delay-at", "delay-if-late", "delay-" + "x" * 10_000]
)
def test_a_sentence_shows_only_the_beginning_of_a_long_value(name: str) -> None:
    record = Log().record(delay_to="orders", delay_max_late="1")
    record.headers = [*record.headers, (name, b"9" * 10_000)]

    with pytest.raises(Refusal) as raised:
        native.decode(record)

    assert len(raised.value.sentence) < 300


ID, SOURCE, PARKED = ("delay-id", b"a"), ("delay-source", b"orders-0-1"), ("delay-parked", b"1,2")


@pytest.mark.parametrize(
    "headers",
    [
        [TO, AT, SOURCE, PARKED],
        [TO, AT, ID, PARKED],
        [TO, AT, ID, SOURCE, SOURCE, PARKED],
        [TO, AT, ID, ("delay-source", None), PARKED],
        [TO, AT, ID, ("delay-source", b"orders-0"), PARKED],
        [TO, AT, ID, ("delay-source", b"orders-0-x"), PARKED],
        [TO, AT, ID, ("delay-source", "orders-0-\u0661".encode()), PARKED],
        [TO, AT, ID, ("delay-source", b"orders-0-1" + b"0" * 15), PARKED],
        [TO, AT, ID, ("delay-source", b"\xff\xff"), PARKED],
        *([TO, AT, ID, SOURCE, ("delay-parked", bad)] for bad in (b"", b"1", b"1,", b",1", b"1,2,3", b"1, 2", b"-1,2")),
        [TO, AT, ID, SOURCE, ("delay-parked", None)],
        *([AT, ID, SOURCE, PARKED, ("delay-op", op)] for op in (b"cancel", b"reschedule", b"deliver-now")),
    ],
)
def test_only_promotions_of_the_cold_tier_are_marked_as_such(headers: list[tuple[str, bytes | None]]) -> None:
    found = refusal(*headers)

    assert found.reason == "malformed"
    assert found.sentence.startswith("delay-parked is '")
    assert found.sentence.endswith(
        "It is only for the cold tier, on a schedule with delay-id, delay-source and two times. Leave it out."
    )
