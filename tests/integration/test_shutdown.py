"""A worker on SIGTERM finishes its work under way, gives its partitions away immediately, and loses no message."""

import json
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.harness.account import Account
from tests.harness.deliveries import Deliveries, Expected
from tests.harness.kafka import Requests, create_topic, ends, now_ms, read
from tests.harness.pace import Stopwatch, usual_ms, usual_s
from tests.harness.scan import scan_all
from tests.harness.waiting import eventually
from tests.harness.worker import Worker
from tests.integration.installation import late_ms, new_app_id, topics_removed, wait_for

pytestmark = pytest.mark.core

#: A worker waits 15 s for the rest of a body.
_SLOW_S = 15.0
_UNFINISHED = (
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)


def stop(worker: Worker) -> float:
    """Stop a worker, which must exit with 0; return the seconds, as on an idle machine."""
    with Stopwatch() as watch:
        worker.terminate()
        assert worker.wait_dead() == 0, worker.log[-3000:]
    return watch.seconds


def test_stopping_under_load_loses_and_repeats_no_message(bootstrap: str, tmp_path: Path) -> None:
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
        assert all(usual_ms(gone, record.timestamp_ms) < 2_000 for record in late), sorted(map(late_ms, late))[-5:]
        eventually(lambda: owners(bootstrap, app_id) == {staying.url}, what="one owner")
        scan_all(leaving)
        Account.settled(bootstrap, app_id)
        assert stop(staying) < 5
        scan_all(staying)


def owners(bootstrap: str, app_id: str) -> set[str]:
    """The workers that the last report of each partition names."""
    reports = {record.key: record for record in read(bootstrap, f"{app_id}-progress")}
    return {json.loads(record.value or b"")["worker"] for record in reports.values()}


def test_a_request_that_takes_long_holds_up_neither_the_handover_nor_the_end(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("stop")
    with topics_removed(bootstrap, app_id), Worker(bootstrap, app_id, tmp_path / "data") as worker:
        worker.start().wait_ready()
        with socket.create_connection(("127.0.0.1", worker.port)) as slow:
            slow.sendall(_UNFINISHED)
            for _ in range(2):  # the unfinished request is being read when these are answered
                assert worker.ready()[0]
            worker.terminate()
            began = time.time()
            eventually(lambda: "left the group: NoError" in worker.log, what="leaving the group")
            assert worker.alive, "it has not waited for the request at all"
            left = time.time()
            assert worker.wait_dead() == 0
            ended = time.time()
        assert "Traceback" not in worker.log
        assert ended - left > 2, "it has waited for the request with its partitions"
        assert usual_s(began, ended) < _SLOW_S, "it has waited until the request ended by itself"
