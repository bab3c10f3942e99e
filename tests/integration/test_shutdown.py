"""A worker that is asked to stop finishes what it has begun, gives everything away at once, and loses nothing."""

import json
import threading
from pathlib import Path

from tests.harness.account import Account
from tests.harness.deliveries import Deliveries, Expected
from tests.harness.kafka import Requests, create_topic, ends, now_ms, read
from tests.harness.scan import scan_all
from tests.harness.worker import Worker, eventually
from tests.integration.installation import late_ms, new_app_id, topics_removed, wait_for


def stop(worker: Worker) -> float:
    """Stop a worker, which must end in good order; return the seconds."""
    began = now_ms()
    worker.terminate()
    assert worker.wait_dead(15) == 0, worker.log[-3000:]
    return (now_ms() - began) / 1000


def test_stopping_under_load_loses_nothing_and_repeats_nothing(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("shutdown")
    to, expected, requests = create_topic(bootstrap, f"{app_id}-to", 2), Expected(), Requests(bootstrap, app_id)
    over = threading.Event()

    def produce() -> None:
        number = 0
        while not over.wait(0.02):
            for _ in range(40):
                expected.schedule(requests, f"m-{number}", now_ms() + 200 + number * 7919 % 1_500, to)
                number += 1
        requests.flush()

    with topics_removed(bootstrap, app_id), Worker(bootstrap, app_id, tmp_path / "data") as worker:
        worker.start().wait_ready()
        load = threading.Thread(target=produce)
        load.start()
        try:
            for _ in range(2):
                wait_for(bootstrap, to, sum(ends(bootstrap, to).values()) + 2_000)
                assert stop(worker) < 5
                scan_all(worker)
                worker.start().wait_ready()
        finally:
            over.set()
            load.join()
        wait_for(bootstrap, to, len(expected.wanted), 30)
        Deliveries.read(bootstrap, to).check(expected, duplicates=0)
        account = Account.settled(bootstrap, app_id)
        assert account.sums == {"accepted": len(expected.due), "delivered": len(expected.due), "pending": 0}


def test_partitions_move_to_another_worker_at_once(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("shutdown")
    to, expected, requests = create_topic(bootstrap, f"{app_id}-to"), Expected(), Requests(bootstrap, app_id)
    leaving, staying = (Worker(bootstrap, app_id, tmp_path / name) for name in ("a", "b"))
    with topics_removed(bootstrap, app_id), leaving, staying:
        leaving.start().wait_ready()
        staying.start().wait_ready()
        eventually(lambda: len(owners(bootstrap, app_id)) == 2, what="two owners")
        first = now_ms() + 500
        for number in range(600):
            expected.schedule(requests, f"m-{number}", first + 10 * number, to)
        requests.flush()
        eventually(lambda: now_ms() > first + 1_500)
        assert stop(leaving) < 5
        gone = now_ms()
        wait_for(bootstrap, to, 600)

        deliveries = Deliveries.read(bootstrap, to)
        deliveries.check(expected, duplicates=0)
        records = [record for records in deliveries.copies.values() for record in records]
        # Whatever was due while no one had its partition came within two seconds of the leaving worker's end.
        late = [record for record in records if late_ms(record) > 500]
        assert all(record.timestamp_ms - gone < 2_000 for record in late), sorted(map(late_ms, late))[-5:]
        eventually(lambda: owners(bootstrap, app_id) == {staying.url}, what="one owner")
        scan_all(leaving)
        Account.settled(bootstrap, app_id)
        assert stop(staying) < 5
        scan_all(staying)


def owners(bootstrap: str, app_id: str) -> set[str]:
    """The workers that the last report of each partition names."""
    reports = {record.key: record for record in read(bootstrap, f"{app_id}-progress")}
    return {json.loads(record.value or b"")["worker"] for record in reports.values()}
