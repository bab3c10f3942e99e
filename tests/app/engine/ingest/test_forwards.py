"""A record whose id lives elsewhere is forwarded once, and taken in once, however often it comes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from punctual.contract import request
from punctual.contract.home import home_partition
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW, FakeRecord

SOON = NOW + 60_000
AWAY = next(f"id-{n}" for n in range(100) if home_partition(f"id-{n}", ["delay-requests"], 4) == 3)


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Workbench]:
    """Partition 0, to which records of any id come."""
    bench = Workbench(tmp_path / "away.db", number=0)
    yield bench
    bench.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Workbench]:
    """Partition 3, where AWAY lives."""
    bench = Workbench(tmp_path / "home.db", number=3)
    yield bench
    bench.assert_balanced()
    bench.close()


def carry(away: Workbench, home: Workbench) -> list[FakeRecord]:
    """Copy the records that one partition has forwarded to the other's forwards, as Kafka does."""
    forwards = [out for out in away.sends if out.topic == "delay-forwards"]
    assert {out.partition for out in forwards} <= {home.number}
    away.sends.clear()
    return [replace(home.forwards.record(), headers=[], key=out.key, value=out.value) for out in forwards]


def test_a_request_goes_home_with_its_source_and_its_due_time_made_absolute(away: Workbench) -> None:
    record = away.ask(NOW - 5, delay_id=AWAY, delay_to="orders", delay_after="60000", user="1")

    (out,) = away.sends
    assert (out.topic, out.partition, out.key, out.headers) == ("delay-forwards", 3, AWAY.encode(), [])
    asked = request.decode(out.value or b"")
    assert (asked.source, asked.due_ms, asked.stamp_ms, asked.input) == (
        source(record),
        SOON - 5,
        NOW - 5,
        "delay-requests",
    )
    assert (away.events, away.pending()) == ([], {})
    assert away.store.positions["delay-requests"].offset == 1


def test_a_forwarded_request_is_accepted_under_its_original_source(away: Workbench, home: Workbench) -> None:
    record = away.ask(delay_id=AWAY, delay_to="orders", delay_at=str(SOON), user="1")
    home.read(carry(away, home))

    assert home.pending() == {AWAY: SOON}
    assert home.told() == [("accepted", source(record), None)]
    ((_, entry),) = home.store.rows()
    assert (entry.key, entry.value, entry.headers) == (b"k", b"v", [("user", b"1")])


def test_commands_find_their_way_home_too(away: Workbench, home: Workbench) -> None:
    home.schedule(AWAY, SOON)
    by = source(away.ask(NOW + 1, delay_op="cancel", delay_id=AWAY, delay_if_due=str(SOON)))
    home.read(carry(away, home))

    assert home.pending() == {}
    assert home.told()[-1] == ("cancelled", "delay-requests-3-0", by)


def test_an_automatic_id_of_another_partition_goes_there(away: Workbench) -> None:
    away.command("cancel", "delay-requests-3-7")

    assert [out.partition for out in away.sends] == [3]


def test_a_forward_that_repeats_after_a_crash_is_ignored(away: Workbench, home: Workbench) -> None:
    away.ask(delay_id=AWAY, delay_to="orders", delay_at=str(SOON))
    away.ask(delay_op="cancel", delay_id=AWAY)
    first = carry(away, home)
    home.read(first)
    again = [replace(forward, offset=forward.offset + 2) for forward in first]

    assert home.read(again) == []
    assert home.pending() == {}
    home.close()
    home.open()
    assert home.read([replace(forward, offset=forward.offset + 4) for forward in first]) == []


def test_a_forward_that_repeats_within_a_step_is_ignored(away: Workbench, home: Workbench) -> None:
    away.ask(delay_id=AWAY, delay_to="orders", delay_at=str(SOON))
    (forward,) = carry(away, home)

    assert len(home.read([forward, replace(forward, offset=7)])) == 1


def test_each_partition_that_forwards_is_followed_on_its_own(home: Workbench) -> None:
    home.run(home.from_elsewhere(100, NOW, delay_id=AWAY, delay_to="orders", delay_at=str(SOON)))
    other = replace(
        home.forwards.record(),
        headers=[],
        value=request.encode(request.Request("cancel", AWAY, "delay-requests-1-5", NOW + 1, "delay-requests")),
    )
    home.run(other)

    assert home.pending() == {}


def test_a_record_is_judged_where_it_arrives(away: Workbench) -> None:
    away.partitions_of = lambda _: 0
    away.schedule(AWAY, SOON)

    assert [out.topic for out in away.sends] == ["delay-dead-letters"]


def test_a_request_too_large_to_forward_is_refused_where_it_arrives(away: Workbench) -> None:
    away.limits.row = 150
    away.schedule(AWAY, SOON, user="x" * 150)

    assert [out.topic for out in away.sends] == ["delay-dead-letters"]
    assert away.events[-1]["reason"] == "too-large"


def test_nonsense_among_the_forwards_is_a_dead_letter(home: Workbench) -> None:
    home.run(replace(home.forwards.record(), value=b"nonsense"), replace(home.forwards.record(), value=None))

    assert [event["reason"] for event in home.events] == ["malformed", "malformed"]
    assert [out.topic for out in home.sends] == ["delay-dead-letters"] * 2
