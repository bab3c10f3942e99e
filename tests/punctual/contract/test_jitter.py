"""Jitter: later by a random while that the request itself decides."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.contract import native
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.jitter import spread
from punctual.contract.policies import Policies, with_policies
from punctual.contract.request import Reason, Refusal
from tests.punctual.contract.records import NOW, Log


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=64), st.integers(0, 1 << 52), st.integers(0, 10**15))
def test_it_is_never_earlier_and_later_by_no_more_than_was_asked(id_: str, asked_ms: int, jitter_ms: int) -> None:
    assert 0 <= spread(id_, asked_ms, jitter_ms) - asked_ms <= jitter_ms
    assert spread(id_, asked_ms, jitter_ms) == spread(id_, asked_ms, jitter_ms)


def test_the_choice_is_frozen() -> None:
    assert [spread("a", NOW, 1_000) - NOW, spread("a", NOW + 1, 1_000) - NOW, spread("é", NOW, 10**9) - NOW] == [
        62,
        265,
        467640260,
    ]


def test_all_milliseconds_are_equally_likely() -> None:
    """Chi-squared over 100 outcomes of 50,000 ids: 99 degrees of freedom, above 160 once in ten thousand times."""
    found = Counter(spread(f"reminder-{n}", NOW, 99) - NOW for n in range(50_000))

    assert set(found) == set(range(100))
    assert sum((count - 500) ** 2 / 500 for count in found.values()) < 160


def test_a_request_is_due_later_by_its_jitter() -> None:
    record = Log().record(delay_to="orders", delay_at=str(NOW + 60_000), delay_id="a", delay_jitter="PT1S")
    asked = native.decode(record)

    assert asked.jitter_ms == 1_000
    assert asked.due_ms == spread("a", NOW + 60_000, 1_000) > NOW + 60_000


def test_a_reschedule_has_its_own_and_other_commands_none() -> None:
    said = {"delay_id": "a", "delay_jitter": "PT1S"}
    moved = native.decode(Log().record(delay_op="reschedule", delay_at=str(NOW + 60_000), **said))
    now = native.decode(Log().record(delay_op="deliver-now", **said))

    assert moved.due_ms == spread("a", NOW + 60_000, 1_000)
    assert (now.due_ms, now.jitter_ms) == (NOW, None)


@pytest.mark.parametrize("name", ["delay_jitter", "delay_no_later"])
def test_an_invalid_duration_is_refused_with_its_header(name: str) -> None:
    with pytest.raises(Refusal, match=f"{name.replace('_', '-')}: '1sec' is not a duration") as raised:
        native.decode(Log().record(delay_to="orders", delay_at=str(NOW), **{name: "1sec"}))

    assert raised.value.reason is Reason.MALFORMED


def test_the_first_occurrence_is_spread_as_all_others_are() -> None:
    said = {"delay_to": "a", "delay_id": "a", "delay_every": "PT1M"}
    own = native.decode(Log().record(**said, delay_jitter="PT1H"))
    of_input = with_policies(NATIVE, Policies(jitter_ms=3_600_000)).decode(Log().record(**said))

    for asked in (own, of_input):
        assert asked.recurrence is not None
        assert asked.due_ms == asked.recurrence.due("a", NOW + 60_000) < NOW + 120_000
