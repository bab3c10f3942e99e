"""A row has all fields of its request, and its headers make the same request again."""

from dataclasses import replace

from app.engine.ingest.pending_rows import row_of
from punctual.contract import native
from punctual.contract.message import Message
from punctual.contract.request import Request
from tables import Entry
from tests.punctual.contract.records import NOW, FakeRecord, Log

FIELDS = tuple(name for name, what in vars(Message).items() if isinstance(what, property))
ASKED = Request(
    "schedule",
    "order-17",
    "delay-requests-3-42",
    NOW,
    "delay-requests",
    NOW + 60_000,
    "reminders",
    b"k",
    b"v",
    [("a", b"1"), ("a", None)],
    2,
    "emea",
    5_000,
    "drop",
    60_000,
    "https://example.com/back",
    no_later_ms=70_000,
)


def said(message: Message) -> dict[str, object]:
    """Return a message with another value in each field."""
    values = {name: getattr(message, name) for name in FIELDS}
    assert len(set(map(repr, values.values()))) == len(FIELDS)
    return values


def test_requests_and_rows_have_the_fields_of_a_message_in_orders_of_their_own() -> None:
    *own, bound = FIELDS
    assert Entry.__struct_fields__[: len(own)] == tuple(own)
    assert (bound, isinstance(Entry.no_later_ms, property)) == ("no_later_ms", True), "a row keeps more than that"
    assert set(FIELDS) < set(Request.__struct_fields__)
    assert Request.__struct_fields__[10:16] == tuple(own[6:]), "policies follow one another in both"


def test_a_row_has_all_that_its_request_asks_for() -> None:
    assert said(row_of(ASKED)) == said(ASKED)


def test_the_longest_duration_is_no_policy() -> None:
    said = {"delay_max_late": "999999999999999", "delay_no_later": "999999999999999", "delay_if_late": "drop"}
    asked, silent = (
        native.decode(Log().record(delay_to="t", delay_at=str(NOW), **policies)) for policies in (said, {})
    )

    assert row_of(asked) == row_of(silent)


def test_a_request_made_from_a_row_equals_the_original() -> None:
    for message in (ASKED, row_of(ASKED)):
        record = FakeRecord(native.again(message, NOW + 60_000), message.key, message.value, offset=99)
        asked = native.decode(record)

        assert asked.due_ms == NOW + 60_000
        assert said(asked) == {**said(ASKED), "source": "delay-requests-3-99"}
        record = replace(record, headers=native.again(asked, asked.due_ms))
        assert native.decode(record) == asked
