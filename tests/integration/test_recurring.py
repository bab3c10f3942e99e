"""Recurring messages on a real broker: none missing, none doubled, through kills; paused, resumed, run now, ended."""

import itertools
import os
import time
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.harness.account import Account
from tests.harness.kafka import Record, now_ms, read
from tests.harness.waiting import ask_until, eventually
from tests.harness.zone_files import write_zone
from tests.integration.conftest import Run
from tests.integration.installation import Installation, late_ms
from tests.integration.test_actions import get, post

_SERIES, _COUNT, _EVERY_MS = 20, 8, 1_000


@pytest.fixture(params=["at_least_once", pytest.param("exactly_once", marks=pytest.mark.core)])
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    with run("recurring", env=lambda _: {"DELAY_GUARANTEE": request.param}) as made:
        yield made


def every_second(installation: Installation, id_: str, to: str, **more: str) -> None:
    """Schedule a message for each second."""
    said = {f"delay-{name.replace('_', '-')}": text for name, text in more.items()}
    headers = {"delay-id": id_, "delay-to": to, "delay-every": str(_EVERY_MS), **said}
    installation.requests.send(headers, id_.encode(), b"again")


def of(installation: Installation, to: str, id_: str) -> list[Record]:
    """Return a series' deliveries, by due time."""
    found = [record for record in read(installation.bootstrap, to) if record.key == id_.encode()]
    return sorted(found, key=lambda record: (int(record.header("delay-due")), record.offset))


@pytest.mark.slow
def test_no_occurrence_is_missing_or_doubled_when_the_worker_is_killed(installation: Installation) -> None:
    to, begin = installation.topic(), now_ms() + 1_500
    for number in range(_SERIES):
        every_second(
            installation,
            f"s{number}",
            to,
            at=str(begin + number),
            count=str(_COUNT),
            misfire="catch-up",
        )
    installation.requests.flush()
    for _ in range(2):
        time.sleep(2)
        installation.worker.kill()
        installation.worker.start()
    installation.worker.wait_ready()

    exact = installation.worker.env["DELAY_GUARANTEE"] == "exactly_once"
    eventually(lambda: len({r.header("delay-id") for r in read(installation.bootstrap, to)}) == _SERIES * _COUNT)
    for number in range(_SERIES):
        expected = [begin + number + place * _EVERY_MS for place in range(_COUNT)]
        records = of(installation, to, f"s{number}")
        dues = [int(record.header("delay-due")) for record in records]
        assert (dues if exact else sorted(set(dues))) == expected
        assert all(record.header("delay-id") == f"s{number}@{record.header('delay-due')}" for record in records)
        assert all(late_ms(record) >= 0 for record in records)
    account = Account.settled(installation.bootstrap, installation.app_id)
    assert account.sums["accepted"] == account.sums["delivered"] == _SERIES * _COUNT


def test_a_series_is_paused_resumed_run_now_and_ended(installation: Installation) -> None:
    to = installation.topic()
    every_second(installation, "digest", to)
    for number in range(50):
        never = {"delay-id": f"never-{number}", "delay-to": to, "delay-cron": "* * * */27,2-28 */1 1#5" + " " * number}
        installation.requests.send(never, f"{number}".encode(), b"")
    installation.requests.flush()
    letters = installation.dead_letters(*(b"%d" % number for number in range(50))).values()
    assert {letter.header("delay-reason") for letter in letters} == {"malformed"}
    assert all("never occurs" in letter.header("delay-error") for letter in letters)
    eventually(lambda: len(of(installation, to, "digest")) >= 2)
    installation.requests.command("pause", "digest")
    installation.requests.flush()
    installation.await_event("rescheduled", "digest")
    held = len(of(installation, to, "digest"))
    time.sleep(2.5)
    assert len(of(installation, to, "digest")) == held
    installation.requests.command("deliver-now", "digest")
    installation.requests.flush()
    eventually(lambda: len(of(installation, to, "digest")) > held, what="the occurrence that is delivered now")
    installation.requests.command("resume", "digest")
    installation.requests.flush()
    eventually(lambda: len(of(installation, to, "digest")) >= held + 3, what="the series that goes on")
    installation.requests.cancel("digest")
    installation.requests.flush()
    installation.await_event("cancelled", "digest")
    ended = len(of(installation, to, "digest"))
    time.sleep(2.5)

    assert len(of(installation, to, "digest")) == ended


