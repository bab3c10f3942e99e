"""Late writes of a worker that has lost its partition change no message, whatever the disk of its successor."""

import time
from collections.abc import Sequence

import pytest

from tables import Changes, Entry, PartitionStore, Position, keys
from tables.changes import decode_position, position_bytes
from tables.entry import encode
from tables.restore import RestoreProgress, restore
from tests.harness.case import Case
from tests.harness.changelog import Changelog
from tests.harness.kafka import Record, now_ms
from tests.harness.pace import Stopwatch
from tests.harness.scan import check_image, scan_all
from tests.harness.waiting import eventually
from tests.harness.worker import Worker

#: Twice the interval between checks of the changelog's end, and a little.
_CORRECTED_S = 12.0
#: An offset beyond the end of the requests.
_AHEAD = 1_000


class Lies:
    """A zombie's batch: a delivered message is back, a pending one is gone, requests are skipped."""

    def __init__(self, case: Case, delivered: str, pending: str) -> None:
        self.changelog = Changelog(case, case.home(delivered))
        assert case.home(pending) == self.changelog.partition
        self.back, self.gone = self.changelog.row(delivered), self.changelog.row(pending)
        self.mark = keys.POSITION + case.requests.topic.encode()
        self.epoch = self.changelog.epoch

    def write(self, epoch: int) -> None:
        ahead = position_bytes(Position(_AHEAD, now_ms(), 7))
        self.changelog.append(epoch, [(self.gone[0], None), self.back, (self.mark, ahead)])
        assert self.told()

    def told(self) -> bool:
        """Whether the changelog would restore to any lie."""
        last = self.changelog.last()
        position = last[self.mark]
        assert position is not None
        skips = decode_position(position).offset == _AHEAD
        return last[self.back[0]] is not None or last[self.gone[0]] is None or skips


def prepare(case: Case, worker: Worker) -> Lies:
    """Deliver one message and keep another of the same partition, in the second life of a worker."""
    worker.start().wait_ready()
    pending = next(
        name for name in (f"pending-{number}" for number in range(99)) if case.home(name) == case.home("delivered")
    )
    case.schedule("delivered", now_ms() + 300)
    case.schedule(pending, now_ms() + 3_600_000)
    case.requests.flush()
    case.wait_delivered({"delivered"})
    case.wait_accepted({pending})
    worker.kill()
    worker.start().wait_ready()
    return Lies(case, "delivered", pending)


def deliver_the_rest(case: Case, worker: Worker, lies: Lies) -> None:
    """Check that the pending message still exists and can be delivered, without any other delivery."""
    pending = next(id_ for id_ in case.expected.due if id_ != "delivered")
    case.schedule("afterwards", now_ms() + 300)
    case.requests.command("deliver-now", pending)
    case.requests.flush()
    found = case.wait_delivered({"delivered", "afterwards", pending})
    assert {id_: len(records) for id_, records in found.copies.items()} == dict.fromkeys(found.ids, 1)
    assert found.ids == set(case.expected.due)
    case.settled()
    worker.stop()
    assert not scan_all(worker)
    check_image(worker, case.bootstrap, case.directory / "image")
    assert lies.changelog.last()[lies.back[0]] is None


@pytest.mark.slow
@pytest.mark.parametrize("disk", ["kept", "wiped"])
def test_a_zombies_batch_is_set_right_at_the_next_start_with_the_disk(disk: str, case: Case) -> None:
    with case.worker() as worker:
        lies = prepare(case, worker)
        worker.stop()
        lies.write(lies.epoch - 1)
        if disk == "wiped":
            worker.wipe()
        worker.start().wait_ready()
        eventually(lambda: not lies.told(), _CORRECTED_S, "the correction")
        deliver_the_rest(case, worker, lies)


