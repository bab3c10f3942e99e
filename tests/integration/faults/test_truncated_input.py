"""A broker lost power, and acknowledged requests with it: requests that were read are delivered exactly once."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from app.dev.broker import Broker
from tests.harness.case import Case
from tests.harness.kafka import ends, now_ms, read
from tests.harness.waiting import eventually

pytestmark = pytest.mark.slow

KEPT, LOST, SINCE = ({f"{name}-{number}" for number in range(10)} for name in ("kept", "lost", "since"))
DUE_MS = 3_600_000


def lose_power(broker: Broker, sizes: dict[Path, int]) -> None:
    """Kill a broker, and cut its logs to these sizes."""
    os.kill(broker.pid, signal.SIGKILL)
    broker.stop()
    for file, size in sizes.items():
        os.truncate(file, size)


def fill(case: Case, ids: set[str]) -> None:
    for id_ in sorted(ids):
        case.schedule(id_, now_ms() + DUE_MS)
    case.requests.flush()
    case.wait_accepted(ids)


def test_an_input_that_lost_its_last_records_is_read_on_from_its_end(tmp_path: Path) -> None:
    with Broker() as broker:
        case = Case(broker.bootstrap, tmp_path)
        with case.worker() as worker:
            worker.start().wait_ready()
            fill(case, KEPT)
            logs = broker.directory / "logs"
            files = [logs / f"{case.requests.topic}-{number}" / f"{0:020}.log" for number in range(case.partitions)]
            sizes = {file: file.stat().st_size for file in files}
            fill(case, LOST)
            before = ends(case.bootstrap, case.requests.topic)
            worker.kill()
            lose_power(broker, sizes)
            broker.launch()
            broker.wait()
            eventually(lambda: ends(case.bootstrap, case.requests.topic).keys() == before.keys())
            assert sum(ends(case.bootstrap, case.requests.topic).values()) == len(KEPT)

            worker.start().wait_ready()
            fill(case, SINCE)
            for id_ in sorted(KEPT | LOST | SINCE):
                case.requests.command("deliver-now", id_)
            case.requests.flush()
            found = case.wait_delivered(KEPT | LOST | SINCE)
            assert not found.repeats
            account = case.settled()
            assert account.sums == {"accepted": 30, "delivered": 30, "pending": 0}
            assert Counter(account.ids.values()).most_common(1)[0][1] == 1, "no id was accepted twice"
            events = [record.value or b"" for record in read(case.bootstrap, f"{case.app_id}-events")]
            said = [event for event in events if b'"truncated"' in event]
            assert 0 < len(said) <= len([number for number, end in before.items() if end])
