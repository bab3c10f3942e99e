"""Commands find their message whatever the partitioner of their producer, and each change is reported once."""

import json

import pytest

from tests.harness.kafka import now_ms, read
from tests.integration.installation import PARTITIONS, Installation

pytestmark = pytest.mark.core

FAR_MS = 3_600_000
Told = dict[str, object]


def far() -> int:
    return now_ms() + FAR_MS


def everywhere(installation: Installation, to: str, due: int, count: int = 2 * PARTITIONS) -> list[str]:
    """Schedule messages whose requests lie on every partition, wherever their ids' homes are."""
    ids = [installation.new_id() for _ in range(count)]
    for number, id_ in enumerate(ids):
        installation.requests.schedule(id_, due, to, id_.encode(), partition=number % PARTITIONS)
    installation.requests.flush()
    installation.await_event("accepted", *ids)
    return ids


def kinds(installation: Installation, id_: str) -> list[str]:
    return [event["event"] for event in installation.events(id_)]


def test_a_cancel_from_any_partition_holds(installation: Installation) -> None:
    ids = everywhere(installation, installation.topic(), far())
    for number, id_ in enumerate(ids):
        installation.requests.cancel(id_, partition=(number + 1) % PARTITIONS)
    installation.requests.flush()

    told = installation.await_event("cancelled", *ids)
    assert all(event["by"].startswith(f"{installation.requests.topic}-") for event in told.values())
    assert [kinds(installation, id_) for id_ in ids] == [["accepted", "cancelled"]] * len(ids)


def test_a_new_due_time_from_any_partition_holds(installation: Installation) -> None:
    to = installation.topic()
    ids, due = everywhere(installation, to, far()), now_ms() + 1_000
    for number, id_ in enumerate(ids):
        installation.requests.reschedule(id_, due, partition=(number + 2) % PARTITIONS)
    installation.requests.flush()

    records = installation.wait_for(to, len(ids))
    assert {record.header("delay-id") for record in records} == set(ids)
    assert {record.header("delay-due") for record in records} == {str(due)}
    assert all(record.timestamp_ms >= due for record in records)
    installation.await_event("delivered", *ids)
    assert [kinds(installation, id_) for id_ in ids] == [["accepted", "rescheduled", "delivered"]] * len(ids)


def test_deliver_now_from_any_partition_delivers_now(installation: Installation) -> None:
    to = installation.topic()
    ids = everywhere(installation, to, far())
    asked = now_ms()
    for number, id_ in enumerate(ids):
        installation.requests.command("deliver-now", id_, partition=(number + 3) % PARTITIONS)
    installation.requests.flush()

    records = installation.wait_for(to, len(ids))
    assert all(asked - 1_000 <= int(record.header("delay-due")) <= record.timestamp_ms for record in records)


def test_a_request_of_the_same_id_from_any_partition_replaces_the_whole_message(installation: Installation) -> None:
    to, other = installation.topic(), installation.topic()
    ids, due = everywhere(installation, to, far()), now_ms() + 1_000
    for number, id_ in enumerate(ids):
        installation.requests.schedule(id_, due, other, b"new", key=b"new", partition=(number + 1) % PARTITIONS)
    installation.requests.flush()

    records = installation.wait_for(other, len(ids))
    assert {(record.key, record.value, record.header("delay-due")) for record in records} == {
        (b"new", b"new", str(due))
    }
    installation.await_event("delivered", *ids)
    assert list(read(installation.bootstrap, to)) == []
    for id_ in ids:
        first, second, replaced, delivered = installation.events(id_)
        assert [first["event"], second["event"]] == ["accepted", "accepted"]
        assert (replaced["event"], replaced["source"], replaced["by"]) == (
            "replaced",
            first["source"],
            second["source"],
        )
        assert (delivered["event"], delivered["source"]) == ("delivered", second["source"])


def test_a_command_for_another_due_time_is_a_conflict_and_has_no_effect(installation: Installation) -> None:
    to, due = installation.topic(), far()
    ids = everywhere(installation, to, due, 3)
    installation.requests.cancel(ids[0], if_due=str(due + 1))
    installation.requests.reschedule(ids[1], now_ms(), if_due=str(due - 1))
    installation.requests.command("deliver-now", ids[2], if_due="0")
    installation.requests.flush()

    told = installation.await_event("conflict", *ids)
    assert {event["due"] for event in told.values()} == {due}
    assert list(read(installation.bootstrap, to)) == []


