"""Commands and requests that cross each other on their ways, with a worker that comes and goes."""

import time

import pytest

from tests.harness.case import Case
from tests.harness.kafka import Requests, create_topic, now_ms, read
from tests.harness.waiting import crowd, eventually
from tests.harness.worker import await_sharing

pytestmark = pytest.mark.slow

#: Requests that take a worker a moment to read.
BACKLOG = 10_000
#: From this many processes for each core on, a worker can take more than 10 s to start.
_CROWDED = 2


@pytest.mark.parametrize("route", ["home", "foreign"])
def test_a_cancel_that_waited_while_the_worker_was_down_past_the_due_time_holds(route: str, case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        due = now_ms() + int(2_000 * crowd())
        ids = {f"message-{number}" for number in range(40)}
        for id_ in ids:
            case.schedule(id_, due)
        case.requests.flush()
        case.wait_accepted(ids)
        worker.kill()
        assert now_ms() < due, "the machine is too slow for this test"
        for id_ in ids:
            case.cancel(id_, partition=case.home(id_) if route == "home" else case.foreign(id_))
        case.requests.flush()
        eventually(lambda: now_ms() > due + 100)
        worker.start().wait_ready()
        account = case.settled(pending=0)
        case.deliveries().check(case.expected)
        assert account.sums == {"accepted": len(ids), "cancelled": len(ids), "pending": 0}


def test_a_cancel_that_waited_behind_other_requests_of_a_foreign_partition_holds(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        due = now_ms() + int(1_000 * crowd())
        ids = [name for name in (f"message-{number}" for number in range(40)) if case.foreign(name) == 0]
        for id_ in ids:
            case.schedule(id_, due)
        case.requests.flush()
        case.wait_accepted(set(ids))
        worker.kill()
        for _ in range(BACKLOG):
            case.requests.send({"delay-at": str(due + 3_600_000), "delay-to": case.out}, partition=0)
        for id_ in ids:
            case.cancel(id_, partition=0)
        case.requests.flush()
        eventually(lambda: now_ms() > due + 100)
        worker.start().wait_ready()
        account = case.settled(pending=BACKLOG)
        case.deliveries().check(case.expected)
        assert account.sums == {"accepted": len(ids) + BACKLOG, "cancelled": len(ids), "pending": BACKLOG}


def test_a_cancel_that_waited_in_a_partition_of_another_worker_holds(case: Case) -> None:
    env = {"DELAY_SESSION_TIMEOUT": "PT60S"}  # the group forgets neither worker
    with case.worker("one", env=env) as one, case.worker("two", env=env) as two:
        one.start().wait_ready()
        two.start().wait_ready()
        await_sharing(one, two)
        due = now_ms() + int(3_000 * crowd())
        ids = [name for name in (f"message-{number}" for number in range(40)) if [case.home(name)] == one.assigned]
        for id_ in ids:
            case.schedule(id_, due)
        case.requests.flush()
        case.wait_accepted(set(ids))
        one.kill()
        two.kill()
        assert now_ms() < due, "the machine is too slow for this test"
        for id_ in ids:
            case.cancel(id_, partition=case.foreign(id_))
        case.requests.flush()
        eventually(lambda: now_ms() > due + 100)
        one.start().wait_ready()
        assert one.assigned == [case.home(ids[0])], "the group has forgotten the other worker"
        two.start().wait_ready()
        if "deliveries start before partitions" in one.log:
            assert crowd() > _CROWDED
            pytest.skip("the other worker took more than 10 s to start, and until then deliveries wait for its report")
        account = case.settled(pending=0)
        case.deliveries().check(case.expected)
        assert account.sums == {"accepted": len(ids), "cancelled": len(ids), "pending": 0}


def test_a_cancel_that_overtakes_its_request_on_another_way_holds(case: Case) -> None:
    create_topic(case.bootstrap, case.requests.topic, case.partitions, message_timestamp_type="CreateTime")
    with case.worker() as worker:
        worker.start().wait_ready()
        begin = now_ms()
        for id_ in ("overtaken", "later"):
            headers = {"delay-op": "cancel", "delay-id": id_}
            case.requests.send(headers, partition=case.home(id_), timestamp_ms=begin)
        case.requests.flush()
        eventually(lambda: len(case.account().told("unknown")) == 2)
        for id_, stamp in (("overtaken", begin - 500), ("later", begin + 1)):
            headers = {"delay-id": id_, "delay-at": str(begin + 1_000), "delay-to": case.out}
            case.requests.send(headers, partition=case.foreign(id_), timestamp_ms=stamp)
        case.requests.flush()
        assert case.wait_delivered({"later"}).ids == {"later"}
        account = case.settled()
        assert account.endings("overtaken") == ["cancelled"]
        assert account.endings("later") == ["delivered"]
        assert case.deliveries().ids == {"later"}


def test_a_forward_that_is_repeated_after_a_crash_is_applied_once(case: Case) -> None:
    away = 0
    ids = [name for name in (f"message-{number}" for number in range(60)) if case.foreign(name) == away]
    with case.worker(crash_at="ingest.events-acked") as worker:
        worker.start().wait_ready()
        for id_ in ids:
            case.schedule(id_, now_ms() + int(4_000 * crowd()), partition=away)
        case.requests.flush()
        worker.wait_crashed()
        worker.crash_at = None
        worker.start()
        case.wait_accepted(set(ids))
        forwards = list(read(case.bootstrap, f"{case.app_id}-forwards"))
        assert len(forwards) > len({record.key for record in forwards}), "no record was forwarded twice"
        case.wait_delivered(set(ids))
        account = case.settled(pending=0)
        case.deliveries().check(case.expected)
        assert sum(event["event"] == "accepted" for event in account.events) == len(ids)
        assert account.sums == {"accepted": len(ids), "delivered": len(ids), "pending": 0}


@pytest.mark.parametrize("pace", ["at once", "step by step"])
def test_a_message_moved_away_and_back_is_delivered_once_when_it_was_first_due(pace: str, case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        first = now_ms() + int(3_000 * crowd())
        case.schedule("there-and-back", first)
        for number, due in enumerate((first + 60_000, first, first - 500, first), start=1):
            if pace == "step by step":
                case.requests.flush()
                eventually(lambda at=number: len(moves(case)) == at - 1)  # type: ignore[misc]
            case.reschedule("there-and-back", due)
        case.requests.flush()
        found = case.wait_delivered({"there-and-back"})
        account = case.settled(pending=0)
        assert len(moves(case)) == 4
        found.check(case.expected)
        assert account.sums == {"accepted": 1, "delivered": 1, "pending": 0}
        assert case.deliveries().duplicates == 0


def moves(case: Case) -> list[str]:
    """Return the commands that have moved a message."""
    return [event["by"] for event in case.account().told("rescheduled")]


def test_an_automatic_id_can_be_cancelled_and_set_from_any_partition(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        due = now_ms() + 3_600_000
        for partition in (0, 1, 1):
            case.requests.send({"delay-at": str(due), "delay-to": case.out}, value=b"first", partition=partition)
        case.requests.flush()
        topic = case.requests.topic
        case.wait_accepted({f"{topic}-0-0", f"{topic}-1-0", f"{topic}-1-1"})
        case.requests.cancel(f"{topic}-0-0", partition=1)
        case.requests.cancel(f"{topic}-1-0", partition=1)
        case.requests.schedule(f"{topic}-1-1", now_ms() + 300, case.out, b"second", key=b"any", partition=0)
        case.requests.flush()
        found = case.wait_delivered({f"{topic}-1-1"})
        account = case.settled()
        assert [record.value for records in found.copies.values() for record in records] == [b"second"]
        assert account.endings(f"{topic}-0-0") == account.endings(f"{topic}-1-0") == ["cancelled"]
        assert account.endings(f"{topic}-1-1") == ["replaced", "delivered"]


def test_a_cancel_at_the_due_time_either_applies_or_is_reported_as_too_late(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        begin = now_ms() + 1_500
        due = {f"message-{number}": begin + number * 5 for number in range(400)}
        for id_, at in due.items():
            case.requests.schedule(id_, at, case.out)
        case.requests.flush()
        race(case, due)
        eventually(lambda: len(case.account().ids) == len(due) and not case.account().sums["pending"])
        account = case.settled()
        copies = case.deliveries().copies
        assert {id_: len(records) for id_, records in copies.items()} == dict.fromkeys(copies, 1)
        late = {event["id"] for kind in ("conflict", "unknown") for event in account.told(kind)}
        for id_ in due:
            ending = account.endings(id_)
            assert ending == (["delivered"] if id_ in copies else ["cancelled"])
            assert (id_ in late) == (id_ in copies), f"{id_} ended as {ending}, its cancel was reported otherwise"
        assert account.outranked == 0
        assert 0 < len(copies) < len(due), "there was no race"


def race(case: Case, due: dict[str, int]) -> None:
    """Send each message's cancel between 30 ms before and 10 ms after its due time, half to a foreign partition.

    Every fourth comes ten times as early or late: on a busy machine a command takes longer than 30 ms.
    """
    requests = Requests(case.bootstrap, case.app_id, **{"linger.ms": 0})
    leads = [(30 - number * 7 % 41) * (1 if number % 4 else 10) for number in range(len(due))]
    plan = sorted(
        (at - lead, number, id_) for number, ((id_, at), lead) in enumerate(zip(due.items(), leads, strict=True))
    )
    for at, number, id_ in plan:
        time.sleep(max(0.0, (at - now_ms()) / 1_000))
        requests.cancel(id_, partition=case.home(id_) if number % 2 else case.foreign(id_))
    requests.flush()