def test_an_outage_is_made_up_for_as_the_policy_says(installation: Installation) -> None:
    to = installation.topic()
    at = str(now_ms() + 500)
    every_second(installation, "all", to, at=at, misfire="catch-up")
    every_second(installation, "last", to, at=at)
    every_second(installation, "none", to, at=at, misfire="skip PT1S")
    installation.requests.flush()
    installation.await_event("accepted", "all", "last", "none")
    installation.worker.kill()
    time.sleep(6)
    installation.worker.start().wait_ready()
    eventually(lambda: len(of(installation, to, "all")) >= 8, what="what was missed")
    for id_ in ("all", "last", "none"):
        installation.requests.cancel(id_)
    installation.requests.flush()
    installation.await_event("cancelled", "all", "last", "none")

    gaps = {}
    for id_ in ("all", "last", "none"):
        dues = sorted({int(record.header("delay-due")) for record in of(installation, to, id_)})
        gaps[id_] = [(later - due) // _EVERY_MS for due, later in itertools.pairwise(dues)]
        assert dues[0] % _EVERY_MS == int(at) % _EVERY_MS
    assert set(gaps["all"]) == {1}
    assert len(of(installation, to, "last")) < len(of(installation, to, "all"))
    missed = ask_until(
        lambda: [event for event in installation.events() if event["event"] == "dropped"], bool, "what was missed"
    )
    assert {event["id"] for event in missed} <= {"last", "none"}
    assert {event["reason"] for event in missed} == {"missed"}


def test_commands_that_are_given_in_an_outage_count_from_then(installation: Installation) -> None:
    to, at = installation.topic(), now_ms() + 500
    for id_ in ("run", "held", "twice", "again"):
        every_second(installation, id_, to, at=str(at), misfire="catch-up")
    every_second(installation, "counted", to, at=str(at), count="4")
    installation.requests.flush()
    installation.await_event("accepted", "run", "held", "counted", "twice", "again")
    installation.requests.command("pause", "held")
    installation.requests.flush()
    installation.await_event("rescheduled", "held")
    installation.worker.kill()
    time.sleep(3)
    installation.requests.command("deliver-now", "run")
    installation.requests.command("resume", "held")
    for op in ("pause", "resume"):
        installation.requests.command(op, "twice")
    every_second(installation, "again", to, at=str(at), misfire="catch-up")
    installation.requests.flush()
    resumed = now_ms()
    time.sleep(3)
    installation.worker.start().wait_ready()

    for id_, since in (("run", at), ("twice", at), ("again", at), ("held", resumed)):
        expected = [due for due in range(at, resumed + 3_000, _EVERY_MS) if due > since - 1]
        await_due(installation, to, id_, expected[-1])
        assert set(expected) <= dues(of(installation, to, id_))
    await_due(installation, to, "counted", at + 3 * _EVERY_MS)
    assert max(dues(of(installation, to, "counted"))) == at + 3 * _EVERY_MS
    passed = sum(
        event["count"] for event in installation.events() if event["event"] == "skipped" and event["id"] == "counted"
    )
    ended = {
        event.get("occurrence", 1) for event in installation.events() if event["id"] == "counted" and "late" in event
    }
    assert len(ended) + passed == 4


def await_due(installation: Installation, to: str, id_: str, due: int) -> None:
    """Wait for the delivery of an occurrence."""
    eventually(lambda: due in dues(of(installation, to, id_)), what=f"{id_}, due at {due}")


def dues(records: list[Record]) -> set[int]:
    """Return the due times of deliveries."""
    return {int(record.header("delay-due")) for record in records}


def test_a_lock_on_a_series_holds_when_an_occurrence_has_gone_out(installation: Installation) -> None:
    to = installation.topic()
    every_second(installation, "seen", to)
    every_second(installation, "changed", to)
    installation.requests.flush()
    installation.await_event("accepted", "seen", "changed")
    installation.await_listed("seen", "changed")
    seen = {id_: get(installation, f"/messages/{id_}")[1]["due_ms"] for id_ in ("seen", "changed")}
    eventually(lambda: len(of(installation, to, "seen")) >= 2, what="two occurrences")
    for act in ("pause", "resume", "deliver-now", "cancel"):
        status, answer = post(installation, f"/messages/seen/{act}", {"if_due": seen["seen"]})
        assert (status, answer["outcome"]) == (200, "cancelled" if act == "cancel" else "rescheduled"), answer

    every_second(installation, "changed", to, at=str(seen["changed"] + 300))
    installation.requests.flush()
    installation.await_event("replaced", "changed")
    status, answer = post(installation, "/messages/changed/cancel", {"if_due": seen["changed"]})
    assert (status, answer["outcome"]) == (409, "conflict")


def test_large_messages_that_recur_all_at_once_go_on_in_steps_that_a_broker_takes(installation: Installation) -> None:
    to, due, series = installation.topic(), now_ms() + 5_000, 120
    # Where a machine is slow, the first is sent after the second is due: it is not to be passed over for that.
    recurs = {"delay-at": str(due), "delay-every": "PT1S", "delay-count": "2", "delay-misfire": "catch-up"}
    for number in range(series):
        headers = {"delay-id": f"large-{number}", "delay-to": to, **recurs}
        installation.requests.send(headers, f"{number}".encode(), bytes(100_000))
    old, begin = installation.topic(), now_ms()
    every_second(installation, "old", old, at="0", misfire="catch-up")
    jittered = installation.topic()
    every_second(installation, "jittered", jittered, jitter="PT10S", count="8", misfire="catch-up")
    installation.requests.flush()

    eventually(lambda: len({r.header("delay-id") for r in read(installation.bootstrap, to)}) == 2 * series)
    eventually(lambda: len(of(installation, jittered, "jittered")) == 8, what="the jittered messages")
    first, second, *rest = [int(record.header("delay-due")) for record in of(installation, old, "old")]
    assert (first, len(rest) > 40) == (0, True)
    assert begin - 10_001 * _EVERY_MS <= second <= now_ms() - 10_000 * _EVERY_MS
    [skipped] = [event for event in installation.events() if event["event"] == "skipped" and event["id"] == "old"][:1]
    assert skipped["count"] > 1_700_000_000
    dues = [int(record.header("delay-due")) for record in of(installation, jittered, "jittered")]
    assert all(later - due < 2 * _EVERY_MS for due, later in itertools.pairwise(dues))


@pytest.mark.core
def test_series_move_to_the_new_rules_of_their_zones_at_the_next_start(run: Run, tmp_path: Path) -> None:
    sooner, later = "Test/Sooner", "Test/Later"
    for zone in (sooner, later):
        write_zone(tmp_path, zone, "UTC0")
    path = os.pathsep.join((str(tmp_path), *zoneinfo.TZPATH))
    with run("zones", env=lambda _: {"PYTHONTZPATH": path}) as installation:
        to, hour_ms = installation.topic(), 3_600_000
        planned_ms = (now_ms() + hour_ms + 12_000) // 1000 * 1000
        at = datetime.fromtimestamp(planned_ms // 1000, UTC)
        for zone in (sooner, later):
            daily = {"delay-cron": f"{at.second} {at.minute} {at.hour} * * *", "delay-zone": zone}
            installation.requests.send({"delay-id": zone, "delay-to": to, **daily}, zone.encode(), b"")
        installation.requests.flush()
        accepted = installation.await_event("accepted", sooner, later)
        assert {event["due"] for event in accepted.values()} == {planned_ms}
        installation.worker.stop()
        write_zone(tmp_path, sooner, "<+01>-1")
        write_zone(tmp_path, later, "<-01>1")
        installation.worker.start().wait_ready()
        moved = installation.await_event("rescheduled", sooner, later)

        assert {event["reason"] for event in moved.values()} == {"zone-rules"}
        dues = {id_: event["due"] for id_, event in moved.items()}
        assert dues == {sooner: planned_ms - hour_ms, later: planned_ms + hour_ms}
        eventually(lambda: of(installation, to, sooner), what="the occurrence that comes sooner")
        assert [int(record.header("delay-due")) for record in of(installation, to, sooner)] == [dues[sooner]]
        assert late_ms(of(installation, to, sooner)[0]) >= 0
        installation.worker.stop()
        installation.worker.start().wait_ready()
        installation.await_listed(later)
        assert get(installation, f"/messages/{later}")[1]["due_ms"] == dues[later]
        assert len([event for event in installation.events() if event["event"] == "rescheduled"]) == len(dues)
