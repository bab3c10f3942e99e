"""Foreign records in the changelog: a running worker corrects them; at a start, one partition stops and says how to go
on."""

import re

import pytest

from tables import keys
from tables.restore import EPOCHS
from tests.harness.case import Case
from tests.harness.changelog import Changelog
from tests.harness.fuzz import Pair, mangled, seeds
from tests.harness.kafka import Requests, now_ms
from tests.harness.waiting import eventually
from tests.harness.worker import Worker

#: Twice the interval between checks of the changelog's end, and a little.
_CORRECTED_S = 12.0
_FAR_MS = 3_600_000


def forge(case: Case, partition: int, *pairs: Pair) -> None:
    """Write records to a partition of the changelog, without any worker's stamp."""
    topic, writer = Changelog(case, partition).topic, Requests(case.bootstrap, case.app_id, **{"linger.ms": 200})
    for key, value in pairs:
        writer.send({}, key, value, partition=partition, topic=topic)
    writer.flush()


def deliver(case: Case, *ids: str) -> None:
    """Check that messages with these ids are delivered."""
    for id_ in ids:
        case.schedule(id_, now_ms() + 300)
    case.requests.flush()
    case.wait_delivered(set(ids))


def ids_of(case: Case, partition: int, number: int) -> list[str]:
    """Return ids that live in a partition."""
    return [id_ for id_ in (f"id-{n}" for n in range(999)) if case.home(id_) == partition][:number]


def forgeries(case: Case, partition: int) -> list[Pair]:
    """Return records like those of a partition's changelog, and unlike them; none is the stamp of a later owner."""
    genuine: list[Pair] = [*Changelog(case, partition).words()]
    found = [pair for pair in (mangled(seed, genuine) for seed in seeds(60)) if pair[0] != keys.WRITER]
    unreadable = [(b"?", b"x"), (b"", b""), (b"moffset", b"\xff" * 8), (keys.WRITER, b""), (keys.WRITER, b"\xff" * 8)]
    return [*found, *unreadable, (b"\x00", b"\x01"), (keys.ORIGIN + b"a-0", b"\xff" * 9), (keys.WRITER, None)]


@pytest.mark.slow
def test_foreign_records_written_while_a_worker_runs_are_repaired_and_stop_no_later_start(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        first, second, third, pending = ids_of(case, 0, 4)
        case.schedule(pending, now_ms() + _FAR_MS)
        deliver(case, first)
        before = Changelog(case, 0).last()
        forge(case, 0, *forgeries(case, 0))
        deliver(case, second)

        def corrected() -> bool:
            last = Changelog(case, 0).last()
            assert b"?" in last
            ended = keys.COMMANDS + second.encode()  # it has left a trace
            new = {key: value for key, value in last.items() if key not in before and key != ended}
            return all(value is None for key, value in new.items() if not keys.is_row(key))

        eventually(corrected, _CORRECTED_S, "the correction")
        assert worker.alive
        worker.kill()
        worker.wipe()
        worker.start().wait_ready()
        deliver(case, third)
        case.requests.command("deliver-now", pending)
        case.requests.flush()
        case.wait_delivered({pending})


@pytest.mark.slow
def test_foreign_records_written_without_a_worker_stop_one_partition_until_they_are_skipped(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        here, there = ids_of(case, 0, 2), ids_of(case, 1, 3)
        deliver(case, here[0], there[0])
        worker.stop()
        forge(case, 0, (b"?", b"\x01"))
        worker.start()
        record = said(worker, r"changelog record (\S+) cannot be read")
        assert record.startswith(f"{case.app_id}-delays-changelog-0-")
        assert f"DELAY_ACCEPT_LOSS={record}" in worker.ready()[1]
        deliver(case, there[1])
        assert worker.alive

        worker.stop()
        worker.env["DELAY_ACCEPT_LOSS"] = record
        worker.start().wait_ready()
        deliver(case, here[1], there[2])
        worker.stop()
        del worker.env["DELAY_ACCEPT_LOSS"]
        worker.wipe()
        worker.start().wait_ready()


def said(worker: Worker, pattern: str) -> str:
    """Wait until an unready worker reports the pattern; return its first group."""
    eventually(lambda: re.search(pattern, worker.ready()[1]), what=pattern)
    found = re.search(pattern, worker.ready()[1])
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_a_forged_epoch_ends_a_worker_once_and_the_last_one_stops_its_partition_alone(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        here, there = ids_of(case, 0, 3), ids_of(case, 1, 2)
        deliver(case, here[0], there[0])
        forge(case, 0, (keys.WRITER, keys.long_bytes(EPOCHS - 3)))
        worker.wait_dead()
        assert "another worker has taken it" in worker.log
        worker.start().wait_ready()
        deliver(case, here[1], there[1])

        worker.stop()
        end = len(Changelog(case, 0).records())
        forge(case, 0, (keys.WRITER, keys.long_bytes(EPOCHS - 1)))
        worker.start()
        said(worker, r"(the last possible one)")
        assert worker.alive
        worker.stop()
        worker.wipe()
        worker.env["DELAY_ACCEPT_LOSS"] = f"{case.app_id}-delays-changelog-0-{end}"
        worker.start().wait_ready()
        deliver(case, here[2])
