"""The next worker does not send messages again that had arrived when the last one was killed."""

import time

import pytest

from tests.harness.case import Case
from tests.harness.kafka import now_ms

#: By then a running broker has written a killed worker's last requests, in seconds.
_LAST_WORDS_S = 0.5


@pytest.mark.parametrize("point", ["fire.acked", "fire.events-acked", "fire.changelog-sent"])
def test_arrived_messages_are_not_sent_again(point: str, case: Case) -> None:
    ids = {f"message-{number}" for number in range(60)}
    with case.worker(crash_at=point) as worker:
        worker.start().wait_ready()
        due = now_ms() + 1_500
        for id_ in ids:
            case.schedule(id_, due)
        case.requests.flush()
        worker.wait_crashed()
        time.sleep(_LAST_WORDS_S)
        had_arrived = case.deliveries().ids
        worker.crash_at = None
        worker.start()
        found = case.wait_delivered(ids)
        account = case.settled(pending=0)
        found = case.deliveries()
        found.check(case.expected)
        assert had_arrived
        assert account.sums == {"accepted": len(ids), "delivered": len(ids), "pending": 0}
        told = {event["id"]: event["delivered"] for event in account.told("delivered")}
        assert told == {id_: f"{one.topic}-{one.partition}-{one.offset}" for id_, [one] in found.copies.items()}
        assert min(event["late"] for event in account.told("delivered")) >= 0