@pytest.mark.slow
async def test_a_zombies_batch_is_set_right_after_a_worker_that_read_it_died(case: Case) -> None:
    with case.worker() as worker:
        lies = prepare(case, worker)
        worker.stop()
        lies.write(lies.epoch - 1)
        lies.changelog.append(lies.epoch, [])
        await read_and_die(worker, lies)
        worker.start().wait_ready()
        eventually(lambda: not lies.told(), _CORRECTED_S, "the correction")
        deliver_the_rest(case, worker, lies)


async def read_and_die(worker: Worker, lies: Lies) -> None:
    """Bring a stopped worker's database to the changelog's end, and no further."""
    path = next(path for path in worker.tables() if path.stem.endswith(f"-{lies.changelog.partition}"))
    store = PartitionStore(path)
    reader = Reader(lies.changelog, store.offset)
    await restore(store, reader, RestoreProgress(0, now_ms), now_ms)
    assert store.offset == await reader.end()
    store.close()


class Reader:
    """Reads a changelog for recovery."""

    def __init__(self, changelog: Changelog, offset: int) -> None:
        self._records, self._position = changelog.records(), offset

    async def end(self) -> int:
        return self._records[-1].offset + 1

    async def position(self) -> int:
        return self._position

    async def chunk(self, _: int) -> Sequence[Record]:
        found = [record for record in self._records if record.offset >= self._position]
        self._position = await self.end()
        return found


@pytest.mark.slow
@pytest.mark.parametrize("traffic", ["idle", "busy"])
def test_a_zombies_batch_is_set_right_while_the_owner_is(traffic: str, case: Case) -> None:
    with case.worker() as worker:
        lies = prepare(case, worker)
        lies.write(lies.epoch - 1)
        if traffic == "busy":
            for number in range(50):
                case.schedule(f"busy-{number}", now_ms() + 200)
                case.requests.flush()
        with Stopwatch() as watch:
            eventually(lambda: not lies.told(), what="the correction")
        assert watch.seconds < (7.0 if traffic == "idle" else 2.0)
        case.wait_delivered(case.expected.wanted - {id_ for id_ in case.expected.due if id_.startswith("pending")})
        assert worker.alive
        deliver_the_rest(case, worker, lies)


@pytest.mark.slow
def test_a_worker_ends_when_another_has_taken_its_partition(case: Case) -> None:
    with case.worker() as worker:
        lies = prepare(case, worker)
        lies.changelog.append(lies.epoch + 1, [])
        assert worker.wait_dead(_CORRECTED_S) == 1
        assert "another worker has taken it" in worker.log
        worker.start().wait_ready()
        assert lies.changelog.epoch == lies.epoch + 2
        deliver_the_rest(case, worker, lies)


@pytest.mark.slow
def test_a_disk_that_is_older_than_the_tombstones_is_restored_from_the_changelog(case: Case) -> None:
    with case.worker() as worker:
        lies = prepare(case, worker)
        worker.stop()
        age_with_a_ghost(case, worker, days=3.6)
        worker.start().wait_ready()
        assert "days ago" in worker.log
        deliver_the_rest(case, worker, lies)


@pytest.mark.slow
def test_a_younger_disk_is_believed(case: Case) -> None:
    with case.worker() as worker:
        prepare(case, worker)
        worker.stop()
        ghost = age_with_a_ghost(case, worker, days=3.4)
        worker.start()
        assert case.wait_delivered({ghost}).ids == {"delivered", ghost}


def age_with_a_ghost(case: Case, worker: Worker, days: float) -> str:
    """Make a stopped worker's disk look last used `days` ago, with a row that was delivered since."""
    ghost = Entry("ghost", case.out, b"ghost", b"", [], f"{case.requests.topic}-0-0")
    for path in worker.tables():
        store = PartitionStore(path)
        changes = Changes()
        if path.stem.endswith(f"-{case.home('ghost')}"):
            changes.put(keys.row_key(now_ms() - 1_000, 0, 7), ghost, encode(ghost))
        store.apply(changes, store.offset, store.writer, int((time.time() - days * 86_400) * 1_000))
        store.close()
    return ghost.id
