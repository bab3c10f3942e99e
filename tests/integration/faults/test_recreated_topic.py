"""A requests topic that was deleted and created again is never read as if it were the old one."""

from collections import Counter

import pytest

from tests.harness.case import Case
from tests.harness.kafka import create_topic, delete_topic, ends, now_ms, read
from tests.harness.waiting import crowd, eventually
from tests.harness.worker import Worker

pytestmark = pytest.mark.slow

OLD = 20


def recreate(case: Case) -> None:
    """Delete the requests topic and create it again."""
    delete_topic(case.bootstrap, case.requests.topic)
    create_topic(case.bootstrap, case.requests.topic, case.partitions)


def fill(case: Case, name: str, count: int, due_ms: int, *, away: bool = False) -> set[str]:
    """Schedule `count` messages, on foreign partitions if `away`."""
    ids = {f"{name}-{number}" for number in range(count)}
    for id_ in sorted(ids):
        case.schedule(id_, due_ms, partition=case.foreign(id_) if away else -1)
    case.requests.flush()
    return ids


def anonymous(case: Case, value: bytes, due_ms: int) -> None:
    """Ask for three deliveries to another topic, under the ids that requests get by their place."""
    for _ in range(3):
        case.requests.send({"delay-at": str(due_ms), "delay-to": case.beside}, value=value, partition=0)
    case.requests.flush()


def wait_stopped(worker: Worker) -> str:
    """Wait until a worker reports a stopped partition, and return its report."""
    eventually(lambda: "is stopped" in worker.ready()[1], what="the stop")
    return worker.ready()[1]


@pytest.mark.parametrize("count", [0, 4, 4 * OLD])
def test_a_worker_stops_at_a_recreated_topic_until_it_is_accepted_with_new_records(count: int, case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        due = now_ms() + int(4_000 * crowd())
        old = fill(case, "old", OLD, due)
        away = fill(case, "away", OLD, due, away=True)
        anonymous(case, b"old", due)
        case.wait_accepted(old | away)
        worker.kill()
        recreate(case)
        new = fill(case, "new", count, due)
        anonymous(case, b"new", due)
        worker.start()

        said = wait_stopped(worker)
        assert "deleted and created again" in said
        assert f"DELAY_ACCEPT_LOSS=recreated:{case.requests.topic}" in said
        eventually(lambda: now_ms() > due + 1_000)
        assert not case.deliveries().ids, "a stopped partition has fired"
        worker.stop()

        worker.env["DELAY_ACCEPT_LOSS"] = f"recreated:{case.requests.topic}"
        worker.start().wait_ready()
        newer = fill(case, "newer", 10, now_ms() + 300) | fill(case, "newer-away", 10, now_ms() + 300, away=True)
        case.wait_delivered(old | away | new | newer)
        account = case.settled()
        case.deliveries().check(case.expected)
        assert Counter(record.value for record in read(case.bootstrap, case.beside)) == {b"old": 3, b"new": 3}
        assert account.sums == {
            "accepted": len(case.expected.due) + 6,
            "delivered": len(case.expected.due) + 6,
            "pending": 0,
        }


def test_a_topic_that_is_recreated_under_a_worker_stops_its_partitions(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        due = now_ms() + 3_600_000
        case.wait_accepted(fill(case, "old", OLD, due))
        recreate(case)
        fill(case, "new", 8, due)
        assert all(ends(case.bootstrap, case.requests.topic).values())
        assert worker.wait_dead() == 1
        assert "while this worker was reading it" in worker.log
        worker.start()
        assert "deleted and created again" in wait_stopped(worker)