def test_a_command_for_the_present_due_time_applies(installation: Installation) -> None:
    to, due = installation.topic(), far()
    ids = everywhere(installation, to, due, 3)
    installation.requests.cancel(ids[0], if_due=str(due))
    installation.requests.reschedule(ids[1], now_ms(), if_due=str(due))
    installation.requests.command("deliver-now", ids[2], if_due=str(due))
    installation.requests.flush()

    installation.await_event("cancelled", ids[0])
    installation.await_event("delivered", *ids[1:])
    assert not [event for event in installation.events() if event["event"] == "conflict" and event["id"] in ids]


def test_a_command_for_an_id_that_is_not_pending_is_unknown(installation: Installation) -> None:
    ids = [installation.new_id() for _ in range(3)]
    installation.requests.reschedule(ids[0], far(), partition=0)
    installation.requests.command("deliver-now", ids[1], partition=1)
    installation.requests.cancel(ids[2], partition=2)
    installation.requests.flush()

    told = installation.await_event("unknown", *ids)
    assert all(event["source"] == event["by"] for event in told.values())


def test_a_cancel_that_overtakes_its_request_holds(installation: Installation) -> None:
    """The requests lie away from their home and are forwarded; the cancels, sent later, are there at once."""
    to, ids = installation.topic(), [installation.new_id(home=0) for _ in range(50)]
    for id_ in ids:
        installation.requests.schedule(id_, far(), to, partition=1)
    installation.requests.flush()
    for id_ in ids:
        installation.requests.cancel(id_, partition=0)
    installation.requests.flush()

    installation.await_event("cancelled", *ids)
    assert list(read(installation.bootstrap, to)) == []


def test_a_request_after_a_cancel_of_the_same_id_is_not_cancelled(installation: Installation) -> None:
    to, id_ = installation.topic(), installation.new_id(home=3)
    installation.requests.cancel(id_, partition=3)
    installation.requests.schedule(id_, now_ms(), to, partition=3)
    installation.requests.flush()

    installation.await_event("delivered", id_)
    assert kinds(installation, id_) == ["unknown", "accepted", "delivered"]


def test_commands_on_one_partition_apply_in_their_order(installation: Installation) -> None:
    to, id_ = installation.topic(), installation.new_id(home=1)
    installation.requests.schedule(id_, far(), to, b"first", partition=1)
    installation.requests.reschedule(id_, far() + 1, partition=1)
    installation.requests.cancel(id_, partition=1)
    installation.requests.schedule(id_, far() + 2, to, b"second", partition=1)
    installation.requests.command("deliver-now", id_, partition=1)
    installation.requests.flush()

    assert [record.value for record in installation.wait_for(to, 1)] == [b"second"]
    installation.await_event("delivered", id_)
    told = ["accepted", "rescheduled", "cancelled", "accepted", "rescheduled", "delivered"]
    assert kinds(installation, id_) == told


FIELDS = {
    "accepted": {"event", "id", "at", "source", "due", "to"},
    "delivered": {"event", "id", "at", "source", "due", "to", "late", "delivered"},
    "cancelled": {"event", "id", "at", "source", "due", "to", "by"},
    "replaced": {"event", "id", "at", "source", "due", "to", "by"},
    "rescheduled": {"event", "id", "at", "source", "due", "to", "by"},
    "conflict": {"event", "id", "at", "source", "due", "to", "by"},
    "unknown": {"event", "id", "at", "source", "by"},
}


def test_events_have_the_fields_of_the_contract_and_the_id_as_key(installation: Installation) -> None:
    """All events that this test and others have caused."""
    to, (cancelled, moved, replaced, unknown) = installation.topic(), [installation.new_id() for _ in range(4)]
    for id_ in (cancelled, moved, replaced, replaced):
        installation.requests.schedule(id_, far(), to)
    installation.requests.cancel(cancelled, if_due="0")
    installation.requests.cancel(cancelled)
    installation.requests.command("deliver-now", moved)
    installation.requests.cancel(unknown)
    installation.requests.flush()
    installation.await_event("conflict", cancelled)
    installation.await_event("cancelled", cancelled)
    installation.await_event("delivered", moved)
    installation.await_event("replaced", replaced)
    installation.await_event("unknown", unknown)

    records = list(read(installation.bootstrap, f"{installation.app_id}-events"))
    found: dict[str, set[str]] = {}
    for record in records:
        event = json.loads(record.value or b"")
        assert record.key == event["id"].encode()
        found.setdefault(event["event"], set(event)).intersection_update(event)
        assert set(event) <= FIELDS[event["event"]]
    assert found == FIELDS
