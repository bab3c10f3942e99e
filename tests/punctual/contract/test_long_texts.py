"""Texts of a megabyte are refused by their length, before they are parsed."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

from punctual.contract import cron
from punctual.contract.home import home_partition, key_partition
from punctual.contract.request import Refusal
from punctual.contract.retry import parse_backoff
from punctual.contract.times import parse_duration, parse_time
from punctual.contract.zones import parse_zone
from tests.punctual.contract.foreign import AIRTEL, COUNTDOWN, NATS, but, decode
from tests.punctual.contract.records import FakeRecord
from tests.punctual.contract.test_calendar import calls

_DIGITS = "1" * 1_000_000


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_duration, "P" + _DIGITS),
        (parse_duration, "P1DT" + _DIGITS + "H"),
        (parse_duration, "x" * 1_000_000),
        (parse_duration, "PT" + _DIGITS),
        (parse_duration, _DIGITS + "s"),
        (parse_time, _DIGITS),
        (parse_time, "2030-01-01T00:00:00." + _DIGITS + "Z"),
        (parse_backoff, "exponential " + "1 " * 500_000),
        (parse_zone, "a/" * 500_000),
        (cron.parse, "*/1," * 250_000 + "* * * * *"),
        (cron.parse, " " * 1_000_000),
    ],
)
def test_texts_of_headers_are_refused_unread(parse: Callable[[str], object], text: str) -> None:
    def refused() -> None:
        with pytest.raises(ValueError, match=r"is not |too |more than"):
            parse(text)

    assert calls(refused) < 1_000
    tracemalloc.start()
    try:
        refused()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000, "no part of the text was copied"


@pytest.mark.parametrize("text", [_DIGITS, "1s" * 500_000, "1.1" * 300_000 + "s"])
def test_durations_of_nats_are_refused_unread(text: str) -> None:
    for header in ("Nats_Schedule", "Nats_Schedule_TTL"):
        given = f"@every {text}" if header == "Nats_Schedule" else text + "s"
        with pytest.raises(Refusal):
            decode("nats", but(NATS, **{header: given.encode()}))


def test_a_name_inside_a_body_is_not_taken_for_a_field_that_is_there_twice() -> None:
    deep = '{"topic":' * 400 + "1" + "}" * 400
    for base, due in ((COUNTDOWN, '"countdown":1,"message"'), (AIRTEL, '"postTime":1893456000000,"value"')):
        body = f'{{"topic":"orders",{due}:["topic",{deep}]}}'
        assert decode(_name(base), replace(base, value=body.encode())).to == "orders"
        twice = body[:-1] + ',"topic":"others"}'
        with pytest.raises(Refusal, match=r"`\$.topic` is given twice"):
            decode(_name(base), replace(base, value=twice.encode()))


def _name(base: FakeRecord) -> str:
    return "countdown" if base is COUNTDOWN else "airtel"


def test_what_no_id_is_lives_where_its_hash_puts_it() -> None:
    id_ = f"requests-{_DIGITS}-1"

    assert home_partition(id_, {"requests"}, 4) == key_partition(id_.encode(), 4)
