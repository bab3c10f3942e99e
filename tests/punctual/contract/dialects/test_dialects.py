"""What each dialect promises, whatever its headers are called."""

import re
from collections.abc import Mapping

import pytest

from punctual.contract import headers as names
from punctual.contract.dialects.dialects import DIALECTS, NATIVE, OF_ROWS, Dialect, dialect_of
from punctual.contract.request import Headers, Reason
from tests.harness.systems import SYSTEMS
from tests.punctual.contract.foreign import EXAMPLES, SETTINGS, refusal_of
from tests.punctual.contract.records import NOW, FakeRecord
from tests.punctual.contract.refused import REFUSED, Case
from tests.punctual.contract.shapes import SCHEDULES

every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
USERS: Headers = [("a", b"1"), ("a", None)]


def test_each_dialect_has_its_name_and_records_about_rows_are_native() -> None:
    assert all(dialect.name == name for name, dialect in DIALECTS.items())
    assert OF_ROWS is DIALECTS["native"]


@pytest.mark.parametrize(
    ("table", "place"),
    [
        (EXAMPLES, "EXAMPLES of tests/punctual/contract/foreign.py"),
        (REFUSED, "REFUSED of tests/punctual/contract/refused.py"),
        (SYSTEMS, "SYSTEMS of tests/harness/systems.py"),
    ],
)
def test_each_dialect_is_in_the_tables_of_the_tests(table: Mapping[str, object], place: str) -> None:
    missing = DIALECTS.keys() - table.keys() - {"native"}

    assert not missing, f"Add {missing} to {place}."


@every_dialect
def test_a_request_that_is_sent_again_equals_the_original(dialect: Dialect) -> None:
    asked = NATIVE.decode(SCHEDULES["everything"])
    again = NATIVE.decode(FakeRecord(dialect.again(asked, NOW + 7), asked.key, asked.value, partition=0))

    asked.due_ms = NOW + 7
    assert again == asked


@every_dialect
def test_a_dead_letter_that_fails_again_keeps_no_headers_of_the_first_failure(dialect: Dialect) -> None:
    said = [*USERS, *dialect.failure(Reason.MALFORMED, "Why.", "orders-0-1")]

    assert dialect.kept(FakeRecord(said)) == USERS


@every_dialect
def test_users_headers_come_first_in_a_delivery_and_are_passed_to_a_callback(dialect: Dialect) -> None:
    asked = NATIVE.decode(SCHEDULES["everything"])
    users = asked.headers

    assert dialect.delivery(asked, NOW)[: len(users)] == users
    assert dialect.callback(FakeRecord(dialect.again(asked, NOW))) == (asked.on_failure, users)
    assert dialect.callback(FakeRecord(USERS)) == ("", [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("klingon", f"the dialects are {', '.join(DIALECTS)}"),
        ("Native", "the dialects are native"),
        ("", "the dialects are native"),
        ("airtel:orders", "airtel takes nothing after its name"),
        ("etf1:PT1S:orders", "etf1 takes grace after its name"),
        ("etf1:soon", "'soon' is not a duration"),
        ("spring", "spring needs a destination topic after its name: spring:orders"),
        ("spring:", "'' is not a valid topic name"),
        ("deliver-after:or ders", "'or ders' is not a valid topic name"),
        ("publish-after:orders:", "'' is not a header name of yours. Use one that does not begin with delay-"),
        ("publish-after:orders:delay-at", "is not a header name of yours. Use one that does not begin with delay-"),
    ],
)
def test_an_invalid_setting_of_an_input_is_an_error_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        dialect_of(text)


def test_an_inputs_options_are_bound_to_its_dialect() -> None:
    assert dialect_of("native") is NATIVE
    assert (dialect_of("spring:orders").to, dialect_of("etf1:PT1S").to) == ("orders", None)


def test_native_words_are_names_of_headers() -> None:
    words = NATIVE.words

    assert {words.partition, words.cluster, words.max_late, words.on_failure} < names.REQUEST


@pytest.mark.parametrize(
    ("name", "case"),
    [pytest.param(name, case, id=f"{name}: {what}") for name, cases in REFUSED.items() for what, case in cases.items()],
)
def test_an_invalid_request_is_refused_with_its_code_and_a_reason(name: str, case: Case) -> None:
    refusal = refusal_of(case.setting or SETTINGS[name], case.record)

    assert refusal.reason == case.reason
    assert case.says in refusal.sentence
