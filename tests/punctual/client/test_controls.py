"""What clients write to pause and cap destinations is what workers read."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.engine.throttle.control import Control, decode
from punctual.client.controls import control, no_control
from punctual.client.errors import InvalidDestinationError, InvalidDueTimeError, InvalidOptionError
from punctual.contract.rate import Rate


def test_a_pause_is_read_as_it_was_meant() -> None:
    until = datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    record = control("emea/orders", paused=True, reason="closed", by="Ann", until=until, rate="5/s burst 2")

    assert decode(record.key, record.value) == (
        ("emea", "orders"),
        Control(paused=True, reason="closed", by="Ann", until_ms=1_893_456_000_000, rate=Rate(5.0, 2)),
    )


def test_a_cap_may_be_lifted_and_all_taken_back() -> None:
    record = control("orders", paused=False, rate="none")
    assert decode(record.key, record.value) == ((None, "orders"), Control(unlimited=True))
    record = no_control("https://host")
    assert decode(record.key, record.value) == ((None, "https://host"), None)


def test_what_workers_would_pass_over_is_refused() -> None:
    with pytest.raises(InvalidDestinationError, match="is not a destination"):
        control("https://host/path", paused=True)
    with pytest.raises(InvalidDestinationError, match="is not a destination"):
        no_control("a b")
    with pytest.raises(InvalidDueTimeError, match="no time zone"):
        control("orders", paused=True, until=datetime(2030, 1, 1))  # noqa: DTZ001 - on purpose
    with pytest.raises(InvalidOptionError, match="is not a rate"):
        control("orders", paused=False, rate="fast")
    assert control("orders", paused=True, until=datetime(2030, 1, 1, tzinfo=UTC)).value
