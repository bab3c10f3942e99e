"""Repeated log lines: while a broker is down one line is enough, and all other lines are written."""

import logging

from app.base.process import log
from app.base.process.log import RateLimitFilter


def written(
    of: RateLimitFilter, at_s: float, message: str, *args: object, name: str = "app.kafka", level: int = 30
) -> str:
    """Return the output for a record, "" if the filter drops it."""
    record = logging.LogRecord(name, level, __file__, 1, message, args, None)
    record.created = at_s
    return record.getMessage() if of.filter(record) else ""


def test_a_sentence_is_written_once_in_ten_seconds_and_then_how_often_it_came() -> None:
    of = RateLimitFilter()
    assert written(of, 100, "broker %d is away", 1) == "broker 1 is away"
    assert written(of, 101, "broker %d is away", 2) == "broker 2 is away"
    assert [written(of, 100 + at / 10, "broker %d is away", 1) for at in range(1, 100)] == [""] * 99
    assert written(of, 110, "broker %d is away", 1) == "broker 1 is away (and 99 more times since it was last logged)"
    assert written(of, 121, "broker %d is away", 1) == "broker 1 is away"


def test_lines_below_a_warning_and_lines_of_other_loggers_are_always_written() -> None:
    of = RateLimitFilter()
    for _ in range(2):
        assert written(of, 100, "Ready", level=logging.INFO)
        assert written(of, 100, "    ^^^^", name="mode.redirect")
        assert written(of, 100, "away", name="application")
    assert written(of, 100, "away", name="aiokafka")
    assert not written(of, 100, "away", name="aiokafka")


def test_it_does_not_grow() -> None:
    of = RateLimitFilter()
    for number in range(10 * log._MOST):
        assert written(of, number / 10, "%d", number)
    assert len(of._seen) <= log._MOST
